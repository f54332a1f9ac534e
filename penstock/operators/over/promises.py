"""What is promised about the columns of rows that wait before they leave.

Rows leave by one key.  Another column may have been promised further while rows still wait that are
below that: its promise is no higher than these.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.bounds import BoundOf
from penstock.operators.operator import Progress
from penstock.operators.revising.amendment import behind
from penstock.operators.ticks import to_ticks
from penstock.physical.asked import Asked
from penstock.plan.expressions import Column
from penstock.plan.nodes.over import Over
from penstock.state.chunks import Tree

_MANY = 64  # batches of waiting rows that are looked through one by one


class Promises:
    """All progressing columns of a node."""

    def __init__(self, node: Over, asked: Asked | None) -> None:
        self._columns = []
        for each in node.progress:
            column = Column.of(each.field)
            grace = 0 if asked is None else asked.grace(column.type)
            place = column.position(node.input.schema)
            self._columns.append(_PromisedColumn(column, place, column == node.time, grace))

    def wait(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        """Rows begin to wait, with the ticks of the key that they leave by."""
        for column in self._columns:
            column.wait(rows, ticks)

    def leave(self, rows: pa.RecordBatch) -> None:
        for column in self._columns:
            column.leave(rows)

    def progress(self, given: Progress, passed: Bound) -> Progress:
        """What follows when all rows have left whose keys are below a bound."""
        high = {each.name: each.high for each in self._columns if each.high is not None}
        bounds = {each.name: each.promised(given, passed) for each in self._columns}
        if given.ended:
            return Progress({}, high, ended=True)
        return Progress({name: low for name, low in bounds.items() if low != BEGINNING}, high)

    def save(self) -> Tree:
        return [column.save() for column in self._columns]

    def load(self, saved: Tree) -> None:
        for column, own in zip(self._columns, saved, strict=True):
            column.load(own)


class _PromisedColumn:
    def __init__(self, column: Column, place: int, completes: bool, grace: int | None) -> None:
        self.name = str(column)
        self.high: int | None = None  # of rows that have left
        self._place, self._type = place, column.type
        self._bound = BoundOf(column)
        self._completes, self._grace = completes, grace
        # the keys of waiting rows in order, and the lowest value from each of them on
        self._waiting: list[tuple[Ints, Ints]] = []

    def wait(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        if not self._completes and len(ticks):
            self._waiting.append(_from_the_end(ticks, self._ticks(rows)))
            if len(self._waiting) > _MANY:
                both = (np.concatenate(each) for each in zip(*self._waiting, strict=True))
                self._waiting = [_from_the_end(*both)]

    def leave(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            highest = int(self._ticks(rows).max())
            self.high = highest if self.high is None else max(self.high, highest)

    def _ticks(self, rows: pa.RecordBatch) -> Ints:
        return to_ticks(rows.column(self._place), self._type)

    def promised(self, given: Progress, passed: Bound) -> Bound:
        if self._completes:
            return passed
        if passed == END:
            self._waiting = []
        self._waiting = [each for each in self._waiting if each[0][-1] >= passed]
        bound = behind(self._bound.promised(given), self._grace)
        for keys, lowest in self._waiting:
            begin = 0 if passed <= keys[0] else int(np.searchsorted(keys, int(passed)))
            bound = min(bound, int(lowest[begin]))
        return bound

    def save(self) -> Tree:
        return {"waiting": [list(each) for each in self._waiting], "high": self.high}

    def load(self, saved: Tree) -> None:
        self._waiting = [(keys, lowest) for keys, lowest in saved["waiting"]]
        self.high = saved["high"]


def _from_the_end(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Keys in order, and the lowest of the values from each of them on.

    >>> _from_the_end(np.array([4, 2, 9]), np.array([1, 7, 5]))
    (array([2, 4, 9]), array([1, 1, 5]))
    """
    order = stable_order(keys)
    return keys[order], np.minimum.accumulate(values[order][::-1])[::-1]
