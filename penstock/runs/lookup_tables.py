"""Tables: every run reads them once, before the first tuple, and computes queries over tables
alone.

Their rows are not among those that a query has read. Bad ones are rejected like others, by every
run, under the name of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.io.sources.memory import BATCH, BatchSource
from penstock.io.sources.rejects import Reject, RejectLog, StreamRejects
from penstock.io.sources.source import Chunk
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.joins.lookup import LookupOperator
from penstock.kernel.operator import Item, Progress
from penstock.kernel.progress.ingest import Ingest
from penstock.kernel.running.running_over import ones
from penstock.kernel.running.running_rows import left_over
from penstock.model.clock import Clock, SystemClock
from penstock.model.types import Schema
from penstock.optimizer.optimize import physical_plan, rewrite
from penstock.optimizer.rewrite import Settings, rewritten
from penstock.plan.nodes.join import Lookup
from penstock.plan.nodes.node import Node, Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalNode
from penstock.plan.properties import scans_of
from penstock.plan.streams import StreamDefinition, no_source


class Tables:
    """The tables of a run; one that several look-ups use is read once."""

    def __init__(self, clock: Clock, strict: bool = False) -> None:
        self._clock = clock
        self._strict = strict
        self._read: dict[int, list[pa.RecordBatch]] = {}  # by stream
        self._rejects: dict[int, list[Reject]] = {}

    def rows(self, lookup: Lookup) -> pa.RecordBatch:
        """Rows of the table of a look-up."""
        return self.answer(lookup.table)

    def rejects(self, lookup: Lookup) -> list[tuple[int, list[Reject]]]:
        """Bad rows of the tables, by table."""
        return self._rejects_of(lookup.table)

    def all_rejects(self) -> Iterator[Reject]:
        """Bad rows of all tables that have been read."""
        for each in self._rejects.values():
            yield from each

    def answer(self, node: Node) -> pa.RecordBatch:
        """Rows of a plan over tables alone."""
        settings = Settings()
        plan = physical_plan(rewrite(QueryPlan(node), settings), settings)
        rows = [item.rows for item in self._items(plan.root) if isinstance(item, Batch)]
        return _together(rows, node.schema.arrow)

    def _items(self, node: PhysicalNode) -> list[Item]:
        """Compute the items of a part of a plan: its rows, and the end. Every operator gets all
        rows at once; rows that some of them retract again are removed."""
        logical = node.logical
        if isinstance(logical, Scan):
            return self._scan_items(logical)
        operator = operator_for(node, self._clock)
        if isinstance(logical, Lookup) and isinstance(operator, LookupOperator):
            operator.fill(self.rows(logical))
        made: list[Item] = []
        for port, each in enumerate(node.inputs):
            for item in self._items(each):
                if isinstance(item, Batch):
                    made += operator.on_batch(port, item)
                elif isinstance(item, Progress):
                    made += operator.on_progress(port, item)
        return list(_settled(made, logical)) if logical.running and logical.stateful else made

    def _scan_items(self, scan: Scan) -> list[Item]:
        stream = scan.stream
        if stream.of_table is None:
            rows = _together(self._scanned(stream), scan.stream.schema.arrow)
            rows = rows.rename_columns(scan.schema.arrow.names)
            return [*([Batch(rows)] if rows.num_rows else []), Progress(ended=True)]
        log = RejectLog(self._strict)
        source = BatchSource(self._scanned(stream.of_table), stream.name)
        ends = replace(scan, stream=replace(stream, source=source))
        items = list(Ingest(ends, self._clock, log).items())
        self._rejects.setdefault(id(stream), log.take())
        return items

    def _scanned(self, stream: StreamDefinition) -> list[pa.RecordBatch]:
        if id(stream) not in self._read:
            if stream.answer is not None:
                self._read[id(stream)] = [_named(self.answer(stream.answer), stream.schema)]
                return self._read[id(stream)]
            if stream.source is None:
                raise no_source(stream)
            log = RejectLog(self._strict)
            chunks = stream.source.read(stream.input_schema, log.of_table(stream.name))
            self._read[id(stream)] = [chunk.batch for chunk in chunks]
            self._rejects[id(stream)] = log.take()
        return self._read[id(stream)]

    def _rejects_of(self, node: Node) -> list[tuple[int, list[Reject]]]:
        streams = [scan.stream for scan in scans_of(node)]
        streams += [each.of_table for each in streams if each.of_table is not None]
        tables = dict.fromkeys(map(id, streams))
        return [(table, self._rejects.get(table, [])) for table in tables]


def _together(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    columns = [each.combine_chunks() for each in pa.Table.from_batches(batches, schema).columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _named(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns, schema=schema.arrow)


def _settled(made: list[Item], node: Node) -> Iterator[Item]:
    """Yield the rows that remain after retractions, and the end."""
    batches = [item for item in made if isinstance(item, Batch)]
    rows = _together([each.rows for each in batches], node.schema.arrow)
    given = [ones(each.num_rows) if each.signs is None else each.signs for each in batches]
    signs = np.concatenate([np.zeros(0, np.int8), *given])
    if (signs < 0).any():
        rows = rows.take(pa.array(left_over(rows.columns, signs)))
    if rows.num_rows:
        yield Batch(rows)
    yield Progress(ended=True)


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """Rows of a plan over tables alone, which is computed when they are read; in batches."""

    answer: Node
    batch: int = BATCH

    def describe(self) -> str:
        names = dict.fromkeys(
            scan.stream.name for scan in scans_of(self.answer) if scan.stream.answer is None
        )
        return f"ANSWER ({', '.join(names)})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        tables = Tables(SystemClock(), rejects.log.strict)
        rows = _named(tables.answer(self.answer), schema)
        for reject in tables.all_rejects():
            rejects.log.add(reject)
        for first in range(0, rows.num_rows, self.batch):
            yield Chunk(rows.slice(first, self.batch))


def with_answers(query: QueryPlan) -> QueryPlan:
    """Give the query a source for each answer over tables that it reads like a stream."""
    sourced: dict[int, StreamDefinition] = {}

    def change(node: Node) -> Node:
        if not isinstance(node, Scan) or node.stream.answer is None:
            return node
        if id(node.stream) not in sourced:
            source = AnswerSource(node.stream.answer)
            sourced[id(node.stream)] = replace(node.stream, source=source)
        return replace(node, stream=sourced[id(node.stream)])

    return rewritten(query, change)
