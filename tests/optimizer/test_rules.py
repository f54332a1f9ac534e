"""Rules that simplify plans: with all of them, without each, and without any, there is one answer.

Plans that a rule does not change need not be run twice, so only different ones are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from penstock.errors import EngineError, PenstockError
from penstock.io.sources.source import Chunk
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.optimizer.distribution import pre_aggregate
from penstock.optimizer.join_choice import choose_join, expect_state, leave_in_order
from penstock.optimizer.join_order import arrange_joins
from penstock.optimizer.optimize import PHYSICAL, SIMPLIFYING, RewriteRule, optimize
from penstock.optimizer.pruning import find_unseen, prune_columns
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.aggregation import SharedPanes, WindowsOfPanes
from penstock.plan.nodes.node import Node, Stamp, Unary
from penstock.plan.nodes.over import RowsOver
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.tables import OrderedRows, OrElse
from penstock.plan.physical import Host, PhysicalPlan
from penstock.runs.answer import Answer
from tests.optimizer.any_query import QUERIES, ROWS, ask_any, each_alone
from tests.queries import NAMES, bound, is_strict
from tests.reference.helpers import Row, bag, tuples
from tests.spark.without_spark import Given, WithoutSpark, rows_of

# what else can be left out: these choose between ways with the same answer
CHOOSING = (
    arrange_joins,
    prune_columns,
    choose_join,
    leave_in_order,
    pre_aggregate,
    expect_state,
    find_unseen,
)
SWITCHED: tuple[RewriteRule, ...] = (*SIMPLIFYING, *CHOOSING)
ALL = frozenset(SWITCHED)


def planned(query: QueryPlan, host: Host, by: frozenset[RewriteRule]) -> PhysicalPlan:
    rules = tuple(rule for rule in PHYSICAL[host] if rule not in ALL or rule in by)
    return optimize(query, Settings(host=host, as_begun=True), rules)  # also if they do not pay


def different_plans(query: QueryPlan, host: Host) -> Iterator[PhysicalPlan]:
    """By all rules, without any, and without each, as far as that makes a difference; it always
    does on Spark whether columns are left out, and panes made, before tuples meet."""
    always = frozenset([prune_columns, pre_aggregate]) if host is Host.SPARK else frozenset()
    seen: list[PhysicalPlan] = []
    for by in (ALL, always, *(ALL - {rule} for rule in SWITCHED if rule not in always)):
        plan = planned(query, host, by)
        if all(plan.root != other.root for other in seen):
            seen.append(plan)
            yield plan


def outcome(found: Answer) -> tuple[object, ...]:
    return bag(tuples(found.table)), bag(tuples(found.late)), found.account


@pytest.mark.parametrize("name", NAMES)
def test_fixtures_in_process(name: str) -> None:
    query, strict = bound(name, 7), is_strict(name)
    first: tuple[object, ...] | None = None
    for plan in different_plans(query.plan, Host.LOCAL):
        found = outcome(answer(plan, ManualClock(), strict))
        first = first or found
        assert found == first, plan.simplified


@cache
def changed_on_spark() -> list[str]:
    return [name for name in NAMES if len(list(different_plans(bound(name).plan, Host.SPARK))) > 1]


def test_rules_change_some_fixtures() -> None:
    assert len(changed_on_spark()) >= 4


def test_fixtures_in_buckets() -> None:
    """The tasks and buckets of Spark, driven without it."""
    for name in changed_on_spark():
        query = bound(name).plan
        if query.early_every is not None:
            continue
        rows = rows_of(query)
        first: list[Row] | None = None
        for plan in different_plans(query, Host.SPARK):
            job = WithoutSpark(plan, 2)
            job.run({name: [Given([Chunk(batch)], ends=True)] for name, batch in rows.items()})
            found = bag(tuples(job.received.table(query)))
            first = found if first is None else first
            assert found == first, (name, plan.simplified)


def test_random_queries_have_nodes_of_all_kinds() -> None:
    """But for what reads a clock, what is made for several queries, and what is computed over
    tables alone, of which others are made."""
    rows: list[Row] = [(1, 2, 3)]
    found: set[type[Node]] = set()
    for text in each_alone():
        found |= {type(node) for node in ask_any(text, rows, rows, 3).plan.walk()}
    known = {kind for kind in _kinds(Node) if kind.__module__.startswith("penstock.")}
    made_elsewhere = {Stamp, SharedPanes, WindowsOfPanes, OrderedRows, OrElse}
    assert known - found == {Unary, RowsOver, *made_elsewhere}


def _kinds(kind: type[Node]) -> Iterator[type[Node]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


@settings(deadline=None, max_examples=100)
@given(
    sql=QUERIES,
    left=ROWS,
    right=ROWS,
    delay=st.sampled_from([0, 3, 50]),
    off=st.sets(st.sampled_from(SWITCHED), max_size=3),
)
def test_random_queries(
    sql: str, left: list[Row], right: list[Row], delay: int, off: set[RewriteRule]
) -> None:
    try:
        query = ask_any(sql, left, right, delay, late="LATE SIDE")
        plans = [planned(query.plan, Host.LOCAL, by) for by in (ALL, frozenset(), ALL - off)]
    except EngineError:
        assume(False)
    except PenstockError as error:
        event(f"refused: {error.message[:60]}")
        assume(False)
    for rule in plans[0].simplified:
        event(rule)
    try:
        expected = (bag(tuples(query.collect())), bag(tuples(query.late)), query.account)
    except PenstockError as error:  # what fails by definition fails with every plan
        for plan in plans:
            with pytest.raises(PenstockError, match=error.message[:20].replace("(", "\\(")):
                answer(plan, ManualClock())
        return
    for plan in plans:
        assert outcome(answer(plan, ManualClock())) == expected, plan.simplified


@settings(deadline=None, max_examples=30)
@given(
    sql=QUERIES,
    left=ROWS,
    right=ROWS,
    delay=st.sampled_from([3, 50]),
    off=st.sets(st.sampled_from(SWITCHED), max_size=3),
)
def test_random_queries_in_buckets(
    sql: str, left: list[Row], right: list[Row], delay: int, off: set[RewriteRule]
) -> None:
    """The same for the tasks and buckets of Spark, driven without it."""
    try:
        query = ask_any(sql, left, right, delay)
        plans = [planned(query.plan, Host.SPARK, by) for by in (ALL, frozenset(), ALL - off)]
        expected = bag(tuples(query.collect()))
    except PenstockError:
        assume(False)
    rows = rows_of(query.plan)
    for plan in plans:
        job = WithoutSpark(plan, 2)
        job.run({name: [Given([Chunk(batch)], ends=True)] for name, batch in rows.items()})
        assert bag(tuples(job.received.table(query.plan))) == expected, plan.simplified
