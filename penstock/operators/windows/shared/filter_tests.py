"""What tells tuples apart for some filters: a number for every answer, for whole columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import present, values_of
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints
from penstock.model.plain_values import to_arrow
from penstock.model.schema import Schema
from penstock.model.types import INT64_MAX, INT64_MIN, Kind
from penstock.plan.expressions import Call, Expression
from penstock.plan.properties.comparisons import ORDERED, comparison

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
    """Where the answer changes: at the first value of each part."""
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
    """By bisection, or by a table where values are close to each other."""
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
