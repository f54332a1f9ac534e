"""What all readers share: which columns of the data are meant, and which rows are whole.

A converted column comes with a mask of its bad cells; a row with a bad cell is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.errors import SourceError, nearest
from penstock.model.arrays import Mask
from penstock.model.schema import Schema

Converted: TypeAlias = tuple[pa.Array, Mask]


def all_good(column: pa.Array) -> Converted:
    return column, np.zeros(len(column), dtype=np.bool_)


def find_columns(schema: Schema, names: Sequence[str], where: str) -> list[int]:
    """The position of every declared column among `names`: its exact name, else in any case."""
    return [_find(field.name, names, where) for field in schema]


def _find(wanted: str, names: Sequence[str], where: str) -> int:
    folded = wanted.strip().casefold()
    exact = [position for position, name in enumerate(names) if name == wanted]
    alike = [position for position, name in enumerate(names) if name.strip().casefold() == folded]
    found = exact or alike
    if len(found) == 1:
        return found[0]
    listed = ", ".join(names)
    if found:
        raise SourceError(
            f"{where}: {len(found)} columns are called {wanted}",
            expected=f"one column {wanted}; the columns are: {listed}",
        )
    close = nearest(wanted, names, limit=1)
    raise SourceError(
        f"{where}: there is no column {wanted}",
        expected=f"one of its columns: {listed}",
        hint=close[0] if close else None,
    )


def whole_rows(
    schema: Schema,
    columns: Sequence[Converted],
    report: Callable[[int, int], None],
) -> pa.RecordBatch:
    """The rows without a bad cell; `report` hears of the others: row and first bad column."""
    arrays = [array for array, _ in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    bad = np.column_stack([mask for _, mask in columns])
    bad_rows = bad.any(axis=1)
    if not bad_rows.any():
        return batch
    first = bad.argmax(axis=1)
    for row in np.flatnonzero(bad_rows):
        report(int(row), int(first[row]))
    return batch.filter(pa.array(~bad_rows))
