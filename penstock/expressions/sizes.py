"""Checks of the sizes of values in columns, before and after functions compute larger ones.

An expression that would take too much memory for all rows of a batch is computed for one half of
them after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.columns import Kernel, length, present
from penstock.expressions.growth import grows, may_grow
from penstock.functions.regular_expressions import at_most_replaced
from penstock.model.arrays import Ints
from penstock.model.types import Kind, Type
from penstock.model.value_limits import (
    ITEM,
    check_row,
    check_together,
    max_at_once,
    max_row,
    max_value,
    too_large_row,
    too_large_value,
)
from penstock.plan.expressions import Call, Expression

Datum: TypeAlias = pa.Array | pa.Scalar
_VARIABLE = (Kind.STRING, Kind.BINARY, Kind.ARRAY, Kind.MAP, Kind.STRUCT)


class TooMuchAtOnceError(RunError):
    """Raised if an expression needs too much memory for all rows of a batch; fewer may be
    possible.
    """


class _Spent(threading.local):
    bytes = 0


_spent = _Spent()


def begin() -> None:
    """Reset the memory counted for the current expression."""
    _spent.bytes = 0


def sizes_of(column: Datum) -> Ints:
    """Sizes of values as by `model.value_limits.size_of`; of a scalar, an array of one."""
    if isinstance(column, pa.Scalar):
        column = pa.repeat(column, 1)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _numbers(pc.binary_length(column))
    if pa.types.is_struct(kind):
        fields = (pc.struct_field(column, [place]) for place in range(kind.num_fields))
        sizes = sum((ITEM + sizes_of(each) for each in fields), np.zeros(len(column), np.int64))
        return np.where(present(column), sizes, 0) if column.null_count else sizes
    if pa.types.is_map(kind):
        return _of_items(column, 2 * ITEM + sizes_of(column.keys) + sizes_of(column.items))
    if pa.types.is_list(kind):
        return _of_items(column, ITEM + sizes_of(column.values))
    return np.zeros(len(column), np.int64)


def _of_items(lists: pa.Array, items: Ints) -> Ints:
    from penstock.expressions.nested_kernels import bounds_of

    begins, sizes = bounds_of(lists)
    before = np.concatenate([[0], np.cumsum(items)])
    found: Ints = before[begins + sizes] - before[begins]
    return found


def check_sizes(sizes: Ints, rows: int) -> None:
    """Reject values that are too large, or that together take more memory than allowed."""
    largest = int(sizes.max(initial=0))
    if largest > max_value():
        raise too_large_value(largest)
    _spent.bytes += int(sizes.sum()) if len(sizes) == rows else largest * rows
    if rows > 1 and _spent.bytes > max_at_once():
        raise TooMuchAtOnceError("a batch takes too much memory")
    if _spent.bytes > max(max_row(), max_at_once() if rows > 1 else 0):
        raise too_large_row(_spent.bytes)


def check_column(column: pa.Array) -> None:
    """Check the sizes of values that have been computed."""
    if column.nbytes > max_value() // ITEM:  # nothing in fewer bytes counts as more
        check_sizes(sizes_of(column), len(column))


# --- before: functions whose values may be much larger than their arguments ----------------------


def _sum(*data: Datum) -> Ints:
    return _added([sizes_of(each) for each in data])


def _added(sizes: Sequence[Ints]) -> Ints:
    return sum(sizes, np.zeros(1, np.int64))


def _numbers(column: pa.Array) -> Ints:
    found: Ints = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _of_parts(*data: Datum) -> Ints:
    return _sum(*data) + ITEM * len(data)


def _replaced(texts: Datum, old: Datum, new: Datum) -> Ints:
    sizes = sizes_of(texts)
    if not isinstance(old, pa.Scalar) or not old.as_py():
        return sizes  # row by row, where each is looked at
    column = texts if isinstance(texts, pa.Array) else pa.repeat(texts, 1)
    grown = sizes_of(new) - len(old.as_py().encode())
    if grown.max(initial=0) <= 0:
        return sizes
    return sizes + _numbers(pc.count_substring(column, old.as_py())) * grown


def _repeated(texts: Datum, counts: Datum) -> Ints:
    column = counts if isinstance(counts, pa.Array) else pa.repeat(counts, 1)
    times = _numbers(column)
    sizes = sizes_of(texts)
    most = max_value() + 1  # the product with more than that may leave an int64
    return sizes * np.clip(times, 0, most)


def _matched(texts: Datum, pattern: Datum, new: Datum, *flags: Datum) -> Ints:
    if (
        not isinstance(texts, pa.Array)
        or isinstance(pattern, pa.Array)
        or isinstance(new, pa.Array)
    ):
        return np.zeros(1, np.int64)  # row by row
    constants = [each.as_py() for each in (pattern, new, *flags) if isinstance(each, pa.Scalar)]
    try:
        # Matches are rarely all that they could be: the result is checked, too.
        return at_most_replaced(texts, *constants) // 8
    except RunError:  # a pattern that is none: the function itself fails, if any row needs it
        return np.zeros(1, np.int64)


def _joined(lists: Datum, separator: Datum) -> Ints:
    column = lists if isinstance(lists, pa.Array) else pa.repeat(lists, 1)
    return sizes_of(column) + _numbers(pc.list_value_length(column)) * sizes_of(separator)


def _split(texts: Datum, separator: Datum) -> Ints:
    sizes = sizes_of(texts)
    if not isinstance(separator, pa.Scalar) or not separator.as_py():
        return sizes
    column = texts if isinstance(texts, pa.Array) else pa.repeat(texts, 1)
    return sizes + ITEM * (_numbers(pc.count_substring(column, separator.as_py())) + 1)


_BEFORE: dict[str, Callable[..., Ints]] = {
    "concat": _sum,
    "array_concat": _sum,
    "array": _of_parts,
    "map": _of_parts,
    "struct": _of_parts,
    "replace": _replaced,
    "repeat": _repeated,
    "regexp_replace": _matched,
    "array_join": _joined,
    "string_split": _split,
}
_AFTER = {"regexp_replace", "translate", "upper", "lower", "to_base64", "date_format", "replace"}
_AFTER |= {"json_get", "json_text", "json_query", "array_join", "string_split"}


def bounded(call: Call, kernel: Kernel) -> Kernel:
    """Kernel that checks sizes."""
    if not grows(call):
        return kernel
    before, after = _BEFORE.get(call.function), call.function in _AFTER
    small = not any(_is_variable(each.type) for each in call.arguments)

    def checked(*data: Datum) -> pa.Array:
        known = sum(each.nbytes for each in data if isinstance(each, pa.Array))
        if before is not None and not (small and known * ITEM < max_value()):
            check_sizes(before(*data), length(data))
        made = kernel(*data)
        if after:
            check_column(made)
        return made

    return checked


def _is_variable(sql_type: Type) -> bool:
    return sql_type.kind in _VARIABLE


# --- batches -------------------------------------------------------------------------------------


def in_halves(evaluate: Callable[[pa.RecordBatch], pa.Array], batch: pa.RecordBatch) -> pa.Array:
    """Evaluate an expression for one half of a batch after the other."""
    half = batch.num_rows // 2
    parts = [evaluate(batch.slice(0, half)), evaluate(batch.slice(half))]
    check_together(sum(each.nbytes for each in parts))
    return pa.concat_arrays(parts)


def check_values(column: pa.Array) -> pa.Array:
    """Check the sizes of the results of an aggregate, one by one."""
    if column.nbytes > max_value() // ITEM:
        largest = int(sizes_of(column).max(initial=0))
        if largest > max_value():
            raise too_large_value(largest)
    return column


class RowSizes:
    """Check of the sizes of projected rows, over the columns that may grow, column by column."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._grown = [may_grow(each) for each in expressions]
        self.matter = sum(self._grown) > max_row() // max_value()

    def checked(self, columns: Iterable[pa.Array]) -> list[pa.Array]:
        made, waiting, size = [], list[pa.Array](), 0
        sizes = np.zeros(1, np.int64)
        for column, grown in zip(columns, self._grown, strict=True):
            made.append(column)
            if not grown:
                continue
            waiting.append(column)
            size += column.nbytes
            if size > max_row() // ITEM:
                sizes = sizes + _added([sizes_of(each) for each in waiting])
                waiting.clear()
                check_row(int(sizes.max(initial=0)))
            check_together(size // 4)
        return made
