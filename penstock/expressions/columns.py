"""Between Arrow columns and NumPy values, without copying what can be shared.

Values under NULLs are whatever lies there: they may be computed with but must not be believed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.node import too_large
from penstock.model.arrays import Ints, Mask
from penstock.model.types import Kind, Type

_NUMPY: dict[Kind, np.dtype[Any]] = {
    Kind.INT: np.dtype(np.int32),
    Kind.BIGINT: np.dtype(np.int64),
    Kind.DOUBLE: np.dtype(np.float64),
    Kind.DATE: np.dtype(np.int32),
    Kind.TIMESTAMP: np.dtype(np.int64),
    Kind.INTERVAL: np.dtype(np.int64),
}
_INT64 = pa.int64()
_COALESCE = pc.get_function("coalesce").call
_FALSE = pa.scalar(False)
_FROM_BUFFERS = pa.Array.from_buffers
_IF_ELSE = pc.get_function("if_else").call


def values_of(column: pa.Array, sql_type: Type) -> npt.NDArray[Any]:
    """The values of a column of fixed width, in the width of its type; times as integers."""
    return fixed_width(column, _NUMPY[sql_type.kind])


def fixed_width(column: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    count = len(column)
    if not count:
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, count, column.offset * dtype.itemsize)


def ints_of(datum: pa.Array | pa.Scalar, sql_type: Type) -> Ints:
    """Whole numbers or times, wide enough to compute with; of a scalar, an array without axes.

    >>> ints_of(pa.scalar(3, pa.date32()), Type(Kind.DATE))
    array(3)
    """
    if isinstance(datum, pa.Array):
        return values_of(datum, sql_type).astype(np.int64, copy=False)
    return np.asarray(datum.as_py() if sql_type.is_integer else datum.value, np.int64)


def as_int64(datum: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """A TIMESTAMP or INTERVAL as the microseconds that it is; a BIGINT as it is."""
    if isinstance(datum, pa.Array):
        return datum.view(_INT64)
    return datum if datum.type == _INT64 else pa.scalar(datum.value, _INT64)


def column_of(values: npt.NDArray[Any], sql_type: Type, *inputs: pa.Array | pa.Scalar) -> pa.Array:
    """A column that is NULL where one of the inputs is.

    >>> from penstock.model.types import BIGINT
    >>> column_of(np.array([7, 8, 9]), BIGINT, pa.array([0, 1, None, 3])[1:]).to_pylist()
    [7, None, 9]
    """
    return from_values(values.astype(_NUMPY[sql_type.kind], copy=False), sql_type, *inputs)


def from_values(
    values: npt.NDArray[Any], sql_type: Type, *inputs: pa.Array | pa.Scalar
) -> pa.Array:
    """The same for values that already lie as Arrow wants them."""
    buffers = [validity(*inputs), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(sql_type.arrow, len(values), buffers)


def of_64_bits(values: Ints, arrow_type: pa.DataType = _INT64) -> pa.Array:
    """A column of whole numbers or times without NULLs, which shares the values.  `pa.array` would
    take several times as long to find out what they are.

    >>> of_64_bits(np.array([7, 8])).to_pylist()
    [7, 8]
    """
    if not values.flags.c_contiguous:
        values = np.ascontiguousarray(values)
    return _FROM_BUFFERS(arrow_type, len(values), [None, pa.py_buffer(values)])


def narrowed(values: Ints, sql_type: Type, *inputs: pa.Array | pa.Scalar) -> pa.Array:
    """`column_of` for a type that may be too narrow."""
    limits = np.iinfo(_NUMPY[sql_type.kind])
    if holds_somewhere((values < limits.min) | (values > limits.max), *inputs):
        raise too_large(sql_type)
    return column_of(values, sql_type, *inputs)


def validity(*inputs: pa.Array | pa.Scalar) -> pa.Buffer | None:
    """The bitmap of the rows where no input is NULL, or None if there are no NULLs."""
    with_nulls = [each for each in inputs if isinstance(each, pa.Array) and each.null_count]
    if not with_nulls:
        return None
    if len(with_nulls) == 1 and with_nulls[0].offset == 0:
        return with_nulls[0].buffers()[0]
    return bitmap(np.logical_and.reduce([present(each) for each in with_nulls]))


def bitmap(flags: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def present(column: pa.Array) -> Mask:
    """Where a column is not NULL."""
    return flags_of(column.is_valid())


def flags_of(column: pa.BooleanArray) -> Mask:
    """Where a column is true, which NULL is not."""
    flags: Mask = true_only(column).to_numpy(zero_copy_only=False)
    return flags


def true_only(column: pa.BooleanArray) -> pa.BooleanArray:
    """The column with false for NULL."""
    return _COALESCE([column, _FALSE]) if column.null_count else column


def holds_somewhere(flags: Mask, *inputs: pa.Array | pa.Scalar) -> bool:
    """Whether a flag is set in a row where no input is NULL."""
    if not flags.any():
        return False
    for each in inputs:
        if isinstance(each, pa.Array) and each.null_count:
            flags = flags & present(each)
    return bool(flags.any())


def without(column: pa.Array, flags: Mask) -> pa.Array:
    """The column with NULL where a flag is set."""
    return _IF_ELSE([pa.array(flags), pa.scalar(None, column.type), column])
