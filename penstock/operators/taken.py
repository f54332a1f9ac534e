"""Many rows of a batch by their numbers.  Nothing is copied of columns that are all NULL, as those
are that nobody looks at (`joins/unseen.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.node import arrow
from penstock.model.arrays import Ints

_TAKE = arrow("take", pc.TakeOptions(boundscheck=False))


def taken_columns(
    batch: pa.RecordBatch, numbers: Ints, which: Sequence[int] | None = None
) -> list[pa.Array]:
    """Some columns, or all.

    >>> import numpy as np
    >>> batch = pa.record_batch({"n": [1, 2, None], "s": pa.nulls(3, pa.string())})
    >>> [column.to_pylist() for column in taken_columns(batch, np.array([2, 0]))]
    [[None, 1], [None, None]]
    """
    indices = pa.array(numbers)
    columns = batch.columns if which is None else [batch.column(place) for place in which]
    return [
        pa.nulls(len(numbers), column.type)
        if column.null_count == len(column)
        else _TAKE(column, indices)
        for column in columns
    ]


def taken_rows(batch: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(taken_columns(batch, numbers), schema=batch.schema)
