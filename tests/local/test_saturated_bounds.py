"""Bounds on expressions where the expression has no value: a bound is no tuple, so it is no error,
and where batches are cut decides nothing."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import RunError
from penstock.expressions.evaluation import bounding, evaluator
from penstock.plan.expressions import Column, Expression, rises_with
from penstock.plan.nodes.node import Project
from tests.local.helpers import assert_same, examples
from tests.reference.helpers import Stream, ask, tuples
from tests.spark.test_every_cut import asked, assert_reference, run_in_cuts
from tests.spark.without_spark import WithoutSpark

FAR = 2**40
LOW, HIGH = -(2**63), 2**63 - 1
SELECTS = (
    "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA CAST(t AS INT)] FROM s WHERE t < 1000",
    "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA u]"
    " FROM (SELECT CAST(t AS INT) AS u FROM s WHERE t < 1000) AS q",
    "SELECT u, count(*) AS n FROM (SELECT CAST(t AS INT) + 1 AS u FROM s WHERE t < 1000) AS q"
    " GROUP BY u",
    "SELECT DISTINCT u FROM (SELECT t * 8388608 AS u FROM s WHERE t < 1000) AS q",
)


@pytest.mark.parametrize("sql", SELECTS)
@pytest.mark.parametrize("rule", [{"ordered": True}, {"delay": 3}])
def test_nobody_comes_to_where_the_bound_is(sql: str, rule: dict[str, Any]) -> None:
    rows = [(5,), (2,), (9,), (FAR,), (7,)]
    progress = ps.progress("t", **rule)
    assert_same(sql + " LATE SIDE", s=Stream("t BIGINT", rows, progress))


def test_a_bound_below_everything() -> None:
    rows = [(-(2**62) + 1,), (-(2**62) + 9,), (-(2**62) + 2,)]
    sql = "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA t * 2] FROM s LATE SIDE"
    assert_same(sql, s=Stream("t BIGINT", rows, ps.progress("t", delay=5)))
    sql = "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA t + 1] FROM s LATE SIDE"
    rows = [(-(2**31) + 2,), (-(2**31),)]
    assert_same(sql, s=Stream("t INT", rows, ps.progress("t", delay=5)))


def test_a_punctuation_at_the_end_of_the_type() -> None:
    rows = [("x", 1), ("x", 3), ("end", HIGH)]
    progress = ps.progress("t", punctuated=("k = 'end'", "t"))
    for sql in (
        "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA t + 1] FROM s",
        "SELECT u, count(*) AS n FROM (SELECT t + 1 AS u FROM s) AS q GROUP BY u",
    ):
        assert_same(sql, s=Stream("k STRING, t BIGINT", rows, progress))


def test_a_tuple_without_a_value_is_set_aside() -> None:
    rows = Stream("t BIGINT", [(5,), (FAR,)], ps.progress("t", ordered=True))
    query = ask("SELECT count(*) AS n [RANGE 4, SLIDE 4, WA CAST(t AS INT)] FROM s", s=rows)
    assert tuples(query.collect()) == [(4, 8, 1)]
    assert query.account == ps.Account(2, 0, 1)


@pytest.mark.parametrize("cuts", [[(0, 5)], [(0, 3), (3, 4), (4, 5)], [(0, 1), (1, 4), (4, 5)]])
def test_on_spark(cuts: list[tuple[int, int]]) -> None:
    rows = [("u", "a", 1, t) for t in (5, 2, 9, 2**30, 7)]
    sql = "SELECT k, count(*) AS n [RANGE 4, SLIDE 4, WA CAST(t * 4 AS INT)] FROM s WHERE t < 1000"
    for late in ("", " LATE SIDE"):
        query = asked(f"{sql} GROUP BY k{late}", ps.progress("t", delay=3), rows)
        job = WithoutSpark(query.plan, 2)
        run_in_cuts(job, query, {"s": cuts}, 1, set())
        assert_reference(query, job)


# --- the definition ------------------------------------------------------------------------------

RISING = (
    "t + 1;t - 1;5 + t;t * 2;t * 2 - 7;CAST(t AS INT);CAST(t AS INT) + 9;CAST(t * 3 AS INT) - 2"
    ";CAST(t AS DECIMAL(9,2));CAST(t AS DECIMAL(20,0)) + 1;CAST(t AS DECIMAL(9,0)) * 1000"
    ";timestamp_seconds(t);timestamp_millis(t) + INTERVAL 1 HOUR;date(timestamp_seconds(t)) + 3"
    ";greatest(t + 1, t * 2);least(CAST(t AS INT), t)"
    ";epoch(date_trunc('month', timestamp_millis(t)))"
    ";CAST(date(timestamp_micros(t)) - 100000000 AS TIMESTAMP);t + -9223372036854775807"
)


def rising(text: str) -> tuple[Expression, Column]:
    db = ps.connect("reference")
    db.stream("s", [], schema="t BIGINT", progress=ps.progress("t", ordered=True))
    query = db.sql(f"SELECT {text} AS y FROM s")
    assert isinstance(query, ps.Query)
    assert isinstance(query.plan.input, Project)
    expression = query.plan.input.columns[0].expression
    (column,) = dict.fromkeys(rises_with(expression))
    return expression, column


def ticks(*around: int) -> st.SearchStrategy[int]:
    near = [st.integers(max(LOW, each - 20), min(HIGH, each + 20)) for each in around]
    return st.one_of(st.integers(LOW, HIGH), *near)


TICKS = ticks(LOW, HIGH, 0, 2**31, -(2**31), 2**62, -(2**62), 9999999, -9999999, HIGH // 10**6)


@pytest.mark.parametrize("text", RISING.split(";"))
@examples
@given(bound=TICKS, later=TICKS, outside=st.sampled_from([0, 2**64, -(2**64)]))
def test_a_bound_promises_what_is_true_and_all_that_it_can(
    text: str, bound: int, later: int, outside: int
) -> None:
    expression, column = rising(text)
    query = ask(f"SELECT {text} AS y FROM s", s=Stream("t BIGINT", []))
    value = evaluator(expression, query.plan.input.inputs[0].schema)
    found = bounding(expression, [column])([bound + outside])
    if later >= bound + outside:
        with suppress(RunError):
            assert value((later,)) >= found
    if not outside:
        with suppress(RunError):
            assert found == value((bound,))


def test_decimals_and_days_progress() -> None:
    rows = [
        (key, Decimal(amount), date(2024, 1, day))
        for key, amount, day in (("a", "1.50", 3), ("b", "2.25", 4), ("a", "9.00", 9))
    ]
    stream = Stream("k STRING, m DECIMAL(9,2), d DATE", rows, ps.progress("m", ordered=True))
    assert_same("SELECT k, sum(m) AS z [RANGE 2, SLIDE 2, WA m + 1] FROM s GROUP BY k", s=stream)
    assert_same("SELECT m * 2 - 0.5 AS u, count(*) AS n FROM s GROUP BY m * 2 - 0.5", s=stream)
    days = stream._replace(progress=ps.progress("d", ordered=True))
    for shift in ("d + 1", "d - 2", "d + INTERVAL 1 DAY"):
        sql = f"SELECT count(*) AS n [RANGE 2 DAYS, SLIDE 2 DAYS, WA {shift}] FROM s"
        assert_same(sql, s=days)
        assert len(ask(sql, s=days).collect()) == 2 + (shift == "d - 2")
