"""Parts that a query asks for more than once: computed once, with the answer of all."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.kernel.state import MemoryStore
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.plan.explain import explain_physical
from penstock.runs.answer import Outlet
from tests.local.helpers import assert_same, recut
from tests.local.resumed import run_in_parts
from tests.planning import in_process
from tests.reference.helpers import Stream, bag, database, tuples

VIEW = "(SELECT k, count(*) AS n, window_end [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k)"
QUERIES = (
    f"SELECT a.k, a.n, b.n AS m FROM {VIEW} AS a [RANGE 9], {VIEW} AS b [RANGE 9]"
    " WHERE a.k = b.k AND a.n <= b.n LATE SIDE",
    f"SELECT k, n FROM {VIEW} AS a UNION ALL SELECT k, n FROM {VIEW} AS b WHERE n > 1 LATE SIDE",
    "SELECT p.n, q.n AS m FROM"
    f" (SELECT a.n, a.window_end AS u FROM {VIEW} AS a [RANGE 3], {VIEW} AS b [RANGE 3]"
    "  WHERE a.k = b.k) AS p [RANGE 3],"
    f" (SELECT a.n, a.window_end AS u FROM {VIEW} AS a [RANGE 3], {VIEW} AS b [RANGE 3]"
    "  WHERE a.k = b.k) AS q [RANGE 3] WHERE p.n = q.n LATE SIDE",
)
ROWS = [("a", 1), ("b", 4), ("a", 5), ("b", 9), ("a", 2), ("a", 12), ("b", 0), ("a", 20), ("b", 21)]
STREAM = Stream("k STRING, t INT", ROWS, ps.progress("t", delay=4))


def windows_in(text: str) -> list[int]:
    """How often each node that makes windows is asked for."""
    query = database(s=STREAM).sql(text)
    assert isinstance(query, ps.Query)
    outlet = Outlet(query.plan, Collected())
    run = LocalRun([in_process(query.plan)], [outlet], ManualClock())
    nodes = [node for node in run.graph.operators if node.name.startswith("WindowAggregate")]
    return [node.uses.get(outlet, 1) for node in nodes]


@pytest.mark.parametrize("text", QUERIES)
def test_answers_are_the_same(text: str) -> None:
    """Tuples that are late count for every place."""
    assert_same(text, s=STREAM)


@pytest.mark.parametrize(("text", "uses"), list(zip(QUERIES, (2, 2, 4), strict=True)))
def test_windows_are_made_once(text: str, uses: int) -> None:
    assert windows_in(text) == [uses]


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("chunks", [1, 4])
def test_they_go_on_together(text: str, chunks: int) -> None:
    db = database(s=STREAM)
    recut(db, 1)
    query = db.sql(text)
    assert isinstance(query, ps.Query)
    store = MemoryStore()
    found = run_in_parts(query.plan, chunks, lambda: store)
    assert bag(tuples(found.rows)) == bag(tuples(query.collect()))


def test_what_is_counted_is_apart() -> None:
    counted = (
        "SELECT sum(n) AS s [RANGE 2 ROWS, SLIDE 1 ROW] FROM"
        f" (SELECT n FROM {VIEW} AS a UNION ALL SELECT n FROM {VIEW} AS b) AS u"
    )
    assert windows_in(counted)[-2:] == [1, 1]


def test_it_is_explained() -> None:
    query = database(s=STREAM).sql(QUERIES[0])
    assert isinstance(query, ps.Query)
    shown = explain_physical(in_process(query.plan))
    assert shown.count("computed once for all who ask for it") == 2
    assert "share_subplans" in shown.splitlines()[0]
