"""An operator that is saved and made anew, from what was saved, after every item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, OpenResults, Operator, Progress
from penstock.kernel.state import ChunkStore, MemoryStore


class Restarting:
    """Its store is kept, so a save that forgets to write or to drop something shows.  `every` is
    the number of items between restarts: what an operator has not saved yet must count, too."""

    def __init__(self, make: Callable[[], Operator], every: int = 1) -> None:
        self._make = make
        self._every = every
        self._items = 0
        self._store = MemoryStore()
        self._operator = make()

    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        yield from self._after(self._operator.on_batch(port, batch))

    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        yield from self._after(self._operator.on_progress(port, progress))

    def open_results(self) -> OpenResults:
        return self._operator.open_results()

    def save(self, store: ChunkStore) -> None:
        self._operator.save(store)

    def load(self, store: ChunkStore) -> None:
        self._operator.load(store)

    def _after(self, items: Iterable[Item]) -> Iterator[Item]:
        yield from items
        self._items += 1
        self._operator.save(self._store)
        if self._items % self._every == 0:
            self._operator = self._make()
            self._operator.load(self._store)
