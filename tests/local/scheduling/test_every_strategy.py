"""Strategies, sizes of steps, enabling timestamps, carriage of progress and break nodes: one
answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.local.graph_options import Scheduling
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import answer
from penstock.local.strategies import Strategy
from penstock.model.clock import ManualClock
from penstock.runs.answer import Outlet
from tests.local.helpers import examples, recut
from tests.planning import in_process
from tests.queries import NAMES, assert_late, bound, expected, is_strict, lines
from tests.reference.helpers import Stream, ask, bag, database, tuples

STRATEGIES = ("dfs", "dfs 1", "dfs 3", "bfs", "bfs 1", "bfs 5", "rr", "rr 2", "chain", "chain 1")
CARRIAGES = ("arcs", "punctuations")
ETS = ("none", "on demand", "10 milliseconds")
WAYS = tuple(product(STRATEGIES, CARRIAGES))


def check_fixture(name: str, way: tuple[str, str], ets: str, cut: int | None) -> None:
    strategy, carriage = way
    scheduling = Scheduling.of(strategy, ets, carriage)
    plan = in_process(bound(name, cut).plan)
    found = answer(plan, ManualClock(), is_strict(name), scheduling)
    assert lines(found.table) == expected(name)
    assert_late(name, found.late)


@pytest.mark.parametrize(("number", "name"), list(enumerate(NAMES)))
def test_a_fixture_in_some_ways(number: int, name: str) -> None:
    for step in (0, 5):  # so that all ways have their turn
        way, ets = WAYS[(number + step) % len(WAYS)], ETS[(number + step) % len(ETS)]
        check_fixture(name, way, ets, cut=(None, 7)[step % 2])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_in_every_way(name: str, way: tuple[str, str]) -> None:
    for number, ets in enumerate(ETS):
        check_fixture(name, way, ets, (None, 7)[(WAYS.index(way) + number) % 2])


# --- changed while it runs -----------------------------------------------------------------------

QUERIES = (
    "SELECT k, count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM"
    " (SELECT k, t FROM s WHERE v > 1 UNION ALL SELECT k, t FROM r) u GROUP BY k",
    "SELECT s.v, r.v AS w FROM s [RANGE 8], r [RANGE 5] WHERE s.k = r.k",
    "SELECT k, t FROM s WHERE v > 0 UNION ALL SELECT k, t FROM r EMIT IN ORDER",
    "SELECT s.v, r.v AS w FROM SEQUENCE(s THEN r MODE RECENT) WHERE s.k = r.k",
    "SELECT k, total FROM (SELECT k, window_end, sum(v) AS total [RANGE 6, SLIDE 3, WA t] FROM s"
    " GROUP BY k) w WHERE total > 2",
)
ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.integers(-3, 5), st.integers(0, 40)),
    max_size=15,
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(STRATEGIES), st.integers(0, 5), st.booleans()), max_size=6
)
SCHEMA = "k STRING, v INT, t INT"


@given(
    st.sampled_from(QUERIES),
    ROWS,
    ROWS,
    st.sampled_from(WAYS),
    st.sampled_from(ETS),
    CHANGES,
    st.sampled_from((1, 3, None)),
)
@examples
def test_changed_between_any_two_chunks(
    sql: str,
    left: list[tuple[object, ...]],
    right: list[tuple[object, ...]],
    way: tuple[str, str],
    ets: str,
    changes: Sequence[tuple[str, int, bool]],
    cut: int | None,
) -> None:
    streams = {
        "s": Stream(SCHEMA, left, ps.progress("t", delay=4)),
        "r": Stream(SCHEMA, right, ps.progress("t", delay=0)),
    }
    expected = ask(sql, **streams)
    db = database(**streams)
    recut(db, cut)
    rows, late = Collected(), Collected()
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    plan = in_process(query.plan)
    outlet = Outlet(plan.query, rows, late)
    scheduling = Scheduling.of(way[0], ets, way[1])
    run = LocalRun([plan], [outlet], ManualClock(), scheduling=scheduling)
    left_over = [(scan, scan.chunks()) for scan in run.scans]
    number = 0
    while left_over:
        scan, chunks = left_over[number % len(left_over)]
        chunk = next(chunks, None)
        if chunk is None:
            run.end(scan)
            left_over.remove((scan, chunks))
        else:
            run.feed(scan, chunk)
        if changes:
            strategy, node, breaks = changes[number % len(changes)]
            names = [each.name for each in run.graph.nodes]
            chosen = [names[node % len(names)]]
            run.graph.use(Strategy.of(strategy), chosen)
            run.graph.break_off(chosen if breaks else [])
        number += 1
    assert bag(tuples(rows.table)) == bag(tuples(expected.collect()))
    assert bag(tuples(late.table)) == bag(tuples(expected.late))
    assert run.account(outlet) == expected.account
    assert all(node.output.rows == 0 for node in run.graph.nodes)  # nothing is left anywhere
