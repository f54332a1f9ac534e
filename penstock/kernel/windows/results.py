"""Output of window aggregations: result rows with their window columns, the progress of results,
and the tuples that were late for windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.columns import of_64_bits
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import from_ticks
from penstock.kernel.operator import LateRows, Progress
from penstock.kernel.state import Tree
from penstock.model.arrays import Ints, extremes, floor_div
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.ticks import Domain, Interval, ticks_of
from penstock.model.types import Type, late_names
from penstock.model.values import RowForm
from penstock.plan.nodes.aggregation import DistinctOn, WindowAggregate
from penstock.plan.window_kinds import Landmark, RowWindow, Session, SlideByTuple, Sliding

_Numbered: TypeAlias = Sliding | Landmark | RowWindow | SlideByTuple
_FEW = 8  # rows that Python writes down faster than NumPy
AT_ONCE = 1 << 16  # rows that are gathered before they leave


def with_late_columns(rows: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
    """Append to late rows what they missed, in columns that hide none of theirs: the bound, the
    first and the last window, and whether they were amended, as far as that is given."""
    for name, column in zip(late_names(rows.schema.names), columns, strict=False):
        rows = rows.append_column(name, column)
    return rows


class Results:
    """Gathers the rows of several windows into one batch."""

    def __init__(self, node: WindowAggregate | DistinctOn) -> None:
        self._node = node
        self._schema = node.schema.arrow
        self._types = self._schema.types
        self._form = RowForm(node.schema)
        self._domain = Domain(node.bound_type)
        self._room = ticks_of(node.bound_type)
        self._ids: list[Ints] = []
        self._columns: list[list[pa.Array]] = []
        self._rows = 0  # gathered
        self._highest: int | None = None  # of the windows that had results

    def add(self, wid: int, columns: list[pa.Array]) -> None:
        """Add the keys and results of the groups of one window."""
        rows = len(columns[0]) if columns else 0
        if rows:
            self._highest = wid if self._highest is None else max(wid, self._highest)
            self._ids.append(np.array([wid] * rows if rows < _FEW else np.full(rows, wid)))
            self._columns.append(columns)
            self._rows += rows

    def of_windows(self, ids: Ints, columns: list[pa.Array]) -> Iterator[Batch]:
        """Emit the keys and results of the groups of several windows, which ascend: in batches, as
        far as they are many."""
        last = int(ids[-1])
        self._highest = last if self._highest is None else max(last, self._highest)
        for begin in range(0, len(ids), AT_ONCE):
            some = ids[begin : begin + AT_ONCE]
            self._ids.append(some)
            self._columns.append([column.slice(begin, len(some)) for column in columns])
            self._rows += len(some)
            yield from self.many()

    def repeat(self, first: int, stop: int, columns: list[pa.Array]) -> Iterable[Batch]:
        """Add one set of keys and results to each window from `first` to before `stop`: emitted in
        batches, as far as they are many."""
        if stop == first + 1:
            self.add(first, columns)
            return self.many() if self._rows >= AT_ONCE else ()
        return self._repeated(first, stop, columns)

    def _repeated(self, first: int, stop: int, columns: list[pa.Array]) -> Iterator[Batch]:
        for ids, repeated_ in repeated(first, stop, columns):
            self._highest = max(stop - 1, stop - 1 if self._highest is None else self._highest)
            self._ids.append(ids)
            self._columns.append(repeated_)
            self._rows += len(ids)
            yield from self.many()

    def many(self) -> Iterator[Batch]:
        """Emit a batch of the gathered rows, if they are enough for one."""
        if self._rows >= AT_ONCE:
            batch = self.batch()
            if batch is not None:
                yield batch

    def batch(self) -> Batch | None:
        if not self._ids:
            return None
        window = self._node.window
        if self._rows == 1 and isinstance(window, Sliding | Landmark):
            return self._single(window)
        if len(self._ids) == 1:
            (ids,), (joined,) = self._ids, self._columns
        else:
            ids = np.concatenate(self._ids)
            joined = [pa.concat_arrays(parts) for parts in zip(*self._columns, strict=True)]
        arrays = [*window_columns(self._node, ids), *joined]
        self._ids, self._columns, self._rows = [], [], 0
        casts = [
            array if array.type == type_ else array.cast(type_)
            for array, type_ in zip(arrays, self._types, strict=True)
        ]
        return Batch(pa.RecordBatch.from_arrays(casts, schema=self._schema))

    def _single(self, window: Sliding | Landmark) -> Batch:
        """The only row that has been gathered."""
        (ids,), (columns,) = self._ids, self._columns
        self._ids, self._columns, self._rows = [], [], 0
        wid, value = int(ids[0]), self._domain.value
        begin, end = _bounds_in(self._room, window, wid, self._node)
        start = None if begin is None else value(begin)
        return Batch.single((wid, start, value(end), *self._form.last_values(columns)), self._form)

    def save(self) -> Tree:
        return self._highest

    def load(self, saved: Tree) -> None:
        self._highest = saved

    def progress(self, last: Bound, ended: bool) -> Progress:
        """Progress of the results once the windows up to `last` have been emitted."""
        window = self._node.window
        assert isinstance(window, Sliding | Landmark)
        reached = None if self._highest is None else self._highest + 1
        return promised(window, last + 1, reached, ended)


def repeated(
    first: int, stop: int, columns: list[pa.Array]
) -> Iterator[tuple[Ints, list[pa.Array]]]:
    """Repeat one set of keys and results for the windows from `first` to before `stop`, some at a
    time."""
    rows = len(columns[0]) if columns else 0
    if rows == 0:
        return
    step = max(1, AT_ONCE // rows)
    for begin in range(first, stop, step):
        windows = min(step, stop - begin)
        ids = np.repeat(np.arange(begin, begin + windows), rows)
        if windows == 1:
            yield ids, columns
        else:
            places = pa.array(np.tile(np.arange(rows), windows))
            yield ids, [each.take(places) for each in columns]


def window_columns(node: WindowAggregate | DistinctOn, ids: Ints) -> list[pa.Array]:
    """window_id, window_start and window_end."""
    by_tuple = isinstance(node.window, SlideByTuple)
    shown = from_ticks(ids, node.bound_type) if by_tuple else of_64_bits(ids)
    starts, ends = _window_bounds(node, ids)
    if starts is None:
        return [shown, pa.nulls(len(ids), node.bound_type.arrow), from_ticks(ends, node.bound_type)]
    return [shown, from_ticks(starts, node.bound_type), from_ticks(ends, node.bound_type)]


def _window_bounds(node: WindowAggregate | DistinctOn, ids: Ints) -> tuple[Ints | None, Ints]:
    """Begins (if windows have one) and ends of all windows at once.  Scans reject tuples without
    room for their windows, so bounds that fit at both ends fit in between, and their last 64 bits
    are all of them."""
    window, room = node.window, ticks_of(node.bound_type)
    assert not isinstance(window, Session)  # which ends where its tuples say
    for wid in _ends_of(ids):
        _bounds_in(room, window, wid, node)
    if isinstance(window, SlideByTuple):
        return ids - window.range, ids
    over = window.over_rows if isinstance(window, RowWindow) else window
    ends = (ids + 1) * over.slide + over.origin
    return None if isinstance(over, Landmark) else ends - over.range, ends


def _bounds_in(
    room: Interval, window: _Numbered, wid: int, node: WindowAggregate | DistinctOn
) -> tuple[int | None, int]:
    """Begin and end of a window; an error if there is no room for both."""
    begin, end = window.bounds(wid)
    if (begin is not None and not room.holds(begin)) or not room.holds(end):
        raise RunError(f"a window reaches beyond the range of {node.bound_type}")
    return begin, end


def _ends_of(ids: Ints) -> tuple[int, ...]:
    """The lowest and the highest of some windows."""
    if not len(ids):
        return ()
    lowest, highest = extremes(ids)
    return (lowest,) if lowest == highest else (lowest, highest)


def promised(
    window: Landmark | Sliding, next_window: Bound, released: int | None, ended: bool
) -> Progress:
    """Progress of results: none comes below `next_window`, and all below `released`, if given, have
    come."""
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
    """Late tuples and the windows that they missed: positions in a batch, the bounds that they
    broke, the first and the last window missed."""

    rows: Ints
    bounds: Ints
    first: Ints
    last: Ints

    def late_rows(self, batch: pa.RecordBatch, bound_type: Type, id_type: Type) -> LateRows:
        kept = batch.take(pa.array(self.rows))
        ids = [from_ticks(ticks, id_type) for ticks in (self.first, self.last)]
        return LateRows(with_late_columns(kept, [from_ticks(self.bounds, bound_type), *ids]))


# The sliding windows of tuples; late tuples begin with the first window that their bound has not
# closed.


class IdRanges(NamedTuple):
    """The first window of each tuple, and the one after the last; whether some begin further on
    than their value says, and the tuples that missed windows."""

    first: Ints
    stop: Ints
    raised: bool = False
    missed: Missed | None = None


def id_ranges(
    window: Sliding, ticks: Ints, broke: Ints | None, bounds: Ints | None, whole: bool = False
) -> IdRanges:
    """`broke` are the rows that broke a bound, with these `bounds`.  A late tuple begins with the
    first window that its bound has not closed; if late as a `whole`, it is in no window at all."""
    first, stop = window.wid_bounds(ticks)
    if broke is None or bounds is None or not len(broke):
        return IdRanges(first, stop)
    open_ = floor_div(bounds, plus=-window.origin, by=window.slide)
    missing = (open_ > first[broke]) & (first[broke] < stop[broke])
    if not missing.any():
        return IdRanges(first, stop)
    rows, bounds = broke[missing], bounds[missing]
    from_ = stop[rows] if whole else np.minimum(open_[missing], stop[rows])
    missed = Missed(rows, bounds, first[rows], from_ - 1)
    first = first.copy()
    first[rows] = from_
    return IdRanges(first, stop, not whole, missed)


def last_closed(window: Sliding, bound: int) -> int:
    """The last window that ends at or below a bound."""
    return (bound - window.origin) // window.slide - 1
