"""What windows contain of signed items: those that are there and have not been taken back in them.

A window holds neighbouring items.  So it holds a positive item, and not the negative one that takes
it back, exactly if it is a window of the former and none of the latter.  Windows begin and end in
the order of items: what is left are those from the first of the positive item to before the first
of the negative one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.batch import Batch, Signs
from penstock.operators.folding.folder import Folder
from penstock.operators.signed.kept_items import KeptItems
from penstock.operators.signed.lineage import lineage_of, numbers_of, segments, signs_of, stacked
from penstock.operators.signed.netting import NOTHING, taken_back
from penstock.operators.windows.counted.stretches import fold_apart
from penstock.operators.windows.results import repeated
from penstock.state.chunks import ChunkStore

_AT_ONCE = 1 << 20  # rows that extents are expanded to at a time
_FIRST, _STOP = 0, 1


class NetExtents:
    """Positive items with their windows, from the first to before the last."""

    def __init__(self, folder: Folder, schema: pa.Schema) -> None:
        self._folder = folder
        self._items = KeptItems(schema, tags=2)
        self._groups: Codes = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._items)

    def settle(self, batch: Batch, positions: Ints, first: Ints, stop: Ints) -> None:
        """Take in items in the order in which they happen, with their windows."""
        inside = np.flatnonzero(first < stop)
        if not len(inside):
            return
        if len(inside) < batch.num_rows:
            batch = batch.take(inside)
            positions, first, stop = positions[inside], first[inside], stop[inside]
        items, known = self._items, len(self._items)
        groups = np.concatenate([self._groups, self._folder.codes(batch.rows)])
        signs = np.concatenate([items.signs, signs_of(batch)])
        lineage = stacked([items.lineage, lineage_of(batch)])
        firsts = np.concatenate([items.tags[_FIRST], first])
        stops = np.concatenate([items.tags[_STOP], stop])
        takers, taken = matched(groups, signs, lineage)
        stops[taken] = np.minimum(stops[taken], firsts[takers])
        lineage[taken, 0] = NOTHING  # they are not taken back again
        items.tags = np.stack([firsts[:known], stops[:known]])
        items.lineage = lineage[:known]
        kept = np.flatnonzero((signs[known:] > 0) & (firsts[known:] < stops[known:]))
        own = Batch(batch.rows, signs[known:], lineage=lineage[known:]).take(kept)
        items.add(own, positions[kept], (firsts[known:][kept], stops[known:][kept]))
        self._groups = np.concatenate([self._groups, groups[known:][kept]])
        self._forget(items.tags[_FIRST] >= items.tags[_STOP])  # in no window any more

    # --- windows ---------------------------------------------------------------------------------

    def windows(self, begin: int, end: int) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The windows from `begin` to before `end` that have groups: ids, keys and results.  Those
        that hold the same items are folded once."""
        first, stop = self._items.tags
        first, stop = np.maximum(first, begin), np.minimum(stop, end)
        some = first < stop
        points, places = np.unique(np.concatenate([first[some], stop[some]]), return_inverse=True)
        steps = np.repeat([1, -1], np.count_nonzero(some))
        held = np.cumsum(np.bincount(places, steps, len(points)).astype(np.int64))
        different = np.flatnonzero(held[:-1] > 0)
        ids = points[different]
        alike = points[different + 1] - ids
        for which, columns in self._folded(ids):
            if (alike[which] == 1).all():
                yield ids[which], columns
                continue
            for window in np.unique(which).tolist():
                own = pa.array(np.flatnonzero(which == window))
                begin_, size = int(ids[window]), int(alike[window])
                yield from repeated(begin_, begin_ + size, [each.take(own) for each in columns])

    def at(self, ids: Ints, counts: Ints) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The same for some windows, which ascend, each so many times."""
        for which, columns in self._folded(ids):
            again = counts[which]
            if (again == 1).all():
                yield ids[which], columns
                continue
            for window in np.unique(which).tolist():
                own = np.tile(np.flatnonzero(which == window), int(counts[window]))
                taken = [each.take(pa.array(own)) for each in columns]
                yield np.full(len(own), ids[window]), taken

    def _folded(self, ids: Ints) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """For the groups of windows, which ascend: the place of the window, keys and results."""
        first, stop = self._items.tags
        begins, ends = np.searchsorted(ids, first), np.searchsorted(ids, stop)
        used = np.flatnonzero(begins < ends)
        if not len(used):
            return
        begins, ends = begins[used], ends[used]
        rows = self._folder.rows(self._items.batch(used).rows, self._items.ticks[used])
        held = np.cumsum(np.bincount(begins, minlength=len(ids) + 1))
        held -= np.cumsum(np.bincount(ends, minlength=len(ids) + 1))
        upto = np.cumsum(held[:-1])
        at = 0
        while at < len(ids):
            before = int(upto[at - 1]) if at else 0
            to = max(at + 1, int(np.searchsorted(upto, before + _AT_ONCE, "right")))
            low = np.maximum(begins, at)
            sizes = np.maximum(np.minimum(ends, to) - low, 0)
            places = np.repeat(np.arange(len(used)), sizes)
            which = np.arange(len(places)) + (low - np.cumsum(sizes) + sizes)[places]
            if len(places):
                yield fold_apart(self._folder, rows.take(places), which)
            at = to

    def pass_(self, window: int) -> None:
        """Windows before one have been given out."""
        self._forget(self._items.tags[_STOP] <= window)

    def _forget(self, gone: Mask) -> None:
        if gone.any():
            self._items.remove(gone)
            self._groups = self._groups[~gone]

    # --- state -----------------------------------------------------------------------------------

    def mark(self, live: Mask) -> None:
        live[self._groups] = True

    def renumber(self, place: Codes) -> None:
        self._groups = place[self._groups]

    def save(self, store: ChunkStore) -> None:
        self._items.save(store)

    def load(self, store: ChunkStore) -> None:
        self._items.load(store)
        if len(self._items):
            rows = self._items.batch(np.arange(len(self._items))).rows
            self._groups = self._folder.codes(rows)


def matched(groups: Codes, signs: Signs, lineage: Ints) -> tuple[Ints, Ints]:
    """The negative items that take something back in their group, and what."""
    known = np.flatnonzero(lineage[:, 0] >= 0)
    kinds = segments([groups[known], *numbers_of(lineage[known]).T]) if len(known) else known
    found = taken_back(kinds, signs[known])
    takers = np.flatnonzero(found != NOTHING)
    return known[takers], known[found[takers]]
