"""OVER and LIMIT without an end (EMIT CHANGES): rows of a partition are put in order again whenever
one comes to it or goes, and what has changed is said.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes
from penstock.operators.batch import Batch
from penstock.operators.folding.key_expiry import MANY
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.groups.grouped import as_batch
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.over.partition_sorter import PartitionSorter
from penstock.operators.running.leading_rows import LeadingRows
from penstock.operators.running.netting import said
from penstock.operators.running.partition_rows import (
    Numbered,
    PartitionRows,
    WholePartitions,
    ones,
)
from penstock.physical.asked import Asked
from penstock.plan.nodes.over_calls import Numbering
from penstock.plan.nodes.running_over import RunningOver
from penstock.state.chunks import ChunkStore


class RunningPartitions(Base):
    def __init__(self, node: RunningOver, asked: Asked | None = None) -> None:  # noqa: ARG002
        self._schema = node.schema.arrow
        self._sorter = PartitionSorter(node)
        self._types = [each.type for each in node.partition]
        self._keys = KeyCodes(self._types)
        self._rows = rows_of(node, self._sorter)
        self._look_again = MANY

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        signs = ones(batch.num_rows) if batch.signs is None else batch.signs
        changed = self._rows.change(Numbered(batch.rows, self._codes_of(batch.rows)), signs)
        before, after = self._answered(changed.before), self._answered(changed.after)
        change = np.concatenate([-ones(before.num_rows), ones(after.num_rows)])
        batch_said = said(pa.concat_batches([before, after]), change)
        if batch_said is not None:
            yield batch_said
        self._forget_keys()

    def _codes_of(self, rows: pa.RecordBatch) -> Codes:
        return self._keys.encode(self._sorter.keys(rows), rows.num_rows)

    def _answered(self, rows: Numbered) -> pa.RecordBatch:
        given, _ = self._sorter.sort(*rows)
        targets = self._sorter.shown(given)
        made = self._sorter.answered(given, targets)
        return as_batch([*given.rows.take(pa.array(targets)).columns, *made], self._schema)

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        return [Progress(ended=progress.ended)]

    # --- state -----------------------------------------------------------------------------------

    def _forget_keys(self) -> None:
        """Number partitions anew when most of them have no rows any more."""
        if len(self._keys) < self._look_again:
            return
        runs = [run for kept in self._rows.kept() for run in kept.runs]
        live = set[int]().union(*(np.unique(run.codes).tolist() for run in runs))
        if 2 * len(live) < len(self._keys):
            self._keys = KeyCodes(self._types)
            self._rows.renumber(self._codes_of)
        self._look_again = max(MANY, 2 * len(self._keys))

    def rows_held(self) -> int:
        return len(self._rows)

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN  # all of them are out, as they are

    def save(self, store: ChunkStore) -> None:
        self._rows.save(store)

    def load(self, store: ChunkStore) -> None:
        self._rows.load(store, self._codes_of)


def rows_of(node: RunningOver, sorter: PartitionSorter) -> PartitionRows:
    """What is kept for a node: of rows with arrays and the like, no other order is known."""
    numbered = all(isinstance(each.call, Numbering) for each in node.calls)
    nested = any(field.type.is_nested for field in node.input.schema)
    if node.most is None or node.forgets or nested or not numbered:
        return WholePartitions(node, sorter)
    return LeadingRows(node, sorter)
