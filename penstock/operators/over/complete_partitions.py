"""OVER and LIMIT where a key of the partition progresses: rows wait until their partition is
complete, and are put in order then.

With a limit on their number, only those wait that may be among the first: now and then all others
go.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.folding.key_order import sorted_places
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.groups.grouped import as_batch
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.over.frame_bounds import RowsInPartitions
from penstock.operators.over.partition_sorter import PartitionSorter
from penstock.operators.over.promises import Promises
from penstock.operators.revising.amendment import in_time_of
from penstock.operators.waiting import InTurn, WaitingRows
from penstock.physical.asked import Asked
from penstock.plan.nodes.over import Over
from penstock.state.chunks import ChunkStore

_FEW = 4096  # rows that may wait before those go that are beyond the limit


class CompletePartitions(Base):
    def __init__(self, node: Over, asked: Asked | None) -> None:
        given = node.input.schema
        self._node = node
        self._schema = node.schema.arrow
        self._names = given.arrow.names
        self._in_time = in_time_of(list(node.times), node.input, asked)
        self._waiting = WaitingRows()
        self._types = [each.type for each in node.partition]
        self._sorter = PartitionSorter(node)
        self._kept = 0  # rows, when those beyond the limit were last left out
        self._promises = Promises(node, asked)

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        rows, ticks, late = self._in_time.split(batch)
        yield from late
        if not rows.num_rows:
            return
        self._promises.wait(rows, ticks[0])
        self._waiting.add(rows, ticks[0])
        if self._node.most is not None and len(self._waiting) > max(_FEW, 2 * self._kept):
            self._reduce()

    def _reduce(self) -> None:
        """Leave only the rows that are within the limit among those that have come."""
        taken = self._waiting.take_all()
        if taken is None:
            return
        given, places = self._sorted(taken)
        kept = np.sort(places[self._sorter.within_limit(given)])
        self._waiting.add(taken.rows.take(pa.array(kept)), taken.ticks[kept])
        self._kept = len(kept)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound, *_ = self._in_time.final(progress)
        if bound != BEGINNING:
            taken = self._waiting.take(bound if bound == END else bound - 1)
            if taken is not None:
                answered = self._answered(taken)
                if answered.num_rows:  # OFFSET may leave none
                    yield Batch(answered)
                self._kept = min(self._kept, len(self._waiting))
        yield self._promises.progress(progress, bound)

    def _answered(self, taken: InTurn) -> pa.RecordBatch:
        """The rows of complete partitions: by the key that has completed them, then by all keys,
        and in the order that was asked for."""
        given, places = self._sorted(taken)
        targets = self._sorter.shown(given)
        made = self._sorter.answered(given, targets)
        firsts = self._sorter.keys(given.rows.take(pa.array(given.starts)))
        ranks = _ranks([pa.array(taken.ticks[places[given.starts]]), *firsts])
        order = stable_order(ranks[given.numbers[targets]])
        rows = given.rows.take(pa.array(targets[order]))
        columns = [each.take(pa.array(order)) for each in made]
        self._promises.leave(rows)
        return as_batch([*rows.columns, *columns], self._schema)

    def _sorted(self, taken: InTurn) -> tuple[RowsInPartitions, Ints]:
        rows = taken.rows
        codes = KeyCodes(self._types).encode(self._sorter.keys(rows), rows.num_rows)
        return self._sorter.sort(rows, codes)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return len(self._waiting)

    def open_results(self) -> OpenResults:
        return OpenResults(others=len(self._waiting))

    def save(self, store: ChunkStore) -> None:
        self._waiting.save(store)
        store.put("run", {"kept": self._kept, "promises": self._promises.save()})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._kept = saved["kept"]
        self._waiting.load(store, self._names)
        self._promises.load(saved["promises"])


def _ranks(columns: list[pa.Array]) -> Ints:
    """The place of each row in the order of some columns."""
    order = sorted_places(columns)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
