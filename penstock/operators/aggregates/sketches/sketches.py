"""Sketches of Apache DataSketches: one for each group with more values than are kept exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar, Self

import datasketches
import numpy as np

from penstock.model.arrays import Floats, Ints
from penstock.model.types import Kind, Type
from penstock.operators.aggregates.sortable import Sortable, to_doubles

DISTINCT_LG_K = 12  # 4096 registers of a byte: a standard error of 1.6 %
QUANTILE_K = 200  # ranks are within 1.33 % of the rows, 99 times in 100
FREQUENT_LG_K = 10  # 768 values: counts are within 0.35 % of the rows


class Sketch(ABC):
    """What is known of the values of one group, in bounded space."""

    nbytes: ClassVar[int]  # about, when it is full

    @abstractmethod
    def add(self, values: Sortable, counts: Ints) -> None:
        """Take in different values, each of which occurred so often."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take in another sketch, which stays as it is."""

    @abstractmethod
    def save(self) -> bytes: ...

    @abstractmethod
    def load(self, saved: bytes) -> None: ...


class DistinctSketch(Sketch):
    """HyperLogLog.  Its registers are a function of the set of values."""

    nbytes = 1 << DISTINCT_LG_K

    def __init__(self) -> None:
        self._union = datasketches.hll_union(DISTINCT_LG_K)

    def add(self, values: Sortable, counts: Ints) -> None:  # noqa: ARG002
        consume = deque[None](maxlen=0).extend
        if values.dtype == object:
            # with a letter before it, because an empty text is taken for no value at all
            consume(map(self._union.update, (f"_{text}" for text in map(_text, values))))
        else:
            consume(map(self._union.update, values.tolist()))

    def merge(self, other: DistinctSketch) -> None:
        self._union.update(other._result())

    def save(self) -> bytes:
        return bytes(self._result().serialize_compact())

    def load(self, saved: bytes) -> None:
        self._union.update(datasketches.hll_sketch.deserialize(saved))

    def estimate(self) -> int:
        """From the registers alone: two merges make the library leave out what it remembers of the
        order in which values came."""
        union, result = datasketches.hll_union(DISTINCT_LG_K), self._result()
        union.update(result)
        union.update(result)
        return round(float(union.get_estimate()))

    def _result(self) -> Any:
        return self._union.get_result(datasketches.HLL_8)


class QuantileSketch(Sketch):
    """KLL.  NaNs, which it does not take, are counted apart: they are the largest numbers."""

    nbytes = 8 * 3 * QUANTILE_K

    def __init__(self) -> None:
        self._sketch = datasketches.kll_doubles_sketch(QUANTILE_K)
        self._nans = 0

    def add(self, values: Sortable, counts: Ints) -> None:
        doubles = to_doubles(values)
        nan = np.isnan(doubles)
        self._nans += int(counts[nan].sum())
        self._sketch.update(np.repeat(doubles[~nan], counts[~nan]))

    def merge(self, other: QuantileSketch) -> None:
        self._sketch.merge(other._sketch)
        self._nans += other._nans

    def save(self) -> bytes:
        return self._nans.to_bytes(8, "little") + bytes(self._sketch.serialize())

    def load(self, saved: bytes) -> None:
        self._nans = int.from_bytes(saved[:8], "little")
        self._sketch = datasketches.kll_doubles_sketch.deserialize(saved[8:])

    @property
    def rows(self) -> int:
        return int(self._sketch.n) + self._nans

    def at(self, ranks: Ints) -> Floats:
        """About the values at some places among the rows in order."""
        found = np.full(len(ranks), np.nan)
        number = ranks < self._sketch.n
        if number.any():
            shares = (ranks[number] + 0.5) / self._sketch.n
            found[number] = self._sketch.get_quantiles(shares.tolist())
        return found


class FrequentSketch(Sketch):
    """Frequent items.  Values are in it as texts."""

    nbytes = 32 << FREQUENT_LG_K

    def __init__(self) -> None:
        self._sketch = datasketches.frequent_strings_sketch(FREQUENT_LG_K)

    def add(self, values: Sortable, counts: Ints) -> None:
        deque(map(self._sketch.update, map(_text, values.tolist()), counts.tolist()), maxlen=0)

    def merge(self, other: FrequentSketch) -> None:
        self._sketch.merge(other._sketch)

    def save(self) -> bytes:
        return bytes(self._sketch.serialize())

    def load(self, saved: bytes) -> None:
        self._sketch = datasketches.frequent_strings_sketch.deserialize(saved)

    @property
    def rows(self) -> int:
        return int(self._sketch.total_weight)

    def found(self, argument: Type) -> tuple[Sortable, Ints]:
        """The values that may be frequent, with counts that are never too small: the most frequent
        first, the smaller first among equals."""
        items = self._sketch.get_frequent_items(datasketches.NO_FALSE_NEGATIVES)
        read = _READERS.get(argument.kind, int)
        pairs = sorted((-estimate, read(text)) for text, estimate, _, _ in items)
        values = np.empty(len(pairs), object if argument.kind in _READERS else np.int64)
        values[:] = [value for _, value in pairs]
        return values, np.array([-count for count, _ in pairs], np.int64)


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


_READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.STRING: str,
    Kind.BINARY: bytes.fromhex,
    Kind.DECIMAL: Decimal,
}
