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
    exact: dict[str, list[int]] = {}
    alike: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        exact.setdefault(name, []).append(position)
        alike.setdefault(_folded(name), []).append(position)
    positions = []
    for field in schema:
        found = exact.get(field.name) or alike.get(_folded(field.name), [])
        if len(found) != 1:
            raise _not_one(field.name, len(found), names, where)
        positions += found
    return positions


def _folded(name: str) -> str:
    return name.strip().casefold()


def _not_one(wanted: str, found: int, names: Sequence[str], where: str) -> SourceError:
    listed = ", ".join(names)
    if found:
        return SourceError(
            f"{where}: {found} columns are called {wanted}",
            expected=f"one column {wanted}; the columns are: {listed}",
        )
    close = nearest(wanted, names, limit=1)
    return SourceError(
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
    if not any(np.count_nonzero(mask) for _, mask in columns):
        return batch
    bad = np.column_stack([mask for _, mask in columns])
    bad_rows = bad.any(axis=1)
    first = bad.argmax(axis=1)
    for row in np.flatnonzero(bad_rows):
        report(int(row), int(first[row]))
    return batch.filter(pa.array(~bad_rows))
