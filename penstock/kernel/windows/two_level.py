"""Two-level aggregation as in Gigascope (section 8.3.3): a small table of fixed size that reduces a
stream, and a high level that merges its partial results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import PlanError
from penstock.kernel.aggregates.sums import Counts
from penstock.kernel.grouping.folding import Folder, Partials, Rows
from penstock.kernel.operator import Item, OpenResults, Progress, at_once, open_spans
from penstock.kernel.state import ChunkStore, required
from penstock.kernel.windows.open_windows import OpenPieces
from penstock.kernel.windows.paned import Paned
from penstock.model.arrays import Codes, Ints, Mask, floor_div
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: neighbouring codes far apart


# The low level: a small table of fixed size.


@dataclass(frozen=True, slots=True)
class LazyFlush:
    """Flush policy: old panes leave only when their slots are needed, at the latest when they are
    more than `panes` behind."""

    panes: int = 1

    def __post_init__(self) -> None:
        if self.panes < 0:
            raise PlanError(f"a flush cannot be {self.panes} panes late", expected="0 or more")


@dataclass(frozen=True, slots=True)
class SlowFlush(LazyFlush):
    """Flush policy: like `LazyFlush`, and one old partial result leaves for `every` so many
    tuples."""

    every: int = 1

    def __post_init__(self) -> None:
        LazyFlush.__post_init__(self)
        if self.every < 1:
            raise PlanError(f"a flush every {self.every} tuples", expected="1 or more")


@dataclass(frozen=True, slots=True)
class PartialRows:
    """Partial results as rows: their panes, their groups, and row i of all partial results.  No
    (pane, group) is in it twice."""

    panes: Ints
    codes: Codes
    partials: Partials

    def __len__(self) -> int:
        return len(self.panes)

    def by_pane(self, folder: Folder) -> Iterator[tuple[int, Partials]]:
        """The partial results of each pane, by group."""
        for pane in np.unique(self.panes).tolist():
            places = np.flatnonzero(self.panes == pane)
            codes = self.codes[places]
            taken = _taken(folder, self.partials, places)
            yield pane, _spread(folder, taken, codes, int(codes.max()) + 1)


class LowLevel:
    """A direct-mapped table: a group has one slot, whose content leaves when another pane or group
    comes.

    Batches are taken in whole, which changes when partial results leave, not what they add up to:
    the rows of a (pane, group) are folded together first, so that groups that take turns in one
    slot collide once a batch instead of at every turn; groups that meet in a slot follow each other
    in the order of their first rows, the one that is there being the first; and the partial results
    that a slow flush owes for the tuples of a batch leave after it.
    """

    def __init__(
        self,
        node: WindowAggregate,
        slots: int,
        flush: LazyFlush,
        folder: Folder | None = None,
    ) -> None:
        if slots < 1:
            raise PlanError(f"a table of {slots} slots", expected="1 or more")
        self.flush = flush
        self.folder = folder or Folder(
            node.keys, node.aggregates, node.input.schema, node.key_order
        )
        self.pane: Ints = np.zeros(slots, np.int64)
        self.code: Codes = np.full(slots, -1)  # of the group in each slot; none: −1
        self.newest: Bound = BEGINNING  # the newest pane there was; what is not in it is old
        self.collisions = 0
        self._partials = self._new(slots)
        self._position = 0  # where the slow flush looks next
        self._owed = 0  # tuples for which it has not put anything out yet
        self._touched = False  # whether the table has changed since the last save

    @property
    def slots(self) -> int:
        return len(self.code)

    def lowest(self) -> int | None:
        """The lowest pane that has not left yet."""
        used = self.code >= 0
        return int(self.pane[used].min()) if used.any() else None

    # --- tuples in -------------------------------------------------------------------------------

    def take_in(self, rows: Rows, panes: Ints) -> Iterator[PartialRows]:
        """Fold rows of some panes; emit the partial results that have to make room for them."""
        if not len(rows):
            return
        pairs = np.unique(panes, return_inverse=True)[1] * len(self.folder.keys) + rows.codes
        _, first, pair_of = np.unique(pairs, return_index=True, return_inverse=True)
        pane, code = panes[first], rows.codes[first]
        slot = self._slot_of(code)
        there = (self.code[slot] == code) & (self.pane[slot] == pane)
        # of those that are not there, the last to come stays
        order = np.flatnonzero(~there)[np.argsort(first[~there])]
        stays = np.zeros(len(pane), np.bool_)
        last = np.full(self.slots, -1)
        last[slot[order]] = order  # the last one wins
        stays[last[last >= 0]] = True
        passes = ~there & ~stays
        self._fold(rows, there[pair_of], slot[pair_of])
        evicted = slot[stays]
        evicted = evicted[self.code[evicted] >= 0]
        self.collisions += len(evicted) + int(np.count_nonzero(passes))
        yield from self._leave(evicted)
        self.pane[slot[stays]], self.code[slot[stays]] = pane[stays], code[stays]
        self._fold(rows, stays[pair_of], slot[pair_of])
        if passes.any():
            number = np.cumsum(passes) - 1
            passing = self._new(int(np.count_nonzero(passes)))
            self._fold(rows, passes[pair_of], number[pair_of], passing)
            yield PartialRows(pane[passes], code[passes], passing)
        self.newest = max(self.newest, int(panes.max()))
        yield from self._flush_late()
        yield from self._flush_slowly(len(rows))

    def _slot_of(self, codes: Codes) -> Ints:
        mixed = (codes.astype(np.uint64) * _SPREAD) >> np.uint64(32)
        return (mixed % np.uint64(self.slots)).astype(np.int64)

    def _fold(
        self, rows: Rows, chosen: Any, places: Codes, partials: Partials | None = None
    ) -> None:
        """Fold rows into their places in the table, or into other partial results."""
        if not chosen.any():
            return
        self._touched = True
        target = self._partials if partials is None else partials
        some = rows if chosen.all() else rows.take(np.flatnonzero(chosen))
        places = places[chosen]
        target.rows.fold(places)
        pairs = zip(self.folder.aggregates, target.parts, some.arguments, strict=True)
        for aggregate, part, arguments in pairs:
            picked = slice(None) if arguments.chosen is None else arguments.chosen
            if len(places[picked]):
                aggregate.fold(part, places[picked], arguments.columns, some.positions[picked])

    def _new(self, size: int) -> Partials:
        return Partials(Counts(size), [each.new(size) for each in self.folder.aggregates])

    # --- partial results out ---------------------------------------------------------------------

    def advance(self, pane: Bound) -> Iterator[PartialRows]:
        """Flush everything below this pane, which is complete; at END, the whole table."""
        self.newest = max(self.newest, pane)
        yield from self._flush_late()

    def _flush_late(self) -> Iterator[PartialRows]:
        if self.newest != BEGINNING:
            late = (self.code >= 0) & (self.pane < self.newest - self.flush.panes)
            yield from self._leave(np.flatnonzero(late))

    def _flush_slowly(self, tuples: int) -> Iterator[PartialRows]:
        if not isinstance(self.flush, SlowFlush):
            return
        owed, self._owed = divmod(self._owed + tuples, self.flush.every)
        old = np.flatnonzero((self.code >= 0) & (self.pane < self.newest))
        if len(old) and owed:
            round_ = np.argsort((old - self._position) % self.slots)[:owed]
            self._position = (int(old[round_[-1]]) + 1) % self.slots
            yield from self._leave(old[round_])

    def _leave(self, slots: Ints) -> Iterator[PartialRows]:
        if len(slots):
            taken = _taken(self.folder, self._partials, slots)
            leaving = PartialRows(self.pane[slots], self.code[slots], taken)
            self.code[slots] = -1
            left = np.flatnonzero(self.code >= 0)
            rest = _taken(self.folder, self._partials, left)
            self._partials = _spread(self.folder, rest, left, self.slots)
            self._touched = True
            yield leaving

    # --- state -----------------------------------------------------------------------------------

    def mark(self, live: Mask) -> None:
        """Mark the groups that are in the table."""
        live[self.code[self.code >= 0]] = True

    def clear(self) -> Iterator[PartialRows]:
        """Flush the whole table, because the numbers of groups, which say where their slots are,
        will change."""
        yield from self._leave(np.flatnonzero(self.code >= 0))

    def save(self, store: ChunkStore) -> None:
        """The table in one chunk, because its size is fixed."""
        registers = {"newest": self.newest, "position": self._position, "owed": self._owed}
        store.put("low", {**registers, "collisions": self.collisions})
        if self._touched:
            slots = np.flatnonzero(self.code >= 0)
            taken = _taken(self.folder, self._partials, slots)
            table = {"pane": self.pane[slots], "code": self.code[slots]}
            store.put("table", {**table, "slots": self.folder.save(taken, slots)})
            self._touched = False

    def load(self, store: ChunkStore) -> None:
        registers, table = required(store, "low"), store.get("table")
        self.newest, self._position = registers["newest"], registers["position"]
        self._owed, self.collisions = registers["owed"], registers["collisions"]
        if table is not None:
            slots, partials = self.folder.load_apart(table["slots"])
            self.pane[slots], self.code[slots] = table["pane"], table["code"]
            self._partials = _spread(self.folder, partials, slots, self.slots)


# --- partial results by place --------------------------------------------------------------------


def _taken(folder: Folder, partials: Partials, places: Codes) -> Partials:
    pairs = zip(folder.aggregates, partials.parts, strict=True)
    parts = [aggregate.take(part, places) for aggregate, part in pairs]
    return Partials(partials.rows.take(places), parts)


def _spread(folder: Folder, partials: Partials, codes: Codes, size: int) -> Partials:
    pairs = zip(folder.aggregates, partials.parts, strict=True)
    parts = [aggregate.spread(part, codes, size) for aggregate, part in pairs]
    return Partials(partials.rows.spread(codes, size), parts)


# The high level merges what the table emits.
#
# A pane has one result per group in the end, but may leave the low level in several partial
# results: whenever another (pane, group) needs the slot.  Merging makes the answer exact whatever
# is flushed when, which is what freedom from order buys: no flush has to wait for another.


class TwoLevel(Paned):
    """Paned-WID behind a low level: exact answers, at most `flush.panes` panes later than without.
    Late tuples that still count in some windows go straight to the high level."""

    stride = None  # it makes something of any progress

    def __init__(
        self, node: WindowAggregate, slots: int = 4096, flush: LazyFlush | None = None
    ) -> None:
        super().__init__(node)
        self.low = LowLevel(node, slots, flush or SlowFlush(), self.folder)

    def _fold(self, rows: Rows, ticks: Ints) -> None:
        panes = floor_div(ticks, plus=-self.window.origin, by=self.pane)
        self._merge(self.low.take_in(rows, panes))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._settle()
        bound = self._bound.promised(progress)
        if bound != BEGINNING:
            ended = bound == END
            self._merge(
                self.low.advance(END if ended else (int(bound) - self.window.origin) // self.pane)
            )
        yield from super().on_progress(port, progress)

    def _last_closed(self, bound: Bound) -> Bound:
        """Windows wait for their panes to leave the low level."""
        last, lowest = super()._last_closed(bound), self.low.lowest()
        return last if lowest is None else min(last, lowest // self.per_slide - 1)

    def _merge(self, flushed: Iterable[PartialRows]) -> None:
        for rows in flushed:
            for pane, partials in rows.by_pane(self.folder):
                self.folder.merge(self.panes.open(pane), partials)

    def open_results(self) -> OpenResults:
        open_ = super().open_results()
        panes = self.low.pane[self.low.code >= 0]
        if not len(panes):
            return open_
        first, stop = int(panes.min()), int(panes.max()) + self.per_window
        return open_ | open_spans((first // self.per_slide, stop // self.per_slide))

    # --- state -----------------------------------------------------------------------------------

    def _mark(self, live: Mask) -> None:
        super()._mark(live)
        self.low.mark(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        self._merge(self.low.clear())
        super()._renumber(codes, place)

    def save(self, store: ChunkStore) -> None:
        super().save(store)
        self.low.save(store)

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        if store.get("low") is not None:
            self.low.load(store)

    def export(self) -> OpenPieces:
        self._settle()
        self._merge(self.low.clear())
        return super().export()
