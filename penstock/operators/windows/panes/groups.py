"""Results of single groups, taken out of panes ahead of the stream (see `groups/closed.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from penstock.model.arrays import Codes, Mask
from penstock.model.punctuation import Bound
from penstock.operators.folding.folder import Folder, Partials
from penstock.operators.groups.closed import ClosedGroups, ClosingGroups
from penstock.operators.windows.panes.contents import LatePanes, Panes, SomeGroups, contents_over
from penstock.operators.windows.results import Results
from penstock.plan.nodes.aggregates import WindowAggregate


class PaneGroups(ClosedGroups):
    """Closed groups of windows that are made of panes."""

    def __init__(
        self, node: WindowAggregate, folder: Folder, panes: Panes, per_window: int, per_slide: int
    ) -> None:
        super().__init__(node, folder)
        self._folder = folder
        self._panes = panes
        self._per_window = per_window
        self._per_slide = per_slide

    def release(
        self, closing: ClosingGroups, stragglers: list[LatePanes], results: Results
    ) -> None:
        """The results of groups whose windows close."""
        folder = copy(self._folder)
        folder.keys = self._folder.keys.only(closing.codes)
        panes = SomeGroups(self._panes, self._folder, folder, closing.codes)
        contents = contents_over(folder, panes)
        for window in self._windows(closing, stragglers):
            end = (window + 1) * self._per_slide
            content = contents.of(end - self._per_window, end)
            late = [s for s in stragglers if s.first <= window <= s.last]
            content = _with_stragglers(folder, content, closing.codes, late)
            places = closing.at(window)
            places = places[content.rows.rows[places] > 0]
            if len(places):
                places = places[folder.keys.order_of(places)]
                results.add(window, folder.finish(content, places))

    def _windows(self, closing: ClosingGroups, stragglers: list[LatePanes]) -> Iterator[int]:
        """The windows that may have results, in their order."""
        lowest, highest = int(closing.first.min()), int(closing.last.max())
        spans = [(s.first, s.last) for s in stragglers if np.isin(s.codes, closing.codes).any()]
        for number, pane in self._panes.numbered():
            first, last = self._windows_of(number)
            if first > highest:
                break
            rows = pane.rows.rows
            if last >= lowest and rows[closing.codes[closing.codes < len(rows)]].any():
                spans.append((first, last))
        next_ = lowest
        for first, last in sorted(spans):
            yield from range(max(first, next_), min(last, highest) + 1)
            next_ = max(next_, last + 1)

    def _windows_of(self, pane: int) -> tuple[int, int]:
        """The first and the last window that a pane is part of."""
        return pane // self._per_slide, (pane + self._per_window) // self._per_slide - 1

    # --- what is not needed any more -------------------------------------------------------------

    def drop_closed(self, closing: ClosingGroups, merged: Bound) -> None:
        """Drop the panes all of whose groups have given out all of their windows; not those that
        have been `merged` into windows of the stream, and will be subtracted."""
        highest = int(closing.last.max())
        for number, pane in self._panes.numbered():
            last = self._windows_of(number)[1]
            if last > highest:
                break
            if number >= merged and not len(self.not_given(last, _groups_in(pane))):
                self._panes.drop(number)

    def still_late(self, stragglers: list[LatePanes]) -> list[LatePanes]:
        """Those that are not only of groups that have given out all of their windows."""
        return [each for each in stragglers if len(self.not_given(each.last, each.codes))]

    def mark(self, live: Mask) -> None:
        """The groups that windows are still to be given out of."""
        for number, pane in self._panes.numbered():
            live[self.not_given(self._windows_of(number)[1], _groups_in(pane))] = True


def _groups_in(pane: Partials) -> Codes:
    return np.flatnonzero(pane.rows.rows)


def _with_stragglers(
    folder: Folder, content: Partials, codes: Codes, stragglers: list[LatePanes]
) -> Partials:
    """With the late tuples of some groups, which `folder` numbers by their places in `codes`."""
    merged = None
    for each in stragglers:
        own = np.flatnonzero(np.isin(each.codes, codes))
        if len(own):
            if merged is None:
                merged = folder.new()
                folder.merge(merged, content)
            places = np.searchsorted(codes, each.codes[own])
            late = folder.take_apart(each.partials, own)
            folder.merge(merged, folder.spread(late, places))
    return content if merged is None else merged
