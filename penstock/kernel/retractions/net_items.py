"""Signed items in windows: the items that wait, and the contents of windows net of what has been
retracted, for all rows or by partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch, Signs
from penstock.kernel.grouping.folding import DeadKeys, Folder
from penstock.kernel.joins.timed_inputs import KeptTuples
from penstock.kernel.retractions.lineage import (
    NOTHING,
    happening_order,
    lineage_of,
    numbers_of,
    segments,
    signs_of,
    stacked,
    taken_back,
)
from penstock.kernel.state import ChunkStore, Within, required
from penstock.kernel.windows.counted_rows import Partitions, fold_apart
from penstock.kernel.windows.results import repeated
from penstock.model.arrays import Codes, Ints, Mask, stable_order
from penstock.model.punctuation import Bound
from penstock.plan.nodes.aggregation import WindowAggregate


class KeptItems:
    """Signed items that are kept: rows with times, signs, lineage and so many columns of `tags`,
    which are numbers of the operator that keeps them."""

    def __init__(self, schema: pa.Schema, tags: int = 0) -> None:
        self._schema = schema
        self._rows = KeptTuples(schema)
        self.numbers: Ints = np.zeros(0, np.int64)
        self.ticks: Ints = np.zeros(0, np.int64)
        self.signs: Signs = np.zeros(0, np.int8)
        self.lineage: Ints = np.zeros((0, 1), np.int64)
        self.tags: Ints = np.zeros((tags, 0), np.int64)

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, batch: Batch, ticks: Ints, tags: Sequence[Ints] = ()) -> None:
        if batch.num_rows == 0:
            return
        self.numbers = np.concatenate([self.numbers, self._rows.add(batch.rows)])
        self.ticks = np.concatenate([self.ticks, ticks])
        self.signs = np.concatenate([self.signs, signs_of(batch)])
        self.lineage = stacked([self.lineage, lineage_of(batch)])
        own = np.stack(list(tags)) if len(self.tags) else np.zeros((0, batch.num_rows), np.int64)
        self.tags = np.concatenate([self.tags, own], axis=1)

    def batch(self, which: Ints) -> Batch:
        """Items at some places."""
        columns = self._rows.columns(self.numbers[which])
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return Batch(rows, self.signs[which], lineage=self.lineage[which])

    def remove(self, which: Mask) -> None:
        if not which.any():
            return
        self._rows.forget(self.numbers[which])
        left = ~which
        self.numbers, self.ticks = self.numbers[left], self.ticks[left]
        self.signs, self.lineage = self.signs[left], self.lineage[left]
        self.tags = self.tags[:, left]

    def below(self, bound: Bound) -> tuple[Batch, Ints, Ints] | None:
        """Take out the items below a bound, in the order in which they happen; their ticks and
        tags."""
        due = self.ticks < bound
        if not due.any():
            return None
        places = np.flatnonzero(due)
        places = places[
            happening_order(self.ticks[places], self.signs[places], self.lineage[places])
        ]
        found = self.batch(places), self.ticks[places], self.tags[:, places]
        self.remove(due)
        return found

    def save(self, store: ChunkStore) -> None:
        self._rows.save(store)
        beside = {"numbers": self.numbers, "ticks": self.ticks, "signs": self.signs}
        store.put("items", {**beside, "lineage": self.lineage, "tags": self.tags})

    def load(self, store: ChunkStore) -> None:
        self._rows.load(store)
        saved = required(store, "items")
        self.numbers, self.ticks, self.signs = saved["numbers"], saved["ticks"], saved["signs"]
        self.lineage, self.tags = saved["lineage"], saved["tags"]


# Net contents of windows: the positive items that have not been retracted in them.
#
# A window holds neighbouring items.  So it holds a positive item, and not the negative one that
# retracts it, exactly if it is a window of the former and none of the latter.  Windows begin and
# end in the order of items: the windows left are those from the first of the positive item to
# before the first of the negative one.

_AT_ONCE = 1 << 20  # rows that extents are expanded to at a time
_FIRST, _STOP = 0, 1


class NetExtents:
    """Net contents of windows.

    Positive items with their windows, from the first to before the last.
    """

    def __init__(self, folder: Folder, schema: pa.Schema) -> None:
        self._folder = folder
        self._items = KeptItems(schema, tags=2)
        self._groups: Codes = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._items)

    def settle(self, batch: Batch, positions: Ints, first: Ints, stop: Ints) -> None:
        """Merge items in the order in which they happen, with their windows."""
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
        lineage[taken, 0] = NOTHING  # they are not retracted again
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
        """Contents of some windows, which ascend, each repeated `counts` times."""
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
        """Drop the windows before one, which have been emitted."""
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


# The extents of several partitions of signed items, each with windows of its own.


class NetPartitions:
    """Net contents of windows by partition; `numbers` numbers the partitions, and counts the items
    of each."""

    def __init__(self, node: WindowAggregate) -> None:
        self._schema = node.input.schema.arrow
        self._folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.numbers = Partitions(node)
        self.extents: dict[int, NetExtents] = {}
        self._touched: set[int] = set()  # since the last save
        self._stored: set[int] = set()
        self._dead = DeadKeys(self._folder)

    def __len__(self) -> int:
        """Number of items that are kept."""
        return sum(map(len, self.extents.values()))

    def settle(self, batch: Batch, parts: Codes, positions: Ints, first: Ints, stop: Ints) -> None:
        """Merge items in the order in which they happen, each in its partition."""
        for part, own in by_part(parts):
            found = self.of(part)
            found.settle(batch.take(own), positions[own], first[own], stop[own])

    def of(self, part: int) -> NetExtents:
        if part not in self.extents:
            self.extents[part] = NetExtents(self._folder, self._schema)
        self._touched.add(part)
        return self.extents[part]

    def forget(self) -> None:
        """Drop empty partitions and dead keys."""
        self.extents = {part: each for part, each in self.extents.items() if len(each)}
        self._dead.forget(self._mark, self._renumber)

    def _mark(self, live: Mask) -> None:
        for each in self.extents.values():
            each.mark(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:  # noqa: ARG002
        for each in self.extents.values():
            each.renumber(place)

    def save(self, store: ChunkStore) -> None:
        self.numbers.save(store)
        for part in self._touched & self.extents.keys():
            self.extents[part].save(Within(store, f"parts/{part}/"))
        for part in self._stored - self.extents.keys():
            own = Within(store, f"parts/{part}/")
            for name in list(own.names()):
                own.drop(name)
        self._stored = (self._stored | self._touched) & self.extents.keys()
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        self.numbers.load(store)
        names = [name.split("/") for name in store.names() if name.startswith("parts/")]
        self._stored = {int(name[1]) for name in names}
        for part in sorted(self._stored):
            self.extents[part] = NetExtents(self._folder, self._schema)
            self.extents[part].load(Within(store, f"parts/{part}/"))


def by_part(parts: Codes) -> Iterator[tuple[int, Ints]]:
    """The places of each partition, in their order."""
    if not len(parts):
        return
    order = stable_order(parts)
    different, begins = np.unique(parts[order], return_index=True)
    yield from zip(different.tolist(), np.split(order, begins[1:]), strict=True)


def taken(columns: list[pa.Array], places: Ints) -> list[pa.Array]:
    return [column.take(pa.array(places)) for column in columns]
