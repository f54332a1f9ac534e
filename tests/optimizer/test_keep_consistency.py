"""What is planned for CONSISTENCY."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.errors import EngineError
from tests.planning import in_process, on_spark

JOIN = "SELECT a.k FROM a [RANGE 9], b [RANGE 9] WHERE a.k = b.k CONSISTENCY"


def query(text: str) -> ps.Query:
    db = ps.connect()
    for name in "ab":
        db.sql(f"CREATE STREAM {name} (k INT, t INT) PROGRESS ON t ORDERED")
    found = db.sql(text)
    assert isinstance(found, ps.Query)
    return found


def test_spark_follows_micro_batches() -> None:
    on_spark(query(f"{JOIN} WEAK").plan)
    for words in ("SERIAL", "LEVEL 10"):
        with pytest.raises(EngineError, match=f"CONSISTENCY {words} on Spark") as refused:
            on_spark(query(f"{JOIN} {words}").plan)
        assert "micro-batch" in str(refused.value.expected)


def test_what_is_explained() -> None:
    assert "side by side, and results leave in their order (CONSISTENCY LEVEL 10)" in query(
        f"{JOIN} LEVEL 10"
    ).explain(physical=True)
    sessions = "SELECT k, count(*) AS n [SESSION GAP 3, WA t] FROM a GROUP BY k CONSISTENCY SERIAL"
    assert query(sessions).explain(physical=True).startswith("Physical plan, in process, tuple by")
    assert "CONSISTENCY SERIAL" in query(sessions).explain()


@pytest.mark.parametrize("words", ["SERIAL", "LEVEL 10"])
def test_no_intermediate_results_are_kept(words: str) -> None:
    """They would be read and written at the same time."""
    db = ps.connect()
    for name, count in (("a", 90), ("b", 90), ("c", 2)):
        rows = [{"k": 1, "t": n} for n in range(count)]
        db.stream(name, rows, progress=ps.progress("t", delay=5))
    text = "SELECT a.k FROM a [RANGE 90], b [RANGE 90], c [RANGE 90] WHERE a.k = b.k AND b.k = c.k"
    found = db.sql(f"{text} CONSISTENCY {words}")
    assert isinstance(found, ps.Query)
    operators = [node.operator.value for node in in_process(found.plan).root.walk()]
    assert operators.count("MultiwayJoin") == 1
    assert "OaJoin" not in operators
