"""Landmark windows whose results may be revised: each step is kept until its window is final."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.revising.emitted import Groups
from penstock.operators.revising.windows import RevisingWindows
from penstock.operators.windows.landmark import refuse_gaps, runs_of
from penstock.operators.windows.panes.kept import KeptPanes
from penstock.physical.asked import Asked
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore
from penstock.windows.landmark import Landmark
from penstock.windows.limits import MOST_REMEMBERED

_ALL = 1 << 127  # beyond the number of any window


class RevisingLandmark(RevisingWindows):
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
        """All that are open: they come to be without tuples of their own."""
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
