"""Batches too small to be worth folding one by one: they wait until they are many.

What a batch costs beside its rows is paid once for all of them.  Nobody notices, as results leave
with progress: who waits is settled before any window is released or state is saved.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.operators.batch import Batch

_ENOUGH = 1 << 13  # rows that are worth folding
_MANY = 128  # batches that are, so that no single tuple pays for too many others


class SmallBatches:
    """
    >>> waiting = SmallBatches()
    >>> waiting.add(Batch(pa.record_batch({"v": [1]})))
    []
    >>> waiting.add(Batch(pa.record_batch({"v": [2]})))
    []
    >>> [batch.rows.to_pydict() for batch in waiting.take()]
    [{'v': [1, 2]}]
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._rows = 0

    def add(self, batch: Batch) -> list[Batch]:
        """What is enough by now, if anything is.  Nothing but rows is kept of a batch."""
        ready = []
        if self.batches and not _alike(batch, self.batches[0]):
            ready = self.take()
        self.batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _ENOUGH or len(self.batches) >= _MANY:
            ready += self.take()
        return ready

    def take(self) -> list[Batch]:
        """All that wait, as one batch (or some, where one cannot hold as much text)."""
        batches = self.batches
        if batches:
            self.batches, self._rows = [], 0
        if len(batches) < 2:
            return batches
        form = batches[0].form
        if form is not None and all(each.form is form for each in batches):
            joined = form.records([each.values for each in batches])
        else:
            joined = pa.Table.from_batches([each.rows for each in batches])
            joined = joined.combine_chunks().to_batches()
        return [Batch(each) for each in joined]

    @property
    def rows_held(self) -> int:
        return self._rows


def _alike(one: Batch, other: Batch) -> bool:
    if one.form is not None and one.form is other.form:
        return True
    return bool(one.rows.schema.equals(other.rows.schema))
