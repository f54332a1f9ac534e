"""What leaves a window aggregation: result rows, and the tuples that were late for windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.model.names import late_names
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.types import Type
from penstock.operators.bounds import without_bounds
from penstock.operators.chunks import Tree
from penstock.operators.exact_sums import Ints
from penstock.operators.operator import LateRows, Progress
from penstock.operators.ticks import from_ticks
from penstock.plan.aggregates import WindowAggregate
from penstock.windows.landmark import Landmark
from penstock.windows.slide_by_tuple import SlideByTuple
from penstock.windows.sliding import Sliding


def with_late_columns(rows: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
    """Late rows with what they missed, in columns that hide none of theirs: the bound, the first
    and the last window, and whether they were amended, as far as it is given."""
    for name, column in zip(late_names(rows.schema.names), columns, strict=False):
        rows = rows.append_column(name, column)
    return rows


class Results:
    """Gathers the rows of several windows, and makes one batch of them."""

    def __init__(self, node: WindowAggregate) -> None:
        self._node = node
        self._schema = node.schema.arrow
        self._ids: list[Ints] = []
        self._columns: list[list[pa.Array]] = []
        self._highest: int | None = None  # of the windows that had results

    def add(self, wid: int, columns: list[pa.Array]) -> None:
        """The keys and results of the groups of one window."""
        rows = len(columns[0]) if columns else 0
        if rows:
            self._highest = wid if self._highest is None else max(wid, self._highest)
            self._ids.append(np.full(rows, wid, np.int64))
            self._columns.append(columns)

    def batch(self) -> pa.RecordBatch | None:
        if not self._ids:
            return None
        ids = np.concatenate(self._ids)
        joined = [
            parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
            for parts in zip(*self._columns, strict=True)
        ]
        arrays = [*window_columns(self._node, ids), *joined]
        self._ids, self._columns = [], []
        casts = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(arrays, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(casts, schema=self._schema)

    def save(self) -> Tree:
        return self._highest

    def load(self, saved: Tree) -> None:
        self._highest = saved

    def progress(self, last: Bound, ended: bool) -> Progress:
        """What the results promise once the windows up to `last` are out."""
        window = self._node.window
        assert isinstance(window, Sliding | Landmark)
        reached = None if self._highest is None else self._highest + 1
        return promised(window, last + 1, reached, ended)


def window_columns(node: WindowAggregate, ids: Ints) -> list[pa.Array]:
    """window_id, window_start and window_end, computed once per window."""
    different, inverse = np.unique(ids, return_inverse=True)
    bounds = [node.window.bounds(int(wid)) for wid in different]
    by_tuple = isinstance(node.window, SlideByTuple)
    shown = from_ticks(ids, node.bound_type) if by_tuple else pa.array(ids)
    try:
        ends = np.array([end for _, end in bounds], np.int64)[inverse]
        if bounds and bounds[0][0] is None:
            starts = pa.nulls(len(ids), node.bound_type.arrow)
        else:
            begins = np.array([start for start, _ in bounds], np.int64)[inverse]
            starts = from_ticks(begins, node.bound_type)
    except OverflowError:
        raise RunError(f"a window reaches beyond the range of {node.bound_type}") from None
    return [shown, starts, from_ticks(ends, node.bound_type)]


def promised(
    window: Landmark | Sliding, next_window: Bound, released: int | None, ended: bool
) -> Progress:
    """What results promise: none comes below `next_window`, and what is below `released`, if there
    is anything, has come."""
    bounds = {} if ended or next_window == BEGINNING else _bounds(window, int(next_window))
    return Progress(bounds, {} if released is None else _bounds(window, released - 1), ended)


def _bounds(window: Landmark | Sliding, wid: int) -> dict[str, Bound]:
    start, end = window.bounds(wid)
    bounds: dict[str, Bound] = {"window_id": wid, "window_end": end}
    if start is not None:
        bounds["window_start"] = start
    return bounds


@dataclass(frozen=True, slots=True)
class Missed:
    """Late tuples: their positions in a batch, the bounds they broke, the first and the last
    window that they missed."""

    rows: Ints
    bounds: Ints
    first: Ints
    last: Ints

    def late_rows(self, batch: pa.RecordBatch, bound_type: Type, id_type: Type) -> LateRows:
        kept = without_bounds(batch).take(pa.array(self.rows))
        ids = [from_ticks(ticks, id_type) for ticks in (self.first, self.last)]
        return LateRows(with_late_columns(kept, [from_ticks(self.bounds, bound_type), *ids]))
