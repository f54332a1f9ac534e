"""What windows over the values of signed items share: items wait for the bound, which settles what
takes back what, and leave with the windows that it closes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.operators.batch import Batch
from penstock.operators.folding.folder import Folder
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, LateRows, at_once
from penstock.operators.signed.kept_items import KeptItems
from penstock.operators.signed.net_extents import NetExtents
from penstock.operators.windows.rows import windows_batch
from penstock.plan.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore, Within

NO_FLOOR = INT64_MIN  # of an item that counts in all of its windows


class SignedWindows(Base):
    """Only plain tuples, which a union may bring along, can be late: they count from a `floor` on,
    the first window that the bound before them had not closed."""

    def __init__(self, node: WindowAggregate) -> None:
        self.node = node
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        schema = node.input.schema.arrow
        self.waiting = KeptItems(schema, tags=1)
        self.extents = NetExtents(self.folder, schema)
        self.next: Bound = BEGINNING  # the first window that has not been given out
        self.highest: Bound = BEGINNING  # of the windows that had results
        self._dead = DeadKeys(self.folder)

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        ticks, floors, late = self._taken_in(batch)
        yield from late
        self.waiting.add(batch.without_broken(), ticks, (floors,))

    @abstractmethod
    def _taken_in(self, batch: Batch) -> tuple[Ints, Ints, list[LateRows]]:
        """The ticks of items, from which window on they count, and late ones."""

    @abstractmethod
    def _windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        """The first window of each item, and the one after its last."""

    def _settle(self, bound: Bound) -> Ints:
        """Let everything below a bound count; the windows in which items begin to."""
        settled = self.waiting.below(bound)
        if settled is None:
            return np.zeros(0, np.int64)
        batch, ticks, (floors,) = settled
        first, stop = self._windows_of(ticks)
        begins: Ints = np.maximum(first, floors)
        self.extents.settle(batch, ticks, begins, stop)
        return begins

    def _released(self, last: Bound) -> Iterator[Item]:
        """The windows up to the last one that have not been given out."""
        if last < self.next or last == BEGINNING:
            return
        begin = INT64_MIN if self.next == BEGINNING else int(self.next)
        end = INT64_MAX if last == END else int(last) + 1
        for ids, columns in self.extents.windows(begin, end):
            self.highest = max(self.highest, int(ids[-1]))
            yield Batch(windows_batch(self.node, [(ids, columns)]))
        self.next = END if last == END else int(last) + 1
        self.extents.pass_(end)
        self._dead.forget(self.extents.mark, self._renumber)

    def _renumber(self, codes: Codes, place: Codes) -> None:  # noqa: ARG002
        self.extents.renumber(place)

    @property
    def reached(self) -> int | None:
        """The window after the highest that had results."""
        return None if self.highest == BEGINNING else int(self.highest) + 1

    def rows_held(self) -> int:
        return len(self.waiting) + len(self.extents)

    def open_results(self) -> OpenResults:
        """Items that wait for the bound, or for the end of their windows."""
        return OpenResults(others=self.rows_held())

    def save(self, store: ChunkStore) -> None:
        self.waiting.save(Within(store, "waiting/"))
        self.extents.save(Within(store, "extents/"))
        store.put("run", {"next": self.next, "highest": self.highest})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self.waiting.load(Within(store, "waiting/"))
            self.extents.load(Within(store, "extents/"))
            self.next, self.highest = saved["next"], saved["highest"]
