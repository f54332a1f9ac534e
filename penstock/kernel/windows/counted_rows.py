"""Tuples of windows that count rows: split by partition, numbered, or waiting for a rank; and the
contents of stretches of numbered rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.aggregates.sums import Counts
from penstock.kernel.grouping.folding import (
    Arguments,
    DeadKeys,
    Folder,
    Partials,
    Rows,
    mark_groups,
)
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.state import AppendLog, ChunkStore, Tree, Within, required
from penstock.kernel.windows.panes import BlockContents, Panes, SlidingContents
from penstock.model.arrays import Codes, Ints, Mask, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Order, row_numbers_of

_PARTITIONS_A_BLOCK = 1024  # partitions whose counts are saved together


class Partitions:
    """Numbers of partitions, and of the tuples of each, in the order in which they come here."""

    def __init__(self, node: WindowAggregate) -> None:
        self._partitioned = bool(node.partition)
        types = [part.expression.type for part in node.partition]
        self._keys = KeyCodes(types, node.partition_order)
        schema = node.input.schema
        self._columns = [compile_expression(part.expression, schema) for part in node.partition]
        self.counts: Ints = np.zeros(1, np.int64)
        self._touched: set[int] = set()  # blocks of counts, since the last save

    def codes(self, batch: pa.RecordBatch) -> Codes:
        return self._keys.encode([column(batch) for column in self._columns], batch.num_rows)

    def order_of(self, codes: Codes) -> Ints:
        """Order of partitions by their values."""
        return self._keys.order_of(codes)

    def ranks(self, codes: Codes) -> Ints:
        """The places of partitions in that order."""
        different, inverse = np.unique(codes, return_inverse=True)
        ranks = np.empty(len(different), np.int64)
        ranks[self.order_of(different)] = np.arange(len(different))
        return ranks[inverse]

    def number(self, batch: pa.RecordBatch) -> tuple[Codes, Ints]:
        """The partition of each tuple, and its number there."""
        codes = self.codes(batch)
        self.counts = grown(self.counts, len(self._keys), 0)
        numbers = row_numbers_of(codes, codes, Order.ARRIVAL, self._partitioned)
        numbers += self.counts[codes]
        np.maximum.at(self.counts, codes, numbers + 1)
        self._touched.update(np.flatnonzero(np.bincount(codes // _PARTITIONS_A_BLOCK)).tolist())
        return codes, numbers

    def save(self, store: ChunkStore) -> None:
        self._keys.save(Within(store, "partitions/"))
        for block in self._touched:
            store.put(
                f"counts/{block}",
                self.counts[block * _PARTITIONS_A_BLOCK : (block + 1) * _PARTITIONS_A_BLOCK],
            )
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        self._keys.load(Within(store, "partitions/"))
        self.counts = grown(self.counts, max(1, len(self._keys)), 0)
        for block in range(-(-len(self._keys) // _PARTITIONS_A_BLOCK)):
            counts = store.get(f"counts/{block}")
            if counts is not None:
                self.counts = grown(self.counts, block * _PARTITIONS_A_BLOCK + len(counts), 0)
                self.counts[
                    block * _PARTITIONS_A_BLOCK : block * _PARTITIONS_A_BLOCK + len(counts)
                ] = counts


class LocalKeys(KeyCodes):
    """The keys that occur in one partition, numbered there, so that partial results of partitions
    need not have room for all keys of the stream."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def known(self) -> Codes:
        """The codes of the keys in the stream, by their numbers."""
        return np.fromiter(self._numbers, np.int64, len(self._numbers))

    def localize(self, codes: Codes) -> Codes:
        different, inverse = np.unique(codes, return_inverse=True)
        numbers = [self._numbers.setdefault(c, len(self._numbers)) for c in different.tolist()]
        local: Codes = np.array(numbers, np.int64)[inverse]
        return local

    def take(self, codes: Codes) -> list[pa.Array]:
        return self._folder.keys.take(self.known[codes])

    def order_of(self, codes: Codes) -> Ints:
        return self._folder.keys.order_of(self.known[codes])

    def present(self, rows: Ints) -> Codes:
        codes = np.flatnonzero(rows)
        return codes[self.order_of(codes)]

    def only(self, codes: Codes) -> LocalKeys:
        kept = LocalKeys(self._folder)
        kept._numbers = {code: number for number, code in enumerate(self.known[codes].tolist())}
        return kept

    def renumber(self, place: Codes) -> None:
        """Replace the codes that the keys have in the stream."""
        known = place[self.known].tolist()
        self._numbers = {code: number for number, code in enumerate(known)}


def local_folder(folder: Folder) -> Folder:
    """Folder of the same aggregation with keys of its own, which are numbered in one partition."""
    local = copy(folder)
    local.keys = LocalKeys(folder)
    return local


def localized(folder: Folder, rows: Rows) -> Rows:
    if not isinstance(folder.keys, LocalKeys):
        return rows
    return Rows(folder.keys.localize(rows.codes), rows.positions, rows.arguments)


def known(folder: Folder, rows: Rows) -> Rows:
    """Inverse of `localized`: rows by the codes that keys have in the stream."""
    if not isinstance(folder.keys, LocalKeys):
        return rows
    return Rows(folder.keys.known[rows.codes], rows.positions, rows.arguments)


def save_known(folder: Folder, partials: Partials) -> Tree:
    """Partial results by the codes that keys have in the stream."""
    saved = folder.save(partials)
    if isinstance(folder.keys, LocalKeys):
        saved["codes"] = folder.keys.known[saved["codes"]]
    return saved


def load_known(folder: Folder, saved: Tree) -> Partials:
    if isinstance(folder.keys, LocalKeys):
        saved["codes"] = folder.keys.localize(saved["codes"])
    return folder.load(saved)


class Partition(ABC):
    """State of one partition; its keys may be numbered apart."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._dead = DeadKeys(folder)

    @abstractmethod
    def mark(self, live: Mask) -> None:
        """Mark the groups that have state."""

    @abstractmethod
    def renumber(self, codes: Codes, place: Codes) -> None:
        """The groups in `codes` stay, and get new numbers."""

    def forget_keys(self) -> None:
        """Give up the partition's own numbers of dead groups."""
        if isinstance(self.folder.keys, LocalKeys):
            self._dead.forget(self.mark, self.renumber)

    def mark_known(self, live: Mask) -> None:
        """Mark the groups that have state, by the codes that keys have in the stream."""
        if isinstance(self.folder.keys, LocalKeys):
            live[self.folder.keys.known] = True
        else:
            self.mark(live)

    def renumber_known(self, codes: Codes, place: Codes) -> None:
        if isinstance(self.folder.keys, LocalKeys):
            self.folder.keys.renumber(place)
        else:
            self.renumber(codes, place)


class Waiting:
    """Sort buffer of tuples until the bound passes them; then they leave by value, ties by
    arrival."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._ticks: list[Ints] = []
        self._lowest: Bound = END
        self._passed: Bound = BEGINNING
        self._log = AppendLog("waiting")

    def add(self, batch: pa.RecordBatch, ticks: Ints) -> None:
        if batch.num_rows:
            self._keep(batch, ticks)
            self._log.append(*_piece(batch, ticks))

    def _keep(self, batch: pa.RecordBatch, ticks: Ints) -> None:
        if batch.num_rows:
            self._batches.append(batch)
            self._ticks.append(ticks)
            self._lowest = min(self._lowest, int(ticks.min()))

    def below(self, bound: Bound) -> tuple[pa.RecordBatch, Ints] | None:
        if self._lowest >= bound:
            return None
        ticks = np.concatenate(self._ticks)
        order = stable_order(ticks)
        ticks = ticks[order]
        names = self._batches[-1].schema.names  # those before may be from a run with others
        batches = [batch.rename_columns(names) for batch in self._batches]
        batch = pa.concat_batches(batches).take(pa.array(order))
        cut = len(ticks) if bound == END else int(np.searchsorted(ticks, int(bound)))
        self._batches, self._ticks, self._lowest = [], [], END
        self._keep(batch.slice(cut), ticks[cut:])
        self._passed = bound
        self._log.pass_(bound)
        return batch.slice(0, cut), ticks[:cut]

    @property
    def rows(self) -> int:
        """Number of tuples that wait."""
        return sum(batch.num_rows for batch in self._batches)

    def save(self, store: ChunkStore) -> None:
        pairs = zip(self._batches, self._ticks, strict=True)
        self._log.save(store, lambda: [_piece(batch, ticks) for batch, ticks in pairs])
        store.put("passed", self._passed)

    def load(self, store: ChunkStore) -> None:
        self._passed = required(store, "passed")
        for piece in self._log.load(store):
            kept = piece["ticks"] >= self._passed
            self._keep(piece["batch"].filter(pa.array(kept)), piece["ticks"][kept])


def _piece(batch: pa.RecordBatch, ticks: Ints) -> tuple[Tree, Bound]:
    return {"batch": batch, "ticks": ticks}, int(ticks.max()) + 1


# Rows in a settled order, and the contents of stretches of neighbouring ones.

_ROWS_A_BLOCK = 256  # rows that long extents share a partial result of
_LONG = 2048  # rows of an extent from which on blocks pay
_AT_ONCE = 1 << 20  # rows that short extents are expanded to at a time


class Extents:
    """Rows in an order that is settled, numbered on, and the contents of stretches of them.

    Short stretches are expanded: each row is folded once for every stretch that it is in, all of
    them at once.  Long ones share the partial results of blocks of rows, so that only the rows at
    their ends are folded again.
    """

    def __init__(self, folder: Folder, first: int = 0) -> None:
        self.folder = folder
        self.first = first  # the number of the first row that is kept
        self.rows: Rows | None = None
        self._blocks = Panes(folder)
        self._blocked = 0  # blocks below this number have been made, or are not needed
        self._contents: SlidingContents | BlockContents = (
            SlidingContents(folder, self._blocks)
            if folder.differential
            else BlockContents(folder, self._blocks)
        )

    def append(self, rows: Rows) -> None:
        self.rows = rows if self.rows is None else joined([self.rows, rows])

    def mark(self, live: Mask) -> None:
        """The groups that rows are of, or blocks."""
        if self.rows is not None:
            live[self.rows.codes] = True
        for block in self._blocks.all():
            mark_groups(live, block)

    def renumber(self, codes: Codes, place: Codes) -> None:
        def change(partials: Partials) -> Partials:
            return self.folder.take(partials, codes)

        if self.rows is not None:
            self.rows = replace(self.rows, codes=place[self.rows.codes])
        self._blocks.renumber(change)
        self._contents.renumber(change)

    def drop(self, before: int) -> None:
        """Drop the rows before a number."""
        if self.rows is not None and before > self.first:
            size = len(self.rows)
            gone = min(before - self.first, size)
            self.rows = self.rows.slice(gone, size) if gone < size else None
            self.first += gone

    def of(
        self, begins: Ints, ends: Ints, extra: Sequence[tuple[int, int, Rows]] = ()
    ) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The groups of the stretches from `begins` to before `ends`, both ascending: which stretch
        each is of, keys and results.  `extra` rows are also in stretches number i to before j."""
        if len(begins) == 0 or self.rows is None:
            return
        sizes = ends - begins
        if len(sizes) == 1 or sizes.sum() >= _LONG * len(sizes):
            yield from self._long(begins, ends, extra)
            return
        upto = np.cumsum(sizes)
        at = 0
        while at < len(begins):
            before = int(upto[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(upto, before + _AT_ONCE, side="right")))
            yield self._short(begins, sizes, extra, at, stop)
            at = stop

    def _short(
        self, begins: Ints, sizes: Ints, extra: Sequence[tuple[int, int, Rows]], at: int, stop: int
    ) -> tuple[Ints, list[pa.Array]]:
        assert self.rows is not None
        begins, sizes = begins[at:stop] - self.first, sizes[at:stop]
        which = np.repeat(np.arange(at, stop), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = [np.repeat(begins, sizes) + within]
        added = [(max(i, at), min(j, stop), rows) for i, j, rows in extra if i < stop and j > at]
        number = len(self.rows)
        for i, j, rows in added:
            for row in range(len(rows)):
                which = np.concatenate([which, np.arange(i, j)])
                places.append(np.full(j - i, number + row))
            number += len(rows)
        rows = joined([self.rows, *(each for _, _, each in added)]) if added else self.rows
        return fold_apart(self.folder, rows.take(np.concatenate(places)), which)

    def _long(
        self, begins: Ints, ends: Ints, extra: Sequence[tuple[int, int, Rows]]
    ) -> Iterator[tuple[Ints, list[pa.Array]]]:
        for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            content = self.folder.new()
            first, last = -(-begin // _ROWS_A_BLOCK), end // _ROWS_A_BLOCK
            if first < last:
                for number in range(max(first, self._blocked), last):
                    block = self._blocks.open(number)
                    self._fold(block, number * _ROWS_A_BLOCK, (number + 1) * _ROWS_A_BLOCK)
                self._blocked = max(self._blocked, last)
                self.folder.merge(content, self._contents.of(first, last))
                self._fold(content, begin, first * _ROWS_A_BLOCK)
                self._fold(content, last * _ROWS_A_BLOCK, end)
            else:
                self._fold(content, begin, end)
            for from_, to, rows in extra:
                if from_ <= i < to:
                    self.folder.fold(content, rows)
            codes = self.folder.present(content)
            yield np.full(len(codes), i), self.folder.finish(content, codes)

    def _fold(self, partials: Partials, begin: int, end: int) -> None:
        assert self.rows is not None
        if begin < end:
            rows = self.rows.slice(begin - self.first, end - self.first)
            self.folder.fold(partials, rows)


def fold_apart(folder: Folder, rows: Rows, which: Ints) -> tuple[Ints, list[pa.Array]]:
    """Fold rows into stretches, all at once: the stretch of each group, its keys and results."""
    width = max(1, len(folder.keys))
    first = int(which.min())
    groups = (which - first) * width + rows.codes
    known: Ints | None = None
    size = int(groups.max()) + 1
    if size > 4 * len(groups):  # most groups are in few stretches
        known, groups = np.unique(groups, return_inverse=True)
        size = len(known)
    partials = Partials(Counts(size), [each.new(size) for each in folder.aggregates])
    folder.fold(partials, Rows(groups, rows.positions, rows.arguments))
    codes = np.flatnonzero(partials.rows.rows)
    named = codes if known is None else known[codes]
    by_key = folder.keys.order_of(named % width)
    order = by_key[stable_order(named[by_key] // width)]
    codes, named = codes[order], named[order]
    pairs = zip(folder.aggregates, partials.parts, strict=True)
    results = [aggregate.finish(part, codes) for aggregate, part in pairs]
    return named // width + first, [*folder.keys.take(named % width), *results]


def joined(several: list[Rows]) -> Rows:
    """Concatenate rows."""
    arguments = []
    for each in zip(*(rows.arguments for rows in several), strict=True):
        columns = [
            pa.concat_arrays(parts) for parts in zip(*(a.columns for a in each), strict=True)
        ]
        chosen = None
        if any(a.chosen is not None for a in each):
            pairs = zip(each, several, strict=True)
            chosen = np.concatenate(
                [np.ones(len(r), np.bool_) if a.chosen is None else a.chosen for a, r in pairs]
            )
        arguments.append(Arguments(chosen, columns))
    return Rows(
        np.concatenate([rows.codes for rows in several]),
        np.concatenate([rows.positions for rows in several]),
        arguments,
    )
