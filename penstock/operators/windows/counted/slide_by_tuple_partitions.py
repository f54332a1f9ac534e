"""What slide-by-tuple windows keep of a partition: tuples in the order of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.folding.folder import Folder, Rows
from penstock.operators.windows.counted.partitions import Partition, localized
from penstock.operators.windows.counted.stretches import Extents
from penstock.state.chunks import Tree
from penstock.windows.columns import floor_div
from penstock.windows.slide_by_tuple import SlideByTuple


class Raw(NamedTuple):
    """A tuple from which nothing has been computed yet."""

    batch: pa.RecordBatch
    ticks: Ints


class LateBinTuple(NamedTuple):
    """A late tuple that still counts in windows: from its bound, which takes the place of its start
    bin, to before its end bin.  It is raw until there is such a window."""

    start: int
    end: int
    rows: Rows | Raw


class BinPartition(Partition):
    """The tuples of one partition that windows still to come may contain."""

    def __init__(
        self, folder: Folder, window: SlideByTuple, computed: Callable[[Raw], Rows]
    ) -> None:
        super().__init__(folder)
        self.window = window
        self._computed = computed  # by the codes that keys have in the stream
        self.extents = Extents(folder)
        self.ticks: Ints = np.zeros(0, np.int64)  # of the rows in `extents`
        self.stragglers: list[LateBinTuple] = []

    @property
    def empty(self) -> bool:
        return not len(self.ticks) and not self.stragglers

    def append(self, rows: Rows) -> None:
        self.extents.append(rows)
        self.ticks = np.concatenate([self.ticks, rows.positions])

    def mark(self, live: Mask) -> None:
        self.extents.mark(live)
        for late in self.stragglers:
            if isinstance(late.rows, Rows):
                live[late.rows.codes] = True

    def renumber(self, codes: Codes, place: Codes) -> None:
        self.extents.renumber(codes, place)
        self.stragglers = [
            late._replace(rows=replace(late.rows, codes=place[late.rows.codes]))
            if isinstance(late.rows, Rows)
            else late
            for late in self.stragglers
        ]

    def windows(self, opened: Ints) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The groups of windows, as often as each was opened."""
        ids, times = np.unique(opened, return_counts=True)
        below = floor_div(ids, plus=-self.window.range, by=1)
        first = self.extents.first
        begins = first + np.searchsorted(self.ticks, below, side="right")
        ends = first + np.searchsorted(self.ticks, ids, side="right")
        extra = []
        for number, late in enumerate(self.stragglers):
            i, j = np.searchsorted(ids, [late.start, late.end]).tolist()
            if i < j:
                rows = late.rows
                if isinstance(rows, Raw):
                    rows = localized(self.folder, self._computed(rows))
                    self.stragglers[number] = late._replace(rows=rows)
                extra.append((i, j, rows))
        for which, columns in self.extents.of(begins, ends, extra):
            if (times[which] == 1).all():
                yield ids[which], columns
            else:
                repeated = _again(which, times[which])
                again = [column.take(pa.array(repeated)) for column in columns]
                yield ids[which[repeated]], again

    def forget(self, bound: Bound) -> None:
        """Drop what no window at or above the bound contains."""
        gone = len(self.ticks)
        if bound != END:
            gone = int(np.searchsorted(self.ticks, int(bound) - self.window.range, side="right"))
        if gone:
            self.extents.drop(self.extents.first + gone)
            self.ticks = self.ticks[gone:]
        if self.stragglers:
            self.stragglers = [late for late in self.stragglers if late.end > bound]


def _again(which: Ints, times: Ints) -> Ints:
    """Places of rows, those of each window as often as it was opened, one opening after the other.

    >>> _again(np.array([4, 4, 5]), np.array([2, 2, 1])).tolist()
    [0, 1, 0, 1, 2]
    """
    places = np.repeat(np.arange(len(which)), times)
    opening = np.arange(len(places)) - np.repeat(np.cumsum(times) - times, times)
    return places[np.lexsort((places, opening, which[places]))]


def late_piece(part: int, start: int, end: int, rows: Rows | Raw) -> tuple[Tree, Bound]:
    own = {"rows": rows.save()} if isinstance(rows, Rows) else {"raw": list(rows)}
    return {"part": part, "start": start, "end": end, **own}, end


def by_part(parts: Ints, ticks: Ints) -> Iterator[tuple[int, Ints]]:
    if len(parts):
        order = stable_order(parts)
        different, starts = np.unique(parts[order], return_index=True)
        yield from zip(different.tolist(), np.split(ticks[order], starts[1:]), strict=True)
