"""The rows that are left of a table of signed ones: those given and not taken back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.batch import SIGN
from penstock.model.stable_order import stable_order
from penstock.operators.revising.alike import numbers_of


def final_rows(table: pa.Table, sign: str = SIGN) -> pa.Table:
    """Of several rows alike, the last ones stay; `sign` is what the column of signs is called.

    >>> table = pa.table({"n": [1, 2, 1, 2], SIGN: pa.array([1, 1, -1, 1], pa.int8())})
    >>> final_rows(table).to_pydict()
    {'n': [2, 2]}
    """
    signs = np.asarray(table.column(sign), np.int64)
    rows = table.drop_columns([sign])
    if (signs > 0).all():
        return rows
    alike = numbers_of((each.combine_chunks() for each in rows.columns), rows.num_rows)
    left = np.zeros(int(alike.max()) + 1, np.int64)
    np.add.at(left, alike, signs)
    given = np.flatnonzero(signs > 0)[::-1]
    order = stable_order(alike[given])
    sorted_ = alike[given][order]
    begins = np.flatnonzero(np.diff(sorted_, prepend=-1))
    within = np.arange(len(sorted_)) - np.repeat(begins, np.diff([*begins, len(sorted_)]))
    kept = given[order[within < left[sorted_]]]
    return rows.take(pa.array(np.sort(kept)))
