"""The rows that are left of a table of signed ones: those given and not taken back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.batch import SIGN

Numbers = npt.NDArray[np.int64]


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
    alike = _numbers_of(rows)
    left = np.zeros(int(alike.max()) + 1, np.int64)
    np.add.at(left, alike, signs)
    given = np.flatnonzero(signs > 0)[::-1]
    order = np.argsort(alike[given], kind="stable")
    sorted_ = alike[given][order]
    begins = np.flatnonzero(np.diff(sorted_, prepend=-1))
    within = np.arange(len(sorted_)) - np.repeat(begins, np.diff([*begins, len(sorted_)]))
    kept = given[order[within < left[sorted_]]]
    return rows.take(pa.array(np.sort(kept)))


def _numbers_of(rows: pa.Table) -> Numbers:
    """A number for each row, the same for rows that are the same to the last bit."""
    numbers: Numbers = np.zeros(rows.num_rows, np.int64)
    for column in rows.combine_chunks().columns:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_floating(array.type):
            bits = np.asarray(array.fill_null(0.0)).view(np.int64)
            array = pa.array(bits, mask=np.asarray(array.is_null()))
        encoded = array.dictionary_encode(null_encoding="encode")
        size = len(encoded.dictionary)
        # numbered anew after every column, so that no product can overflow
        _, inverse = np.unique(numbers * size + np.asarray(encoded.indices), return_inverse=True)
        numbers = inverse.astype(np.int64)
    return numbers
