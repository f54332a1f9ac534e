"""Two-level aggregation as in Gigascope (section 8.3.3): a small table of fixed size reduces the
stream, a high level merges what it puts out.

A pane has one result per group in the end, but may leave the low level in several partial results:
whenever another (pane, group) needs the slot.  Merging makes the answer exact whatever is flushed
when, which is what freedom from order buys: no flush has to wait for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import PlanError
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.aggregates.counts import Counts
from penstock.operators.aggregates.runs import Runs
from penstock.operators.exact_sums import Ints
from penstock.operators.folding import Folder, Partials, Rows
from penstock.operators.operator import Item, Progress
from penstock.operators.paned import Paned
from penstock.operators.scatter import Codes
from penstock.plan.aggregates import WindowAggregate
from penstock.windows.columns import floor_div

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: neighbouring codes far apart


@dataclass(frozen=True, slots=True)
class LazyFlush:
    """Old panes leave only when their slots are needed, at the latest when they are more than
    `panes` behind."""

    panes: int = 1

    def __post_init__(self) -> None:
        if self.panes < 0:
            raise PlanError(f"a flush cannot be {self.panes} panes late", expected="0 or more")


@dataclass(frozen=True, slots=True)
class SlowFlush(LazyFlush):
    """Besides, one old partial result leaves for `every` so many tuples."""

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
        self.folder = folder or Folder(node.keys, node.aggregates, node.input.schema)
        self.pane: Ints = np.zeros(slots, np.int64)
        self.code: Codes = np.full(slots, -1)  # of the group in each slot; none: −1
        self.newest: Bound = BEGINNING  # the newest pane there was; what is not in it is old
        self.collisions = 0
        self._partials = self._new(slots)
        self._position = 0  # where the slow flush looks next
        self._owed = 0  # tuples for which it has not put anything out yet

    @property
    def slots(self) -> int:
        return len(self.code)

    def lowest(self) -> int | None:
        """The lowest pane that has not left yet."""
        used = self.code >= 0
        return int(self.pane[used].min()) if used.any() else None

    # --- tuples in -------------------------------------------------------------------------------

    def take_in(self, rows: Rows, panes: Ints) -> Iterator[PartialRows]:
        """Fold rows of some panes; what has to make room for them leaves."""
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
        """Some rows to their places in the table, or in other partial results."""
        if not chosen.any():
            return
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
        """Everything below this pane is complete; at END, all of it."""
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
            leaving = PartialRows(self.pane[slots], self.code[slots], _taken(self._partials, slots))
            _clear(self._partials, slots)
            self.code[slots] = -1
            yield leaving


class TwoLevel(Paned):
    """Paned-WID behind a low level: exact answers, at most `flush.panes` panes later than without.
    Late tuples that still count in some windows go straight to the high level."""

    def __init__(
        self, node: WindowAggregate, slots: int = 4096, flush: LazyFlush | None = None
    ) -> None:
        super().__init__(node)
        self.low = LowLevel(node, slots, flush or SlowFlush(), self.folder)

    def _fold(self, rows: Rows, ticks: Ints) -> None:
        panes = floor_div(ticks, plus=-self.window.origin, by=self.pane)
        self._merge(self.low.take_in(rows, panes))

    def on_progress(self, port: int, progress: Progress) -> Iterable[Item]:
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

    def _forget_keys(self) -> None:
        """The low level holds numbers of groups as well, so they stay as they are."""

    def _merge(self, flushed: Iterable[PartialRows]) -> None:
        for rows in flushed:
            for pane in np.unique(rows.panes).tolist():
                places = np.flatnonzero(rows.panes == pane)
                codes = rows.codes[places]
                spread = _spread(_taken(rows.partials, places), codes, int(codes.max()) + 1)
                self.folder.merge(self.panes.open(pane), spread)


# --- partial results by place ------------------------------------------------------------------
# A partial result is arrays whose last axis is the group and whose zero is "nothing yet", or runs
# of rows.  (These belong into Aggregate, as soon as someone else moves groups about.)


def _taken(partial: Any, places: Codes) -> Any:
    """The partial results of some groups, which become 0, 1, …"""
    return _mapped(partial, lambda array: array[..., places], lambda runs: _gathered(runs, places))


def _spread(partial: Any, codes: Codes, size: int) -> Any:
    """The other way round: groups 0, 1, … become `codes`, each of them named once."""

    def placed(array: Any) -> Any:
        wide = np.zeros((*array.shape[:-1], size), array.dtype)
        wide[..., codes] = array
        return wide

    def numbered(runs: Runs) -> Runs:
        other = Runs()
        other.rows = [(codes[groups], columns, where) for groups, columns, where in runs.rows]
        return other

    return _mapped(partial, placed, numbered)


def _clear(partial: Any, places: Codes) -> None:
    """Nothing is left of some groups."""
    match partial:
        case np.ndarray():
            partial[..., places] = 0
        case Runs():
            kept = []
            for groups, columns, where in partial.rows:
                rest = ~np.isin(groups, places)
                if rest.any():
                    chosen = [column.filter(pa.array(rest)) for column in columns]
                    kept.append((groups[rest], chosen, where[rest]))
            partial.rows = kept
        case list():
            for each in partial:
                _clear(each, places)
        case _ if hasattr(partial, "__dict__"):
            for each in vars(partial).values():
                _clear(each, places)


def _gathered(runs: Runs, places: Codes) -> Runs:
    found = Runs()
    groups, columns, where = runs.gather(places)
    if len(groups):
        found.rows = [(groups, columns, where)]
    return found


def _mapped(partial: Any, array: Any, runs: Any) -> Any:
    """The partial results with every array and every run of rows replaced."""
    match partial:
        case np.ndarray():
            return array(partial)
        case Runs():
            return runs(partial)
        case list():
            return [_mapped(each, array, runs) for each in partial]
        case _ if hasattr(partial, "__dict__"):
            other = copy(partial)
            for name, value in vars(partial).items():
                setattr(other, name, _mapped(value, array, runs))
            return other
    return partial
