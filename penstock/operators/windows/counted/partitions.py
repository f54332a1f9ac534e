"""Tuples for windows that count rows: split by partition, numbered, or waiting for a rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.folding.scatter import grown
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.append_log import AppendLog
from penstock.state.chunks import ChunkStore, Tree, Within, required
from penstock.windows.rows import Order, row_numbers_of

_BLOCK = 1024  # partitions whose counts are saved together


class Partitions:
    """Numbers the tuples of each partition in the order in which they come here."""

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
        """How to put partitions in the order of their values."""
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
        self._touched.update(np.flatnonzero(np.bincount(codes // _BLOCK)).tolist())
        return codes, numbers

    def save(self, store: ChunkStore) -> None:
        self._keys.save(Within(store, "partitions/"))
        for block in self._touched:
            store.put(f"counts/{block}", self.counts[block * _BLOCK : (block + 1) * _BLOCK])
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        self._keys.load(Within(store, "partitions/"))
        self.counts = grown(self.counts, max(1, len(self._keys)), 0)
        for block in range(-(-len(self._keys) // _BLOCK)):
            counts = store.get(f"counts/{block}")
            if counts is not None:
                self.counts = grown(self.counts, block * _BLOCK + len(counts), 0)
                self.counts[block * _BLOCK : block * _BLOCK + len(counts)] = counts


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
        """The keys of the stream have got other codes."""
        known = place[self.known].tolist()
        self._numbers = {code: number for number, code in enumerate(known)}


def local_folder(folder: Folder) -> Folder:
    """The same aggregation with keys of its own."""
    local = copy(folder)
    local.keys = LocalKeys(folder)
    return local


def localized(folder: Folder, rows: Rows) -> Rows:
    if not isinstance(folder.keys, LocalKeys):
        return rows
    return Rows(folder.keys.localize(rows.codes), rows.positions, rows.arguments)


def known(folder: Folder, rows: Rows) -> Rows:
    """The other way round: by the codes that keys have in the stream."""
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
    """What is kept of one partition; its keys may be numbered apart."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._dead = DeadKeys(folder)

    @abstractmethod
    def mark(self, live: Mask) -> None:
        """Mark the groups of which something is kept."""

    @abstractmethod
    def renumber(self, codes: Codes, place: Codes) -> None:
        """The groups in `codes` stay, and get new numbers."""

    def forget_keys(self) -> None:
        """Give up the partition's own numbers for dead groups."""
        if isinstance(self.folder.keys, LocalKeys):
            self._dead.forget(self.mark, self.renumber)

    def mark_known(self, live: Mask) -> None:
        """The same by the codes that keys have in the stream."""
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
    """Tuples until the bound passes them; then they leave by value, ties by arrival."""

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
        """How many tuples wait."""
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
