"""Tuples for windows that count rows: split by partition, numbered, or waiting for a rank."""

from __future__ import annotations

from copy import copy

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.punctuation import END, Bound
from penstock.operators.exact_sums import Ints
from penstock.operators.folding import Folder, Rows
from penstock.operators.keys import KeyCodes
from penstock.operators.scatter import Codes, grown
from penstock.plan.aggregates import WindowAggregate
from penstock.windows.rows import Order, row_numbers_of


class Partitions:
    """Numbers the tuples of each partition in the order in which they come here."""

    def __init__(self, node: WindowAggregate) -> None:
        self._partitioned = bool(node.partition)
        self._keys = KeyCodes([part.expression.type for part in node.partition])
        schema = node.input.schema
        self._columns = [compile_expression(part.expression, schema) for part in node.partition]
        self._counts: Ints = np.zeros(1, np.int64)

    def codes(self, batch: pa.RecordBatch) -> Codes:
        return self._keys.encode([column(batch) for column in self._columns], batch.num_rows)

    def number(self, batch: pa.RecordBatch) -> tuple[Codes, Ints]:
        """The partition of each tuple, and its number there."""
        codes = self.codes(batch)
        self._counts = grown(self._counts, len(self._keys), 0)
        numbers = row_numbers_of(codes, codes, Order.ARRIVAL, self._partitioned)
        numbers += self._counts[codes]
        np.maximum.at(self._counts, codes, numbers + 1)
        return codes, numbers


class LocalKeys(KeyCodes):
    """The keys that occur in one partition, numbered there, so that partial results of partitions
    need not have room for all keys of the stream."""

    def __init__(self, known: KeyCodes) -> None:
        self._known = known
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def localize(self, codes: Codes) -> Codes:
        different, inverse = np.unique(codes, return_inverse=True)
        numbers = [self._numbers.setdefault(c, len(self._numbers)) for c in different.tolist()]
        local: Codes = np.array(numbers, np.int64)[inverse]
        return local

    def take(self, codes: Codes) -> list[pa.Array]:
        return self._known.take(np.fromiter(self._numbers, np.int64)[codes])


def local_folder(folder: Folder) -> Folder:
    """The same aggregation with keys of its own."""
    local = copy(folder)
    local.keys = LocalKeys(folder.keys)
    return local


def localized(folder: Folder, rows: Rows) -> Rows:
    if not isinstance(folder.keys, LocalKeys):
        return rows
    return Rows(folder.keys.localize(rows.codes), rows.positions, rows.arguments)


class Waiting:
    """Tuples until the bound passes them; then they leave by value, ties by arrival."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._ticks: list[Ints] = []
        self._lowest: Bound = END

    def add(self, batch: pa.RecordBatch, ticks: Ints) -> None:
        if batch.num_rows:
            self._batches.append(batch)
            self._ticks.append(ticks)
            self._lowest = min(self._lowest, int(ticks.min()))

    def below(self, bound: Bound) -> tuple[pa.RecordBatch, Ints] | None:
        if self._lowest >= bound:
            return None
        ticks = np.concatenate(self._ticks)
        order = np.argsort(ticks, kind="stable")
        ticks = ticks[order]
        batch = pa.concat_batches(self._batches).take(pa.array(order))
        cut = len(ticks) if bound == END else int(np.searchsorted(ticks, int(bound)))
        self._batches, self._ticks, self._lowest = [], [], END
        self.add(batch.slice(cut), ticks[cut:])
        return batch.slice(0, cut), ticks[:cut]
