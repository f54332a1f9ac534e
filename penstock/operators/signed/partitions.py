"""The extents of several partitions of signed items, each with windows of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.folding.folder import Folder
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.signed.net_extents import NetExtents
from penstock.operators.windows.counted.partitions import Partitions
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore, Within


class NetPartitions:
    """`numbers` says which partition an item is of, and counts the items of each."""

    def __init__(self, node: WindowAggregate) -> None:
        self._schema = node.input.schema.arrow
        self._folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.numbers = Partitions(node)
        self.extents: dict[int, NetExtents] = {}
        self._touched: set[int] = set()  # since the last save
        self._stored: set[int] = set()
        self._dead = DeadKeys(self._folder)

    def __len__(self) -> int:
        """How many items are kept."""
        return sum(map(len, self.extents.values()))

    def settle(self, batch: Batch, parts: Codes, positions: Ints, first: Ints, stop: Ints) -> None:
        """Take in items in the order in which they happen, each in its partition."""
        for part, own in by_part(parts):
            found = self.of(part)
            found.settle(batch.take(own), positions[own], first[own], stop[own])

    def of(self, part: int) -> NetExtents:
        if part not in self.extents:
            self.extents[part] = NetExtents(self._folder, self._schema)
        self._touched.add(part)
        return self.extents[part]

    def forget(self) -> None:
        """Give up what nothing is kept of."""
        self.extents = {part: each for part, each in self.extents.items() if len(each)}
        self._dead.forget(self._mark, self._renumber)

    def _mark(self, live: Mask) -> None:
        for each in self.extents.values():
            each.mark(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:  # noqa: ARG002
        for each in self.extents.values():
            each.renumber(place)

    def save(self, store: ChunkStore) -> None:
        self.numbers.save(store)
        for part in self._touched & self.extents.keys():
            self.extents[part].save(Within(store, f"parts/{part}/"))
        for part in self._stored - self.extents.keys():
            own = Within(store, f"parts/{part}/")
            for name in list(own.names()):
                own.drop(name)
        self._stored = (self._stored | self._touched) & self.extents.keys()
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        self.numbers.load(store)
        names = [name.split("/") for name in store.names() if name.startswith("parts/")]
        self._stored = {int(name[1]) for name in names}
        for part in sorted(self._stored):
            self.extents[part] = NetExtents(self._folder, self._schema)
            self.extents[part].load(Within(store, f"parts/{part}/"))


def by_part(parts: Codes) -> Iterator[tuple[int, Ints]]:
    """The places of each partition, in their order."""
    if not len(parts):
        return
    order = stable_order(parts)
    different, begins = np.unique(parts[order], return_index=True)
    yield from zip(different.tolist(), np.split(order, begins[1:]), strict=True)


def taken(columns: list[pa.Array], places: Ints) -> list[pa.Array]:
    return [column.take(pa.array(places)) for column in columns]
