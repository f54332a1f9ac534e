"""Sliding windows over signed items."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.signed.windows import SignedWindows
from penstock.operators.windows.id_ranges import last_closed
from penstock.operators.windows.results import promised
from penstock.physical.asked import Asked
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.windows.sliding import Sliding


class SignedSliding(SignedWindows):
    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        super().__init__(node, asked)
        assert isinstance(node.window, Sliding)
        self._window = node.window

    def _windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        return self._window.wid_bounds(ticks)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = self._final(progress)
        self._settle(bound)
        last: Bound = bound
        if bound not in (BEGINNING, END):
            last = last_closed(self._window, int(bound))
        yield from self._released(last)
        yield promised(self._window, last + 1, self.reached, progress.ended)
