"""Conflicts of dataflow expressions, the scheduling graph, and order invariance."""

from __future__ import annotations

from itertools import permutations, product

import pytest

import penstock as ps
from penstock.experiments.schedules import figure_4
from penstock.optimizer.conflicts import Conflicts, Removal, conflicts_of, order_matters, schedule
from penstock.optimizer.dataflow import translate
from penstock.optimizer.rewrite import Settings
from penstock.plan.join_trees import left_deep
from penstock.plan.nodes.query import QueryPlan
from tests.optimizer.any_query import ask_any, each_alone
from tests.reference.helpers import Row, Stream, bag, database, tuples

STREAMS = {"r": "a INT, b INT, ts INT", "s": "b INT, c INT, ts INT", "t": "a INT, c INT, ts INT"}
THREE = (
    "SELECT r.a FROM r [RANGE 9], s [RANGE 9], t [RANGE 9]"
    " WHERE r.b = s.b AND s.c = t.c AND r.a = t.a"
)


def plan(text: str) -> QueryPlan:
    db = ps.connect()
    for name, columns in STREAMS.items():
        db.sql(f"CREATE STREAM {name} ({columns}) PROGRESS ON ts ORDERED")
    query = db.sql(text)
    assert isinstance(query, ps.Query)
    return query.plan


def test_figure_4() -> None:
    graph = figure_4()
    edges = [(str(one), str(other)) for one, other in graph.dashed]
    assert sorted(edges) == [
        ("α2(d'_r)", "α2(d''_r)"),
        ("α2(d'_r)", "α3(d'_s)"),
        ("α3(d'_s)", "α2(d''_r)"),
        ("α4(d'_s)", "α1(d''_r)"),
        ("α5(d'_r)", "α5(d''_r)"),
        ("α5(d'_r)", "α5(d'_s)"),
        ("α5(d'_s)", "α5(d''_r)"),
    ]
    assert len(graph.solid) == 5
    assert [str(step) for step in graph.ready()] == ["α2(d'_r)"]
    left = figure_4((Removal.TIMESTAMPS,)).dashed
    assert {step.operation for edge in left for step in edge} == {4}
    assert not figure_4(tuple(Removal)).dashed
    assert graph.dot().count("dashed") == 7


def test_nothing_waits_for_ever() -> None:
    for removed in ((), (Removal.TIMESTAMPS,), tuple(Removal)):
        graph = schedule(conflicts_of(plan(THREE), Settings()), removed)
        assert graph.rounds() > 0
        assert not [*graph.steps, *graph.solid, *graph.dashed]


def test_containers_are_conflicts_of_their_own() -> None:
    """The window w_rs is written by two expressions and read by the third."""
    kept = Conflicts(translate(plan(THREE).input, lambda _: left_deep((0, 1, 2))).expressions)
    assert kept.containers == {"w_rs"}
    removed = [Removal.TIMESTAMPS, Removal.ORDER]
    assert len(schedule(kept, removed).dashed) > 0
    assert not schedule(kept, [*removed, Removal.RAISED]).dashed
    flat = conflicts_of(plan(THREE).input, Settings(), containers=False)
    assert not flat.containers
    assert not schedule(flat, removed).dashed


def test_what_removes_conflicts_is_explained() -> None:
    """In three ways: timestamps, containers that are dropped or go by raised ones, and order."""
    db = ps.connect()
    for name, columns in STREAMS.items():
        db.sql(f"CREATE STREAM {name} ({columns}) PROGRESS ON ts DELAY 5")
    lines = str(db.sql(f"EXPLAIN CONFLICTS {THREE} CONSISTENCY WEAK")).splitlines()
    (containers,) = (line for line in lines if "dropped containers, or raised timestamps" in line)
    assert containers.split(": ")[1].startswith("w_")
    left = [line for line in lines if ": 0 dashed edges" in line]
    assert [line.split(":")[0].strip() for line in left] == [
        "timestamps, no containers, relaxed order",
        "timestamps, raised timestamps, relaxed order",
    ]


def test_the_matrix_is_symmetric() -> None:
    matrix = conflicts_of(plan(THREE).input, Settings()).matrix()
    size = range(len(matrix))
    assert all(matrix[i][i] for i in size)
    assert all(matrix[i][j] == matrix[j][i] for i in size for j in size)


@pytest.mark.parametrize(
    ("text", "matters"),
    [
        ("SELECT k, x FROM s WHERE x > 1", False),
        ("SELECT k, sum(x) AS n [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k", False),
        ("SELECT DISTINCT k, t FROM s", False),
        ("SELECT p.x, q.x AS y FROM s AS p [RANGE 4], s AS q [RANGE 4] WHERE p.k = q.k", False),
        ("SELECT k, last(x) AS n [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k", False),
        ("SELECT sum(x) AS n [RANGE 2 ROWS, SLIDE 1 ROWS] FROM s", True),
    ],
)
def test_order_invariance(text: str, matters: bool) -> None:
    """As decided from the plan, and as it is."""
    rows = [("a", 1, 3), ("b", 2, 3), ("a", 3, 5), ("a", 4, 8)]
    answers = []
    for order in permutations(rows):
        stream = Stream("k STRING, x INT, t INT", list(order), ps.progress("t", delay=20))
        query = database(s=stream).sql(text)
        assert isinstance(query, ps.Query)
        assert bool(order_matters(query.plan)) is matters
        answers.append(bag(tuples(query.collect())))
    assert any(each != answers[0] for each in answers) is matters


def test_what_is_called_order_invariant_is() -> None:
    """Every kind of query, over tuples that come in two orders, many at the same time."""
    left: list[Row] = [
        (k, v, n % 4) for n, (k, v) in enumerate(product((0, 1, None), (0, 2, None)))
    ]
    right: list[Row] = [(n % 3, n % 4, n % 5) for n in range(9)]
    said = []
    for text in each_alone():
        queries = [ask_any(text, left[::way], right[::way], 50) for way in (1, -1)]
        said.append(not order_matters(queries[0].plan))
        if said[-1]:
            one, other = (bag(tuples(query.collect())) for query in queries)
            assert one == other, text
    assert any(said)
    assert not all(said)
