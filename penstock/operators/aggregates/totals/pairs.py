"""corr, covar and regr: exact sums over pairs of numbers, which can be subtracted again."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from penstock.functions.pair_statistics import PairTotals, pair_statistic
from penstock.model.arrays import Codes
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.totals.counts import Counts
from penstock.operators.aggregates.totals.exact_sums import ExactSums
from penstock.state.chunks import Tree

_SUMS = 5  # of y, x, y², x² and yx


class PairSums:
    """Pairs with an infinity or NaN are counted apart."""

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
