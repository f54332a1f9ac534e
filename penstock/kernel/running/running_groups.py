"""Running aggregates (EMIT CHANGES): groups that never complete, kept as partial results or rows,
whose rows are retracted and replaced; and operators whose early answers come with every batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch, Signs
from penstock.kernel.bounds import to_ticks
from penstock.kernel.grouping.folding import DeadKeys, Folder, Partials, Rows
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.operator import (
    NOTHING_OPEN,
    Base,
    Item,
    Metrics,
    OpenResults,
    Operator,
    Progress,
    at_once,
    bytes_of,
)
from penstock.kernel.revisions.emitted_rows import (
    Above,
    Emitted,
    Groups,
    Provisional,
    joined,
    provisional,
    signed,
    typed,
)
from penstock.kernel.state import ChunkStore, Within, required
from penstock.model.arrays import Codes, Ints, Mask, different, stable_order
from penstock.plan.nodes.aggregation import GroupAggregate
from penstock.plan.physical import Asked

_GROUPS_A_BLOCK = 4096  # groups that are saved together


class BlockWriter:
    """Partial results in blocks of groups, of which a save writes those that have changed."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self.name = name
        self._touched: set[int] = set()
        self._blocks = 0  # how many the store has

    def touch(self, codes: Codes) -> None:
        self._touched.update(different(codes // _GROUPS_A_BLOCK).tolist())

    def write_all(self) -> None:
        """Mark all blocks as changed, because groups have other numbers now."""
        self._touched = set(range(self._needed))

    @property
    def _needed(self) -> int:
        return -(-len(self._folder.keys) // _GROUPS_A_BLOCK)

    def save(self, store: ChunkStore, partials: Partials) -> None:
        self._folder.grow(partials)
        size = len(self._folder.keys)
        for block in sorted(each for each in self._touched if each < self._needed):
            codes = np.arange(block * _GROUPS_A_BLOCK, min(size, (block + 1) * _GROUPS_A_BLOCK))
            codes = codes[partials.rows.rows[codes] > 0]
            store.put(
                f"{self.name}/{block}",
                self._folder.save(self._folder.take_apart(partials, codes), codes),
            )
        for block in range(self._needed, self._blocks):
            store.drop(f"{self.name}/{block}")
        self._blocks = self._needed
        self._touched.clear()

    def load(self, store: ChunkStore) -> Partials:
        """Restore the partial results of all groups, whose keys must be known by then."""
        self._blocks = self._needed
        partials = self._folder.new()
        for block in range(self._blocks):
            saved = store.get(f"{self.name}/{block}")
            if saved is not None:
                self._folder.merge(partials, self._folder.load(saved))
        return partials


# The contents of groups under a running aggregate.
#
# Tuples that are never retracted are folded and dropped.  For rows that may be retracted, partial
# results are kept twice, of all insertions and of all retractions, if the aggregates can be
# subtracted; otherwise the rows themselves.


@dataclass(slots=True)
class Change:
    """Rows that come to some groups, or go; `touched` are the groups, each once and ascending."""

    batch: pa.RecordBatch
    rows: Rows
    signs: Signs | None
    touched: Codes


class GroupContents(ABC):
    """Contents of the groups of a running aggregate; subclasses differ in how they handle
    retractions."""

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
        """The groups among these that have rows."""

    @abstractmethod
    def results(self, codes: Codes) -> list[pa.Array]:
        """Results of groups that have rows, whose codes ascend."""

    @property
    def rows_held(self) -> int:
        return 0

    def forget(self, renumbered: Callable[[Codes], None]) -> None:
        """Give up the numbers of groups that have no rows any more; `renumbered` is called with the
        new numbers.  A no-op where tuples are never retracted."""
        del renumbered

    @abstractmethod
    def save(self, store: ChunkStore) -> None: ...

    @abstractmethod
    def load(self, store: ChunkStore) -> None: ...


def contents_of(node: GroupAggregate, folder: Folder) -> GroupContents:

    if not node.input.takes_back:
        return Folded(folder)
    return Netted(folder) if folder.differential else RowsByValue(node, folder)


class Folded(GroupContents):
    """Contents of groups whose tuples are never retracted: partial results."""

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
    """Contents of groups whose rows may be retracted, for aggregates that can be subtracted."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)
        self._sides = [folder.new(), folder.new()]  # of insertions, of retractions
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


# Rows by group: those of some groups are found without reading all rows.

_FEW = 1024  # rows that are looked through one by one


class RowsByGroup:
    """The groups of rows that are numbered as they are added.  Most are sorted by group; those that
    were added last are not.

    >>> rows = RowsByGroup()
    >>> rows.add(np.array([5, 7, 5]))
    >>> rows.of(np.array([5])), rows.of(np.array([3]))
    (array([0, 2]), array([], dtype=int64))
    """

    def __init__(self) -> None:
        self._groups: Codes = np.zeros(0, np.int64)
        self._size = 0
        self._order: Ints = np.zeros(0, np.int64)  # of the first rows, by their groups
        self._sorted: Codes = np.zeros(0, np.int64)

    @property
    def groups(self) -> Codes:
        return self._groups[: self._size]

    def add(self, groups: Codes) -> None:
        needed = self._size + len(groups)
        if needed > len(self._groups):
            longer = np.zeros(max(needed, 2 * len(self._groups)), np.int64)
            longer[: self._size] = self.groups
            self._groups = longer
        self._groups[self._size : needed] = groups
        self._size = needed

    def of(self, groups: Codes) -> Ints:
        """The rows of some groups, which ascend, in the order in which they were added."""
        if self._size - len(self._order) > max(_FEW, len(self._order) // 2):
            self._order = stable_order(self.groups)
            self._sorted = self.groups[self._order]
        begin = np.searchsorted(self._sorted, groups)
        counts = np.searchsorted(self._sorted, groups, side="right") - begin
        total = int(counts.sum())
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        found = self._order[np.repeat(begin, counts) + within]
        behind = len(self._order)
        newest = behind + np.flatnonzero(np.isin(self._groups[behind : self._size], groups))
        rows: Ints = np.concatenate([np.sort(found), newest])
        return rows


# Rows of a running aggregate that may be retracted, kept by their values: the rows left in a group
# are folded again whenever it changes.  That is for aggregates that cannot be subtracted, such as
# max.

_COUNTS_A_BLOCK = 4096  # counts that are saved together


class RowsByValue(GroupContents):
    """Contents of groups whose rows may be retracted, for aggregates that cannot be subtracted:
    rows by value, with counts."""

    def __init__(self, node: GroupAggregate, folder: Folder) -> None:
        super().__init__(folder)
        schema = node.input.schema
        self._schema = schema.arrow
        self._types = [field.type for field in schema]
        time = node.time
        self._time = None if time is None else (compile_expression(time, schema), time.type)
        self._rows = KeyCodes(self._types)
        self._counts: Ints = np.zeros(0, np.int64)  # how often each of them is there
        self._groups = RowsByGroup()  # the groups of rows
        self._totals: Ints = np.zeros(0, np.int64)  # rows of every group
        self._touched: set[int] = set()
        self._blocks = 0
        self._dead = DeadKeys(folder)

    @property
    def rows_held(self) -> int:
        return int(self._counts[: len(self._rows)].sum())

    def take_in(self, change: Change) -> None:
        known = len(self._rows)
        codes = self._rows.encode(change.batch.columns, change.batch.num_rows)
        self._counts = grown(self._counts, len(self._rows), 0)
        signs = np.ones(len(codes), np.int64) if change.signs is None else change.signs
        np.add.at(self._counts, codes, signs)
        if len(self._rows) > known:
            groups: Codes = np.zeros(len(self._rows) - known, np.int64)
            fresh = codes >= known
            groups[codes[fresh] - known] = change.rows.codes[fresh]
            self._groups.add(groups)
        self._totals = grown(self._totals, len(self), 0)
        np.add.at(self._totals, change.rows.codes, signs)
        self._touched.update(different(codes // _COUNTS_A_BLOCK).tolist())

    def present(self, codes: Codes) -> Codes:
        self._totals = grown(self._totals, len(self), 0)
        return codes[self._totals[codes] > 0]

    def results(self, codes: Codes) -> list[pa.Array]:
        kept = self._groups.of(codes)
        kept = kept[self._counts[kept] > 0]
        kept = np.repeat(kept, self._counts[kept])
        rows = pa.RecordBatch.from_arrays(self._rows.take(kept), schema=self._schema)
        positions: Ints = np.zeros(len(kept), np.int64)
        if self._time is not None:
            time, sql_type = self._time
            positions = to_ticks(time(rows), sql_type)
        given = self.folder.rows(rows, positions)
        given.codes = np.searchsorted(codes, given.codes)
        partials = self.folder.folded(given, max(1, len(codes)))
        return self.folder.results(partials, np.arange(len(codes)))

    def forget(self, renumbered: Callable[[Codes], None]) -> None:
        """Drop rows that have been retracted, and groups without rows."""

        def mark(live: Mask) -> None:
            live[self.present(np.arange(len(live)))] = True

        def renumber(codes: Codes, place: Codes) -> None:
            self._totals = self._totals[codes]
            self._only_present(place)
            renumbered(place)

        self._dead.forget(mark, renumber)
        size = len(self._rows)
        if size >= 2 * max(2048, int(np.count_nonzero(self._counts[:size]))):
            self._only_present(np.arange(len(self)))

    def _only_present(self, place: Codes) -> None:
        kept = np.flatnonzero(self._counts[: len(self._rows)])
        groups = place[self._groups.groups[kept]]
        self._rows, self._counts = self._rows.only(kept), self._counts[kept]
        self._groups = RowsByGroup()
        self._groups.add(groups)
        self._touched = set(range(self._needed))

    @property
    def _needed(self) -> int:
        return -(-len(self._rows) // _COUNTS_A_BLOCK)

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self._rows.save(Within(store, "rows/"))
        for block in sorted(each for each in self._touched if each < self._needed):
            which = np.s_[
                block * _COUNTS_A_BLOCK : min(len(self._rows), (block + 1) * _COUNTS_A_BLOCK)
            ]
            counts = {"counts": self._counts[which], "groups": self._groups.groups[which]}
            store.put(f"counts/{block}", counts)
        for block in range(self._needed, self._blocks):
            store.drop(f"counts/{block}")
        self._blocks = self._needed
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        self.folder.keys.load(store)
        self._rows.load(Within(store, "rows/"))
        self._blocks = self._needed
        saved = [required(store, f"counts/{block}") for block in range(self._blocks)]
        if saved:
            self._counts = np.concatenate([each["counts"] for each in saved])
            self._groups.add(np.concatenate([each["groups"] for each in saved]))
        self._totals = np.zeros(max(1, len(self)), np.int64)
        np.add.at(self._totals, self._groups.groups, self._counts)


# Aggregates without a window (EMIT CHANGES): the row of a group is retracted and replaced whenever
# a batch changes it.
#
# The row emitted for a group follows from its partial results before the batch, so nothing else is
# kept of it.

_NONE: Codes = np.zeros(0, np.int64)


class RunningGroups(Base):
    """Running GROUP BY: emit the change of every group that a batch touches."""

    def __init__(self, node: GroupAggregate, asked: Asked | None = None) -> None:
        self.node = node
        self.schema = node.schema.arrow
        time = node.time
        self._time_type = None if time is None else time.type
        self._time = None if time is None else compile_expression(time, node.input.schema)
        self._check = None if asked is None else Above.of(asked.above)
        folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self._contents: GroupContents = contents_of(node, folder)
        self._failing: Codes = _NONE  # groups whose results have no value at present

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        signs = batch.signs
        if signs is not None and not (signs < 0).any():
            signs = None
        change = self._contents.change(batch.rows, self._positions(batch.rows), signs)
        before = self._results(change.touched)
        self._contents.take_in(change)
        now = self._results(change.touched)
        left = np.setdiff1d(self._failing, change.touched, assume_unique=True)
        self._failing = np.union1d(left, now.failing)
        yield from self._changes(before, now)
        self._contents.forget(self._renumber)

    def _positions(self, rows: pa.RecordBatch) -> Ints:
        if self._time is None or self._time_type is None:
            return np.zeros(rows.num_rows, np.int64)
        return to_ticks(self._time(rows), self._time_type)

    def _results(self, touched: Codes) -> Provisional:
        """Results of the groups among these that have rows."""
        codes = self._contents.present(touched)
        return provisional(self._finish, codes)

    def _finish(self, codes: Codes) -> list[pa.Array]:
        keys = self._contents.folder.keys.take(codes)
        columns = typed([*keys, *self._contents.results(codes)], self.schema.types)
        if self._check is not None:
            self._check.attempt(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        return columns[len(keys) :]

    def _changes(self, before: Provisional, now: Provisional) -> Iterator[Item]:
        old, new = Groups(before.codes, before.columns), Groups(now.codes, now.columns)
        taken, given = Emitted(old).revise(new)
        said = [(each, sign) for each, sign in ((taken, -1), (given, 1)) if each]
        if not said:
            return
        keys = self._contents.folder.keys
        rows = joined([each.in_order(keys.order_of(each.codes)) for each, _ in said])
        signs = [np.full(len(each), sign, np.int8) for each, sign in said]
        yield signed([*keys.take(rows.codes), *rows.columns], self.schema, np.concatenate(signs))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        if progress.ended and len(self._failing):
            error = self._results(self._failing).error
            assert error is not None
            raise error  # nothing can change it any more
        yield Progress(ended=progress.ended)

    def _renumber(self, place: Codes) -> None:
        self._failing = place[self._failing]

    def metrics(self) -> Metrics:
        groups = {"groups kept": len(self._contents)}
        return Metrics(self.rows_held(), bytes_of(vars(self)), 0, groups)

    def rows_held(self) -> int:
        return self._contents.rows_held

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN  # all of them are out, as they are

    def save(self, store: ChunkStore) -> None:
        self._contents.save(store)
        store.put("run", {"failing": self._failing})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._contents.load(store)
            self._failing = saved["failing"]


# Windows and groups that complete, under EMIT CHANGES: changes are emitted with the batch that
# causes them.


class AnswersEarly(Operator, Protocol):
    """An operator with provisional results, which `early` emits."""

    def early(self) -> Iterator[Item]:
        """Emit provisional results of what has changed since the last call."""
        ...


class AtOnce(Base):
    """An operator whose early answers come with every batch, not by a clock."""

    def __init__(self, operator: AnswersEarly) -> None:
        self.operator = operator

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        yield from self.operator.on_batch(port, batch)
        yield from self.operator.early()

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        return self.operator.on_progress(port, progress)

    def metrics(self) -> Metrics:
        return self.operator.metrics()

    def rows_held(self) -> int:
        return self.operator.rows_held()

    def open_results(self) -> OpenResults:
        return self.operator.open_results()

    def save(self, store: ChunkStore) -> None:
        self.operator.save(store)

    def load(self, store: ChunkStore) -> None:
        self.operator.load(store)
