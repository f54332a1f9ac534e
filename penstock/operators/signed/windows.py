"""What windows over the values of signed items share: items wait for the bound, which settles what
takes back what, and leave with the windows that it closes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.folding.folder import Folder
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.revising.amendment import behind
from penstock.operators.revising.late_windows import LateForWindows
from penstock.operators.signed.kept_items import KeptItems
from penstock.operators.signed.net_extents import NetExtents
from penstock.operators.ticks import to_ticks
from penstock.operators.windows.counted.rows import windows_batch
from penstock.physical.asked import Asked
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore, Within
from penstock.windows.landmark import Landmark
from penstock.windows.sliding import Sliding

NO_FLOOR = INT64_MIN  # of an item that counts in all of its windows


class SignedWindows(Base):
    """Only plain tuples, which a union may bring along, can be late: they count from a `floor` on,
    the first window that the bound before them had not closed.  Where late tuples are amended,
    windows wait until no late tuple counts in them any more."""

    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        assert isinstance(node.window, Sliding | Landmark)
        assert node.attribute is not None
        self.node = node
        self._type = node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self.bound = BoundOf(node.attribute)
        self._grace = 0 if asked is None else asked.grace(self._type)
        types = self._type, node.schema.fields[0].type
        self._late = LateForWindows(node.window, self.bound, self._grace, types)
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
        ticks = to_ticks(self._attribute(batch.rows), self._type)
        self._reach(int(ticks.max()))
        first, stop = self._windows_of(ticks)
        begin, late = self._late.split(batch, first, stop)
        if late is not None:
            yield late
        floors = np.where(begin > first, begin, NO_FLOOR)
        self.waiting.add(batch.without_broken(), ticks, (floors,))

    def _final(self, progress: Progress) -> Bound:
        """The bound below which no tuple counts any more."""
        return behind(self.bound.promised(progress), self._grace)

    def _reach(self, tick: Bound) -> None:
        """The stream has come this far."""

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
