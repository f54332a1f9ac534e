"""Sliding windows over streams with group-wise punctuation: results of single groups are taken out
of panes, and leave ahead of the stream (see `ClosedGroups`).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from penstock.kernel.grouping.folding import Folder, Partials
from penstock.kernel.groups.group_by import ClosedGroups, ClosingGroups
from penstock.kernel.operator import Item, Progress
from penstock.kernel.progress.group_bounds import GroupBounds
from penstock.kernel.state import ChunkStore
from penstock.kernel.windows.open_windows import not_given
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.panes import LatePanes, Panes, SomeGroups, contents_over
from penstock.kernel.windows.results import Results
from penstock.kernel.windows.two_level import TwoLevel
from penstock.kernel.windows.wid import Wid
from penstock.model.arrays import Codes, Mask
from penstock.model.punctuation import Bound
from penstock.plan.nodes.aggregation import WindowAggregate


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
        """Drop the panes all of whose groups have emitted all of their windows; not those that have
        been `merged` into windows of the stream, and will be subtracted."""
        highest = int(closing.last.max())
        for number, pane in self._panes.numbered():
            last = self._windows_of(number)[1]
            if last > highest:
                break
            if number >= merged and not len(self.not_given(last, _groups_in(pane))):
                self._panes.drop(number)

    def still_late(self, stragglers: list[LatePanes]) -> list[LatePanes]:
        """Drop late tuples that are only of groups that have emitted all of their windows."""
        return [each for each in stragglers if len(self.not_given(each.last, each.codes))]

    def mark(self, live: Mask) -> None:
        """Mark the groups that have windows still to be emitted."""
        for number, pane in self._panes.numbered():
            live[self.not_given(self._windows_of(number)[1], _groups_in(pane))] = True


def _groups_in(pane: Partials) -> Codes:
    return np.flatnonzero(pane.rows.rows)


def _with_stragglers(
    folder: Folder, content: Partials, codes: Codes, stragglers: list[LatePanes]
) -> Partials:
    """Merge the late tuples of some groups, which `folder` numbers by their places in `codes`."""
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


# Sliding windows over streams that are punctuated for single groups (PUNCTUATED … FOR): the results
# of those groups leave ahead of the others.
#
# The state for that is apart from the algorithms, which know nothing of it.


class PunctuatedPaned(Paned):
    """Paned-WID that also releases windows for single groups, by group-wise punctuation."""

    stride = None  # it makes something of any progress

    def __init__(self, node: WindowAggregate) -> None:
        super().__init__(node)
        self.closed = PaneGroups(node, self.folder, self.panes, self.per_window, self.per_slide)
        self._groups: GroupBounds | None = None  # of the progress at hand

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        self._groups = progress.groups
        if progress.groups is not None:
            self._closed_upto = None  # release groups, even if the stream has not moved on
        return super().on_progress(port, progress)

    def _release_more(self, last: Bound) -> None:
        """Release windows above the `last` one for groups that are punctuated."""
        if self._groups is not None:
            self._release_groups(self._groups, last)
        self.closed.forget(last)

    def _release_groups(self, groups: GroupBounds, last: Bound) -> None:
        closing = self.closed.close(groups, last)
        if closing is not None:
            self.closed.release(closing, self.stragglers, self.results)
            self.closed.drop_closed(closing, self.contents.merged)
            self.stragglers = self.closed.still_late(self.stragglers)

    def _not_emitted(self, window: int, codes: Codes) -> Codes:
        return self.closed.not_given(window, codes)

    def _unaffected_until(self, window: int, last: Bound) -> Bound:
        return window if self.closed.begun else super()._unaffected_until(window, last)

    def _mark_panes(self, live: Mask) -> None:
        self.closed.mark(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        super()._renumber(codes, place)
        self.closed.renumber(codes)

    def save(self, store: ChunkStore) -> None:
        super().save(store)
        self.closed.save(store)

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        self.closed.load(store)

    def _pieces(self, released: Bound) -> Iterator[LatePanes]:
        return not_given(self.folder, super()._pieces(released), self.closed)


class PunctuatedTwoLevel(PunctuatedPaned, TwoLevel):
    """Two-level aggregation that also releases windows for single groups; all panes are flushed to
    the high level before."""

    def _release_groups(self, groups: GroupBounds, last: Bound) -> None:
        self._merge(self.low.clear())
        super()._release_groups(groups, last)


class PunctuatedWid(Wid):
    """WID that also releases windows for single groups, by group-wise punctuation."""

    stride = None  # it makes something of any progress

    def __init__(self, node: WindowAggregate) -> None:
        super().__init__(node)
        self.closed = ClosedGroups(node, self.folder)
        self._groups: GroupBounds | None = None  # of the progress at hand

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        self._groups = progress.groups
        if progress.groups is not None:
            self._closed_upto = None  # release groups, even if the stream has not moved on
        return super().on_progress(port, progress)

    def _release_more(self, last: Bound) -> None:
        closing = self.closed.close(self._groups, last)
        if closing is not None:
            self._release_groups(closing)
        self.closed.forget(last)

    def _release_groups(self, closing: ClosingGroups) -> None:
        """Release windows for groups; a window is dropped when all of its groups have been
        emitted."""
        for wid, content in self.windows.numbered():
            places = closing.at(wid)
            groups = np.flatnonzero(content.rows.rows)
            codes = np.intersect1d(closing.codes[places], groups)
            if len(codes):
                codes = codes[self.folder.keys.order_of(codes)]
                self.results.add(wid, self.folder.finish(content, codes))
                if not len(self.closed.not_given(wid, groups)):
                    self.windows.drop(wid)

    def _not_emitted(self, window: int, codes: Codes) -> Codes:
        return self.closed.not_given(window, codes)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        self.closed.renumber(codes)
        super()._renumber(codes, place)

    def save(self, store: ChunkStore) -> None:
        super().save(store)
        self.closed.save(store)

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        self.closed.load(store)

    def _pieces(self) -> Iterator[LatePanes]:
        return not_given(self.folder, super()._pieces(), self.closed)
