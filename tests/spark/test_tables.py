"""Streams looked up in tables on Spark: the rows of the reference, before the shuffle, behind it,
and where the rows of a large table are in the buckets of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.joins import lookup
from penstock.kernel.joins.lookup import LookupOperator
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.physical import Host
from penstock.runs.collected_answer import Gathered
from penstock.spark import stages as tables
from penstock.spark.run.job_results import deliver
from penstock.spark.sources.stream_inputs import streams_of
from penstock.spark.sources.tables import TableFiles
from penstock.spark.stages import PathToEnd, Stage, StreamPaths, paths_of, stream_paths
from penstock.spark.stateful.bucket import Bucket
from penstock.spark.tasks.ingest_tasks import Passing
from penstock.spark.tasks.messages import Message, Packed, PackedKind
from tests.local.test_tables import JOINS, KEYS, NUMBERS, SCHEMA, TABLES
from tests.planning import on_spark
from tests.reference.helpers import Row, Stream, Table, ask, bag, tuples
from tests.spark.test_every_cut import assert_reference, cuts, run_in_cuts
from tests.spark.without_spark import Given, WithoutSpark, rows_of, send_after


def passed(query: ps.Query) -> list[Row]:
    """The rows of a query without state."""
    plan = on_spark(query.plan)
    gathered = Gathered(query.plan)
    with TemporaryDirectory() as folder:
        files = TableFiles(plan.query, None, Path(folder), False, 1)
        ends = [PathToEnd(path) for path in paths_of(plan.root, files)]
        for reading in stream_paths([], ends, streams_of(query.plan)):
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
    at_once=st.sampled_from([1, 3, 1000]),
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
    at_once: int,
) -> None:
    """`at_once` rows are made of tables in one piece, and sent."""
    query = ask(
        sql,
        s=Stream(SCHEMA, rows, ps.progress("t", delay=delay)),
        r=Table(TABLES["r"], r),
        q=Table(TABLES["q"], q),
    )
    plan = physical_plan(query.plan, Settings(host=Host.SPARK, broadcast_rows=broadcast_rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_MANY_PAIRS", 0)
        patch.setattr(tables, "LookupOperator", partial(LookupOperator, together=at_once))
        send_after(patch, at_once)
        if not any(isinstance(each.leaf, Stage) for each in paths_of(plan.root)):
            assert bag(passed(query)) == bag(tuples(query.collect()))
            return
        job = WithoutSpark(plan, buckets)
        read = {name: len(batch) for name, batch in rows_of(query.plan).items()}
        planned = {name: data.draw(cuts(size), label=name) for name, size in read.items()}
        run_in_cuts(job, query, planned, 100, restarts)
        assert_reference(query, job)


class Steps(WithoutSpark):
    """Remembers how many pieces had been made of tables when each packed row left."""

    made = 0
    left: list[int]

    def _ingest(self, reading: StreamPaths, task: int, given: Given) -> list[Packed]:
        return self._watched(super()._ingesting(reading, task, given))

    def _take_in(self, bucket: Bucket, messages: list[Message]) -> list[Packed]:
        return self._watched(bucket.process(messages, self.now))

    def _watched(self, packed: Iterator[Packed]) -> list[Packed]:
        found = []
        for each in packed:
            if each.kind is not PackedKind.STATUS:
                self.left.append(self.made)
            found.append(each)
        return found


@pytest.mark.parametrize(
    ("sql", "broadcast_rows"),
    [
        ("SELECT DISTINCT s.x, r.v, s.t FROM s JOIN r ON s.k = r.k", 1 << 20),
        ("SELECT s.x, r.v FROM s JOIN r ON s.k = r.k", 0),
        ("SELECT x, v FROM (SELECT DISTINCT k, x, t FROM s) AS d JOIN r ON d.k = r.k", 1 << 20),
    ],
    ids=["before the shuffle", "in buckets", "behind a stage"],
)
def test_rows_of_a_table_leave_in_pieces(
    sql: str, broadcast_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tuples agree with many rows, none of them waits for all: a piece is made when the one
    before it has been sent."""
    rows = [("a", n, n) for n in range(100)]
    stream = Stream(SCHEMA, rows, ps.progress("t", ordered=True))
    query = ask(sql, s=stream, r=Table(TABLES["r"], [("a", n) for n in range(1_000)]))
    plan = physical_plan(query.plan, Settings(host=Host.SPARK, broadcast_rows=broadcast_rows))
    monkeypatch.setattr(lookup, "_MANY_PAIRS", 0)
    monkeypatch.setattr(tables, "LookupOperator", partial(LookupOperator, together=1_000))
    send_after(monkeypatch, 1_000)
    job = Steps(plan, 1)
    job.left = []
    joined = LookupOperator._joined

    def counting(*given: Any) -> Any:
        job.made += 1
        return joined(*given)

    monkeypatch.setattr(LookupOperator, "_joined", counting)
    run_in_cuts(job, query, {"s": [(0, 100)]}, 100, set())
    assert job.made == 100
    assert {1, 50, 100} <= set(job.left)
    assert len(job.received.table(query.plan)) == 100_000
