"""Bounds of punctuations: progressing columns as ticks (see `model.domain`) and back, and bounds on
expressions that rise with progressing columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.columns import fixed_width, of_64_bits
from penstock.expressions.compiler import compile_expression
from penstock.expressions.evaluation import bounding, promised, reached, reaching, shift_of
from penstock.kernel.aggregates.sums import halves
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.progress.group_bounds import GroupBounds
from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.ticks import Domain
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Field, Kind, Schema, Type
from penstock.plan.expressions import Column, Expression, rises_with

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def to_ticks(column: pa.Array, sql_type: Type) -> Ints:
    """A column without NULLs as int64."""
    match sql_type.kind:
        case Kind.TIMESTAMP:
            return fixed_width(column, _INT64)
        case Kind.DATE:
            return fixed_width(column, _INT32).astype(np.int64)
        case Kind.DECIMAL:
            low, high = halves(column)
            ticks = low.astype(np.int64)
            if (high != ticks >> 63).any():
                raise too_wide()
            return ticks
        case Kind.BIGINT:
            return fixed_width(column, _INT64)
        case _:
            return np.asarray(column).astype(np.int64, copy=False)


def to_tick(value: Any, sql_type: Type) -> int:
    """Convert one plain value to its tick, as `to_ticks` does for columns."""
    if sql_type.kind is not Kind.DECIMAL:
        return int(value)
    tick = int(EXACT.scaleb(value, sql_type.scale))
    if not INT64_MIN <= tick <= INT64_MAX:
        raise too_wide()
    return tick


def too_wide() -> RunError:
    return RunError("a value of the windowing attribute has more than 64 bits")


def has_ticks(column: pa.Array, sql_type: Type) -> npt.NDArray[np.bool_] | None:
    """Mask of the values of a column without NULLs that have a tick of 64 bits; None if all of the
    type do."""
    if sql_type.kind is not Kind.DECIMAL:
        return None
    low, high = halves(column)
    fits: npt.NDArray[np.bool_] = high == low.astype(np.int64) >> 63
    return fits


def from_ticks(ticks: Ints, sql_type: Type) -> pa.Array:
    match sql_type.kind:
        case Kind.BIGINT:
            return of_64_bits(ticks)
        case Kind.TIMESTAMP:
            return of_64_bits(ticks, sql_type.arrow)
        case Kind.DATE:
            return pa.array(ticks).cast(pa.int32()).cast(pa.date32())
        case Kind.DECIMAL:
            shifted = [EXACT.scaleb(Decimal(int(tick)), -sql_type.scale) for tick in ticks]
            return pa.array(shifted, sql_type.arrow)
        case _:
            return pa.array(ticks).cast(sql_type.arrow)


# Bounds on columns and on expressions that rise with them: for whole streams, and for the tuples
# that broke one (see `Batch.broken`).

_KEPT = 64  # values of bounds that are kept


class BoundOf:
    """The bound on one expression that rises with progressing columns."""

    def __init__(self, expression: Expression) -> None:
        self._reached = _Reached.of(expression)
        expression = promised(expression)
        self._type = expression.type
        self._columns = tuple(dict.fromkeys(rises_with(expression)))
        self._domain = Domain(self._type)
        self._domains = [Domain(each.type) for each in self._columns]
        fields = [Field(each.name, each.type, each.relation) for each in self._columns]
        self._schema = Schema(tuple(fields))
        self._names = [field.qualified for field in fields]
        plain = isinstance(expression, Column) or not self._columns
        self._evaluate = None if plain else compile_expression(expression, self._schema)
        self._bounding = None if plain else bounding(expression, self._columns)
        self._shift = shift_of(expression)
        self._evaluated: dict[tuple[Bound, ...], int] = {}  # often the same is asked again
        # the bound on a column is that of the column itself
        self._same = self._names[0] if plain and len(self._names) == 1 else None

    @property
    def columns(self) -> list[str]:
        """Progressing columns that the expression rises with, by qualified names."""
        return self._names

    @property
    def column(self) -> str | None:
        """The column that it is, by its qualified name, if it is no more than that."""
        return self._same

    def promised(self, progress: Progress) -> Bound:
        if progress.ended:
            return END
        if self._same is not None:
            return progress.bounds.get(self._same, BEGINNING)
        return self._at(progress.bounds)

    def reached(self, progress: Progress) -> Bound:
        """Highest tick that the expression has reached."""
        if self._same is not None:
            return progress.high.get(self._same, BEGINNING)
        return self._at(progress.high) if self._reached is None else self._reached(progress.high)

    def _at(self, bounds: Mapping[str, Bound]) -> Bound:
        if self._shift is not None:  # of one column
            only = bounds.get(self._names[0], BEGINNING)
            if only == BEGINNING:
                return BEGINNING
            return min(max(int(only) + self._shift, INT64_MIN), INT64_MAX)
        found = tuple([bounds.get(name, BEGINNING) for name in self._names])
        if not found or BEGINNING in found:
            return BEGINNING
        if self._bounding is None:
            return found[0]
        value = self._evaluated.get(found)
        if value is None:
            value = self._saturated([int(bound) for bound in found])
            if len(self._evaluated) >= _KEPT:
                self._evaluated.clear()
            self._evaluated[found] = value
        return value

    def of_groups(self, groups: GroupBounds) -> Ints | None:
        """The bounds of groups, if all columns have such."""
        return self.of_many(groups.bounds)

    def of_many(self, bounds: Mapping[str, Ints]) -> Ints | None:
        """The bounds that follow from many bounds at once, if all columns have such."""
        if not self._names or not set(self._names) <= bounds.keys():
            return None
        ticks = [bounds[name] for name in self._names]
        return ticks[0] if self._evaluate is None else self._on(ticks)

    def broken(self, batch: Batch) -> tuple[Ints, Ints]:
        """Find the rows that broke a bound on the expression, and the bounds that they broke."""
        assert batch.broken is not None
        columns = [batch.broken[name] for name in self._names]
        valid = np.ones(batch.num_rows, np.bool_)
        for column in columns:
            valid &= np.asarray(column.is_valid())
        rows = np.flatnonzero(valid)
        taken = pa.array(rows)
        ticks = [np.asarray(column.take(taken)) for column in columns]
        return rows, ticks[0] if self._evaluate is None else self._on(ticks)

    def _on(self, ticks: list[Ints]) -> Ints:
        """The bounds on the expression; one by one where it has no value for some of them, because
        no tuple needs to have come so far."""
        assert self._evaluate is not None
        pairs = zip(ticks, self._columns, strict=True)
        try:
            arrays = [from_ticks(each, column.type) for each, column in pairs]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)
            return to_ticks(self._evaluate(batch), self._type)
        except (RunError, pa.ArrowInvalid):
            different, inverse = np.unique(np.stack(ticks), axis=1, return_inverse=True)
            found = [self._saturated(each) for each in different.T.tolist()]
            saturated: Ints = np.array(found, np.int64)[inverse.reshape(-1)]
            return saturated

    def _saturated(self, ticks: list[int]) -> int:
        assert self._bounding is not None
        pairs = zip(ticks, self._domains, strict=True)
        values = [domain.value(tick) for tick, domain in pairs]
        return self._domain.tick(self._bounding(values))


class _Reached:
    """Highest tick that an expression has reached, where that is not its value at the highest
    column values: clocks may have been put back since."""

    def __init__(self, expression: Expression) -> None:
        columns = tuple(dict.fromkeys(rises_with(expression)))
        fields = [Field(each.name, each.type, each.relation) for each in columns]
        self._names = [field.qualified for field in fields]
        self._domains, self._domain = (
            [Domain(each.type) for each in columns],
            Domain(expression.type),
        )
        self._reached = reached(expression, columns)

    @staticmethod
    def of(expression: Expression) -> _Reached | None:
        columns = rises_with(expression)
        return (
            None
            if not columns or reaching(expression) == promised(expression)
            else _Reached(expression)
        )

    def __call__(self, high: Mapping[str, Bound]) -> Bound:
        found = [high.get(name, BEGINNING) for name in self._names]
        if BEGINNING in found:
            return BEGINNING
        pairs = zip(found, self._domains, strict=True)
        values = [domain.value(int(tick)) for tick, domain in pairs]
        return self._domain.tick(self._reached(values))
