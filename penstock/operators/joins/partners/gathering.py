"""Rows taken from batches by their numbers.

Joins take a few rows of many columns from several batches again and again.  For columns of fixed
width without NULLs, NumPy needs a fraction of what a call of Arrow costs; for many rows it takes
longer, because their memory is new every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import fixed_width
from penstock.expressions.node import arrow
from penstock.model.arrays import Ints
from penstock.operators.taken import taken_columns

_TAKE = arrow("take", pc.TakeOptions(boundscheck=False))
_FEW = 1 << 14  # rows
_FIXED: dict[type[pa.Array], np.dtype[Any]] = {
    pa.Int32Array: np.dtype(np.int32),
    pa.Int64Array: np.dtype(np.int64),
    pa.DoubleArray: np.dtype(np.float64),
    pa.Date32Array: np.dtype(np.int32),
    pa.TimestampArray: np.dtype(np.int64),
    pa.DurationArray: np.dtype(np.int64),
}


def gathered_rows(batch: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
    columns = gathered_columns([(batch, numbers)])
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def gathered_columns(
    parts: Sequence[tuple[pa.RecordBatch, Ints]], which: Sequence[int] | None = None
) -> list[pa.Array]:
    """Columns, some or all, of rows of batches that have one schema, one after the other.

    >>> batch = pa.record_batch({"n": [1, 2, None], "s": ["a", "b", "c"]})
    >>> parts = [(batch, np.array([2, 0])), (batch.slice(1), np.array([0]))]
    >>> [column.to_pylist() for column in gathered_columns(parts)]
    [[None, 1, 2], ['c', 'a', 'b']]
    """
    if sum(len(rows) for _, rows in parts) > _FEW:
        found = [taken_columns(batch, rows, which) for batch, rows in parts]
        if len(found) == 1:
            return found[0]
        return [pa.concat_arrays(pieces) for pieces in zip(*found, strict=True)]
    places = range(parts[0][0].num_columns) if which is None else which
    return [_gathered([(batch.column(place), rows) for batch, rows in parts]) for place in places]


def _gathered(parts: list[tuple[pa.Array, Ints]]) -> pa.Array:
    first = parts[0][0]
    dtype = _FIXED.get(type(first))
    if dtype is None or any(column.null_count for column, _ in parts):
        found = [_TAKE(column, pa.array(rows)) for column, rows in parts]
        return found[0] if len(found) == 1 else pa.concat_arrays(found)
    values = [fixed_width(column, dtype).take(rows) for column, rows in parts]
    whole = values[0] if len(values) == 1 else np.concatenate(values)
    return pa.Array.from_buffers(first.type, len(whole), [None, pa.py_buffer(whole)], 0)
