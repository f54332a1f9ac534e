"""The queries of Nexmark agree with DuckDB over the whole input, on every engine.

Over 10,000 events.  The reference engine joins by looking at all pairs, so that is in the slow
suite, and otherwise it answers over 1,000; on Spark every query is a job or several, so most of
them are in the slow suite, too.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from benchmarks.nexmark.generator import Events, generated
from benchmarks.nexmark.running import NAMES, database, expected, plain, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISORDER = 2.0  # seconds
ON_SPARK = ("q4", "q5", "q16", "q21")  # one of each kind


@cache
def events(count: int) -> Events:
    return generated(count, seed=7, disorder=DISORDER)


def assert_agrees(name: str, db: ps.Database, given: Events) -> None:
    query = database(db, given, DISORDER).sql(text_of(name))
    assert isinstance(query, ps.Query)
    found, right = query.collect(), expected(name, given)
    assert found.column_names == right.column_names
    assert plain(found) == plain(right)
    assert query.account.late == 0


def test_a_seed_makes_the_same_events() -> None:
    one, other = generated(500, seed=3, disorder=1.0), generated(500, seed=3, disorder=1.0)
    assert one == other
    assert generated(500, seed=4).bid != generated(500, seed=3).bid
    times = one.bid.column("date_time").to_pylist()
    assert times != sorted(times) == generated(500, seed=3).bid.column("date_time").to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_in_process(name: str) -> None:
    given = events(10_000)
    assert expected(name, given).num_rows
    assert_agrees(name, ps.connect("local"), given)


@pytest.mark.parametrize("name", NAMES)
def test_by_definition(name: str) -> None:
    assert_agrees(name, ps.connect("reference"), events(1_000))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_by_definition_over_all(name: str) -> None:
    assert_agrees(name, ps.connect("reference"), events(10_000))


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[] if each in ON_SPARK else [pytest.mark.slow]) for each in NAMES],
)
def test_on_spark(spark: SparkSession, name: str) -> None:
    assert_agrees(name, ps.connect(spark), events(10_000))
