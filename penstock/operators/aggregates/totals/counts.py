"""count(*) and count(x)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import of_64_bits
from penstock.model.arrays import Codes, Ints
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.folding.scatter import add_ones, grown, spread
from penstock.state.chunks import Tree


class Counts:
    """How many rows each group has."""

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
