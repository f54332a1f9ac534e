"""What is promised about a column of rows that wait for their partition to be complete.

Rows leave by the key that completes their partition.  Another one may have been promised further
while some still wait that are below that: the promise is no higher than these.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.schema import Schema
from penstock.operators.bounds import BoundOf
from penstock.operators.operator import Progress
from penstock.operators.revising.amendment import behind
from penstock.operators.ticks import to_ticks
from penstock.plan.expressions import Column
from penstock.state.chunks import Tree


class PromisedColumn:
    def __init__(self, column: Column, schema: Schema, completes: bool, grace: int | None) -> None:
        self.name = str(column)
        self._place, self._type = column.position(schema), column.type
        self._bound = BoundOf(column)
        self._completes, self._grace = completes, grace
        self._lowest: dict[int, int] = {}  # by the tick of the key that completes: of those waiting
        self.high: int | None = None  # of rows that have left

    def wait(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        """Rows begin to wait, with the ticks of the key that completes them."""
        if self._completes:
            return
        own = to_ticks(rows.column(self._place), self._type)
        different, which = np.unique(ticks, return_inverse=True)
        lowest = np.full(len(different), np.iinfo(np.int64).max)
        np.minimum.at(lowest, which, own)
        for tick, low in zip(different.tolist(), lowest.tolist(), strict=True):
            self._lowest[tick] = min(low, self._lowest.get(tick, low))

    def leave(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            highest = int(to_ticks(rows.column(self._place), self._type).max())
            self.high = highest if self.high is None else max(self.high, highest)

    def promised(self, progress: Progress, passed: Bound) -> Bound:
        """The bound on later rows, when all have left that are below a bound on the key."""
        if self._completes:
            return passed
        if passed == END:
            self._lowest.clear()
        else:
            for tick in [each for each in self._lowest if each < passed]:
                del self._lowest[tick]
        bound = behind(self._bound.promised(progress), self._grace)
        return BEGINNING if bound == BEGINNING else min(bound, *self._lowest.values(), bound)

    def save(self) -> Tree:
        return {"lowest": [list(each) for each in self._lowest.items()], "high": self.high}

    def load(self, saved: Tree) -> None:
        self._lowest = dict(saved["lowest"])
        self.high = saved["high"]
