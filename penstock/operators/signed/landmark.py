"""Landmark windows (RANGE ALL) over signed items: what has come and not been taken back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX
from penstock.operators.open_results import NOTHING_OPEN, OpenResults, open_spans
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.signed.windows import SignedWindows
from penstock.operators.windows.landmark import refuse_gaps
from penstock.operators.windows.results import promised
from penstock.physical.asked import Asked
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore
from penstock.windows.landmark import Landmark
from penstock.windows.limits import MOST_WINDOWS


class SignedLandmark(SignedWindows):
    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        super().__init__(node, asked)
        assert isinstance(node.window, Landmark)
        self._window = node.window
        self._high: Bound = BEGINNING  # how far the stream has come

    def _reach(self, tick: Bound) -> None:
        self._high = max(self._high, tick)

    def _windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        return self._window.first_wid(ticks), np.full(len(ticks), INT64_MAX)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        """Windows go on as far as the stream has come, whatever is promised beyond."""
        bound = self._final(progress)
        self._reach(self.bound.reached(progress))
        begun = self._settle(bound)
        closed = self._last_closed(bound)
        if self._high != BEGINNING and (len(begun) or self.next != BEGINNING):
            last = min(closed, self._wid(self._high))
            first = int(begun.min()) if self.next == BEGINNING else int(self.next)
            if first <= last:
                steps = [step for step in np.unique(begun).tolist() if first < step <= last]
                refuse_gaps(self.node, first, steps, int(last), MOST_WINDOWS)
            if last != BEGINNING:
                yield from self._released(last)
        upto = closed + 1 if self.next == BEGINNING else min(closed + 1, self.next)
        yield promised(self._window, upto, self.reached, progress.ended)

    def _wid(self, tick: Bound) -> int:
        return (int(tick) - self._window.origin) // self._window.slide

    def _last_closed(self, bound: Bound) -> Bound:
        return bound if bound in (BEGINNING, END) else self._wid(bound) - 1

    def open_results(self) -> OpenResults:
        """The windows up to where the stream has come.  What is there may stay there for ever."""
        if self._high == BEGINNING or (self.next == BEGINNING and not len(self.waiting)):
            return NOTHING_OPEN
        begun = self._window.first_wid(self.waiting.ticks)
        first = int(begun.min()) if self.next == BEGINNING else int(self.next)
        return open_spans((first, self._wid(self._high) + 1))

    def save(self, store: ChunkStore) -> None:
        super().save(store)
        store.put("high", self._high)

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        high = store.get("high")
        self._high = BEGINNING if high is None else high
