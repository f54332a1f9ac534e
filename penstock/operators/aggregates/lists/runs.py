"""Rows kept as they are, for what can only be computed when a result is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import Codes, Ints
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.by_group import ByGroup, places
from penstock.state.chunks import Tree


class Runs(ByGroup):
    """Rows as they were folded: groups, arguments, positions."""

    def __init__(self, rows: list[tuple[Codes, list[pa.Array], Ints]] | None = None) -> None:
        self.rows = rows or []

    def gather(self, codes: Codes) -> tuple[Codes, list[pa.Array], Ints]:
        """All rows of some groups, the groups numbered by their place in `codes`."""
        groups, columns, positions = self.all()
        place = places(groups, codes)
        wanted = place >= 0
        if not wanted.all():
            mask = pa.array(wanted)
            columns = [column.filter(mask) for column in columns]
            place, positions = place[wanted], positions[wanted]
        return place, columns, positions

    def all(self) -> tuple[Codes, list[pa.Array], Ints]:
        if not self.rows:
            return np.zeros(0, np.int64), [], np.zeros(0, np.int64)
        groups = np.concatenate([row[0] for row in self.rows])
        columns = [
            pa.concat_arrays([row[1][i] for row in self.rows]) for i in range(len(self.rows[0][1]))
        ]
        return groups, columns, np.concatenate([row[2] for row in self.rows])

    def take(self, codes: Codes) -> Runs:
        rows = self.gather(codes)
        return Runs([rows]) if len(rows[0]) else Runs()

    def spread(self, codes: Codes) -> Runs:
        return Runs([(codes[groups], columns, places) for groups, columns, places in self.rows])

    @property
    def nbytes(self) -> int:
        return sum(
            groups.nbytes + sum(column.nbytes for column in columns) + positions.nbytes
            for groups, columns, positions in self.rows
        )

    def save(self) -> Tree:
        return [[groups, columns, positions] for groups, columns, positions in self.rows]

    @staticmethod
    def load(saved: Tree) -> Runs:
        return Runs([(groups, columns, positions) for groups, columns, positions in saved])


class Holistic(Aggregate[Runs]):
    holistic = True

    def new(self, size: int) -> Runs:  # noqa: ARG002
        return Runs()

    def grow(self, partial: Runs, size: int) -> None:
        pass

    def fold(self, partial: Runs, codes: Codes, arguments: list[pa.Array], positions: Ints) -> None:
        partial.rows.append((codes, arguments, positions))

    def merge(self, partial: Runs, other: Runs) -> None:
        partial.rows += other.rows

    def take(self, partial: Runs, codes: Codes) -> Runs:
        return partial.take(codes)

    def spread(self, partial: Runs, codes: Codes, size: int) -> Runs:  # noqa: ARG002
        return partial.spread(codes)

    def save(self, partial: Runs) -> Tree:
        return partial.save()

    def load(self, saved: Tree) -> Runs:
        return Runs.load(saved)


class OverDistinct(Holistic):
    """Another aggregate over the different combinations of arguments of each group."""

    def __init__(self, inner: Aggregate[Any]) -> None:
        self.inner = inner

    def finish(self, partial: Runs, codes: Codes) -> pa.Array:
        groups, columns, positions = partial.gather(codes)
        inner = self.inner.new(max(1, len(codes)))
        if len(groups):
            kept = _first_of_each(groups, columns)
            chosen = [column.take(pa.array(kept)) for column in columns]
            self.inner.fold(inner, groups[kept], chosen, positions[kept])
        return self.inner.finish(inner, np.arange(len(codes)))


def _first_of_each(groups: Codes, columns: list[pa.Array]) -> Ints:
    """The first row of every different (group, values)."""
    combined = groups
    for column in columns:
        if pa.types.is_floating(column.type):
            column = pc.add(column, 0.0)
        encoded = column.dictionary_encode()
        combined = combined * max(1, len(encoded.dictionary)) + np.asarray(encoded.indices)
        _, combined = np.unique(combined, return_inverse=True)
    _, first = np.unique(combined, return_index=True)
    return np.sort(first).astype(np.int64)
