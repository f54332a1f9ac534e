"""Sliding windows over streams that promise something for single groups (PUNCTUATED … FOR): the
results of those groups leave ahead of the others.

What is remembered for that is beside the algorithms, which know nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.model.arrays import Codes, Mask
from penstock.model.punctuation import Bound
from penstock.operators.groups.bounds import GroupBounds
from penstock.operators.groups.closed import ClosedGroups, ClosingGroups
from penstock.operators.operator import Item, Progress
from penstock.operators.windows.paned import Paned
from penstock.operators.windows.panes.contents import LatePanes
from penstock.operators.windows.panes.groups import PaneGroups
from penstock.operators.windows.pieces.exporting import not_given
from penstock.operators.windows.two_level import TwoLevel
from penstock.operators.windows.wid import Wid
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore


class PunctuatedPaned(Paned):
    stride = None  # it makes something of any progress

    def __init__(self, node: WindowAggregate) -> None:
        super().__init__(node)
        self.closed = PaneGroups(node, self.folder, self.panes, self.per_window, self.per_slide)
        self._groups: GroupBounds | None = None  # of the progress at hand

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        self._groups = progress.groups
        if progress.groups is not None:
            self._told = None  # there is something to say, even if the stream has not moved on
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

    def _to_give(self, window: int, codes: Codes) -> Codes:
        return self.closed.not_given(window, codes)

    def _alike(self, window: int, last: Bound) -> Bound:
        return window if self.closed.begun else super()._alike(window, last)

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
    """All panes are above when groups are released."""

    def _release_groups(self, groups: GroupBounds, last: Bound) -> None:
        self._merge(self.low.clear())
        super()._release_groups(groups, last)


class PunctuatedWid(Wid):
    stride = None  # it makes something of any progress

    def __init__(self, node: WindowAggregate) -> None:
        super().__init__(node)
        self.closed = ClosedGroups(node, self.folder)
        self._groups: GroupBounds | None = None  # of the progress at hand

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        self._groups = progress.groups
        if progress.groups is not None:
            self._told = None  # there is something to say, even if the stream has not moved on
        return super().on_progress(port, progress)

    def _release_more(self, last: Bound) -> None:
        closing = self.closed.close(self._groups, last)
        if closing is not None:
            self._release_groups(closing)
        self.closed.forget(last)

    def _release_groups(self, closing: ClosingGroups) -> None:
        """A window goes when all of its groups are out."""
        for wid, content in self.windows.numbered():
            places = closing.at(wid)
            groups = np.flatnonzero(content.rows.rows)
            codes = np.intersect1d(closing.codes[places], groups)
            if len(codes):
                codes = codes[self.folder.keys.order_of(codes)]
                self.results.add(wid, self.folder.finish(content, codes))
                if not len(self.closed.not_given(wid, groups)):
                    self.windows.drop(wid)

    def _to_give(self, window: int, codes: Codes) -> Codes:
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
