"""An operator that is exchanged for another one, which goes on from its state, after every item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, Movable, OpenResults, Progress
from penstock.kernel.state import ChunkStore, MemoryStore, pack, unpack
from penstock.kernel.windows.open_windows import OpenPieces

Make = Callable[[], Movable[OpenPieces]]


class Switching:
    """Goes through `makes` again and again.  `every` is the number of items between exchanges, the
    first of which comes after `first` items; what moves is packed on its way.  If `saved`, what has
    been adopted is also saved and loaded before it goes on."""

    def __init__(
        self,
        makes: Sequence[Make],
        every: int = 1,
        first: int | None = None,
        saved: bool = False,
    ) -> None:
        self._makes = makes
        self._every = every
        self._left = every if first is None else first
        self._saved = saved
        self.switches = 0
        self.operator = makes[0]()

    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        yield from self._after(self.operator.on_batch(port, batch))

    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        yield from self._after(self.operator.on_progress(port, progress))

    def open_results(self) -> OpenResults:
        return self.operator.open_results()

    def save(self, store: ChunkStore) -> None:
        self.operator.save(store)

    def load(self, store: ChunkStore) -> None:
        self.operator.load(store)

    def _after(self, items: Iterable[Item]) -> Iterator[Item]:
        yield from items
        self._left -= 1
        if self._left <= 0:
            self._left = self._every
            self._switch()

    def _switch(self) -> None:
        self.switches += 1
        make = self._makes[self.switches % len(self._makes)]
        state = OpenPieces.load(unpack(pack(self.operator.export().save())))
        self.operator = make()
        self.operator.adopt(state)
        if self._saved:
            store = MemoryStore()
            self.operator.save(store)
            self.operator = make()
            self.operator.load(store)
