"""Lookup tables, as Spark's workers get them: the driver reads each once for every run, and writes
it to a file.

On one machine, workers map the file into their memory.  On a cluster, Spark sends it to them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.io.sources.rejects import Reject
from penstock.model.clock import SystemClock
from penstock.model.types import Schema
from penstock.optimizer.rewrite import with_inputs
from penstock.plan.nodes.join import Lookup, equal_keys
from penstock.plan.nodes.node import Node, Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import scans_of
from penstock.plan.streams import StreamDefinition
from penstock.runs.lookup_tables import Tables
from penstock.spark.stages import TableFile
from penstock.spark.tasks.buckets import Router

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableFiles:
    """Reads lookup tables, and writes their rows to files for the workers."""

    def __init__(
        self,
        query: QueryPlan,
        spark: SparkSession | None,
        directory: Path,
        strict: bool,
        buckets: int,
    ) -> None:
        """Take the query, because the executed plan has no sources.  The directory is created if
        there is a table."""
        self._streams: Mapping[str, StreamDefinition] = {
            scan.stream.name: scan.stream for scan in scans_of(query.input)
        }
        self._sourced: dict[tuple[str, Schema], StreamDefinition] = {}
        self._spark = spark
        self._directory = directory
        self._buckets = buckets
        self._tables = Tables(SystemClock(), strict)
        self._rejects: dict[int, list[Reject]] = {}  # by table

    @property
    def rejects(self) -> list[Reject]:
        """Rejected rows of all tables."""
        return [reject for of_table in self._rejects.values() for reject in of_table]

    def whole(self, lookup: Lookup) -> TableFile:
        """File with all rows of a table."""
        return self._file(self._rows(lookup))

    def parts(self, lookup: Lookup) -> tuple[TableFile, ...]:
        """Files with the rows for each bucket, by the look-up keys."""
        rows = self._rows(lookup)
        pairs, _ = equal_keys(lookup.input.schema, lookup.table.schema, lookup.condition)
        router = Router([its for _, its in pairs], lookup.table.schema, self._buckets)
        of_rows = router.buckets(rows)
        places = [pa.array(np.flatnonzero(of_rows == each)) for each in range(self._buckets)]
        return tuple(self._file(rows.take(own)) for own in places)

    def _rows(self, lookup: Lookup) -> pa.RecordBatch:
        sourced = replace(lookup, table=self._with_sources(lookup.table))
        rows = self._tables.rows(sourced)
        self._rejects.update(self._tables.rejects(sourced))
        return rows

    def _with_sources(self, node: Node) -> Node:
        if not isinstance(node, Scan):
            return with_inputs(node, self._with_sources)
        place = (node.stream.name, node.stream.schema)
        if place not in self._sourced:  # one and the same for all, so that it is read once
            known = self._streams[node.stream.name]
            self._sourced[place] = replace(node.stream, source=known.source, answer=known.answer)
        return replace(node, stream=self._sourced[place])

    def _file(self, rows: pa.RecordBatch) -> TableFile:
        self._directory.mkdir(exist_ok=True)
        path = self._directory / f"{uuid.uuid4().hex}.arrow"
        context = self._spark.sparkContext if self._spark is not None else None
        if context is None or str(context.master).startswith("local"):
            return TableFile.write(rows, path)
        made = TableFile.write(rows, path, sent=True)
        context.addFile(made.path)
        return made
