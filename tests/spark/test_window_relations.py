"""Windows as relations, joined with each other, on Spark: the rows and late tuples of the reference
engine, whatever the disorder, and with conditions that follow from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from penstock.spark.run.batch_job import answer
from tests.local.test_window_relations import LATE, STREAM, Joined, joins
from tests.planning import on_spark
from tests.reference.helpers import Stream, ask, bag, tuples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SELDOM = settings(deadline=None, suppress_health_check=list(HealthCheck))


def compare(spark: SparkSession, sql: str, **streams: Stream) -> None:
    query = ask(sql, **streams)
    found = answer(on_spark(query.plan), spark, buckets=2)
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert found.account == query.account


@settings(SELDOM, max_examples=2, derandomize=True)
@given(joined=joins(), s=STREAM, r=STREAM, late=LATE)
def test_some(spark: SparkSession, joined: Joined, s: Stream, r: Stream, late: str) -> None:
    compare(spark, f"{joined.redundant} {late}", s=s, r=r)


@pytest.mark.slow
@settings(SELDOM, max_examples=40)
@given(joined=joins(), s=STREAM, r=STREAM, late=LATE)
def test_many(spark: SparkSession, joined: Joined, s: Stream, r: Stream, late: str) -> None:
    compare(spark, f"{joined.redundant} {late}", s=s, r=r)
