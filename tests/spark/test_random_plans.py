"""Random queries on Spark, as batch jobs: with all rules that simplify plans, without any, and
without some, the rows, late tuples and counts are those of the reference engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import PenstockError
from penstock.optimizer.optimize import RewriteRule
from penstock.plan.physical import Host, PhysicalPlan
from penstock.spark.run.batch_job import answer
from tests.optimizer.any_query import QUERIES, ROWS, ask_any, each_alone
from tests.optimizer.test_rules import ALL, SWITCHED, outcome, planned
from tests.reference.helpers import Row, bag, tuples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEFT: list[Row] = [(1, 2, 3), (2, None, 1), (None, 3, 4), (1, 0, 9), (0, 1, 6), (1, 2, 8)]
RIGHT: list[Row] = [(1, 3, 2), (2, 2, 5), (1, 2, 4), (None, 1, 7), (0, 3, 12), (2, 0, 11)]
SELDOM = settings(deadline=None, suppress_health_check=list(HealthCheck))


def assert_reference(query: ps.Query, plans: list[PhysicalPlan], spark: SparkSession) -> None:
    try:
        expected = (bag(tuples(query.collect())), bag(tuples(query.late)), query.account)
    except PenstockError:  # what fails by definition fails with every plan
        for plan in plans:
            with pytest.raises(PenstockError):
                answer(plan, spark, buckets=2)
        return
    for plan in plans:
        assert outcome(answer(plan, spark, buckets=2)) == expected, plan.simplified


def different(query: ps.Query, off: frozenset[RewriteRule] = ALL) -> list[PhysicalPlan]:
    """By all rules, without any and without these, as far as that makes a difference."""
    plans: list[PhysicalPlan] = []
    for by in (ALL, frozenset[RewriteRule](), ALL - off):
        plan = planned(query.plan, Host.SPARK, by)
        if all(plan.root != other.root for other in plans):
            plans.append(plan)
    return plans


class Case(NamedTuple):
    """A query, the tuples of its streams, how late they come, and which rules are off."""

    sql: str
    left: list[Row]
    right: list[Row]
    delay: int
    off: set[RewriteRule]


CASES = st.builds(
    Case,
    sql=QUERIES,
    left=ROWS,
    right=ROWS,
    delay=st.sampled_from([0, 3, 50]),
    off=st.sets(st.sampled_from(SWITCHED), max_size=3),
)


def compare(spark: SparkSession, case: Case) -> None:
    try:
        query = ask_any(case.sql, case.left, case.right, case.delay, late="LATE SIDE")
        plans = different(query, frozenset(case.off))
    except PenstockError as error:
        event(f"refused: {error.message[:60]}")
        assume(False)
    assert_reference(query, plans, spark)


@settings(SELDOM, max_examples=6, derandomize=True)
@given(case=CASES)
def test_some(spark: SparkSession, case: Case) -> None:
    compare(spark, case)


@pytest.mark.slow
@settings(SELDOM, max_examples=80)
@given(case=CASES)
def test_many(spark: SparkSession, case: Case) -> None:
    compare(spark, case)


@pytest.mark.slow
@pytest.mark.parametrize("sql", list(each_alone()))
def test_each_kind(spark: SparkSession, sql: str) -> None:
    query = ask_any(sql, LEFT, RIGHT, 3)
    assert_reference(query, different(query), spark)
