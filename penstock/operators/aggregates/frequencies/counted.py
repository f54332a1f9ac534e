"""Sorted, counted runs per slice, and the aggregates that are a function of them.

Rows are kept as they come until their slice is used for the first time; then they become one run of
(group, value, count), and everything after that merges counts.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.types import Type
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.by_group import ByGroup
from penstock.operators.aggregates.frequencies.frequencies import Frequencies, count, merge
from penstock.operators.aggregates.sortable import from_sortable, to_sortable
from penstock.state.chunks import Tree

_MANY_ROWS = 1 << 16  # to be kept uncounted


class Counted(ByGroup):
    """Runs, the longest first and each more than twice as long as the next, so that there are few
    of them, and a short one can be added without a pass over a long one."""

    def __init__(self, argument: Type) -> None:
        self.argument = argument
        self.runs: list[Frequencies] = []
        self.rows: list[tuple[Codes, pa.Array]] = []  # not counted yet
        self._waiting = 0

    @property
    def entries(self) -> int:
        """How many rows and counts are kept."""
        return self._waiting + sum(map(len, self.runs))

    def fold(self, codes: Codes, column: pa.Array) -> None:
        self.rows.append((codes, column))
        self._waiting += len(codes)
        if self._waiting > _MANY_ROWS:
            self.settle()

    def settle(self) -> None:
        """Count the rows that came."""
        if self.rows:
            codes = np.concatenate([codes for codes, _ in self.rows])
            column = pa.concat_arrays([column for _, column in self.rows])
            self.rows, self._waiting = [], 0
            self.add(count(codes, column, self.argument))

    def add(self, run: Frequencies) -> None:
        at = len(self.runs)
        while at and len(self.runs[at - 1]) < len(run):
            at -= 1
        self.runs.insert(at, run)
        for i in range(len(self.runs) - 1, 0, -1):
            if len(self.runs[i - 1]) <= 2 * len(self.runs[i]):
                self.runs[i - 1 : i + 1] = [merge(self.runs[i - 1], self.runs[i])]

    def merge(self, other: Counted, sign: int = 1) -> None:
        other.settle()
        for run in other.runs:
            self.add(run if sign > 0 else run.negative())

    def one(self) -> Frequencies | None:
        """Everything as one run; None if there is nothing."""
        self.settle()
        while len(self.runs) > 1:
            self.runs[-2:] = [merge(self.runs[-2], self.runs[-1])]
        return self.runs[0] if self.runs else None

    def of(self, *runs: Frequencies) -> Counted:
        other = Counted(self.argument)
        other.runs = [run for run in runs if len(run)]
        return other

    def take(self, codes: Codes) -> Counted:
        run = self.one()
        return self.of() if run is None else self.of(run.take(codes))

    def spread(self, codes: Codes) -> Counted:
        run = self.one()
        return self.of() if run is None else self.of(run.renumbered(codes[run.groups]))

    @property
    def nbytes(self) -> int:
        waiting = sum(codes.nbytes + column.nbytes for codes, column in self.rows)
        return int(waiting) + sum(run.nbytes for run in self.runs)

    def save(self) -> Tree:
        run = self.one()
        if run is None:
            return None
        values = from_sortable(run.values, self.argument)
        return {"groups": run.groups, "ranks": run.ranks, "counts": run.counts, "values": values}

    def load(self, saved: Tree) -> Counted:
        if saved is None:
            return self.of()
        values = to_sortable(saved["values"], self.argument)
        return self.of(Frequencies(saved["groups"], saved["ranks"], saved["counts"], values))


class OfFrequencies(Aggregate[Counted]):
    """Aggregates that are a function of how often each value occurs."""

    differential = True
    holistic = True

    def __init__(self, argument: Type) -> None:
        self.argument = argument

    def new(self, size: int) -> Counted:  # noqa: ARG002
        return Counted(self.argument)

    def grow(self, partial: Counted, size: int) -> None:
        pass

    def fold(self, partial: Counted, codes: Codes, arguments: list[pa.Array], _: Ints) -> None:
        partial.fold(codes, arguments[0])

    def merge(self, partial: Counted, other: Counted) -> None:
        partial.merge(other)

    def subtract(self, partial: Counted, other: Counted) -> None:
        partial.merge(other, -1)

    def take(self, partial: Counted, codes: Codes) -> Counted:
        return partial.take(codes)

    def spread(self, partial: Counted, codes: Codes, size: int) -> Counted:  # noqa: ARG002
        return partial.spread(codes)

    def save(self, partial: Counted) -> Tree:
        return partial.save()

    def load(self, saved: Tree) -> Counted:
        return Counted(self.argument).load(saved)

    def finish(self, partial: Counted, codes: Codes) -> pa.Array:
        run = partial.one()
        found = count_nothing(self.argument) if run is None else run.take(codes)
        return self.compute(found, len(codes))

    @abstractmethod
    def compute(self, found: Frequencies, size: int) -> pa.Array:
        """The results of the groups 0, 1, … up to before `size`."""


def count_nothing(argument: Type) -> Frequencies:
    return count(np.zeros(0, np.int64), pa.array([], argument.arrow), argument)
