"""The fixture queries on the local engine: the same rows and late tuples under every batch cut."""

from __future__ import annotations

from functools import cache

import pytest

import penstock as ps
from penstock.errors import EngineError
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.plan.algorithms import Algorithm
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.window_kinds import Sliding
from penstock.runs.answer import Answer
from tests.local.helpers import CUTS, locally
from tests.planning import in_process
from tests.queries import NAMES, assert_late, bound, expected, is_strict, lines
from tests.reference.helpers import Stream


def on_local_engine(name: str, cut: int | None) -> Answer:
    return answer(in_process(bound(name, cut).plan), ManualClock(), is_strict(name))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", NAMES)
def test_rows_and_late_tuples(name: str, cut: int | None) -> None:
    found = on_local_engine(name, cut)
    assert lines(found.table) == expected(name)
    assert_late(name, found.late)


def test_enough_queries_run() -> None:
    assert len(NAMES) >= 110


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


@cache
def sliding() -> list[str]:
    """Queries whose one window any algorithm can compute: results are revised by one of them alone,
    and signed items folded by one."""
    return [name for name in NAMES if slides(bound(name).plan)]


def slides(query: QueryPlan) -> bool:
    nodes = list(query.walk())
    windows = [type(node.window) for node in nodes if isinstance(node, WindowAggregate)]
    return windows == [Sliding] and not query.revises and not any(node.signed for node in nodes)


@pytest.mark.parametrize("algorithm", [each.name for each in Algorithm])
def test_every_algorithm_gives_the_same_rows(algorithm: str) -> None:
    assert len(sliding()) >= 30
    for name in sliding():
        query = bound(name, hint=algorithm.lower())
        assert f"algorithm: {algorithm} (" in query.explain(), name
        found = answer(in_process(query.plan), ManualClock())
        assert lines(found.table) == expected(name), name
        assert_late(name, found.late)
