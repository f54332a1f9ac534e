"""Keys and aggregates are put in order where nobody sees it: rows stay what they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

import penstock as ps
from penstock.optimizer.rewrite import Settings
from penstock.optimizer.simplification import canonical_order
from penstock.plan.nodes.aggregation import (
    Distinct,
    GroupAggregate,
    NamedAggregate,
    WindowAggregate,
)
from penstock.plan.nodes.node import Project
from penstock.plan.nodes.query import QueryPlan
from penstock.reference.engine import evaluate
from penstock.reference.relation import Run

ROWS = [{"k": k, "j": j, "x": x, "t": x} for x, (k, j) in enumerate([(2, 1), (1, 2), (2, 2)] * 9)]
CALLS = "sum(x) AS total, count(*) AS n, max(j) AS top"


def plan(sql: str) -> QueryPlan:
    db = ps.connect()
    db.stream("s", ROWS, progress=ps.progress("t", ordered=True))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.plan


def turned(node: WindowAggregate | GroupAggregate) -> WindowAggregate | GroupAggregate:
    """The node as it would be had everything been written the other way round."""
    return replace(node, keys=node.keys[::-1], aggregates=node.aggregates[::-1])


def rows(query: QueryPlan) -> list[tuple[object, ...]]:
    """In some order: none is promised."""
    return sorted(row.values for row in evaluate(query.input, Run()).rows)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT k, j, {CALLS} [RANGE 5, SLIDE 3, WA t] FROM s GROUP BY k, j",
        f"SELECT k, j, {CALLS} [RANGE 5 ROWS, SLIDE 2 ROWS, WA row-num, PA (k, j)] FROM s",
        f"SELECT k, t, {CALLS} FROM s GROUP BY k, t",
    ],
)
def test_a_plan_that_goes_by_places_keeps_them(sql: str) -> None:
    project = plan(sql).input
    assert isinstance(project, Project)
    assert isinstance(project.input, WindowAggregate | GroupAggregate)
    other = turned(project.input)
    query = QueryPlan(other)
    ordered = canonical_order(query, Settings())
    assert ordered.schema == query.schema
    assert isinstance(ordered.input, Project)
    assert ordered.input.input == project.input
    assert rows(ordered) == rows(query)
    # where names are all that counts, nothing has to be brought back
    assert canonical_order(QueryPlan(replace(project, input=other)), Settings()) == QueryPlan(
        project
    )


def test_what_is_in_order_stays_as_it_is() -> None:
    query = plan(f"SELECT {CALLS}, k [RANGE 5, SLIDE 3, WA t] FROM s GROUP BY k")
    assert canonical_order(query, Settings()) is query


def test_rows_that_are_compared_as_a_whole() -> None:
    """DISTINCT goes by places."""
    node = plan(f"SELECT k, {CALLS} [RANGE 5, SLIDE 3, WA t] FROM s GROUP BY k").input.inputs[0]
    assert isinstance(node, WindowAggregate)
    query = QueryPlan(Distinct(turned(node)))
    ordered = canonical_order(query, Settings())
    assert ordered.schema == query.schema
    assert rows(ordered) == rows(query)


def test_one_aggregate_under_two_names() -> None:
    node = plan("SELECT sum(x) AS a, count(*) AS n [RANGE 5, SLIDE 3, WA t] FROM s").input.inputs[0]
    assert isinstance(node, WindowAggregate)
    count, total = node.aggregates
    twice = (NamedAggregate("z", total.call), count, NamedAggregate("a", total.call))
    query = QueryPlan(replace(node, aggregates=twice))
    ordered = canonical_order(query, Settings())
    assert ordered.schema == query.schema
    assert rows(ordered) == rows(query)
