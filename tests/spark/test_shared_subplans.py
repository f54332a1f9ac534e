"""Parts that a query asks for more than once: on Spark, too, they are computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.plan.physical import Host, OperatorKind
from penstock.spark.explain import explain_on_spark
from penstock.spark.run.job import Job, in_steps
from penstock.spark.sources.dataframe import Sources
from tests.local.test_shared_subplans import QUERIES, STREAM
from tests.planning import on_spark
from tests.reference.helpers import Row, Stream, bag, database, tuples
from tests.spark.helpers import streamed
from tests.spark.test_every_cut import assert_reference, cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISTINCT = (
    "SELECT a.k, b.t FROM (SELECT DISTINCT k, t FROM s) AS a [RANGE 5],"
    " (SELECT DISTINCT k, t FROM s) AS b [RANGE 5] WHERE a.k = b.k"
)
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 25)), max_size=20)


def asked(sql: str, rows: list[Row], delay: int) -> ps.Query:
    query = database(s=Stream("k STRING, t INT", rows, ps.progress("t", delay=delay))).sql(sql)
    assert isinstance(query, ps.Query)
    return query


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    sql=st.sampled_from([*QUERIES, DISTINCT]),
    late=st.sampled_from(["", " LATE SIDE"]),
    rows=ROWS,
    delay=st.sampled_from([0, 4, 30]),
    buckets=st.integers(1, 3),
)
def test_whatever_the_cut(
    data: st.DataObject, sql: str, late: str, rows: list[Any], delay: int, buckets: int
) -> None:
    query = asked(sql.replace(" LATE SIDE", "") + late, rows, delay)
    places = data.draw(cuts(len(rows)))
    restarts = data.draw(st.sets(st.integers(0, len(places))))
    job = WithoutSpark(query.plan, buckets)
    run_in_cuts(job, query, {"s": places}, 100, restarts)
    assert_reference(query, job)


def job_of(sql: str) -> Job:
    query = database(s=STREAM).sql(sql)
    assert isinstance(query, ps.Query)
    return Job([on_spark(query.plan)], Sources({}, {}), 2)


@pytest.mark.parametrize(("text", "uses"), list(zip(QUERIES, (2, 2, 4), strict=True)))
def test_windows_are_made_once(text: str, uses: int) -> None:
    job = job_of(text)
    configs = job.configs(job.ends)
    kinds = [config.stage.physical.operator for config in configs]
    assert kinds.count(OperatorKind.PANED) == 1
    (windows,) = [c for c in configs if c.stage.physical.operator is OperatorKind.PANED]
    assert sum(each.times for each in windows.destinations) == uses
    assert [len(place) for place in in_steps(configs)] == [1] * len(configs)


def test_in_portions(spark: SparkSession) -> None:
    query = database(s=STREAM).sql(QUERIES[2])
    assert isinstance(query, ps.Query)
    assert on_spark(query.plan).host is Host.SPARK
    found = streamed(query, spark, portions=3)
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert bag(tuples(found.late)) == bag(tuples(query.late))
    assert found.account == query.account


def test_a_dataframe(spark: SparkSession) -> None:
    """Rows as columns; a table has no order to be late in."""
    db = ps.connect(spark, buckets=2)
    frame = spark.createDataFrame(STREAM.rows, "k string, t int")
    db.stream("s", frame, progress=ps.progress("t", delay=30))
    known = asked(QUERIES[0], list(STREAM.rows), 30)
    query = db.sql(QUERIES[0])
    assert isinstance(query, ps.Query)
    rows = bag(tuples(known.collect()))
    assert bag(tuple(row) for row in query.dataframe().collect()) == rows
    assert bag(tuples(query.collect())) == rows


def test_it_is_explained() -> None:
    query = database(s=STREAM).sql(QUERIES[0])
    assert isinstance(query, ps.Query)
    shown = explain_on_spark(on_spark(query.plan), 4)
    assert "stage 1: WindowAggregate in 4 buckets by s.k, for 2 who ask" in shown
    assert shown.count("WindowAggregate") == 1
