"""What is planned for CONSISTENCY."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize("words", ["SERIAL", "LEVEL 10", "WEAK"])
def test_no_intermediate_results_are_kept(words: str) -> None:
    """They would be read and written at the same time."""
    db = ps.connect()
    for name, count in (("a", 90), ("b", 90), ("c", 2)):
        rows = [{"k": 1, "t": n} for n in range(count)]
        db.stream(name, rows, progress=ps.progress("t", delay=5))
    text = "SELECT a.k FROM a [RANGE 90], b [RANGE 90], c [RANGE 90] WHERE a.k = b.k AND b.k = c.k"
    assert joining(db, f"{text} CONSISTENCY {words}") == ["MultiwayJoin"]


@pytest.mark.parametrize(
    ("words", "operator"), [("SERIAL", "MultiwayJoin"), ("WEAK", "ContainingJoin")]
)
def test_intermediate_results_that_save_more_than_threads_do(words: str, operator: str) -> None:
    """Nobody looks before the end, so WEAK need not be slower than saying nothing."""
    db = ps.connect("local")
    for name, columns in (("r", "ab"), ("s", "bc"), ("t", "ac")):
        schema = ", ".join(f"{column} INT" for column in columns) + ", ts INT"
        db.stream(name, iter([]), schema=schema, progress=ps.progress("ts", delay=5))
    windows = "r [RANGE 20], s [RANGE 20], t [RANGE 20]"
    text = f"SELECT r.a FROM {windows} WHERE r.b = s.b AND s.c = t.c AND r.a = t.a"
    assert joining(db, f"{text} CONSISTENCY {words}") == [operator]
    told = str(db.sql(f"EXPLAIN CONFLICTS {text} CONSISTENCY {words}")).splitlines()[-1]
    kept = {"SERIAL": "not kept", "WEAK": "kept, which pays more than threads"}[words]
    assert re.fullmatch(f"CONSISTENCY {words}: .*; w_.. {kept}", told)


def joining(db: ps.Database, text: str) -> list[str]:
    """The operators that join."""
    found = db.sql(text)
    assert isinstance(found, ps.Query)
    operators = [node.operator.value for node in in_process(found.plan).root.walk()]
    return [each for each in operators if "Join" in each]
