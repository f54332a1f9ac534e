"""Many filters over one stream, evaluated together: which of them may let rows through, and which
cell of filters a tuple is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import present, values_of
from penstock.expressions.compiler import compile_expression
from penstock.model.arrays import Ints, Mask
from penstock.model.types import INT, INT64_MAX, INT64_MIN, Kind, Schema
from penstock.model.values import to_arrow
from penstock.plan.expressions import (
    ORDERED,
    BetweenConstants,
    Call,
    Expression,
    columns_of,
    comparison,
)

# Which of many filters may let rows of a batch through, found once for all of them.
#
# A filter that compares a value with constants rejects all rows outside of their range.  The rows
# are sorted by the value, and the ends of all filters are found among them by bisection: a filter
# that no row can pass costs nanoseconds.  The filters that are left test their rows themselves.


class RowsOfFilter(NamedTuple):
    """Place of a filter, and the rows that it has to test; None for all rows."""

    place: int
    rows: Ints | None


class ManyFilters:
    """Index of many filters: chooses those that may let rows through.  Filters are known by their
    places among what each of them needs."""

    def __init__(self, needed: Sequence[BetweenConstants], schema: Schema) -> None:
        places: dict[Expression, list[int]] = {}
        for place, within in enumerate(needed):
            places.setdefault(within.value, []).append(place)
        self._ranges = [
            _Ranges(value, own, [needed[place] for place in own], schema)
            for value, own in places.items()
        ]

    def choose(self, rows: pa.RecordBatch) -> Iterator[RowsOfFilter]:
        """Each filter once, if it may let rows through."""
        for ranges in self._ranges:
            yield from ranges.choose(rows)


class _Ranges:
    """Filters that compare the same value."""

    def __init__(
        self,
        value: Expression,
        places: Sequence[int],
        needed: Sequence[BetweenConstants],
        schema: Schema,
    ) -> None:
        self._places = list(places)
        self._compute = compile_expression(value, schema)
        self._type = value.type
        self._texts: pa.Array | None = None
        least: float = INT64_MIN
        most: float = INT64_MAX
        if value.type.kind is Kind.STRING:
            texts = sorted({text for each in needed for text in each[1:]})
            self._texts = to_arrow(texts, value.type)
            place_of = {text: place for place, text in enumerate(texts)}
            needed = [
                BetweenConstants(value, place_of[each.low], place_of[each.high]) for each in needed
            ]
        elif value.type.kind is Kind.DOUBLE:
            least, most = -np.inf, np.inf
        dtype = np.float64 if value.type.kind is Kind.DOUBLE else np.int64
        # one value too many does no harm: the filter looks at it
        lows = [least if each.low is None else max(each.low, least) for each in needed]
        highs = [most if each.high is None else min(each.high, most) for each in needed]
        self._lows: npt.NDArray[Any] = np.array([min(each, most) for each in lows], dtype)
        self._highs: npt.NDArray[Any] = np.array([max(each, least) for each in highs], dtype)

    def choose(self, rows: pa.RecordBatch) -> Iterator[RowsOfFilter]:
        column = self._compute(rows)
        values, numbers = self._values(column)
        if values.dtype.kind == "f" and np.isnan(values).any():
            yield from (RowsOfFilter(place, None) for place in self._places)
            return
        if not len(values):
            return
        if len(values) > 1:
            order = values.argsort(kind="stable")
            values = values[order]
            numbers = order if numbers is None else numbers[order]
        begins = values.searchsorted(self._lows, "left")
        ends = values.searchsorted(self._highs, "right")
        for each in np.flatnonzero(begins < ends).tolist():
            begin, end = int(begins[each]), int(ends[each])
            if end - begin == rows.num_rows:
                yield RowsOfFilter(self._places[each], None)
            else:
                own = np.arange(begin, end) if numbers is None else np.sort(numbers[begin:end])
                yield RowsOfFilter(self._places[each], own)

    def _values(self, column: pa.Array) -> tuple[npt.NDArray[Any], Ints | None]:
        """Values that are present, and the rows that they are of, if not of all."""
        if self._texts is not None:
            codes = pc.index_in(column, value_set=self._texts)
            found = np.flatnonzero(present(codes))
            return values_of(codes, INT)[found], found
        values = values_of(column, self._type)
        if not column.null_count:
            return values, None
        found = np.flatnonzero(present(column))
        return values[found], found


# Tests that tell tuples apart for some filters: each numbers its answers, for whole columns.

# The answers for the rows of a batch, and how many there can be.
FilterTest: TypeAlias = Callable[[pa.RecordBatch], tuple[Ints, int]]

_CONNECTIVES = ("and", "or", "not")
_CLOSE = 1 << 16  # values that have a table


def tests_of(filters: Sequence[Expression], schema: Schema) -> list[FilterTest]:
    """Rows for which all tests answer the same pass the same filters."""
    bounds: dict[Expression, set[Any]] = {}
    texts: dict[Expression, set[str]] = {}
    others: dict[Expression, None] = {}
    for leaf in (leaf for each in filters for leaf in _leaves(each)):
        compared = comparison(leaf)
        if compared is None:
            others[leaf] = None
            continue
        function, value, constants = compared
        if value.type.kind in ORDERED:
            found = bounds.setdefault(value, set())
            found |= {bound for each in constants for bound in _bounds(function, each)}
        elif value.type.kind is Kind.STRING and function in ("eq", "ne"):
            texts.setdefault(value, set()).update(constants)
        else:
            others[leaf] = None
    return [
        *(_by_bounds(value, found, schema) for value, found in bounds.items()),
        *(_by_text(value, found, schema) for value, found in texts.items()),
        *(_by_truth(leaf, schema) for leaf in others),
    ]


def _leaves(condition: Expression) -> list[Expression]:
    if isinstance(condition, Call) and condition.function in _CONNECTIVES:
        return [leaf for each in condition.arguments for leaf in _leaves(each)]
    return [condition]


def _bounds(function: str, constant: Any) -> list[Any]:
    """First value of each part of the domain on which the comparison has a constant result."""
    if isinstance(constant, float):
        above: Any = float(np.nextafter(constant, np.inf))
    else:
        above = constant + 1
    match function:
        case "lt" | "ge":
            return [constant]
        case "le" | "gt":
            return [above]
        case _:
            return [constant, above]


def _by_bounds(value: Expression, found: set[Any], schema: Schema) -> FilterTest:
    """Test by bisection, or by a table where values are close to each other."""
    compute, sql_type = compile_expression(value, schema), value.type
    whole = sql_type.kind is not Kind.DOUBLE
    if whole:
        found = {each for each in found if INT64_MIN <= each <= INT64_MAX}
    bounds: npt.NDArray[Any] = np.array(sorted(found), np.int64 if whole else np.float64)
    null, count = len(bounds) + 1, len(bounds) + 3

    def test(batch: pa.RecordBatch) -> tuple[Ints, int]:
        column = compute(batch)
        values = values_of(column, sql_type)
        codes = _close(values, bounds) if whole and len(values) else None
        if codes is None:
            codes = bounds.searchsorted(values, side="right")
        if not whole:
            codes = np.where(np.isnan(values), null + 1, codes)
        if column.null_count:
            codes = np.where(present(column), codes, null)
        return codes, count

    return test


def _close(values: npt.NDArray[Any], bounds: npt.NDArray[Any]) -> Ints | None:
    low, high = int(values.min()), int(values.max())
    if high - low >= min(_CLOSE, len(values)):
        return None
    table = bounds.searchsorted(np.arange(low, high + 1), side="right")
    codes: Ints = table[values - low]
    return codes


def _by_text(value: Expression, found: set[str], schema: Schema) -> FilterTest:
    compute, count = compile_expression(value, schema), len(found) + 2
    known = to_arrow(sorted(found), value.type)

    def test(batch: pa.RecordBatch) -> tuple[Ints, int]:
        column = compute(batch)
        codes = np.asarray(pc.index_in(column, value_set=known).fill_null(count - 2))
        if column.null_count:
            codes = np.where(present(column), codes, count - 1)
        return codes.astype(np.int64), count

    return test


def _by_truth(leaf: Expression, schema: Schema) -> FilterTest:
    compute = compile_expression(leaf, schema)

    def test(batch: pa.RecordBatch) -> tuple[Ints, int]:
        return np.asarray(compute(batch).cast(pa.int8()).fill_null(2)).astype(np.int64), 3

    return test


# Which filters a tuple passes, found once for all filters.
#
# Tuples that no filter tells apart are in one *cell*.  What filters compare with constants is
# looked up among these by bisection, for a whole column at once; the filters themselves are only
# tried on one tuple of every cell.

Holds: TypeAlias = Callable[[pa.RecordBatch], pa.BooleanArray]
_MANY = 1 << 12  # cells that are too many to be worth it
_WIDE = 1 << 16  # combinations of answers that have a table


class FilterCells:
    """Cells of tuples that no filter tells apart.

    Cells are numbered as they are found.  `passing` says, for each, which filters its tuples
    pass; `places` puts cells next to each other that differ little.  A row of each cell is kept:
    others can tell by it which of their filters the tuples of the cell pass.
    """

    def __init__(self, filters: Mapping[Expression | None, Holds | None], schema: Schema) -> None:
        """`filters` are conditions, with the callables that decide whether they hold."""
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
        """Number the cells of some rows, which differ in the answers of the tests."""
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
