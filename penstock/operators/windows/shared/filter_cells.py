"""Which filters a tuple passes, found once for all filters.

Tuples that no filter tells apart are in one *cell*.  What filters compare with constants is looked
up among these by bisection, for a whole column at once; the filters themselves are only tried on
one tuple of every cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.schema import Schema
from penstock.operators.windows.shared.filter_tests import tests_of
from penstock.plan.expressions import Expression, columns_of

Holds: TypeAlias = Callable[[pa.RecordBatch], pa.BooleanArray]
_MANY = 1 << 12  # cells that are too many to be worth it
_WIDE = 1 << 16  # combinations of answers that have a table


class FilterCells:
    """Cells are numbered as they are found.  `passing` says, for each, which filters its tuples
    pass; `places` puts cells next to each other that differ little.  A row of each cell is kept:
    others can tell by it which of their filters the tuples of the cell pass."""

    def __init__(self, filters: Mapping[Expression | None, Holds | None], schema: Schema) -> None:
        """Conditions, and what tells whether they hold."""
        self._holds = list(filters.values())
        self._tests = tests_of([each for each in filters if each is not None], schema)
        named = [each for filter_ in filters if filter_ is not None for each in columns_of(filter_)]
        self._looked_at = {each.position(schema) for each in named}
        self._numbers: dict[bytes, int] = {}  # by which filters are passed
        self._known: dict[tuple[int, ...], int] = {}  # by what tests have answered
        self.passing: list[Mask] = []
        self.places: list[tuple[int, ...]] = []
        self._rows: list[pa.RecordBatch] = []

    def __len__(self) -> int:
        return len(self.passing)

    def of(self, batch: pa.RecordBatch) -> Ints | None:
        """The cells of rows, -1 where no filter is passed; None if they are too many."""
        answers = [test(batch) for test in self._tests]
        combined, size = np.zeros(batch.num_rows, np.int64), 1
        for codes, count in answers:
            combined, size = combined * count + codes, size * count
            if size > _WIDE:
                distinct, combined = np.unique(combined, return_inverse=True)
                size = len(distinct)
                if size > _MANY:
                    return None
        rows = np.full(size, -1)
        rows[combined[::-1]] = np.arange(batch.num_rows)[::-1]  # the first row of each
        found = np.flatnonzero(rows >= 0)
        if len(found) > _MANY:
            return None
        cells = self._cells(batch, rows[found], [codes for codes, _ in answers])
        if len(self) > _MANY:
            return None
        of = np.full(size, -1)
        of[found] = cells
        numbers: Ints = of[combined]
        return numbers

    def _cells(self, batch: pa.RecordBatch, rows: Ints, answers: Sequence[Ints]) -> list[int]:
        """Of some rows, which differ in what tests answer."""
        keys = list(zip(*(codes[rows].tolist() for codes in answers), strict=True))
        keys = keys or [()] * len(rows)
        if len(self._known) > _WIDE:
            self._known = {}
        fresh = [place for place, key in enumerate(keys) if key not in self._known]
        if fresh:
            some = batch.take(pa.array(rows[fresh]))
            passed = np.stack([self._passed(number, some) for number in range(len(self._holds))], 1)
            some = self._only_looked_at(some)
            for number, (place, row) in enumerate(zip(fresh, passed, strict=True)):
                known = self._number(row, keys[place])
                self._known[keys[place]] = known
                if known == len(self._rows):
                    self._rows.append(some.slice(number, 1))
        return [self._known[key] for key in keys]

    def rows(self, cells: Ints) -> pa.RecordBatch:
        """A row of each of some cells, with the columns that filters look at."""
        (batch,) = (
            pa.Table.from_batches([self._rows[cell] for cell in cells.tolist()])
            .combine_chunks()
            .to_batches()
        )
        return batch

    def _only_looked_at(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column if place in self._looked_at else pa.nulls(rows.num_rows, column.type)
            for place, column in enumerate(rows.columns)
        ]
        return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)

    def _passed(self, number: int, rows: pa.RecordBatch) -> Mask:
        holds = self._holds[number]
        return np.ones(rows.num_rows, np.bool_) if holds is None else np.asarray(holds(rows))

    def _number(self, passed: Mask, place: tuple[int, ...]) -> int:
        if not passed.any():
            return -1
        number = self._numbers.setdefault(passed.tobytes(), len(self._numbers))
        if number == len(self.passing):
            self.passing.append(passed)
            self.places.append(place)
        return number
