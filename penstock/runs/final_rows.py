"""The rows that are left of a table of signed ones: those given and not taken back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.batch import SIGN
from penstock.operators.running.netting import left_over


def final_rows(table: pa.Table, sign: str = SIGN) -> pa.Table:
    """Of several rows alike, the last ones stay; `sign` is what the column of signs is called.

    >>> table = pa.table({"n": [1, 2, 1, 2], SIGN: pa.array([1, 1, -1, 1], pa.int8())})
    >>> final_rows(table).to_pydict()
    {'n': [2, 2]}
    """
    signs = np.asarray(table.column(sign), np.int8)
    rows = table.drop_columns([sign])
    if (signs > 0).all():
        return rows
    rows = rows.combine_chunks()
    left = left_over([each.combine_chunks() for each in rows.columns], signs)
    return rows.take(pa.array(left[signs[left] > 0]))
