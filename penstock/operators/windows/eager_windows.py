"""The eager half of AdaptWID: partial results of open windows, for the groups that have a slot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import Bound
from penstock.operators.aggregates.by_group import ByGroup
from penstock.operators.aggregates.extremes.kept_values import KeptValues
from penstock.operators.aggregates.totals.counts import Counts
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.folding.scatter import grown
from penstock.operators.windows.wid import Tagged
from penstock.state.chunks import ChunkStore, required
from penstock.windows.sliding import Sliding

_NONE = np.iinfo(np.int64).min  # before every window


@dataclass
class OpenWindow:
    """Partial results of one window by slot; how many tuples have it as their last one (the
    thesis's tupleCnt), also by slot; and the bytes of both."""

    partials: Partials
    expiring: Ints
    size: int = 0


class EagerWindows:
    """A group has a slot, its place in the partial results of all windows, from when it turns eager
    until the last window that it was folded into is out."""

    def __init__(self, folder: Folder, window: Sliding) -> None:
        self._folder = folder
        self._window = window
        self.slot: Ints = np.full(1, -1)  # of each group
        self.owner: Ints = np.full(1, -1)  # the group of each slot
        self._until: Ints = np.full(1, _NONE)  # the last window each slot was folded into
        self.open: dict[int, OpenWindow] = {}
        self.bytes = 0
        self._touched: set[int] = set()  # windows, since the last save
        self._stored: set[int] = set()

    def grow(self, groups: int) -> None:
        self.slot = grown(self.slot, groups, -1)

    def assign(self, groups: Codes) -> None:
        """Give slots to those of the groups that have none."""
        groups = groups[self.slot[groups] < 0]
        free = np.flatnonzero(self.owner < 0)[: len(groups)]
        used = len(self.owner)
        slots = np.concatenate([free, np.arange(used, used + len(groups) - len(free))])
        size = used + len(groups) - len(free)
        self.owner = np.concatenate([self.owner, np.full(size - used, -1)])
        self._until = np.concatenate([self._until, np.full(size - used, _NONE)])
        self.owner[slots], self.slot[groups], self._until[slots] = groups, slots, _NONE

    def fold(self, tagged: Tagged, start: Bound) -> None:
        """Into the partial results of the windows from `start` on; all groups have slots."""
        ordered = tagged.in_order(self._window)
        slots = self.slot[ordered.rows.codes]
        rows = Rows(slots, ordered.rows.positions, ordered.rows.arguments)
        ordered = Tagged(rows, ordered.first, ordered.stop, ordered.raised)
        np.maximum.at(self._until, slots, ordered.stop - 1)
        for wid, inside in ordered.extents(self._window, start):
            found = self.open.get(wid)
            if found is None:
                found = self.open[wid] = self.new(len(self.owner))
            self.bytes -= found.size
            self.fold_into(found, inside)
            self.bytes += found.size
            self._touched.add(wid)
        lasts = ordered.stop - 1
        cuts = np.flatnonzero(np.append(True, np.diff(lasts) != 0))
        for begin, end in zip(cuts, [*cuts[1:], len(lasts)], strict=True):
            np.add.at(self.open[int(lasts[begin])].expiring, slots[begin:end], 1)

    def new(self, size: int) -> OpenWindow:
        parts = [aggregate.new(size) for aggregate in self._folder.aggregates]
        return OpenWindow(Partials(Counts(size), parts), np.zeros(size, np.int64))

    def fold_into(self, window: OpenWindow, rows: Rows) -> None:
        """`Folder.fold` with room for the slots instead of for all groups."""
        size, partials = int(rows.codes.max()) + 1, window.partials
        window.expiring = grown(window.expiring, size, 0)
        if size > len(partials.rows.rows):
            partials.rows.grow(size)
        pairs = zip(self._folder.aggregates, partials.parts, rows.arguments, strict=True)
        partials.rows.fold(rows.codes)
        for aggregate, part, arguments in pairs:
            aggregate.grow(part, len(partials.rows.rows))
            chosen = slice(None) if arguments.chosen is None else arguments.chosen
            codes, positions = rows.codes[chosen], rows.positions[chosen]
            if len(codes):
                aggregate.fold(part, codes, arguments.columns, positions)
        window.size = bytes_of((partials, window.expiring))

    def finish(self, window: OpenWindow, groups: Codes, places: Codes) -> list[pa.Array]:
        """The keys of groups, and their results at some places."""
        parts = zip(self._folder.aggregates, window.partials.parts, strict=True)
        finished = [aggregate.finish(part, places) for aggregate, part in parts]
        return [*self._folder.keys.take(groups), *finished]

    def close(self, wid: int) -> OpenWindow | None:
        """Take out a window."""
        found = self.open.pop(wid, None)
        self._touched.discard(wid)
        if found is not None:
            self.bytes -= found.size
        return found

    def free(self, eager: Mask, last: Bound) -> None:
        """Give up the slots of groups that are not eager any more, once their windows are out."""
        idle = np.flatnonzero(self.owner >= 0)
        idle = idle[~eager[self.owner[idle]] & (self._until[idle] <= last)]
        self.slot[self.owner[idle]] = -1
        self.owner[idle] = -1
        used = np.flatnonzero(self.owner >= 0)
        self.owner = self.owner[: used[-1] + 1 if len(used) else 0]
        self._until = self._until[: len(self.owner)]

    def by_group(self, window: OpenWindow) -> tuple[Codes, Partials]:
        """The groups that a window has, and their partial results, numbered apart."""
        slots = np.flatnonzero(window.partials.rows.rows)
        return self.owner[slots], self._folder.take_apart(window.partials, slots)

    # --- state -----------------------------------------------------------------------------------

    def renumber(self, codes: Codes, place: Codes) -> None:
        """The groups in `codes` stay and get new numbers; slots stay as they are."""
        self.slot = self.slot[codes]
        used = self.owner >= 0
        self.owner[used] = place[self.owner[used]]
        self._touched.update(self.open)

    def save(self, store: ChunkStore) -> None:
        """A chunk per window, by group: which slot a group has is not worth keeping."""
        for wid in self._touched & self.open.keys():
            window = self.open[wid]
            slots = np.flatnonzero(window.partials.rows.rows)
            pairs = zip(self._folder.aggregates, window.partials.parts, strict=True)
            parts = [aggregate.take(part, slots) for aggregate, part in pairs]
            taken = Partials(window.partials.rows.take(slots), parts)
            saved = self._folder.save(taken, self.owner[slots])
            store.put(f"windows/{wid}", {**saved, "expiring": window.expiring[slots]})
            self._stored.add(wid)
        for wid in self._stored - self.open.keys():
            store.drop(f"windows/{wid}")
        self._stored &= self.open.keys()
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        names = [name for name in store.names() if name.startswith("windows/")]
        self._stored = {int(name.partition("/")[2]) for name in names}
        self.grow(len(self._folder.keys))
        for wid in sorted(self._stored):
            chunk = required(store, f"windows/{wid}")
            codes, partials = self._folder.load_apart(chunk)
            self.assign(codes)
            slots, size = self.slot[codes], len(self.owner)
            pairs = zip(self._folder.aggregates, partials.parts, strict=True)
            parts = [aggregate.spread(part, slots, size) for aggregate, part in pairs]
            window = OpenWindow(
                Partials(partials.rows.spread(slots, size), parts), np.zeros(size, np.int64)
            )
            window.expiring[slots] = chunk["expiring"]
            window.size = bytes_of((window.partials, window.expiring))
            self.bytes += window.size
            self.open[wid] = window
            np.maximum.at(self._until, slots[chunk["expiring"] > 0], wid)


def bytes_of(kept: Any) -> int:
    """The bytes of all arrays in a piece of state; a Python value counts as the pointer to it."""
    if isinstance(kept, np.ndarray | pa.Array | ByGroup | KeptValues):
        return int(kept.nbytes)
    if isinstance(kept, list | tuple):
        return sum(bytes_of(each) for each in kept)
    if not type(kept).__module__.startswith("penstock.operators"):
        return 0  # types and functions are not state
    names: Iterable[str] = getattr(kept, "__slots__", ()) or getattr(kept, "__dict__", ())
    return sum(bytes_of(getattr(kept, name)) for name in names)
