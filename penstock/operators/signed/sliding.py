"""Sliding windows over signed items."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.model.arrays import Ints
from penstock.operators.batch import Batch
from penstock.operators.operator import Item, LateRows, Progress, at_once
from penstock.operators.signed.windows import NO_FLOOR, SignedWindows
from penstock.operators.windows.results import promised
from penstock.operators.windows.wid import Tagger
from penstock.plan.aggregates import WindowAggregate


class SignedSliding(SignedWindows):
    def __init__(self, node: WindowAggregate) -> None:
        super().__init__(node)
        self._tagger = Tagger(node, self.folder)

    def _taken_in(self, batch: Batch) -> tuple[Ints, Ints, list[LateRows]]:
        ticks = self._tagger.ticks(batch.rows)
        first, _, _, missed = self._tagger.ranges(batch, ticks)
        floors = np.full(len(ticks), NO_FLOOR)
        if missed is None:
            return ticks, floors, []
        floors[missed.rows] = first[missed.rows]
        return ticks, floors, [self._tagger.late_rows(batch.rows, missed)]

    def _windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        return self._tagger.window.wid_bounds(ticks)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = self._tagger.promised(progress)
        self._settle(bound)
        last = self._tagger.last_closed(bound)
        yield from self._released(last)
        yield promised(self._tagger.window, last + 1, self.reached, progress.ended)
