"""Batches too small to be worth folding one by one: they wait until they are many.

What a batch costs beside its rows is paid once for all of them.  Nobody notices, as results leave
with progress: who waits is settled before any window is released or state is saved.
"""

from __future__ import annotations

import pyarrow as pa

_ENOUGH = 1 << 13  # rows that are worth folding
_MANY = 128  # batches that are, so that no single tuple pays for too many others


class SmallBatches:
    """
    >>> waiting = SmallBatches()
    >>> waiting.add(pa.record_batch({"v": [1]}))
    []
    >>> waiting.add(pa.record_batch({"v": [2]}))
    []
    >>> [batch.to_pydict() for batch in waiting.take()]
    [{'v': [1, 2]}]
    """

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """What is enough by now, if anything is."""
        ready = []
        if self.batches and not batch.schema.equals(self.batches[0].schema):
            ready = self.take()
        self.batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _ENOUGH or len(self.batches) >= _MANY:
            ready += self.take()
        return ready

    def take(self) -> list[pa.RecordBatch]:
        """All that wait, as one batch (or some, where one cannot hold as much text)."""
        batches = self.batches
        if batches:
            self.batches, self._rows = [], 0
        if len(batches) < 2:
            return batches
        taken: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
        return taken
