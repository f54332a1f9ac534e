"""Columns of the inputs of a join that nobody looks at: NULLs stand for their values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_FEW = 64  # rows whose values are copied sooner than they are left out


class UnseenColumns:
    """
    >>> unseen = UnseenColumns([(), (1,)])
    >>> rows = pa.record_batch({"id": range(99), "note": ["x"] * 99})
    >>> unseen.left_out(1, rows).column("note").null_count
    99
    """

    def __init__(self, places: Sequence[Sequence[int]] = ()) -> None:
        self._places = places  # by port

    def left_out(self, port: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._places or rows.num_rows <= _FEW or not self._places[port]:
            return rows
        columns = rows.columns
        for place in self._places[port]:
            columns[place] = pa.nulls(rows.num_rows, rows.schema.field(place).type)
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
