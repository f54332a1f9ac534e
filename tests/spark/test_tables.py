"""Streams looked up in tables on Spark: the rows of the reference, before the shuffle, behind it,
and where the rows of a large table are in the buckets of their keys."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.settings import Settings
from penstock.physical.host import Host
from penstock.runs.gathered import Gathered
from penstock.spark.plan.readings import readings_of
from penstock.spark.plan.stages import Stage, entries_of
from penstock.spark.run.outcome import deliver
from penstock.spark.sources.feeds import streams_of
from penstock.spark.sources.tables import TableFiles
from penstock.spark.tasks.passing import Passing
from tests.engine.test_tables import JOINS, KEYS, NUMBERS, SCHEMA, TABLES
from tests.planning import on_spark
from tests.reference.helpers import Row, Stream, Table, ask, bag, tuples
from tests.spark.test_every_cut import assert_reference, cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark, rows_of


def passed(query: ps.Query) -> list[Row]:
    """The rows of a query without state."""
    plan = on_spark(query.plan)
    gathered = Gathered(query.plan)
    with TemporaryDirectory() as folder:
        tables = TableFiles(plan.query, None, Path(folder), False, 1)
        for reading in readings_of([], entries_of(plan.root, tables), streams_of(query.plan)):
            batch = rows_of(query.plan)[reading.stream]
            made = list(Passing(reading, None, strict=False)(iter([batch])))
            deliver(pa.Table.from_batches(made), gathered)
    return tuples(gathered.answer(0).table)


@settings(max_examples=150)
@given(
    data=st.data(),
    sql=st.sampled_from(JOINS),
    rows=st.lists(st.tuples(KEYS, NUMBERS, st.integers(0, 20)), max_size=14),
    r=st.lists(st.tuples(KEYS, NUMBERS), max_size=6),
    q=st.lists(st.tuples(NUMBERS, KEYS), max_size=4),
    delay=st.sampled_from([0, 5, 50]),
    buckets=st.integers(1, 3),
    restarts=st.sets(st.integers(1, 7)),
    broadcast_rows=st.sampled_from([0, 2, 100]),
)
def test_every_cut(
    data: st.DataObject,
    sql: str,
    rows: list[Row],
    r: list[Row],
    q: list[Row],
    delay: int,
    buckets: int,
    restarts: set[int],
    broadcast_rows: int,
) -> None:
    query = ask(
        sql,
        s=Stream(SCHEMA, rows, ps.progress("t", delay=delay)),
        r=Table(TABLES["r"], r),
        q=Table(TABLES["q"], q),
    )
    plan = physical_plan(query.plan, Settings(host=Host.SPARK, broadcast_rows=broadcast_rows))
    if not any(isinstance(each.leaf, Stage) for each in entries_of(plan.root)):
        assert bag(passed(query)) == bag(tuples(query.collect()))
        return
    job = WithoutSpark(plan, buckets)
    read = {name: len(batch) for name, batch in rows_of(query.plan).items()}
    planned = {name: data.draw(cuts(size), label=name) for name, size in read.items()}
    run_in_cuts(job, query, planned, 100, restarts)
    assert_reference(query, job)
