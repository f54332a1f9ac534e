"""Between Arrow columns and arrays that can be compared: numbers and times as they are, texts,
bytes and decimals as Python values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.plain_values import to_arrow, to_python
from penstock.model.types import Kind, Type

_OBJECTS = (Kind.STRING, Kind.BINARY, Kind.DECIMAL)


def dtype_of(sql_type: Type) -> npt.DTypeLike:
    if sql_type.kind in _OBJECTS:
        return object
    return np.float64 if sql_type.kind is Kind.DOUBLE else np.int64


def plain(column: pa.Array, sql_type: Type) -> npt.NDArray[Any]:
    """A column without NULLs as an array that can be compared: objects, doubles or integers."""
    if sql_type.kind in _OBJECTS:
        values = np.empty(len(column), dtype=object)
        values[:] = to_python(column, sql_type)
        return values
    if sql_type.kind is Kind.DOUBLE:
        return np.asarray(column, dtype=np.float64) + 0.0  # −0.0 is 0.0
    if sql_type.kind in (Kind.INT, Kind.BIGINT):
        return np.asarray(column).astype(np.int64, copy=False)
    if sql_type.kind is Kind.BOOLEAN:
        return np.asarray(column.cast(pa.int8())).astype(np.int64)
    narrow = pa.int32() if sql_type.kind is Kind.DATE else pa.int64()
    return np.asarray(column.cast(narrow)).astype(np.int64)


def unplain(values: npt.NDArray[Any], present: npt.NDArray[np.bool_], sql_type: Type) -> pa.Array:
    """The column of such an array; NULL where nothing is present."""
    if sql_type.kind in _OBJECTS:
        return to_arrow([v if p else None for v, p in zip(values, present, strict=True)], sql_type)
    if sql_type.kind is Kind.BOOLEAN:
        values = values.astype(np.bool_)
    column = pa.array(values, mask=~present)
    if sql_type.kind is Kind.DATE:
        column = column.cast(pa.int32())
    return column.cast(sql_type.arrow)
