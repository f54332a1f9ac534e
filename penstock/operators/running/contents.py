"""What a running aggregate keeps of its groups.

Tuples that stay are folded and gone.  Of rows that may be taken back, partial results are kept
twice, of all that were given and of all that were taken back, if the aggregates can be subtracted;
otherwise the rows themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.first_rows import different
from penstock.operators.batch import Signs
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.running.block_writer import BlockWriter
from penstock.plan.nodes.aggregates import GroupAggregate
from penstock.state.chunks import ChunkStore, Within


@dataclass(slots=True)
class Change:
    """Rows that come to some groups, or go; `touched` are the groups, each once and ascending."""

    batch: pa.RecordBatch
    rows: Rows
    signs: Signs | None
    touched: Codes


class GroupContents(ABC):
    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return len(self.folder.keys)

    def change(self, batch: pa.RecordBatch, positions: Ints, signs: Signs | None) -> Change:
        rows = self.folder.rows(batch, positions)
        return Change(batch, rows, signs, different(rows.codes))

    @abstractmethod
    def take_in(self, change: Change) -> None: ...

    @abstractmethod
    def present(self, codes: Codes) -> Codes:
        """Those groups that have rows."""

    @abstractmethod
    def results(self, codes: Codes) -> list[pa.Array]:
        """Of groups that have rows, whose codes ascend."""

    @property
    def rows_held(self) -> int:
        return 0

    def forget(self, renumbered: Callable[[Codes], None]) -> None:
        """Give up the numbers of groups that have gone; tell whoever uses them the new ones.  Of
        tuples that stay, none goes."""
        del renumbered

    @abstractmethod
    def save(self, store: ChunkStore) -> None: ...

    @abstractmethod
    def load(self, store: ChunkStore) -> None: ...


def contents_of(node: GroupAggregate, folder: Folder) -> GroupContents:
    from penstock.operators.running.rows_by_value import RowsByValue

    if not node.input.takes_back:
        return Folded(folder)
    return Netted(folder) if folder.differential else RowsByValue(node, folder)


class Folded(GroupContents):
    """Of tuples that stay."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)
        self._partials = folder.new()
        self._written = BlockWriter(folder, "groups")

    def take_in(self, change: Change) -> None:
        self.folder.fold(self._partials, change.rows)
        self._written.touch(change.touched)

    def present(self, codes: Codes) -> Codes:
        self.folder.grow(self._partials)
        return codes[self._partials.rows.rows[codes] > 0]

    def results(self, codes: Codes) -> list[pa.Array]:
        return self.folder.results(self._partials, codes)

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self._written.save(store, self._partials)

    def load(self, store: ChunkStore) -> None:
        self.folder.keys.load(store)
        self._partials = self._written.load(store)


class Netted(GroupContents):
    """Of rows that may be taken back, by aggregates that can be subtracted."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)
        self._sides = [folder.new(), folder.new()]  # of what was given, of what was taken back
        self._written = [BlockWriter(folder, name) for name in ("given", "taken")]
        self._dead = DeadKeys(folder)

    def take_in(self, change: Change) -> None:
        if change.signs is None:
            self._fold(0, change.rows)
            return
        for side, places in enumerate((change.signs > 0, change.signs < 0)):
            if places.any():
                self._fold(side, change.rows.take(np.flatnonzero(places)))

    def _fold(self, side: int, rows: Rows) -> None:
        self.folder.fold(self._sides[side], rows)
        self._written[side].touch(different(rows.codes))

    def present(self, codes: Codes) -> Codes:
        given, taken = self._grown()
        return codes[given.rows.rows[codes] > taken.rows.rows[codes]]

    def results(self, codes: Codes) -> list[pa.Array]:
        given, taken = (self.folder.take_apart(side, codes) for side in self._grown())
        self.folder.subtract_apart(given, taken)
        return self.folder.results(given, np.arange(len(codes)))

    def _grown(self) -> list[Partials]:
        for side in self._sides:
            self.folder.grow(side)
        return self._sides

    def forget(self, renumbered: Callable[[Codes], None]) -> None:
        def mark(live: Mask) -> None:
            live[self.present(np.arange(len(live)))] = True

        def renumber(codes: Codes, place: Codes) -> None:
            self._sides = [self.folder.take_apart(side, codes) for side in self._grown()]
            for each in self._written:
                each.write_all()
            renumbered(place)

        self._dead.forget(mark, renumber)

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        for side, written in zip(self._sides, self._written, strict=True):
            written.save(Within(store, f"{written.name}/"), side)

    def load(self, store: ChunkStore) -> None:
        self.folder.keys.load(store)
        self._sides = [each.load(Within(store, f"{each.name}/")) for each in self._written]
