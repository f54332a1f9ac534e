"""Which of many filters may let rows of a batch through, found once for all of them.

A filter that compares something with constants lets nothing through that lies elsewhere.  The rows
are sorted by it, and the ends of all filters are looked up among them by bisection: so a filter
that no row is for costs nanoseconds.  Those that are left look at their rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import present, values_of
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints
from penstock.model.plain_values import to_arrow
from penstock.model.schema import Schema
from penstock.model.types import INT, INT64_MAX, INT64_MIN, Kind
from penstock.plan.expressions import Expression
from penstock.plan.properties.comparisons import BetweenConstants


class RowsOfFilter(NamedTuple):
    """The place of a filter, and the rows that it is to look at; None: all of them."""

    place: int
    rows: Ints | None


class ManyFilters:
    """Filters are known by their places among what each of them needs."""

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
        """Those that there are, and the rows that they are of, if not of all."""
        if self._texts is not None:
            codes = pc.index_in(column, value_set=self._texts)
            found = np.flatnonzero(present(codes))
            return values_of(codes, INT)[found], found
        values = values_of(column, self._type)
        if not column.null_count:
            return values, None
        found = np.flatnonzero(present(column))
        return values[found], found
