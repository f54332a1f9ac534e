"""Sliding and landmark windows whose results may be revised, over panes and steps that are kept
until they are final.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from math import gcd
from typing import NamedTuple

import numpy as np

from penstock.kernel.grouping.folding import Folder, Partials, Rows
from penstock.kernel.revisions.emitted_rows import Groups
from penstock.kernel.revisions.revised_windows import RevisingWindows
from penstock.kernel.state import ChunkStore
from penstock.kernel.windows.landmark import refuse_gaps, runs_of
from penstock.kernel.windows.panes import KeptPanes, SomeGroups, contents_over
from penstock.model.arrays import Codes, Ints, floor_div
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.physical import Asked
from penstock.plan.window_kinds import MOST_REMEMBERED, Landmark, Sliding

_MANY = 4096  # groups below which nothing is forgotten


# Sliding windows whose results may be revised.


class Partly(NamedTuple):
    """A late tuple that counts in the last of its windows only: the others are gone."""

    first: int
    last: int
    rows: Rows


class RevisingSliding(RevisingWindows):
    """Revised sliding windows: partial results by pane, from which a window is computed again when
    a late tuple changes it."""

    def __init__(self, node: WindowAggregate, asked: Asked, clock: Clock) -> None:
        super().__init__(node, asked, clock)
        assert isinstance(node.window, Sliding)
        self.window = node.window
        self.pane = gcd(self.window.range, self.window.slide)
        self.per_window = self.window.range // self.pane
        self.per_slide = self.window.slide // self.pane
        self.panes = KeptPanes(self.folder)
        self._contents = contents_over(self.folder, self.panes)
        self._merged: Bound = END  # the end of the window that it was last asked for
        self.stragglers: list[Partly] = []  # count in some of their windows only
        self._look_again = _MANY

    # --- tuples ----------------------------------------------------------------------------------

    def windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        return self.window.wid_bounds(ticks)

    def fold(self, rows: Rows, first: Ints, begin: Ints, stop: Ints) -> None:
        whole = begin == first
        for row in np.flatnonzero(~whole).tolist():
            own = rows.take(np.array([row]))
            self.stragglers.append(Partly(int(begin[row]), int(stop[row]) - 1, own))
        if not whole.all():
            rows = rows.take(np.flatnonzero(whole))
            if len(rows) == 0:
                return
        numbers = floor_div(rows.positions, plus=-self.origin, by=self.pane)
        if self._merged != END and numbers.min() < self._merged:
            self._contents, self._merged = contents_over(self.folder, self.panes), END
        for number, own in runs_of(rows, numbers):
            self.folder.fold(self.panes.open(number), own)

    def reach(self, tick: Bound) -> None:
        """Windows come to be by their tuples alone."""

    # --- results ---------------------------------------------------------------------------------

    def results(self, windows: list[int], codes: Codes | None) -> Iterator[tuple[int, Groups]]:
        if codes is None:
            for wid in windows:
                begin, end = self._panes_of(wid)
                content = self._contents.of(begin, end)
                self._merged = end
                content = _with_stragglers(self.folder, content, self._active(wid))
                yield wid, self.groups(self.folder, content)
            return
        folder = copy(self.folder)
        folder.keys = self.folder.keys.only(codes)
        contents = contents_over(folder, SomeGroups(self.panes, self.folder, folder, codes))
        for wid in windows:
            content = contents.of(*self._panes_of(wid))
            active = [_localized(rows, codes) for rows in self._active(wid)]
            content = _with_stragglers(folder, content, [rows for rows in active if len(rows)])
            yield wid, self.groups(folder, content, codes)

    def _panes_of(self, wid: int) -> tuple[int, int]:
        end = (wid + 1) * self.per_slide
        return end - self.per_window, end

    def _active(self, wid: int) -> list[Rows]:
        return [each.rows for each in self.stragglers if each.first <= wid <= each.last]

    def in_use(self, first: Bound, last: Bound) -> Iterator[int]:
        """In the order of their numbers, without going through those that have no tuples."""
        spans = [(each.first, each.last) for each in self.stragglers]
        numbers = self.panes.numbers
        if first != BEGINNING and last != END:
            numbers = self.panes.between(
                self._panes_of(int(first))[0], self._panes_of(int(last))[1]
            )
        elif first != BEGINNING:
            numbers = numbers[len(self.panes.between(-(1 << 127), self._panes_of(int(first))[0])) :]
        spans += [
            (number // self.per_slide, (number + self.per_window) // self.per_slide - 1)
            for number in numbers
        ]
        at = first
        for begin, end in sorted(spans) if self.stragglers else spans:
            start, stop = int(max(begin, at)), int(min(end, last)) + 1
            if start < stop:
                yield from range(start, stop)
                at = stop

    # --- forgetting ------------------------------------------------------------------------------

    def forget(self, gone: Bound) -> None:
        if gone == END:
            self.stragglers = []
            self.panes.forget(1 << 127)
        elif gone != BEGINNING:
            self.stragglers = [each for each in self.stragglers if each.last > gone]
            # panes stay as long as they have to be subtracted from what is merged
            unused = self._panes_of(int(gone) + 1)[0]
            self.panes.forget(int(min(unused, self._merged - self.per_window)))
        self._forget_keys()

    def _forget_keys(self) -> None:
        """Give up the numbers of groups that no pane holds any more, once they are the majority."""
        keys = len(self.folder.keys)
        if keys < self._look_again:
            return
        live = np.zeros(keys, np.bool_)
        for pane in self.panes.all():
            rows = pane.rows.rows[:keys]
            live[: len(rows)] |= rows > 0
        for each in self.stragglers:
            live[each.rows.codes] = True
        codes = np.flatnonzero(live)
        if 2 * len(codes) < keys:
            self._renumber(codes, keys)
        self._look_again = max(_MANY, 2 * len(codes))

    def _renumber(self, codes: Codes, keys: int) -> None:
        def change(partials: Partials) -> Partials:
            return self.folder.take(partials, codes)

        self.panes.renumber(change)
        self._contents.renumber(change)
        place = np.zeros(keys, np.int64)
        place[codes] = np.arange(len(codes))
        self.stragglers = [
            each._replace(rows=replace(each.rows, codes=place[each.rows.codes]))
            for each in self.stragglers
        ]
        self.renumber_shown(place)
        self.folder.keys = self.folder.keys.only(codes)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self.save_windows(store)
        self.panes.save(store)
        store.put(
            "stragglers", [[each.first, each.last, each.rows.save()] for each in self.stragglers]
        )

    def load(self, store: ChunkStore) -> None:
        self.load_windows(store)
        self.panes.load(store)
        saved = store.get("stragglers") or []
        self.stragglers = [Partly(first, last, Rows.load(rows)) for first, last, rows in saved]


def _with_stragglers(folder: Folder, content: Partials, active: list[Rows]) -> Partials:
    if not active:
        return content
    copied = folder.new()
    folder.merge(copied, content)
    for rows in active:
        folder.fold(copied, rows)
    return copied


def _localized(rows: Rows, codes: Codes) -> Rows:
    """The rows of some groups, by their place in `codes`."""
    own = rows.take(np.flatnonzero(np.isin(rows.codes, codes)))
    return replace(own, codes=np.searchsorted(codes, own.codes))


# Landmark windows whose results may be revised: each step is kept until its window is final.

_ALL = 1 << 127  # beyond the number of any window


class RevisingLandmark(RevisingWindows):
    """Revised landmark windows: a content that is final, and the steps after it."""

    def __init__(self, node: WindowAggregate, asked: Asked, clock: Clock) -> None:
        super().__init__(node, asked, clock)
        assert isinstance(node.window, Landmark)
        self.window = node.window
        self.final = self.folder.new()  # what joined windows that are gone
        self._final_changed = False
        self.steps = KeptPanes(self.folder)  # by the window that they join at
        self.high: Bound = BEGINNING  # how far the stream has come
        self._first: int | None = None  # the first window that there is
        self._running = self.folder.new()  # what joined before `_merged`
        self._merged = -_ALL

    # --- tuples ----------------------------------------------------------------------------------

    def windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        return self.window.first_wid(ticks), np.full(len(ticks), INT64_MAX)

    def reach(self, tick: Bound) -> None:
        self.high = max(self.high, tick)

    def fold(self, rows: Rows, first: Ints, begin: Ints, stop: Ints) -> None:  # noqa: ARG002
        lowest = int(begin.min())
        self._first = lowest if self._first is None else min(self._first, lowest)
        for step, own in runs_of(rows, begin):
            self.folder.fold(self.steps.open(step), own)
            if step < self._merged:
                self.folder.fold(self._running, own)

    # --- results ---------------------------------------------------------------------------------

    def results(self, windows: list[int], codes: Codes | None) -> Iterator[tuple[int, Groups]]:
        if not windows:
            return
        folder = self.folder
        if codes is None:
            if windows[0] <= self.released:  # nothing comes below it that is not late
                self._merge(folder, self._running, self._merged, windows[0], None)
                self._merged = windows[0]
            content, merged = folder.new(), self._merged
            folder.merge(content, self._running)
        else:
            folder = copy(self.folder)
            folder.keys = self.folder.keys.only(codes)
            content, merged = self.folder.take(self.final, codes), -_ALL
        groups: Groups | None = None
        for wid in windows:
            joined = self._merge(folder, content, merged, wid + 1, codes)
            merged = wid + 1
            if joined or groups is None:
                groups = self.groups(folder, content, codes)
            yield wid, groups

    def _merge(
        self, folder: Folder, content: Partials, begin: int, end: int, codes: Codes | None
    ) -> bool:
        """Add the steps from `begin` to before `end`, if there are any."""
        numbers = self.steps.between(begin, end)
        for number in numbers:
            step = self.steps.get(number)
            assert step is not None
            folder.merge(content, step if codes is None else self.folder.take(step, codes))
        return bool(numbers)

    def in_use(self, first: Bound, last: Bound) -> Iterator[int]:
        reached = self._reached()
        if self._first is not None and reached != BEGINNING:
            begin, end = int(max(first, self._first)), int(min(last, reached))
            refuse_gaps(self.node, begin, self.steps.between(begin, end + 1), end, MOST_REMEMBERED)
            yield from range(begin, end + 1)

    def _reached(self) -> Bound:
        """The window that the stream has come to."""
        return self.high if self.high == BEGINNING else (int(self.high) - self.origin) // self.slide

    def last_released(self, closed: Bound) -> Bound:
        """A bound may be ahead of the stream; whether those windows come about is not known yet."""
        return min(closed, self._reached())

    def next_final(self, gone: Bound) -> Bound:
        if self._first is None:
            return gone + 1
        return min(gone, self.released) + 1

    def early_windows(self) -> tuple[Iterator[int], Codes | None]:
        """All open windows: they come to be without tuples of their own."""
        return self.in_use(self.released + 1, END), None

    # --- forgetting ------------------------------------------------------------------------------

    def forget(self, gone: Bound) -> None:
        if gone == BEGINNING:
            return
        upto = _ALL if gone == END else int(gone) + 1
        if upto > self._merged:
            self._merge(self.folder, self._running, self._merged, upto, None)
            self._merged = upto
        for step in self.steps.forget(upto):
            self.folder.merge(self.final, step)
            self._final_changed = True

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self.save_windows(store)
        self.steps.save(store)
        if self._final_changed:
            store.put("final", self.folder.save(self.final))
            self._final_changed = False
        store.put("stream", [self.high, self._first])

    def load(self, store: ChunkStore) -> None:
        self.load_windows(store)
        self.steps.load(store)
        final = store.get("final")
        if final is not None:
            self.final = self.folder.load(final)
            self.folder.merge(self._running, self.final)
        saved = store.get("stream")
        if saved is not None:
            self.high, self._first = saved
