"""The fixture queries on Spark: the reference engine's rows, late tuples and counts, in batch mode
and under every cut into micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.plan.nodes.query import Late
from penstock.spark.run.batch_job import answer
from tests.planning import on_spark
from tests.queries import NAMES, bound, expected, is_strict, lines
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import Outcome, streamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One of each kind, in as few rows as they have.
SOME = {
    "sliding_non_multiple": 3,
    "per": 3,
    "slack": 17,
    "punctuated": 3,
    "late_side": 17,
    "rows_by_arrival": 3,
    "rows_partitioned": 3,
    "subquery": 3,
    "union": 3,
    "landmark_late": 3,
    "late_amend": 3,
    "group_by_ts": 3,
    "punctuated_groups": 3,
    "join_sliding": 3,
    "join_band": 17,
    "join_three_way": 3,
    "sequence_chronicle": 3,
    "except_on": 3,
    "except_on_joined": 3,
    "running_groups": 3,
    "running_join": 3,
}
PORTIONS = (1, 3, 17)


def assert_reference(name: str, query: ps.Query, found: Outcome) -> None:
    assert lines(found.table) == expected(name)
    assert found.account == query.account
    if query.plan.late is not Late.DROP:
        assert bag(tuples(found.late)) == bag(tuples(query.late))
        if found.late.num_rows:
            assert found.late.schema.names == query.late.schema.names
            assert found.late.schema.types == query.late.schema.types


@pytest.mark.parametrize("name", NAMES)
def test_batch(spark: SparkSession, name: str) -> None:
    query = bound(name)
    found = answer(on_spark(query.plan), spark, strict=is_strict(name), buckets=2)
    assert_reference(name, query, Outcome(found.table, found.late, found.account))


@pytest.mark.parametrize(("name", "portions"), SOME.items())
def test_streaming(spark: SparkSession, name: str, portions: int) -> None:
    query = bound(name)
    assert_reference(name, query, streamed(query, spark, portions))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "portions"),
    [(name, cut) for name in NAMES for cut in PORTIONS if SOME.get(name) != cut],
)
def test_streaming_in_all_cuts(spark: SparkSession, name: str, portions: int) -> None:
    query = bound(name)
    assert_reference(name, query, streamed(query, spark, portions))
