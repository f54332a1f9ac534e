"""A stream that a query asks for several times is read once on Spark, too: by ways to one stage, by
ways to several stages, which stand in a row, and by ways to the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.spark.explain import explain_on_spark
from penstock.spark.run.job import Job
from penstock.spark.sources.stream_inputs import batch_sources
from tests.local.scheduling.test_read_once import QUERIES, ROWS, RULES, SPLIT, stream
from tests.planning import on_spark
from tests.reference.helpers import bag, database, tuples
from tests.spark.helpers import streamed
from tests.spark.test_every_cut import assert_reference, cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_ORDER = "rows as they come"  # which follow the micro-batches on Spark


def asked(name: str, rows: list[Any], **rule: Any) -> ps.Query:
    query = database(s=stream(rows, **rule)).sql(SPLIT + QUERIES[name])
    assert isinstance(query, ps.Query)
    return query


@settings(deadline=None, max_examples=120)
@given(
    data=st.data(),
    rows=ROWS,
    rule=st.sampled_from(RULES),
    name=st.sampled_from(sorted(QUERIES.keys() - {IN_ORDER})),
    buckets=st.integers(1, 3),
    at_once=st.sampled_from([1, 7, 100]),
)
def test_whatever_the_cut(
    data: st.DataObject, rows: list[Any], rule: Any, name: str, buckets: int, at_once: int
) -> None:
    query = asked(name, rows, **rule)
    places = data.draw(cuts(len(rows)))
    restarts = data.draw(st.sets(st.integers(0, len(places))))
    job = WithoutSpark(query.plan, buckets)
    run_in_cuts(job, query, {"s": places}, at_once, restarts)
    assert_reference(query, job)
    assert job.tally.read == len(rows)


MANY = [("ab"[n % 3 % 2], 7 * n % 43, 3 * n % 50) for n in range(60)] + [("a", 1, None)]


@pytest.mark.parametrize(
    "name", ["join", "union", "join of windows", "rows and windows", "union of windows"]
)
def test_spark_reads_once(name: str, spark: SparkSession, tmp_path: Path) -> None:
    query = asked(name, MANY, delay=6)
    plan = on_spark(query.plan)
    frame = Job([plan], batch_sources([query.plan], spark, tmp_path, strict=False), 2).packed()
    executed = frame._jdf.queryExecution().analyzed().toString()
    assert executed.count("MapInArrow") == 1


@pytest.mark.parametrize("name", ["join of windows"])
def test_in_portions(name: str, spark: SparkSession) -> None:
    query = asked(name, MANY, delay=6)
    found = streamed(query, spark, portions=3)
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert bag(tuples(found.late)) == bag(tuples(query.late))
    assert found.account == query.account


@pytest.mark.parametrize("name", ["with itself"])
def test_a_dataframe(name: str, spark: SparkSession) -> None:
    """Which has no order to be late in, and columns that not all ways look at."""
    db = ps.connect(spark, buckets=2)
    frame = spark.createDataFrame(MANY[:-1], "k string, n int, t int")
    db.stream("s", frame, progress=ps.progress("t", delay=60))
    query = db.sql(SPLIT + QUERIES[name].replace(" LATE SIDE", ""))
    assert isinstance(query, ps.Query)
    known = asked(name, MANY[:-1], delay=60)
    rows = bag(tuples(known.collect()))
    assert bag(tuple(row) for row in query.dataframe().collect()) == rows
    assert bag(tuples(query.collect())) == rows
    assert query.account.read == len(MANY) - 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("join", "  s: read once for 2 ways to stage 1"),
        ("join of windows", "  s: read once for 2 ways to stage 1 and stage 2, in a row"),
        (
            "rows and windows",
            "  s: read once for 2 ways to the end and stage 1, in a row",
        ),
        (IN_ORDER, "  s: read 2 times, because rows are counted as they come"),
    ],
)
def test_explained(name: str, said: str) -> None:
    assert explain_on_spark(on_spark(asked(name, MANY, delay=6).plan), 4).endswith(said)
