"""Running queries on Spark as tests want them: in portions, with failures, beside the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.io.sources.rejects import Reject
from penstock.kernel.batch import Batch, from_signed_record, signed_record
from penstock.model.punctuation import SIGN, sign_name
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Account, join_tables, plainly_named
from penstock.runs.collected_answer import final_rows
from penstock.spark.run.job_results import all_signed
from penstock.spark.run.streaming import Options, SparkRun
from tests.planning import on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Outcome(NamedTuple):
    table: pa.Table
    late: pa.Table
    account: Account


@dataclass
class Committed:
    """A receiver that keeps what belongs to complete micro-batches, as an exactly-once sink would.
    `fails_at` are micro-batches that fail once, after everything has been handed over; `after` is
    told which micro-batch is complete."""

    fails_at: set[int] = field(default_factory=set)
    after: Callable[[int], None] | None = None
    rows: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    late: dict[int, list[pa.Table]] = field(default_factory=dict)
    rejects: dict[int, list[Reject]] = field(default_factory=dict)
    _rows: list[pa.RecordBatch] = field(default_factory=list)
    _late: list[pa.Table] = field(default_factory=list)
    _rejects: list[Reject] = field(default_factory=list)

    def on_rows(self, batch: Batch) -> None:
        self._rows.append(signed_record(batch))

    def on_late(self, batch: pa.RecordBatch) -> None:
        self._late.append(pa.Table.from_batches([plainly_named(batch)]))

    def on_rejects(self, rejects: Sequence[Reject]) -> None:
        self._rejects += rejects

    def commit(self, batch_id: int) -> None:
        rows, late, rejects = self._rows, self._late, self._rejects
        self._rows, self._late, self._rejects = [], [], []
        if batch_id in self.fails_at:
            self.fails_at.remove(batch_id)
            raise CrashError(batch_id)
        self.rows[batch_id] = rows
        self.late[batch_id] = late
        self.rejects[batch_id] = rejects
        if self.after is not None:
            self.after(batch_id)

    def lose(self) -> None:
        """What was handed over and not committed, as when a process is killed."""
        self._rows, self._late, self._rejects = [], [], []

    def table(self, query: QueryPlan) -> pa.Table:
        batches = [batch for made in self.rows.values() for batch in made]
        if query.signed:
            return self._items(query, batches)
        batches = all_signed(batches)
        table = pa.Table.from_batches(batches, batches[0].schema if batches else query.schema.arrow)
        return final_rows(table) if SIGN in table.column_names else table

    def _items(self, query: QueryPlan, batches: list[pa.RecordBatch]) -> pa.Table:
        """Items of a difference, which are not taken back but come and go."""
        schema = query.schema.arrow
        schema = schema.append(pa.field(sign_name(schema.names), pa.int8()))
        rows = []
        for batch in batches:
            signs = from_signed_record(batch).signs
            plain = [
                column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
                if name != SIGN
            ]
            ones = np.ones(batch.num_rows, np.int8)
            columns = [*plain, pa.array(ones if signs is None else signs)]
            rows.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        return pa.Table.from_batches(rows, schema)

    def late_table(self, query: QueryPlan | None = None) -> pa.Table:
        return join_tables([table for made in self.late.values() for table in made], query)


class CrashError(Exception):
    """What a sink might do in the middle of a run."""


def streamed(query: ps.Query, spark: SparkSession, portions: int, buckets: int = 2) -> Outcome:
    """The whole run, in as many micro-batches, and one more for the end."""
    receiver = Committed()
    run = SparkRun(
        [on_spark(query.plan)], spark, [receiver], Options(portions=portions, buckets=buckets)
    )
    run.start()
    run.wait()
    return Outcome(receiver.table(query.plan), receiver.late_table(), run.account())
