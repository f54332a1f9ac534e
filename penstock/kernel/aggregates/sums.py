"""Aggregates that are sums or combine like sums: count, sum, avg, variance and deviation, bit_and,
bit_or, bit_xor, corr, covar and regr.  Sums are exact, so that order and subtraction do not matter.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.columns import of_64_bits
from penstock.functions.aggregate_functions import PairTotals, pair_statistic
from penstock.kernel.aggregates.aggregate import Aggregate
from penstock.kernel.aggregates.exact_sums import ExactSums, divide, roots
from penstock.kernel.grouping.key_codes import add_ones, grown, spread
from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Floats, Ints
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Kind, Type

# count(*) and count(x).


class Counts:
    """Number of rows of each group."""

    def __init__(self, size: int) -> None:
        self.rows: Ints = np.zeros(size, np.int64)

    def grow(self, size: int) -> None:
        self.rows = grown(self.rows, size, 0)

    def fold(self, codes: Codes) -> None:
        add_ones(self.rows, codes)

    def accumulate(self) -> None:
        self.rows = np.cumsum(self.rows)

    def take(self, codes: Codes) -> Counts:
        return Counts.load(self.rows[codes])

    def spread(self, codes: Codes, size: int) -> Counts:
        return Counts.load(spread(self.rows, codes, size))

    @staticmethod
    def load(saved: Tree) -> Counts:
        loaded = Counts(0)
        loaded.rows = saved
        return loaded

    def merge(self, other: Counts) -> None:
        if len(other.rows) == len(self.rows):
            self.rows += other.rows
        else:
            self.rows[: len(other.rows)] += other.rows

    def subtract(self, other: Counts) -> None:
        if len(other.rows) == len(self.rows):
            self.rows -= other.rows
        else:
            self.rows[: len(other.rows)] -= other.rows


class Count(Aggregate[Counts]):
    """count(*), and count(x) over rows without NULLs."""

    differential = True
    additive = True

    def new(self, size: int) -> Counts:
        return Counts(size)

    def grow(self, partial: Counts, size: int) -> None:
        partial.grow(size)

    def fold(self, partial: Counts, codes: Codes, *_: object) -> None:
        partial.fold(codes)

    def merge(self, partial: Counts, other: Counts) -> None:
        partial.merge(other)

    def subtract(self, partial: Counts, other: Counts) -> None:
        partial.subtract(other)

    def accumulate(self, partial: Counts) -> None:
        partial.accumulate()

    def take(self, partial: Counts, codes: Codes) -> Counts:
        return partial.take(codes)

    def spread(self, partial: Counts, codes: Codes, size: int) -> Counts:
        return partial.spread(codes, size)

    def save(self, partial: Counts) -> Tree:
        return partial.rows

    def load(self, saved: Tree) -> Counts:
        return Counts.load(saved)

    def finish(self, partial: Counts, codes: Codes) -> pa.Array:
        return of_64_bits(partial.rows[codes])


# sum, avg, variance and deviation: exact sums and counts, rounded once when a result is asked for.

_EXACT_IN_FLOAT = 2**53


class Moments:
    """Partial result of sum, avg, variance and deviation.

    The count, the sum, and if asked for the sum of squares of each group.  Infinities and NaNs
    are counted apart, so that they can be subtracted again, too.
    """

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
    """sum of integers, doubles or decimals; NULL over nothing."""

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
    """avg: the exact sum divided by the count, rounded once; NULL over nothing."""

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
    """Variance or deviation: (n·Σx² − (Σx)²) / (n·m), with m = n for the population and n − 1 for a
    sample; or its root."""

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


# bit_and, bit_or and bit_xor: one number of 64 bits for each group.

_COMBINE = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}


class GroupBits:
    """Number of rows of each group and their combined bits."""

    def __init__(self, counts: Counts, bits: Ints) -> None:
        self.counts, self.bits = counts, bits


class OfBits(Aggregate[GroupBits]):
    """bit_and, bit_or and bit_xor; of these only bit_xor can be subtracted."""

    def __init__(self, name: str) -> None:
        self.combine = _COMBINE[name]
        self.nothing = -1 if name == "bit_and" else 0  # which changes no other number
        self.differential = name == "bit_xor"  # a value that is combined twice cancels

    def new(self, size: int) -> GroupBits:
        return GroupBits(Counts(size), np.full(size, self.nothing, np.int64))

    def grow(self, partial: GroupBits, size: int) -> None:
        partial.counts.grow(size)
        partial.bits = grown(partial.bits, size, self.nothing)

    def fold(self, partial: GroupBits, codes: Codes, arguments: list[pa.Array], *_: object) -> None:
        partial.counts.fold(codes)
        numbers = np.asarray(arguments[0]).astype(np.int64, copy=False)
        self.combine.at(partial.bits, codes, numbers)

    def merge(self, partial: GroupBits, other: GroupBits) -> None:
        partial.counts.merge(other.counts)
        size = len(other.bits)
        partial.bits[:size] = self.combine(partial.bits[:size], other.bits)

    def subtract(self, partial: GroupBits, other: GroupBits) -> None:
        partial.counts.subtract(other.counts)
        partial.bits[: len(other.bits)] ^= other.bits

    def take(self, partial: GroupBits, codes: Codes) -> GroupBits:
        return GroupBits(partial.counts.take(codes), partial.bits[codes])

    def spread(self, partial: GroupBits, codes: Codes, size: int) -> GroupBits:
        bits = np.full(size, self.nothing, np.int64)
        bits[codes] = partial.bits[: len(codes)]
        return GroupBits(partial.counts.spread(codes, size), bits)

    def save(self, partial: GroupBits) -> Tree:
        return {"counts": partial.counts.rows, "bits": partial.bits}

    def load(self, saved: Tree) -> GroupBits:
        return GroupBits(Counts.load(saved["counts"]), saved["bits"])

    def finish(self, partial: GroupBits, codes: Codes) -> pa.Array:
        return pa.array(partial.bits[codes], mask=partial.counts.rows[codes] == 0)


# corr, covar and regr: exact sums over pairs of numbers, which can be subtracted again.

_SUMS = 5  # of y, x, y², x² and yx


class PairSums:
    """Partial result of corr, covar and regr: sums over pairs of numbers.  Pairs with an infinity
    or NaN are counted apart."""

    def __init__(self, size: int) -> None:
        self.counts, self.special = Counts(size), Counts(size)
        self.sums = [ExactSums(size) for _ in range(_SUMS)]

    def parts(self) -> list[Counts | ExactSums]:
        return [self.counts, self.special, *self.sums]

    @staticmethod
    def of(counts: Counts, special: Counts, sums: list[ExactSums]) -> PairSums:
        made = PairSums(0)
        made.counts, made.special, made.sums = counts, special, sums
        return made


class OfPairs(Aggregate[PairSums]):
    """corr, covar_* and regr_*, from exact sums over pairs of numbers."""

    differential = True

    def __init__(self, name: str) -> None:
        self.name = name

    def new(self, size: int) -> PairSums:
        return PairSums(size)

    def grow(self, partial: PairSums, size: int) -> None:
        for part in partial.parts():
            part.grow(size)

    def fold(self, partial: PairSums, codes: Codes, arguments: list[pa.Array], *_: object) -> None:
        y, x = (np.asarray(each, dtype=np.float64) for each in arguments)
        finite = np.isfinite(y) & np.isfinite(x)
        if not finite.all():
            partial.special.fold(codes[~finite])
            codes, y, x = codes[finite], y[finite], x[finite]
        partial.counts.fold(codes)
        sum_y, sum_x, squares_y, squares_x, products = partial.sums
        sum_y.add(codes, y)
        sum_x.add(codes, x)
        squares_y.add_squares(codes, y)
        squares_x.add_squares(codes, x)
        products.add_products(codes, y, x)

    def merge(self, partial: PairSums, other: PairSums) -> None:
        for part, its in zip(partial.parts(), other.parts(), strict=True):
            part.merge(its)  # type: ignore[arg-type]

    def subtract(self, partial: PairSums, other: PairSums) -> None:
        for part, its in zip(partial.parts(), other.parts(), strict=True):
            part.subtract(its)  # type: ignore[arg-type]

    def take(self, partial: PairSums, codes: Codes) -> PairSums:
        sums = [each.take(codes) for each in partial.sums]
        return PairSums.of(partial.counts.take(codes), partial.special.take(codes), sums)

    def spread(self, partial: PairSums, codes: Codes, size: int) -> PairSums:
        sums = [each.spread(codes, size) for each in partial.sums]
        counts, special = partial.counts.spread(codes, size), partial.special.spread(codes, size)
        return PairSums.of(counts, special, sums)

    def save(self, partial: PairSums) -> Tree:
        return {
            "counts": partial.counts.rows,
            "special": partial.special.rows,
            "sums": [each.save() for each in partial.sums],
        }

    def load(self, saved: Tree) -> PairSums:
        sums = [ExactSums.load(each) for each in saved["sums"]]
        return PairSums.of(Counts.load(saved["counts"]), Counts.load(saved["special"]), sums)

    def finish(self, partial: PairSums, codes: Codes) -> pa.Array:
        exact = [_fractions(each, codes) for each in partial.sums]
        counts, special = partial.counts.rows[codes], partial.special.rows[codes]
        values = []
        for place, (count, odd) in enumerate(zip(counts.tolist(), special.tolist(), strict=True)):
            if odd:
                values.append(float("nan") if self._is_there(count + odd) else None)
            elif not count:
                values.append(None)
            else:
                totals = PairTotals(count, *(each[place] for each in exact))
                values.append(pair_statistic(self.name, totals))
        return pa.array(values, pa.float64())

    def _is_there(self, count: int) -> bool:
        return count > 1 or self.name != "covar_samp"


def _fractions(sums: ExactSums, codes: Codes) -> list[Fraction]:
    numbers, exponent = sums.integers(codes)
    scale = Fraction(2) ** exponent
    return [int(each) * scale for each in numbers]
