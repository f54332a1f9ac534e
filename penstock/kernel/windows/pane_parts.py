"""Parts of shared panes: panes of the tuples that one filter lets through, pieces of time by cell
that are handed over to them, and the log in which pieces are saved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import gcd
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_predicate
from penstock.kernel.aggregates.build import build
from penstock.kernel.aggregates.sums import Counts
from penstock.kernel.filter_sets import FilterCells, ManyFilters
from penstock.kernel.grouping.folding import Folder, Partials, Rows
from penstock.kernel.state import ChunkStore, Tree, required
from penstock.kernel.windows.pane_windows import WindowsOfPanesOperator
from penstock.kernel.windows.panes import KeptPanes
from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import END, Bound
from penstock.plan.expressions import Expression, needed_for
from penstock.plan.nodes.aggregation import NamedAggregate, SharedPanes

_BY_POSITION = ("first", "last")
_MANY_PIECES = 16  # pieces that are kept for all, until a part needs its share
_TIMES = 8  # as many panes as a query would have alone, at the most


# Panes of the tuples that one filter lets through, for all queries with that filter.


class SortedRows(NamedTuple):
    """Rows in the order of pieces of time: the numbers of those, and where each begins and ends."""

    rows: Rows
    numbers: Ints
    cuts: Ints


class PanePart:
    """Panes of the tuples that one filter lets through.

    `calls` are its aggregates out of those of all parts that it is made of, `number` tells parts
    apart, and `turn` is that of the last piece which had been handed over when it was written, or
    began.
    """

    def __init__(
        self,
        node: SharedPanes,
        predicate: Expression | None,
        pane: int,
        users: Sequence[WindowsOfPanesOperator],
        calls: Sequence[NamedAggregate],
        number: int,
        turn: int = 0,
    ) -> None:
        schema = node.input.schema
        self.number = number
        self.turn = turn
        self.pane = pane
        self.predicate = predicate
        self.holds = None if predicate is None else compile_predicate(predicate, schema)
        self.needed = None if predicate is None else needed_for(predicate)
        wanted = {each.call for user in users for each in user.node.aggregates}
        found = [(place, each) for place, each in enumerate(calls) if each.call in wanted]
        self._places = [place for place, each in found if not counts_rows(each)]
        self.calls = own = [calls[place] for place in self._places]
        self.holistic = any(build(each.call).holistic for each in own)
        self._positioned = any(each.call.function.name in _BY_POSITION for each in own)
        self.folder = Folder(node.keys, own, schema, node.key_order)
        self.panes = KeptPanes(self.folder)
        self.users = list(users)
        self._queue: list[tuple[int, Partials, Codes]] = []
        self._lowest_queued: Bound = END
        known = {each.call: place for place, each in enumerate(own)}
        for user in users:
            places = [known.get(each.call) for each in user.node.aggregates]
            user.use(self.panes, pane, places, self.settle)

    def fold(self, batch: pa.RecordBatch, order: Ints | None, some: SortedRows, unit: int) -> bool:
        """Fold rows of a batch that are cut into pieces of `unit` ticks; `order` is their order in
        the batch.  Return whether there are any."""
        rows, cuts = some.rows, some.cuts
        positions = rows.positions if self._positioned else rows.codes  # not used
        rows = Rows(rows.codes, positions, [rows.arguments[place] for place in self._places])
        if self.holds is not None:
            mask = np.asarray(self.holds(batch))
            chosen = np.flatnonzero(mask if order is None else mask[order])
            if not len(chosen):
                return False
            if len(chosen) < len(rows):
                rows, cuts = self._taken(rows, chosen), np.searchsorted(chosen, cuts)
        numbers = some.numbers // (self.pane // unit)
        changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        first = [0, *changes.tolist()]
        for begin, end in zip(first, [*first[1:], len(numbers)], strict=True):
            if cuts[begin] < cuts[end]:
                pane = self.panes.open(int(numbers[begin]))
                self.folder.fold(pane, rows.slice(int(cuts[begin]), int(cuts[end])))
        return True

    def enqueue(self, number: int, partials: Partials, codes: Codes) -> None:
        """Enqueue partial results, which are merged by `add` when they are needed: merging takes a
        moment for every part, and there may be many parts."""
        self._queue.append((number, partials, codes))
        self._lowest_queued = min(self._lowest_queued, number)
        if len(self._queue) >= _MANY_PIECES:
            self.settle()

    def settle(self) -> None:
        """Merge all enqueued partial results."""
        if self._queue:
            later, self._queue, self._lowest_queued = self._queue, [], END
            for each in later:
                self.add(*each)

    def add(self, number: int, partials: Partials, codes: Codes) -> None:
        """Merge some groups of partial results of the aggregates of all parts, in the order of
        their keys' numbers, into a pane."""
        own = Partials(partials.rows, [partials.parts[place] for place in self._places])
        taken = self.folder.take_apart(own, codes)
        if taken.rows.rows.any():
            self.panes.add(number, taken)

    def remove_user(self, user: WindowsOfPanesOperator) -> bool:
        """Remove a query; return whether the part was used by it."""
        if user not in self.users:
            return False
        self.users.remove(user)
        return True

    def _taken(self, rows: Rows, chosen: Ints) -> Rows:
        if self._positioned:
            return rows.take(chosen)
        codes = rows.codes[chosen]
        return Rows(codes, codes, rows.arguments_at(chosen))

    def forget(self) -> bool:
        """Drop the panes that no query needs any more; return whether a store may have some of
        them."""
        passed = min((user.passed for user in self.users), default=None)
        if passed is not None and self.panes.numbers and self.panes.numbers[0] < passed:
            self.panes.forget(passed)  # type: ignore[arg-type]
            return self.panes.has_gone
        return False

    @property
    def needed_from(self) -> Bound:
        """Begin of the first pane, in ticks from the origin: nothing before it is needed."""
        numbers = self.panes.numbers
        lowest = min(numbers[0], self._lowest_queued) if numbers else self._lowest_queued
        return lowest if lowest == END else lowest * self.pane

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore, turn: int) -> None:
        """Write the panes that have changed, with all that has been handed over."""
        self.settle()
        self.turn = turn
        self.panes.save(store)


def counts_rows(aggregate: NamedAggregate) -> bool:
    """Panes count their rows anyway."""
    call = aggregate.call
    return call.function.name == "count" and not call.arguments and call.where is None


def common_panes(
    users: Sequence[WindowsOfPanesOperator],
) -> list[tuple[int, list[WindowsOfPanesOperator]]]:
    """Queries that have panes in common: those whose greatest common pane is not much smaller than
    what each would have alone.  The length of the panes, and the queries."""
    found: list[tuple[int, list[WindowsOfPanesOperator]]] = []
    for user in sorted(users, key=lambda each: each.pane):
        for place, (pane, others) in enumerate(found):
            common = gcd(pane, user.pane)
            if common * _TIMES >= others[0].pane:
                found[place] = common, [*others, user]
                break
        else:
            found.append((user.pane, [user]))
    return found


# The log of pieces of time by cell: each is saved once.
#
# When progress has passed a piece, every filter gets its part of it.  To write all these parts
# would cost as much as there are filters.  So the piece is written, and filters get their parts
# again when it is read.  A part that is written itself says up to which piece it has them.

_FEW = 16  # pieces that are not worth looking through


class PieceLog:
    """Log of pieces, each of which is saved once.

    `turn` is how many pieces have been handed over.  Nothing is held here until there has been a
    first save, for which all parts are written themselves.
    """

    def __init__(self) -> None:
        self.turn = 0
        self.used = False
        self._waiting: dict[int, Tree] = {}  # handed over since the last save, by turn
        self._begins: dict[int, int] = {}  # of all that are needed, in ticks from the origin
        self._gone: list[int] = []
        self._open: set[int] = set()  # pieces of the store that have not been handed over
        self._look_again = _FEW

    def add(self, begin: int, saved: Callable[[], Tree]) -> int:
        """Log a piece that is handed over; return its turn."""
        self.turn += 1
        if self.used:
            self._waiting[self.turn] = saved()
            self._begins[self.turn] = begin
        return self.turn

    def begin_anew(self) -> None:
        """Discard the pieces, because all parts will be written themselves."""
        self._gone += self._begins.keys() - self._waiting.keys()
        self._waiting, self._begins = {}, {}

    def forget(self, parts: Sequence[PanePart]) -> None:
        """Drop the pieces of which every part has all that it still needs; they are looked for
        whenever there are twice as many as the last time."""
        if len(self._begins) < self._look_again:
            return
        by_turn = sorted((part.turn, part.needed_from) for part in parts)
        turns = np.array([turn for turn, _ in by_turn], np.int64)
        lowest: list[Bound] = list(accumulate((needed for _, needed in by_turn), min))
        for turn, begin in list(self._begins.items()):
            without = int(turns.searchsorted(turn))  # parts that were not written since then
            if not without or begin < lowest[without - 1]:
                del self._begins[turn]
                if self._waiting.pop(turn, None) is None:
                    self._gone.append(turn)
        self._look_again = 2 * len(self._begins) + _FEW

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore, touched: Mapping[int, Tree], there: Collection[int]) -> None:
        """Write the log with the pieces that have not been handed over: those that tuples came to,
        and the numbers of all of them."""
        for turn, piece in self._waiting.items():
            store.put(f"pieces/{turn}", piece)
        for turn in self._gone:
            store.drop(f"pieces/{turn}")
        for number in self._open.difference(there):
            store.drop(f"open/{number}")
        for number, piece in touched.items():
            store.put(f"open/{number}", piece)
        self._waiting, self._gone, self._open = {}, [], set(there)
        self.used = True

    def load(self, store: ChunkStore, turn: int) -> dict[int, Tree]:
        """All pieces by turn, where parts have had those up to one `turn`.  Those that had not been
        handed over come last: now they are."""
        self.used = True
        names = [name.partition("/") for name in store.names()]
        done = sorted(int(number) for kind, _, number in names if kind == "pieces")
        found = {each: required(store, f"pieces/{each}") for each in done}
        self._begins = {each: _begin(piece) for each, piece in found.items()}
        self.turn = max([turn, *done])
        self._open = {int(number) for kind, _, number in names if kind == "open"}
        for number in sorted(self._open):
            piece = required(store, f"open/{number}")
            found[self.add(_begin(piece), lambda piece=piece: piece)] = piece  # type: ignore[misc]
        return found


def _begin(piece: Tree) -> int:
    return int(piece["number"] * piece["unit"])


# Partial results of many ranges of neighbouring cells, with one merge for each.
#
# Cells are cut into blocks of 1, 2, 4, … of them, and merged from the beginning of every block to
# each cell and from there to the end of the block.  A range is then the end of one block and the
# beginning of the next, of the size at which its ends fall apart (a disjoint sparse table).  So
# nothing needs to be subtracted, and all ranges of a size are merged at once.


def merged_ranges(folder: Folder, cells: Partials, groups: int, ranges: Ints) -> Partials:
    """For ranges from a first to a last cell, one in a row.  The groups of a cell stand
    together, cell by cell; `cells` is not to be used afterwards."""
    count = len(cells.rows.rows) // groups
    first, last = ranges.T
    levels = np.frexp((first ^ last).astype(np.float64))[1] - 1  # the highest bit that differs
    merged = nothing(folder, cells, len(ranges) * groups)
    alone = np.flatnonzero(levels < 0)
    put_in(folder, merged, alone, folder.take_apart(cells, groups_of(first[alone], groups)), groups)
    to_end, from_begin = folder.take_apart(cells, np.arange(count * groups)), cells
    for level in range(int(levels.max(initial=-1)) + 1):
        own = np.flatnonzero(levels == level)
        if len(own):
            found = folder.take_apart(to_end, groups_of(first[own], groups))
            folder.merge_apart(found, folder.take_apart(from_begin, groups_of(last[own], groups)))
            put_in(folder, merged, own, found, groups)
        numbers = np.arange(count)
        right = numbers[numbers >> level & 1 == 1]
        _add(folder, from_begin, right, (right >> level << level) - 1, groups)
        left = numbers[numbers >> level & 1 == 0]
        following = (left >> level) + 1 << level
        left, following = left[following < count], following[following < count]
        _add(folder, to_end, left, following, groups)
    return merged


def _add(folder: Folder, partials: Partials, to: Ints, of: Ints, groups: int) -> None:
    """Merge partial results of cells `of` into cells `to`."""
    taken = folder.take_apart(partials, groups_of(of, groups))
    put_in(folder, partials, to, taken, groups)


def nothing(folder: Folder, like: Partials, size: int) -> Partials:
    none = np.zeros(0, np.int64)
    return folder.spread_apart(folder.take_apart(like, none), none, size)


def put_in(folder: Folder, partials: Partials, cells: Ints, more: Partials, groups: int) -> None:
    """Merge partial results of some cells into those of more cells."""
    size = len(partials.rows.rows)
    folder.merge_apart(partials, folder.spread_apart(more, groups_of(cells, groups), size))


def groups_of(cells: Ints, groups: int, width: int | None = None) -> Codes:
    """Places of the groups of some cells, if cells have room for `width` of them."""
    begins = cells[:, None] * (groups if width is None else width)
    return (begins + np.arange(groups)).ravel()


# Tuples folded once for queries with different filters: by cell (see `FilterCells`) as well as by
# group and piece of time.  When progress has passed a piece, every filter gets the sum of its
# cells.

FEW = 3  # filters below which each is looked at by itself
_MANY_FILTERS = 32  # filters above which even single rows are folded by cell
_SMALL = 256  # groups of cells for a filter that take less time than to look at a batch for it
_SPARSE = 4  # groups of cells for a row, beyond which rows are folded for every filter


class CellPanes:
    """Pieces of time by cell, kept until progress passes them, or until results or state are asked
    for.  `parts` are those of the panes that the pieces go to, `folder` has the aggregates of all,
    which a store knows by their `numbers`, and `log` logs the pieces that are handed over.  Parts
    from the number `before` on did not exist when cells were found, and have nothing of them."""

    def __init__(
        self,
        node: SharedPanes,
        parts: Sequence[PanePart],
        folder: Folder,
        numbers: Sequence[int],
        log: PieceLog,
        before: int,
    ) -> None:
        self._unit = 1
        self._folder = folder
        self._numbers = list(numbers)
        self._log = log
        self._before = before
        self._schema = node.input.schema
        self._holds = {part.predicate: part.holds for part in parts}
        self._filters = list(self._holds)
        self.parts = list(parts)
        places = {filter_: place for place, filter_ in enumerate(self._filters)}
        self._filter_of = {part: places[part.predicate] for part in parts}
        self._cells = FilterCells(self._holds, self._schema)
        needed = [(part, part.needed) for part in parts]
        self._any = [part for part, within in needed if within is None]
        self._ranged = [part for part, within in needed if within is not None]
        self._many = ManyFilters([each for _, each in needed if each is not None], self._schema)
        self._width = 0  # groups of a cell that there is room for
        self._pieces: dict[int, Partials] = {}
        self._touched: set[int] = set()  # of these, since they were saved
        self._ranges: _FilterRanges | None = None

    def concerned(self, batch: pa.RecordBatch) -> list[PanePart]:
        """The parts that rows may be for."""
        chosen = [self._ranged[place] for place, _ in self._many.choose(batch)]
        return [part for part in (*self._any, *chosen) if part.users]

    def fold(self, batch: pa.RecordBatch, order: Ints | None, some: SortedRows, unit: int) -> bool:
        """Fold rows of a batch that are cut into pieces of `unit` ticks; return whether that is
        worth it."""
        self._unit = unit
        groups, rows = len(self._folder.keys), some.rows
        pieces = len(some.numbers)
        if not self._worth_it(groups, pieces, len(rows)):
            return False
        cells = self._cells.of(batch)
        if cells is None or not self._worth_it(groups, pieces, len(rows)):
            return False
        if groups > self._width:
            self.hand_over()
            self._width = 2 * groups
        cells = cells if order is None else cells[order]
        rows = Rows(cells * self._width + rows.codes, rows.positions, rows.arguments)
        cuts = some.cuts
        if cells.min() < 0:
            passing = np.flatnonzero(cells >= 0)
            rows, cuts = rows.take(passing), np.searchsorted(passing, cuts)
        size = len(self._cells) * self._width
        for place, number in enumerate(some.numbers.tolist()):
            begin, end = int(cuts[place]), int(cuts[place + 1])
            if begin < end:
                piece = self._pieces.get(number)
                if piece is None:
                    piece = self._pieces[number] = self._folder.folded(rows.slice(0, 0), size)
                self._folder.fold_apart(piece, rows.slice(begin, end), size)
                self._touched.add(number)
        return True

    def _worth_it(self, groups: int, pieces: int, rows: int) -> bool:
        """Whether rows are many, or filters, each of which would read every batch."""
        size = groups * max(1, len(self._cells))
        few_for_filters = len(self._filters) >= _MANY_FILTERS and size <= _SMALL * len(
            self._filters
        )
        return few_for_filters or size * pieces <= _SPARSE * rows

    def hand_over(self, before: Bound = np.inf) -> None:
        """Hand the pieces before a number over to the filters."""
        for number in sorted(each for each in self._pieces if each < before):
            piece = self._pieces.pop(number)
            self._touched.discard(number)
            saved = partial(self._saved, number, piece)
            turn = self._log.add(number * self._unit, saved)
            self._hand_over(number, piece, turn, self._before)

    def _hand_over(self, number: int, piece: Partials, turn: int, before: int) -> None:
        """Hand a piece over to all parts that have not had that turn."""
        folder, groups = self._folder, min(self._width, len(self._folder.keys))
        if self._ranges is None or self._ranges.cells < len(self._cells):
            self._ranges = _FilterRanges(self._cells)
        order = self._ranges.order
        folder.grow_to(piece, len(order) * self._width)
        cells = folder.take_apart(piece, groups_of(order, groups, self._width))
        merged = merged_ranges(folder, cells, groups, self._ranges.ranges)
        passing = nothing(folder, merged, len(self._filters) * groups)
        for filters, ranges in self._ranges.of_filters:
            more = folder.take_apart(merged, groups_of(ranges, groups))
            put_in(folder, passing, filters, more, groups)
        for part in self.parts:
            if part.turn < turn and part.number < before:
                begin = self._filter_of[part] * groups
                own = np.arange(begin, begin + groups)
                part.enqueue(number * self._unit // part.pane, passing, own)

    # --- state -----------------------------------------------------------------------------------

    def pieces_to_save(self) -> tuple[dict[int, Tree], list[int]]:
        """Pieces that have changed since the last time, and the numbers of all."""
        changed = {each: self._saved(each, self._pieces[each]) for each in self._touched}
        self._touched = set()
        return changed, list(self._pieces)

    def _saved(self, number: int, piece: Partials) -> Tree:
        """A piece with a row of each of its cells, which are numbered in another way tomorrow."""
        codes = np.flatnonzero(piece.rows.rows)
        cells, groups = np.divmod(codes, self._width)
        found, places = np.unique(cells, return_inverse=True)
        own = self._folder.take_apart(piece, codes)
        return {
            "number": number,
            "unit": self._unit,
            "width": self._width,
            "before": self._before,
            "calls": self._numbers,
            "cells": self._cells.rows(found),
            **self._folder.save(own, places * self._width + groups),
        }

    def take_back(self, saved: Tree, turn: int) -> None:
        """Hand a piece that was saved over to the parts that have not had that turn."""
        cells = self._cells.of(saved["cells"])
        if cells is None:  # together with those of other pieces, they are too many
            self._cells, self._ranges = FilterCells(self._holds, self._schema), None
            cells = self._cells.of(saved["cells"])
            assert cells is not None
        self._unit, self._width = saved["unit"], max(1, len(self._folder.keys))
        places, groups = np.divmod(saved["codes"], saved["width"])
        own = cells[places]
        left = np.flatnonzero(own >= 0)  # the filters of others may be gone
        if not len(left):
            return
        entries = self._loaded(saved)
        codes = own[left] * self._width + groups[left]
        size = len(self._cells) * self._width
        piece = nothing(self._folder, entries, size)
        while len(left):  # cells that are one today, one after the other
            codes_now, first = np.unique(codes, return_index=True)
            some = self._folder.take_apart(entries, left[first])
            self._folder.merge_apart(piece, self._folder.spread_apart(some, codes_now, size))
            codes, left = np.delete(codes, first), np.delete(left, first)
        before = saved.get("before", self._before)  # earlier, it was of all that were there
        self._hand_over(saved["number"], piece, turn, before)

    def _loaded(self, saved: Tree) -> Partials:
        """Restore partial results of the aggregates of today; those that were not saved are not
        asked for."""
        rows, parts = Counts.load(saved["rows"]), []
        places = {number: place for place, number in enumerate(saved["calls"])}
        for number, aggregate in zip(self._numbers, self._folder.aggregates, strict=True):
            place = places.get(number)
            known = place is not None
            parts.append(
                aggregate.load(saved["parts"][place]) if known else aggregate.new(len(rows.rows))
            )
        return Partials(rows, parts)


class _FilterRanges:
    """Ranges of cells by filter.

    The cells in an order in which those of a filter are neighbours where that is possible, and
    the ranges of every filter in it.
    """

    def __init__(self, cells: FilterCells) -> None:
        self.cells = len(cells)
        places = sorted(range(len(cells)), key=lambda number: cells.places[number])
        self.order = np.array(places, np.int64)
        passing = np.array(cells.passing)[self.order]
        beside = np.zeros((1, passing.shape[1]), np.bool_)
        changes = np.diff(np.concatenate([beside, passing, beside]), axis=0)
        filters, edges = np.nonzero(changes.T)  # where ranges begin and end, filter by filter
        owners = filters[::2]
        self.ranges = np.stack([edges[::2], edges[1::2] - 1], axis=1)
        # the first range of every filter that has one, then the second, and so on
        turns = np.arange(len(owners)) - owners.searchsorted(owners)
        numbers = [np.flatnonzero(turns == turn) for turn in range(int(turns.max(initial=-1)) + 1)]
        self.of_filters = [(owners[own], own) for own in numbers]
