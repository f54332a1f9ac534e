"""What the rows of one task say about the progress of their sub-sources, and nothing else.

A task does not know what had been promised before its micro-batch.  It reports enough for whoever
knows that (see `stateful/registers.py`) to find the bound before every one of its rows: the higher
one of what had been promised before the micro-batch and what the rows before it, in the same task,
promise.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.progress import Rule
from penstock.operators.folding.scatter import grown
from penstock.promises.by_sub_source import NOTHING, BySubSource
from penstock.promises.sub_source_bounds import SubSourceBounds, within_ticks
from penstock.spark.tasks.reports import Moves, Reports


class TaskBounds(SubSourceBounds):
    """Bounds that start from nothing in every task.  Sub-sources are numbered anew, in the order of
    their first rows: those numbers are their places in the report."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.places: Ints | None = None  # the sub-sources of the tuples that came last
        self.place = 0  # the one of all of them, if there are no places
        self.numbers: Ints | None = None  # under SLACK: their numbers in their sub-sources
        self._known = 0
        self._place_of: Ints = np.zeros(0, np.int64)  # by their numbers elsewhere, −1 without one
        self._codes: list[Codes] = []  # those, by place
        self._placed = 0  # how many
        self._rows: Ints = np.zeros(0, np.int64)
        self._moved: Mask = np.zeros(0, np.bool_)  # who did since the last newcomer came
        self._moves: list[Moves] = []

    def before(self, codes: Codes, ticks: Ints, promised: Ints | None) -> Ints:
        places = self._places(codes)
        self.places = places if promised is None else places[ticks != NOTHING]
        return super().before(places, ticks, promised)

    def before_of(self, code: int, ticks: Ints, promised: Ints | None) -> Ints:
        if len(ticks) == 0:
            return ticks
        self.places, self.place = None, int(self._places(np.array([code]))[0])
        return super().before_of(self.place, ticks, promised)

    def kept_by(self, code: int, lowest: int, highest: int) -> bool:
        place = int(self._place_of[code]) if code < len(self._place_of) else -1
        if place < 0 or not super().kept_by(place, lowest, highest):
            return False
        self.places, self.place = None, place
        self._rows[place] += 1  # that it spoke is enough
        return True

    def knows(self, code: int) -> bool:
        return code < self._known

    def _places(self, codes: Codes) -> Ints:
        """Where sub-sources stand, by their numbers elsewhere; newcomers are put at the end."""
        self._place_of = grown(self._place_of, int(codes.max(initial=-1)) + 1, -1)
        places = self._place_of[codes]
        new = codes[places < 0]
        if len(new):
            first = np.empty(len(self._place_of), np.int64)
            first[new[::-1]] = np.arange(len(new))[::-1]
            new = new[first[new] == np.arange(len(new))]
            self._place_of[new] = self._placed + np.arange(len(new))
            self._placed += len(new)
            self._codes.append(new)
            places = self._place_of[codes]
        return places

    def _move_one(self, code: int, bound: int) -> None:
        self._bounds[code] = within_ticks(bound)
        self._moved[code] = True

    def _reserve(self, size: int) -> None:
        super()._reserve(size)
        self._rows = grown(self._rows, size, 0)
        self._moved = grown(self._moved, size, False)

    def _before(self, rows: BySubSource, ticks: Ints, promised: Ints | None) -> Ints:
        size = int(rows.codes[-1]) + 1
        self._reserve(size)
        held = self._held.counts(rows.codes) if self._held is not None else None
        if self._held is not None:
            numbers = rows.spread(self._rows[rows.codes]) + rows.ranks
            self.numbers = rows.restored(numbers)
        after = self._contributions(rows, ticks, promised)
        before, reached = rows.highest_before(self._bounds[rows.codes], after)
        self._note_moves(rows, before, reached, held)
        self._bounds[rows.codes] = reached
        self._rows[rows.codes] += rows.sizes
        self._known = max(self._known, size)
        return before

    def _note_moves(
        self, rows: BySubSource, before: Ints, reached: Ints, held: Ints | None
    ) -> None:
        """Everybody is a newcomer to the task; whether to the source, others know."""
        new = rows.codes >= self._known
        newcomers = int(np.count_nonzero(new))
        if newcomers:
            self._look_at_moved()
        joins = np.zeros(len(before), np.int64)
        joins[rows.order[rows.begins[new]]] = 1
        come = np.cumsum(joins)[rows.order]  # how many have come up to each row, itself included
        after = rows.next_in_each(before, reached)
        of_rows = rows.spread(rows.codes)
        moves = after > before
        held_after = np.zeros(len(before), np.int64)
        if held is not None and self._held is not None:
            held_before = rows.spread(held) + rows.ranks
            held_after = np.minimum(held_before + 1, self._held.slack)
            moves |= held_before < self._held.slack
        self._moved[of_rows[moves & (come == newcomers)]] = True
        seen = np.flatnonzero(moves & (come < newcomers))
        self._add_moves(of_rows[seen], self._known + come[seen], after[seen], held_after[seen])

    def _add_moves(self, places: Ints, at: Ints, bounds: Ints, held: Ints) -> None:
        """The last one of each sub-source before each newcomer."""
        if len(places):
            last = np.append((places[1:] != places[:-1]) | (at[1:] != at[:-1]), True)
            self._moves.append(Moves(places[last], at[last], bounds[last], held[last]))

    def _look_at_moved(self) -> None:
        """What has been said since the last newcomer came, as the next one finds it."""
        moved = np.flatnonzero(self._moved[: self._known])
        if len(moved):
            zeros = np.zeros(len(moved), np.int64)
            held = self._held.counts(moved) if self._held is not None else zeros
            at = np.full(len(moved), self._known)
            self._add_moves(moved, at, self._bounds[moved], held)
            self._moved[moved] = False

    def reports(self, names: pa.Array) -> Reports:
        """By the names of the sub-sources, in the order of first appearance."""
        places = np.arange(self._known)
        sizes, recent = self._recent(places)
        moves = Moves.joined(self._moves)
        return Reports(names, self._bounds[places], self._rows[places], sizes, recent, moves)

    @property
    def codes(self) -> Codes:
        """The numbers of the sub-sources elsewhere, in the order of first appearance."""
        return np.concatenate([np.zeros(0, np.int64), *self._codes])
