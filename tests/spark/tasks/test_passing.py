"""Queries without a stateful node: the reference engine's rows, in Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.io.sources.rejects import Reject
from penstock.runs.answer import Account
from penstock.spark.run.batch_job import answer
from tests.planning import on_spark
from tests.queries import bound
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import streamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ["filter_and_project", "conditions", "case", "union_all_of_selects"]
SCHEMA = "id INT, n BIGINT, x DOUBLE, name STRING"
ROWS = [
    {"id": 1, "n": 10, "x": 0.5, "name": "ann"},
    {"id": 2, "n": None, "x": float("nan"), "name": None},
    {"id": 3, "n": -7, "x": -0.0, "name": "Bob"},
    {"id": 4, "n": 10, "x": 2.5, "name": "bea"},
]


def plan(sql: str, rows: Sequence[object] = ROWS, progress: str | None = None) -> ps.Query:
    db = ps.connect("reference")
    db.stream(
        "s", rows, schema=SCHEMA, progress=ps.progress(progress, ordered=True) if progress else None
    )
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


@pytest.mark.parametrize("name", NAMES)
def test_fixture_in_micro_batches(spark: SparkSession, name: str) -> None:
    query = bound(name)
    found = streamed(query, spark, portions=3)
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert found.account == query.account


def test_rows_without_a_progress_value_are_set_aside(spark: SparkSession) -> None:
    query = plan("SELECT id FROM s WHERE id > 1", progress="n")
    found = answer(on_spark(query.plan), spark)
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert found.account == query.account == Account(4, 0, 1)
    rejects: list[Reject] = list(found.rejects)
    assert [(each.column, each.reason) for each in rejects] == [("n", "n is NULL")]
