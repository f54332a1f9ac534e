"""Tables that tuples are looked up in: every run reads them once, before the first tuple.

Their rows are not among those that a query has read.  Bad ones are rejected like others, by every
run, under the name of the table.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.model.clock import Clock
from penstock.operators.batch import Batch
from penstock.operators.build import operator_for
from penstock.operators.joins.lookups.lookup import LookupOperator
from penstock.optimizer.physical.lower import lower_node
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Scan
from penstock.plan.properties.reading import scans_of
from penstock.plan.streams import no_source
from penstock.sources.rejects import Reject, RejectLog


class Tables:
    """The tables of a run; one that several look into is read once."""

    def __init__(self, clock: Clock, strict: bool = False) -> None:
        self._clock = clock
        self._strict = strict
        self._read: dict[int, list[pa.RecordBatch]] = {}  # by stream
        self._rejects: dict[int, list[Reject]] = {}

    def rows(self, lookup: Lookup) -> pa.RecordBatch:
        """The table of a look-up, filtered and projected as it says."""
        table = lookup.table
        schema = table.schema.arrow
        rows = pa.Table.from_batches(self._batches(table), schema)
        columns = [column.combine_chunks() for column in rows.columns]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def rejects(self, lookup: Lookup) -> list[tuple[int, list[Reject]]]:
        """The bad rows of its tables, by table."""
        tables = dict.fromkeys(id(scan.stream) for scan in scans_of(lookup.table))
        return [(table, self._rejects[table]) for table in tables]

    def _batches(self, node: Node) -> list[pa.RecordBatch]:
        if isinstance(node, Scan):
            return [each.rename_columns(node.schema.arrow.names) for each in self._scanned(node)]
        operator = operator_for(lower_node(node), self._clock)
        if isinstance(node, Lookup) and isinstance(operator, LookupOperator):
            operator.fill(self.rows(node))
        made = []
        for port, each in enumerate(node.inputs):
            for batch in self._batches(each):
                found = operator.on_batch(port, Batch(batch))
                made += [item.rows for item in found if isinstance(item, Batch)]
        return made

    def _scanned(self, scan: Scan) -> list[pa.RecordBatch]:
        stream = scan.stream
        if id(stream) not in self._read:
            if stream.source is None:
                raise no_source(stream)
            log = RejectLog(self._strict)
            chunks = stream.source.read(stream.input_schema, log.of_table(stream.name))
            self._read[id(stream)] = [chunk.batch for chunk in chunks]
            self._rejects[id(stream)] = log.take()
        return self._read[id(stream)]
