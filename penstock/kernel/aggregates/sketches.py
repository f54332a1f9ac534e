"""Approximate aggregates on sketches of Apache DataSketches: a sketch for each group with more
values than are kept exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar, Generic, Self, TypeVar

import datasketches
import numpy as np
import pyarrow as pa

from penstock.kernel.aggregates.aggregate import (
    Aggregate,
    ByGroup,
    Sortable,
    from_sortable,
    to_doubles,
)
from penstock.kernel.aggregates.frequencies import (
    CountDistinct,
    Counted,
    Frequencies,
    Frequent,
    OfFrequencies,
    Quantile,
    between,
    count_nothing,
    enough,
)
from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Floats, Ints
from penstock.model.types import Kind, Type
from penstock.model.values import frequencies_json, to_python

DISTINCT_LG_K = 12  # 4096 registers of a byte: a standard error of 1.6 %
QUANTILE_K = 200  # ranks are within 1.33 % of the rows, 99 times in 100
FREQUENT_LG_K = 10  # 768 values: counts are within 0.35 % of the rows


class Sketch(ABC):
    """Summary of the values of one group, in bounded space."""

    nbytes: ClassVar[int]  # about, when it is full

    @abstractmethod
    def add(self, values: Sortable, counts: Ints) -> None:
        """Add different values with the number of times that each occurred."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Merge another sketch, which does not change."""

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
        """Estimate from the registers alone: two merges make the library drop what it remembers of
        the order in which values came."""
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


# The approximate aggregates: exact counts of few values per group, a sketch of many.
#
# Which of the two a group has is decided by how many different values it has, and by nothing else.

LIMIT = 512  # different values of a group that are kept exactly
_MANY = 1 << 14  # entries from which on it is worth while to look for groups beyond the limit

S = TypeVar("S", bound=Sketch)


class Sketched(ByGroup, Generic[S]):
    """Partial result of an approximate aggregate: exact counts for groups with few values, a sketch
    for each other group."""

    def __init__(self, argument: Type, kind: type[S]) -> None:
        self.kind = kind
        self.few = Counted(argument)
        self.many: dict[int, S] = {}
        self._look_again = _MANY

    def fold(self, codes: Codes, column: pa.Array) -> None:
        self.few.fold(codes, column)
        if self.few.entries > self._look_again:
            self.settle()

    def settle(self) -> Frequencies | None:
        """Put the values of groups that have too many of them into sketches; return the counts that
        are left."""
        run = self.few.one()
        if run is not None:
            large = np.bincount(run.groups) > LIMIT
            known = np.array(list(self.many), np.int64)
            large[known[known < len(large)]] = True
            if large.any():
                for group, (begin, end) in _slices(run, np.flatnonzero(large)):
                    if begin < end:
                        sketch = self.many.setdefault(group, self.kind())
                        sketch.add(run.values[run.ranks[begin:end]], run.counts[begin:end])
                run = run.where(np.flatnonzero(~large[run.groups]))
                self.few = self.few.of(run)
        self._look_again = max(_MANY, 2 * self.few.entries)
        return run

    def merge(self, other: Sketched[S]) -> None:
        other.settle()
        self.few.merge(other.few)
        for group, sketch in other.many.items():
            self.many.setdefault(group, self.kind()).merge(sketch)
        if self.few.entries > self._look_again:
            self.settle()

    def _with(self, few: Counted, many: dict[int, S]) -> Sketched[S]:
        other = Sketched(few.argument, self.kind)
        other.few, other.many = few, many
        return other

    def take(self, codes: Codes) -> Sketched[S]:
        self.settle()
        many = {
            place: self._copied(self.many[group])
            for place, group in enumerate(codes.tolist())
            if group in self.many
        }
        return self._with(self.few.take(codes), many)

    def spread(self, codes: Codes) -> Sketched[S]:
        many = {int(codes[group]): self._copied(sketch) for group, sketch in self.many.items()}
        return self._with(self.few.spread(codes), many)

    @property
    def nbytes(self) -> int:
        return self.few.nbytes + self.kind.nbytes * len(self.many)

    def _copied(self, sketch: S) -> S:
        fresh = self.kind()
        fresh.merge(sketch)
        return fresh

    def save(self) -> Tree:
        self.settle()
        groups = np.array(list(self.many), np.int64)
        sketches = [sketch.save() for sketch in self.many.values()]
        return {"few": self.few.save(), "groups": groups, "sketches": sketches}

    def load(self, saved: Tree) -> Sketched[S]:
        many = {}
        for group, sketch in zip(saved["groups"].tolist(), saved["sketches"], strict=True):
            many[group] = self.kind()
            many[group].load(sketch)
        return self._with(self.few.load(saved["few"]), many)


def _slices(run: Frequencies, groups: Codes) -> list[tuple[int, tuple[int, int]]]:
    begins = np.searchsorted(run.groups, groups).tolist()
    ends = np.searchsorted(run.groups, groups, side="right").tolist()
    return list(zip(groups.tolist(), zip(begins, ends, strict=True), strict=True))


class Approximate(Aggregate[Sketched[S]]):
    """An exact aggregate where there are few values, an estimate where there are many."""

    holistic = True  # up to the limit

    def __init__(self, exact: OfFrequencies, kind: type[S]) -> None:
        self.exact = exact
        self.kind = kind

    def new(self, size: int) -> Sketched[S]:  # noqa: ARG002
        return Sketched(self.exact.argument, self.kind)

    def grow(self, partial: Sketched[S], size: int) -> None:
        pass

    def fold(self, partial: Sketched[S], codes: Codes, arguments: list[pa.Array], _: Ints) -> None:
        partial.fold(codes, arguments[0])

    def merge(self, partial: Sketched[S], other: Sketched[S]) -> None:
        partial.merge(other)

    def take(self, partial: Sketched[S], codes: Codes) -> Sketched[S]:
        return partial.take(codes)

    def spread(self, partial: Sketched[S], codes: Codes, size: int) -> Sketched[S]:  # noqa: ARG002
        return partial.spread(codes)

    def save(self, partial: Sketched[S]) -> Tree:
        return partial.save()

    def load(self, saved: Tree) -> Sketched[S]:
        return Sketched(self.exact.argument, self.kind).load(saved)

    def finish(self, partial: Sketched[S], codes: Codes) -> pa.Array:
        few = partial.settle()
        found = count_nothing(self.exact.argument) if few is None else few.take(codes)
        results = self.exact.compute(found, len(codes))
        if not partial.many:
            return results
        large = np.array([group in partial.many for group in codes.tolist()], np.bool_)
        estimates = [self.estimate(partial.many[group]) for group in codes[large].tolist()]
        both = pa.concat_arrays([results, pa.array(estimates, results.type)])
        chosen = np.arange(len(codes))
        chosen[large] = len(codes) + np.arange(len(estimates))
        return both.take(pa.array(chosen))

    @abstractmethod
    def estimate(self, sketch: S) -> Any:
        """The result of a group from its sketch."""


class ApproximateDistinct(Approximate[DistinctSketch]):
    """approx_count_distinct: the number of different values, by HyperLogLog."""

    def __init__(self, argument: Type) -> None:
        super().__init__(CountDistinct(argument, null_over_nothing=True), DistinctSketch)

    def estimate(self, sketch: DistinctSketch) -> int:
        return sketch.estimate()


class ApproximateQuantile(Approximate[QuantileSketch]):
    """approx_quantile: the value at a share of the rows, by KLL."""

    def __init__(self, argument: Type, share: float) -> None:
        self.quantile = Quantile(argument, share)
        super().__init__(self.quantile, QuantileSketch)

    def estimate(self, sketch: QuantileSketch) -> float:
        low, part = self.quantile.places(np.array([sketch.rows]))
        lower, upper = sketch.at(np.concatenate([low, low + (part > 0)]))
        ends = np.array([lower]), np.array([upper])
        return float(between(*ends, part, self.quantile.share.denominator)[0])


class ApproximateFrequent(Approximate[FrequentSketch]):
    """approx_top_k and approx_heavy_hitters: frequent values with their counts, as JSON."""

    def __init__(self, argument: Type, k: int | None = None, share: float | None = None) -> None:
        self.frequent = Frequent(argument, k, share)
        super().__init__(self.frequent, FrequentSketch)

    def estimate(self, sketch: FrequentSketch) -> str:
        argument, share = self.frequent.argument, self.frequent.share
        values, counts = sketch.found(argument)
        upto = self.frequent.k
        if share is not None:
            least = enough(share, np.array([sketch.rows]))[0]
            upto = int(np.searchsorted(-counts, -least, side="right"))
        shown = to_python(from_sortable(values[:upto], argument), argument)
        return frequencies_json(zip(shown, counts[:upto].tolist(), strict=True), argument)
