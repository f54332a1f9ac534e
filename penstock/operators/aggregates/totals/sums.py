"""sum, avg, variance and deviation: exact sums and counts, rounded once when they are asked for."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RunError
from penstock.model.arrays import Codes, Floats, Ints
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Kind, Type
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.totals.counts import Counts
from penstock.operators.aggregates.totals.exact_sums import (
    ExactSums,
    divide,
    roots,
)
from penstock.operators.folding.scatter import add_ones, grown, spread
from penstock.state.chunks import Tree

_EXACT_IN_FLOAT = 2**53


class Moments:
    """The count, the sum, and if asked for the sum of squares of each group.  Infinities and NaNs
    are counted apart, so that they can be subtracted again, too."""

    def __init__(self, size: int, squares: bool) -> None:
        self.counts = Counts(size)
        self.sums = ExactSums(size)
        self.squares = ExactSums(size) if squares else None
        self.special: Ints | None = None  # rows: NaN, +inf, −inf

    def parts(self) -> list[ExactSums | Counts]:
        return [self.counts, self.sums, *([self.squares] if self.squares else [])]

    def grow(self, size: int) -> None:
        for part in self.parts():
            part.grow(size)
        if self.special is not None:
            self.special = np.stack([grown(row, size, 0) for row in self.special])

    def fold(self, codes: Codes, column: pa.Array, kind: Kind) -> None:
        self.counts.fold(codes)
        if kind in (Kind.INT, Kind.BIGINT):
            self.sums.add_integers(codes, np.asarray(column).astype(np.int64, copy=False))
        elif kind is Kind.DECIMAL:
            self.sums.add_wide(codes, *halves(column))
        else:
            self._fold_doubles(codes, np.asarray(column, dtype=np.float64))

    def _fold_doubles(self, codes: Codes, values: Floats) -> None:
        finite = np.isfinite(values)
        if not finite.all():
            self._fold_special(codes[~finite], values[~finite])
            codes, values = codes[finite], values[finite]
        self.sums.add(codes, values)
        if self.squares is not None:
            self.squares.add_squares(codes, values)

    def _fold_special(self, codes: Codes, values: Floats) -> None:
        if self.special is None:
            self.special = np.zeros((3, len(self.counts.rows)), np.int64)
        for row, test in zip(
            self.special, (np.isnan(values), values == np.inf, values == -np.inf), strict=True
        ):
            add_ones(row, codes[test])

    def accumulate(self) -> None:
        for part in self.parts():
            part.accumulate()
        if self.special is not None:
            self.special = np.cumsum(self.special, axis=1)

    def take(self, codes: Codes) -> Moments:
        taken = Moments(0, squares=False)
        taken.counts, taken.sums = self.counts.take(codes), self.sums.take(codes)
        taken.squares = self.squares.take(codes) if self.squares is not None else None
        taken.special = self.special[:, codes] if self.special is not None else None
        return taken

    def spread(self, codes: Codes, size: int) -> Moments:
        wide = Moments(0, squares=False)
        wide.counts, wide.sums = self.counts.spread(codes, size), self.sums.spread(codes, size)
        wide.squares = self.squares.spread(codes, size) if self.squares is not None else None
        wide.special = spread(self.special, codes, size) if self.special is not None else None
        return wide

    def save(self) -> Tree:
        return {
            "counts": self.counts.rows,
            "sums": self.sums.save(),
            "squares": self.squares.save() if self.squares is not None else None,
            "special": self.special,
        }

    @staticmethod
    def load(saved: Tree) -> Moments:
        loaded = Moments(0, squares=False)
        loaded.counts, loaded.sums = Counts.load(saved["counts"]), ExactSums.load(saved["sums"])
        squares = saved["squares"]
        loaded.squares = ExactSums.load(squares) if squares is not None else None
        loaded.special = saved["special"]
        return loaded

    def merge(self, other: Moments, sign: int = 1) -> None:
        for part, its in zip(self.parts(), other.parts(), strict=True):
            (part.merge if sign > 0 else part.subtract)(its)  # type: ignore[arg-type]
        if other.special is not None:
            if self.special is None:
                self.special = np.zeros((3, len(self.counts.rows)), np.int64)
            self.special[:, : other.special.shape[1]] += sign * other.special

    def with_special(self, codes: Codes, values: Floats) -> Floats:
        """The values, except where infinities or NaN took part."""
        if self.special is None or not self.special.any():
            return values
        nan, up, down = self.special[:, codes] > 0
        values = np.where(up, np.inf, np.where(down, -np.inf, values))
        return np.where(nan | (up & down), np.nan, values)

    def without_special(self, codes: Codes, values: Floats) -> Floats:
        """The values, NaN where infinities or NaN took part."""
        if self.special is None:
            return values
        return np.where((self.special[:, codes] > 0).any(axis=0), np.nan, values)


def halves(column: pa.Array) -> tuple[npt.NDArray[np.uint64], Ints]:
    """The unscaled integers of a decimal column in lower and upper halves."""
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint64)
    raw = raw[2 * column.offset : 2 * (column.offset + len(column))].reshape(-1, 2)
    return raw[:, 0], raw[:, 1].astype(np.int64)


class _OfMoments(Aggregate[Moments]):
    differential = True
    additive = True
    squares = False

    def __init__(self, argument: Type, result: Type) -> None:
        self.argument = argument
        self.result = result

    def new(self, size: int) -> Moments:
        return Moments(size, self.squares)

    def grow(self, partial: Moments, size: int) -> None:
        partial.grow(size)

    def fold(self, partial: Moments, codes: Codes, arguments: list[pa.Array], *_: object) -> None:
        partial.fold(codes, arguments[0], self.argument.kind)

    def accumulate(self, partial: Moments) -> None:
        partial.accumulate()

    def take(self, partial: Moments, codes: Codes) -> Moments:
        return partial.take(codes)

    def spread(self, partial: Moments, codes: Codes, size: int) -> Moments:
        return partial.spread(codes, size)

    def save(self, partial: Moments) -> Tree:
        return partial.save()

    def load(self, saved: Tree) -> Moments:
        return Moments.load(saved)

    def merge(self, partial: Moments, other: Moments) -> None:
        partial.merge(other)

    def subtract(self, partial: Moments, other: Moments) -> None:
        partial.merge(other, -1)


class Sum(_OfMoments):
    def finish(self, partial: Moments, codes: Codes) -> pa.Array:
        empty = partial.counts.rows[codes] == 0
        match self.argument.kind:
            case Kind.INT | Kind.BIGINT:
                return pa.array(self._integers(partial, codes), mask=empty)
            case Kind.DECIMAL:
                return self._decimals(partial, codes, empty)
            case _:
                values = partial.with_special(codes, partial.sums.rounded(codes))
                return pa.array(values, mask=empty)

    def _integers(self, partial: Moments, codes: Codes) -> Ints:
        fast = partial.sums.int64s(codes)
        if fast is not None:
            return fast
        exact, _ = partial.sums.integers(codes)
        for value in exact:
            if not INT64_MIN <= value <= INT64_MAX:
                raise RunError(f"the sum {value} is too large for {self.result}")
        return exact.astype(np.int64)

    def _decimals(self, partial: Moments, codes: Codes, empty: npt.NDArray[np.bool_]) -> pa.Array:
        exact, _ = partial.sums.integers(codes)
        values = []
        for unscaled, none in zip(exact, empty, strict=True):
            if abs(unscaled) >= 10**self.result.precision:
                raise RunError(f"the sum {unscaled} is too large for {self.result}")
            shifted = EXACT.scaleb(Decimal(int(unscaled)), -self.result.scale)
            values.append(None if none else shifted)
        return pa.array(values, self.result.arrow)


class Average(_OfMoments):
    def finish(self, partial: Moments, codes: Codes) -> pa.Array:
        counts = partial.counts.rows[codes]
        empty = counts == 0
        divisors = np.where(empty, 1, counts)
        fast = partial.sums.int64s(codes) if self.argument.is_integer else None
        if fast is not None and len(fast) and np.abs(fast).max() < _EXACT_IN_FLOAT:
            return pa.array(fast / divisors, mask=empty)  # both exact, so rounded once
        exact, exponent = partial.sums.integers(codes)
        scale = 10**self.argument.scale if self.argument.kind is Kind.DECIMAL else 1
        means = divide(exact, exponent, divisors.astype(object) * scale)
        return pa.array(partial.with_special(codes, means), mask=empty)


class Variance(_OfMoments):
    """(n·Σx² − (Σx)²) / (n·m), with m = n for all there is and n − 1 for a sample; its root."""

    squares = True

    def __init__(self, argument: Type, result: Type, sample: bool, root: bool) -> None:
        super().__init__(argument, result)
        self.sample, self.root = sample, root

    def finish(self, partial: Moments, codes: Codes) -> pa.Array:
        assert partial.squares is not None
        counts = partial.counts.rows[codes].astype(object)
        empty = (counts - self.sample < 1).astype(bool)
        counts = np.where(empty, 2, counts)
        sums, exponent = partial.sums.integers(codes)
        squares, squares_exponent = partial.squares.integers(codes)
        lowest = min(2 * exponent, squares_exponent)
        spread = counts * (squares << (squares_exponent - lowest))
        spread = spread - ((sums * sums) << (2 * exponent - lowest))
        # the root is taken of the exact variance, so that a deviation is rounded once, too
        rounded = roots if self.root else divide
        values = rounded(spread, lowest, counts * (counts - self.sample))
        return pa.array(partial.without_special(codes, values), mask=empty)
