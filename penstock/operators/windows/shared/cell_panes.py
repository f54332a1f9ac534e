"""Tuples folded once for queries with different filters: by cell (see `filter_cells.py`) as well as
by group and piece of time.  When progress has passed a piece, every filter gets the sum of its
cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import Bound
from penstock.operators.aggregates.totals.counts import Counts
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.stateless.many_filters import ManyFilters
from penstock.operators.windows.shared.cell_ranges import groups_of, merged_ranges, nothing, put_in
from penstock.operators.windows.shared.filter_cells import FilterCells
from penstock.operators.windows.shared.pane_part import PanePart, SortedRows
from penstock.operators.windows.shared.piece_log import PieceLog
from penstock.plan.nodes.shared_panes import SharedPanes
from penstock.state.chunks import Tree

FEW = 3  # filters below which each is looked at by itself
_MANY = 32  # filters above which even single rows are folded by cell
_SMALL = 256  # groups of cells for a filter that take less time than to look at a batch for it
_SPARSE = 4  # groups of cells for a row, beyond which rows are folded for every filter


class CellPanes:
    """Pieces are kept until progress passes them, or until somebody wants to know what there is.
    `parts` are those of the panes that they go to, `folder` has the aggregates of all, which a
    store knows by their `numbers`, and `log` is told of what is handed over.  Parts from the number
    `before` on were not there when cells were found, and have nothing of them."""

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
        """Rows of a batch that are cut into pieces of `unit` ticks; whether that is worth it."""
        self._unit = unit
        groups, rows = len(self._folder.keys), some.rows
        pieces = len(some.numbers)
        if not self._pays(groups, pieces, len(rows)):
            return False
        cells = self._cells.of(batch)
        if cells is None or not self._pays(groups, pieces, len(rows)):
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

    def _pays(self, groups: int, pieces: int, rows: int) -> bool:
        """If rows are many, or filters, each of which would look at every batch."""
        size = groups * max(1, len(self._cells))
        few_for_filters = len(self._filters) >= _MANY and size <= _SMALL * len(self._filters)
        return few_for_filters or size * pieces <= _SPARSE * rows

    def hand_over(self, before: Bound = np.inf) -> None:
        """Let filters have the pieces before a number."""
        for number in sorted(each for each in self._pieces if each < before):
            piece = self._pieces.pop(number)
            self._touched.discard(number)
            saved = partial(self._saved, number, piece)
            turn = self._log.add(number * self._unit, saved)
            self._hand_over(number, piece, turn, self._before)

    def _hand_over(self, number: int, piece: Partials, turn: int, before: int) -> None:
        """To all parts that have not had that turn."""
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
                part.leave_for_later(number * self._unit // part.pane, passing, own)

    # --- state -----------------------------------------------------------------------------------

    def pieces_to_save(self) -> tuple[dict[int, Tree], list[int]]:
        """Those that have changed since the last time, and the numbers of all."""
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
        """With the aggregates that there are today; nobody asks for those that it does not have."""
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
    """The cells in an order in which those of a filter are neighbours where that is possible, and
    the ranges of every filter in it."""

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
