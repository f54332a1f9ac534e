"""The approximate aggregates: exact counts of few values per group, a sketch of many.

Which of the two a group has is decided by how many different values it has, and by nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.plain_values import to_python
from penstock.model.texts import frequencies_json
from penstock.model.types import Type
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.by_group import ByGroup
from penstock.operators.aggregates.frequencies.counted import Counted, OfFrequencies, count_nothing
from penstock.operators.aggregates.frequencies.frequencies import Frequencies
from penstock.operators.aggregates.frequencies.frequent import (
    CountDistinct,
    Frequent,
    Quantile,
    between,
    enough,
)
from penstock.operators.aggregates.sketches.sketches import (
    DistinctSketch,
    FrequentSketch,
    QuantileSketch,
    Sketch,
)
from penstock.operators.aggregates.sortable import from_sortable
from penstock.state.chunks import Tree

LIMIT = 512  # different values of a group that are kept exactly
_MANY = 1 << 14  # entries from which on it is worth while to look for groups beyond the limit

S = TypeVar("S", bound=Sketch)


class Sketched(ByGroup, Generic[S]):
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
        """Put the values of groups that have too many of them into sketches; what is left."""
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
    def __init__(self, argument: Type) -> None:
        super().__init__(CountDistinct(argument, null_over_nothing=True), DistinctSketch)

    def estimate(self, sketch: DistinctSketch) -> int:
        return sketch.estimate()


class ApproximateQuantile(Approximate[QuantileSketch]):
    def __init__(self, argument: Type, share: float) -> None:
        self.quantile = Quantile(argument, share)
        super().__init__(self.quantile, QuantileSketch)

    def estimate(self, sketch: QuantileSketch) -> float:
        low, part = self.quantile.places(np.array([sketch.rows]))
        lower, upper = sketch.at(np.concatenate([low, low + (part > 0)]))
        ends = np.array([lower]), np.array([upper])
        return float(between(*ends, part, self.quantile.share.denominator)[0])


class ApproximateFrequent(Approximate[FrequentSketch]):
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
