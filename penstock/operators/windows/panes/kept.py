"""Panes that stay after their windows have been released, because late tuples may still come."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

from penstock.operators.folding.folder import Folder, Partials
from penstock.operators.windows.panes.contents import Panes
from penstock.state.chunks import ChunkStore, Tree


class KeptPanes(Panes):
    """Panes by their numbers in order.  What windows have no use for any more stays until it is
    forgotten."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)
        self.numbers: list[int] = []

    def open(self, number: int) -> Partials:
        if self.get(number) is None:
            insort(self.numbers, number)
        return super().open(number)

    def add(self, number: int, partials: Partials) -> None:
        """Partial results for a pane, which nobody else uses."""
        pane = self.get(number)
        if pane is not None:
            self._folder.merge(self.open(number), partials)
            return
        insort(self.numbers, number)
        self._panes[number] = partials
        self._touched.add(number)

    def drop(self, number: int) -> None:
        """Not yet."""

    def drop_before(self, number: int) -> None:
        """Not yet."""

    def between(self, begin: int, end: int) -> list[int]:
        """The panes from `begin` to before `end`."""
        return self.numbers[bisect_left(self.numbers, begin) : bisect_left(self.numbers, end)]

    def forget(self, before: int) -> list[Partials]:
        """Drop the panes before a number, and hand them out."""
        gone = bisect_left(self.numbers, before)
        panes = []
        for number in self.numbers[:gone]:
            pane = self.get(number)
            assert pane is not None
            panes.append(pane)
            super().drop(number)
        del self.numbers[:gone]
        self.lowest()  # which no longer names those that are gone
        return panes

    def load(self, store: ChunkStore, change: Callable[[Tree], Tree] | None = None) -> None:
        super().load(store, change)
        self.numbers = sorted(self._panes)
