"""Running OVER and LIMIT (EMIT CHANGES): the rows that are kept of each partition, those that
decide its answer, and the changes that follow when rows come or go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch, Signs
from penstock.kernel.grouping.folding import MANY
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.groups.group_by import as_batch
from penstock.kernel.operator import NOTHING_OPEN, Base, Item, OpenResults, Progress, at_once
from penstock.kernel.over.frames import RowsInPartitions
from penstock.kernel.over.row_order import PartitionSorter, RowOrder
from penstock.kernel.running.running_rows import KeyedRows, left_over, said
from penstock.kernel.state import ChunkStore, Within
from penstock.model.arrays import Codes, Ints, Mask, different
from penstock.plan.nodes.over import Numbering, RunningOver
from penstock.plan.physical import Asked

# Rows that are kept of the partitions of a running order, and those that decide the answer.
#
# Without a limit these are all rows.  With one, and if no row is ever retracted, only those within
# it are kept.  Otherwise every row is kept, but few are read (`LeadingRows`).


class Numbered(NamedTuple):
    """Rows, and the numbers of their partitions."""

    rows: pa.RecordBatch
    codes: Codes

    def take(self, places: Ints) -> Numbered:
        return Numbered(self.rows.take(pa.array(places)), self.codes[places])


class ChangedPartitions(NamedTuple):
    """The rows by which some partitions are answered, before a batch and after it."""

    before: Numbered
    after: Numbered


CodesOf = Callable[[pa.RecordBatch], Codes]


class PartitionRows(ABC):
    """Rows that are kept of partitions, and the change of those that decide the answer."""

    @abstractmethod
    def change(self, given: Numbered, signs: Signs) -> ChangedPartitions:
        """Insert rows, or remove them."""

    @abstractmethod
    def kept(self) -> list[KeyedRows]: ...

    def __len__(self) -> int:
        return sum(map(len, self.kept()))

    def renumber(self, codes_of: CodesOf) -> None:
        """Replace the numbers of partitions by new ones."""
        for each in self.kept():
            each.renumbered(codes_of)

    @abstractmethod
    def save(self, store: ChunkStore) -> None: ...

    @abstractmethod
    def load(self, store: ChunkStore, codes_of: CodesOf) -> None: ...


class WholePartitions(PartitionRows):
    """All rows of every partition, or those within the limit where rows are never retracted."""

    def __init__(self, node: RunningOver, sorter: PartitionSorter) -> None:
        self._sorter = sorter
        self._forgets = node.forgets
        takes_back = node.forgets or node.input.takes_back
        self._rows = KeyedRows(node.input.schema.arrow, takes_back)

    def kept(self) -> list[KeyedRows]:
        return [self._rows]

    def change(self, given: Numbered, signs: Signs) -> ChangedPartitions:
        old = Numbered(*self._rows.of(different(given.codes)))
        if not self._forgets:
            self._rows.add(given.rows, given.codes, signs)
            return ChangedPartitions(old, together(old, given, signs))
        now = joined(old, given)
        sorted_now, places = self._sorter.sort(*now)
        within = np.zeros(len(now.codes), np.bool_)
        within[places[self._sorter.within_limit(sorted_now)]] = True
        fresh = np.arange(len(within)) >= len(old.codes)
        changed = np.flatnonzero(within == fresh)  # new ones that stay, others that go
        signs = np.where(within, 1, -1).astype(np.int8)
        self._rows.add(*now.take(changed), signs[changed])
        return ChangedPartitions(old, now.take(np.flatnonzero(within)))

    def save(self, store: ChunkStore) -> None:
        self._rows.save(store)

    def load(self, store: ChunkStore, codes_of: CodesOf) -> None:
        load_rows(self._rows, store, codes_of)


def load_rows(kept: KeyedRows, store: ChunkStore, codes_of: CodesOf) -> None:
    if store.get("runs") is not None:
        for run in kept.load(store):
            kept.resume(run, codes_of(run.rows))


def joined(one: Numbered, other: Numbered) -> Numbered:
    rows = pa.concat_batches([one.rows, other.rows])
    return Numbered(rows, np.concatenate([one.codes, other.codes]))


def together(old: Numbered, given: Numbered, signs: Signs) -> Numbered:
    """Rows that were kept and rows that come or go, less those that cancel each other by value."""
    now = joined(old, given)
    left = left_over(now.rows.columns, np.concatenate([ones(len(old.codes)), signs]))
    return now if len(left) == len(now.codes) else now.take(left)


def ones(size: int) -> Signs:
    return np.ones(size, np.int8)


# Partitions with a limit of which any row may be retracted: all rows are kept, and few are read.
#
# The first rows of a partition are its head, some more than the limit; all others stand behind it.
# Rows come to the head or behind it by their place in the order.  When so many have left the head
# that it does not decide any more which rows are within the limit, it is filled again from behind.

_MORE = 64  # rows beyond the limit in a head that was just filled; at most twice as many


class LeadingRows(PartitionRows):
    """Heads of partitions, which decide the rows within the limit, and all other rows behind
    them."""

    def __init__(self, node: RunningOver, sorter: PartitionSorter) -> None:
        schema = node.input.schema
        assert node.most is not None
        self._sorter = sorter
        self._more = max(_MORE, node.most[1])
        self._order = RowOrder(node, schema, total=True)
        self._head = KeyedRows(schema.arrow, True)
        self._rest = KeyedRows(schema.arrow, True)
        self._behind: Ints = np.zeros(0, np.int64)  # rows of every partition behind its head

    def kept(self) -> list[KeyedRows]:
        return [self._head, self._rest]

    def change(self, given: Numbered, signs: Signs) -> ChangedPartitions:
        self._behind = grown(self._behind, int(given.codes.max()) + 1, 0)
        touched = different(given.codes)
        old = Numbered(*self._head.of(touched))
        ahead = self._ahead(old, given)
        behind = np.flatnonzero(~ahead)
        if len(behind):
            self._put_behind(given.take(behind), signs[behind])
            own = np.flatnonzero(ahead)
            given, signs = given.take(own), signs[own]
        self._head.add(*given, signs)
        now = together(old, given, signs)
        return ChangedPartitions(old, self._cut(self._filled(now, touched)))

    def _ahead(self, old: Numbered, given: Numbered) -> Mask:
        """Mask of the rows that belong to the heads: none of them comes after the last row
        there."""
        ahead: Mask = self._behind[given.codes] == 0
        others = np.flatnonzero(~ahead)
        if not len(others):
            return ahead
        known = len(old.codes)
        rows, codes = joined(old, given.take(others))
        order = self._order.sort(rows, codes)
        peers = np.empty(len(codes), np.int64)
        peers[order.places] = order.peers
        last = np.full(len(self._behind), -1, np.int64)
        np.maximum.at(last, old.codes, peers[:known])
        ahead[others] = peers[known:] <= last[codes[known:]]
        return ahead

    def _filled(self, now: Numbered, touched: Codes) -> Numbered:
        """The heads, with as many rows from behind as they need."""
        waiting = touched[self._behind[touched] > 0]
        if not len(waiting):
            return now
        sorted_now, _ = self._sorter.sort(*now)
        numbers = self._sorter.limited_numbers(sorted_now)
        decided = sorted_now.codes[numbers > self._sorter.limit]
        short = np.setdiff1d(waiting, decided)
        if not len(short):
            return now
        rest = Numbered(*self._rest.of(short))
        own = np.flatnonzero(np.isin(now.codes, short))
        known = len(own)
        both = joined(now.take(own), rest)
        kept = self._leading(both, self._more)
        moved = both.take(kept[kept >= known])
        self._head.add(*moved, ones(len(moved.codes)))
        self._put_behind(moved, -ones(len(moved.codes)))
        return joined(now, moved)

    def _cut(self, now: Numbered) -> Numbered:
        """The heads, without what they have too much of."""
        if len(now.codes) <= 2 * self._more:
            return now
        sizes = np.bincount(now.codes, minlength=len(self._behind))
        long = np.flatnonzero(sizes > self._sorter.limit + 2 * self._more)
        own = np.flatnonzero(np.isin(now.codes, long))
        if not len(own):
            return now
        beyond = np.ones(len(own), np.bool_)
        beyond[self._leading(now.take(own), self._more)] = False
        gone = now.take(own[beyond])
        self._head.add(*gone, -ones(len(gone.codes)))
        self._put_behind(gone, ones(len(gone.codes)))
        kept = np.ones(len(now.codes), np.bool_)
        kept[own[beyond]] = False
        return now.take(np.flatnonzero(kept))

    def _leading(self, given: Numbered, more: int) -> Ints:
        """The places of the rows within the limit, and of some more of every partition."""
        order = self._order.sort(*given)
        rows = given.rows.take(pa.array(order.places))
        exact = RowsInPartitions(rows, given.codes[order.places], order.peers)
        numbered, places = self._sorter.sort(*given)
        within = np.zeros(len(self._behind), np.int64)
        limited = self._sorter.limited_numbers(numbered) <= self._sorter.limit
        np.add.at(within, given.codes[places[limited]], 1)
        place = np.arange(len(exact)) - exact.begin
        return np.sort(order.places[place < within[exact.codes] + more])

    def _put_behind(self, given: Numbered, signs: Signs) -> None:
        self._rest.add(*given, signs)
        np.add.at(self._behind, given.codes, signs)

    # --- state -----------------------------------------------------------------------------------

    def _count(self) -> None:
        codes = [run.codes for run in self._rest.runs]
        self._behind = np.zeros(max((int(each.max()) + 1 for each in codes), default=0), np.int64)
        for run in self._rest.runs:
            np.add.at(self._behind, run.codes, run.signs)

    def renumber(self, codes_of: CodesOf) -> None:
        super().renumber(codes_of)
        self._count()

    def save(self, store: ChunkStore) -> None:
        self._head.save(Within(store, "head/"))
        self._rest.save(Within(store, "rest/"))

    def load(self, store: ChunkStore, codes_of: CodesOf) -> None:
        load_rows(self._head, Within(store, "head/"), codes_of)
        load_rows(self._rest, Within(store, "rest/"), codes_of)
        self._count()


# OVER and LIMIT without an end (EMIT CHANGES): rows of a partition are put in order again whenever
# one comes to it or goes, and the changes are emitted.


class RunningPartitions(Base):
    """Running OVER and LIMIT: answer the partitions that a batch touches again, and emit the
    difference."""

    def __init__(self, node: RunningOver, asked: Asked | None = None) -> None:  # noqa: ARG002
        self._schema = node.schema.arrow
        self._sorter = PartitionSorter(node)
        self._types = [each.type for each in node.partition]
        self._keys = KeyCodes(self._types)
        self._rows = rows_of(node, self._sorter)
        self._look_again = MANY

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        signs = ones(batch.num_rows) if batch.signs is None else batch.signs
        changed = self._rows.change(Numbered(batch.rows, self._codes_of(batch.rows)), signs)
        before, after = self._answered(changed.before), self._answered(changed.after)
        change = np.concatenate([-ones(before.num_rows), ones(after.num_rows)])
        batch_said = said(pa.concat_batches([before, after]), change)
        if batch_said is not None:
            yield batch_said
        self._forget_keys()

    def _codes_of(self, rows: pa.RecordBatch) -> Codes:
        return self._keys.encode(self._sorter.keys(rows), rows.num_rows)

    def _answered(self, rows: Numbered) -> pa.RecordBatch:
        given, _ = self._sorter.sort(*rows)
        targets = self._sorter.shown(given)
        made = self._sorter.answered(given, targets)
        return as_batch([*given.rows.take(pa.array(targets)).columns, *made], self._schema)

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        return [Progress(ended=progress.ended)]

    # --- state -----------------------------------------------------------------------------------

    def _forget_keys(self) -> None:
        """Number partitions again when most of them have no rows any more."""
        if len(self._keys) < self._look_again:
            return
        runs = [run for kept in self._rows.kept() for run in kept.runs]
        live = set[int]().union(*(np.unique(run.codes).tolist() for run in runs))
        if 2 * len(live) < len(self._keys):
            self._keys = KeyCodes(self._types)
            self._rows.renumber(self._codes_of)
        self._look_again = max(MANY, 2 * len(self._keys))

    def rows_held(self) -> int:
        return len(self._rows)

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN  # all of them are out, as they are

    def save(self, store: ChunkStore) -> None:
        self._rows.save(store)

    def load(self, store: ChunkStore) -> None:
        self._rows.load(store, self._codes_of)


def rows_of(node: RunningOver, sorter: PartitionSorter) -> PartitionRows:
    """Choose the rows to keep for a node; whole partitions for rows with arrays and other nested
    values, which have no total order."""
    numbered = all(isinstance(each.call, Numbering) for each in node.calls)
    nested = any(field.type.is_nested for field in node.input.schema)
    if node.most is None or node.forgets or nested or not numbered:
        return WholePartitions(node, sorter)
    return LeadingRows(node, sorter)
