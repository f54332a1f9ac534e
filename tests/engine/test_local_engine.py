"""The fixture queries on the local engine: the same rows and late tuples under every batch cut."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.local import answer
from penstock.errors import EngineError
from penstock.model.clock import ManualClock
from penstock.plan.aggregates import WindowAggregate
from penstock.plan.algorithms import Algorithm
from penstock.runs.answer import Answer
from penstock.sinks.text import write_json_lines
from penstock.windows.sliding import Sliding
from tests.engine.helpers import CUTS, locally, recut
from tests.planning import in_process
from tests.reference.helpers import Stream, bag, tuples

FOLDER = Path(__file__).parents[1] / "fixtures" / "queries"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sql"))
LEAST = 79


def bound(name: str, cut: int | None) -> ps.Query:
    """The query of a file, over streams that are read in batches of `cut` rows."""
    db = ps.connect("reference", strict=name != "null_time")
    results = []
    for result in db.script((FOLDER / f"{name}.sql").read_text(encoding="utf-8")):
        recut(db, cut)
        results.append(result)
    assert isinstance(results[-1], ps.Query)
    return results[-1]


def on_local_engine(name: str, cut: int | None) -> Answer:
    return answer(in_process(bound(name, cut).plan), ManualClock(), strict=name != "null_time")


def can_run(name: str) -> bool:
    try:
        on_local_engine(name, None)
    except EngineError as error:
        return "yet" not in str(error)
    return True


def windows(name: str) -> list[type]:
    """The kinds of windows of a query whose one aggregate stands in its last SELECT."""
    return [
        type(node.window)
        for node in bound(name, None).plan.walk()
        if isinstance(node, WindowAggregate)
    ]


RUNNABLE = [name for name in NAMES if can_run(name)]


def lines(table: pa.Table) -> list[str]:
    out = io.StringIO()
    write_json_lines(table, out)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", RUNNABLE)
def test_rows(name: str, cut: int | None) -> None:
    expected = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert Counter(lines(on_local_engine(name, cut).table)) == Counter(expected)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", RUNNABLE)
def test_late_tuples(name: str, cut: int | None) -> None:
    found = on_local_engine(name, cut).late
    late = bound(name, None).late
    assert bag(tuples(found)) == bag(tuples(late))
    if found.num_rows:
        assert found.schema.names == late.schema.names
        assert found.schema.types == late.schema.types


def test_enough_queries_run() -> None:
    assert len(RUNNABLE) >= LEAST


S = Stream("k STRING, v INT, t INT", [("a", 1, 1), ("b", 2, 12)], ps.progress("t", delay=0))


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT /*+ wid */ count(*) [RANGE 5, SLIDE 5, WA t] FROM s LATE AMEND", "WID does not"),
        ("SELECT v FROM s EXCEPT ON (v) s EMIT EARLY EVERY 1 HOUR", "early"),
        (
            "SELECT count(*) [SESSION GAP 5, MAX 9, WA t + 1] FROM s LATE AMEND",
            "sessions with a MAX over a computed time",
        ),
    ],
)
def test_what_is_refused(sql: str, what: str) -> None:
    with pytest.raises(EngineError, match=what):
        locally(sql, s=S)


def test_results_leave_when_they_are_complete() -> None:
    found = locally("SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s", cut=1, s=S)
    chunks = found.table.column("n").chunks
    assert [chunk.to_pylist() for chunk in chunks] == [[1], [1]]


# --- algorithms that a hint asks for -------------------------------------------------------------

# Results are revised by one algorithm alone, and signed items folded by one.
SLIDING = [
    name
    for name in RUNNABLE
    if windows(name) == [Sliding]
    and not bound(name, None).plan.revises
    and not any(node.signed for node in bound(name, None).plan.walk())
]


@pytest.mark.parametrize("algorithm", [each.name for each in Algorithm])
@pytest.mark.parametrize("name", SLIDING)
def test_every_algorithm_gives_the_same_rows(name: str, algorithm: str) -> None:
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    head, select, tail = text.rpartition("SELECT")
    *_, query = ps.connect("reference").script(f"{head}{select} /*+ {algorithm.lower()} */{tail}")
    assert isinstance(query, ps.Query)
    assert f"algorithm: {algorithm} (" in query.explain()
    found = answer(in_process(query.plan), ManualClock())
    expected = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert Counter(lines(found.table)) == Counter(expected)
    assert bag(tuples(found.late)) == bag(tuples(bound(name, None).late))


def test_enough_queries_slide() -> None:
    assert len(SLIDING) >= 10
