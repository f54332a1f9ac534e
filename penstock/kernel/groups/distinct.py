"""DISTINCT and DISTINCT ON: rows of which windows show one of every key, the first or the last by
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.grouping.keys import KeyCodes, sorted_places
from penstock.kernel.groups.group_by import InTime
from penstock.kernel.operator import (
    NOTHING_OPEN,
    Base,
    Item,
    OpenResults,
    Progress,
    at_once,
    open_spans,
)
from penstock.kernel.state import ChunkStore, Slices, required
from penstock.kernel.windows.results import Results, id_ranges, last_closed
from penstock.model.arrays import Ints, Mask, extremes, first_rows, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import BIGINT, Type
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregation import Distinct, DistinctOn

_FEW = 1024  # rows that may wait before all but one of each key go


# Rows by panes, of which windows show one of every key.
#
# Tuples that are in the same windows share a pane; a late one shares it with those that are late by
# as much.  Panes are kept by the window that follows their last one, so that expired ones are
# dropped as a whole.  Rows are gathered as they come, and now and then all but one of each key are
# dropped.


class ChosenRows:
    """State of DISTINCT ON: for each pane one row of every key, and the rows that have come
    since."""

    def __init__(self, node: DistinctOn) -> None:
        schema = node.input.schema
        self._keys = [compile_expression(key, schema) for key in node.keys]
        self._columns = [compile_expression(column, schema) for column in node.columns]
        self.choice = RowChoice([key.type for key in node.keys], len(node.columns), node.last)
        self._panes: dict[int, _Pane] = {}  # by the window after the last
        self._touched: set[int] = set()
        self._stored: set[int] = set()

    def __len__(self) -> int:
        return sum(pane.size for pane in self._panes.values())

    def add(self, given: pa.RecordBatch, ticks: Ints, first: Ints, stop: Ints) -> None:
        """Tuples with their times, the first window of each, and the one after the last."""
        places = np.flatnonzero(first < stop)
        if not len(places):
            return
        keys = [key(given) for key in self._keys]
        rows = self.choice.rows(
            keys, [_shown(column(given)) for column in self._columns], first, ticks
        )
        for end, own in _by_value(stop[places], places):
            part = rows if len(own) == rows.num_rows else rows.take(pa.array(own))
            self._panes.setdefault(end, _Pane()).add(part, int(first[own].min()), self.choice)
            self._touched.add(end)

    def windows(self, begin: Bound, last: Bound) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The windows from one to another that have rows, and those that they show, in the order
        of the keys."""
        open_ = [
            (stop, pane)
            for stop, pane in self._panes.items()
            if pane.first <= last and stop > begin
        ]
        if not open_:
            return
        for _, pane in open_:
            pane.reduce(self.choice)
        stops = np.repeat([stop for stop, _ in open_], [pane.size for _, pane in open_])
        rows = _together([pane.rows for _, pane in open_])
        ranked = self.choice.ranked(rows)
        first, stops = ranked.first, stops[ranked.order]
        wid = int(max(begin, int(first.min())))
        while wid <= last:
            inside = np.flatnonzero((first <= wid) & (wid < stops))
            if len(inside):
                chosen = rows.take(pa.array(ranked.one_of_each(inside)))
                yield wid, self.choice.in_order(chosen)
            later = first[stops > wid + 1]
            if not len(later):
                return
            wid = max(wid + 1, int(later.min()))

    def forget(self, window: Bound) -> None:
        """Drop the rows of windows before `window`, which will not be asked for any more."""
        for stop in [each for each in self._panes if each <= window]:
            del self._panes[stop]
            self._touched.discard(stop)

    def spans(self, begin: Bound) -> Iterator[tuple[int, int]]:
        """Spans of windows that have rows, from `begin` on."""
        for stop, pane in self._panes.items():
            yield int(max(begin, pane.first)), stop

    def save(self, store: ChunkStore) -> list[int]:
        """Write the panes that have changed; return the numbers of all panes."""
        for stop in self._touched & self._panes.keys():
            self._panes[stop].reduce(self.choice)
            store.put(f"rows/{stop}", self._panes[stop].rows)
        for stop in self._stored - self._panes.keys():
            store.drop(f"rows/{stop}")
        self._stored, self._touched = set(self._panes), set()
        return sorted(self._panes)

    def load(self, store: ChunkStore, panes: Sequence[int]) -> None:
        for stop in panes:
            self._panes[stop] = _Pane()
            rows = required(store, f"rows/{stop}")
            self._panes[stop].add(rows, int(np.asarray(rows.column("first")).min()), self.choice)
        self._stored = set(self._panes)


class _Pane:
    """Rows of a pane: one of every key, and the rows that have come since."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._kept = 0  # after the rows were last looked at
        self.size = 0
        self.first = 0  # the first window that a row is in

    @property
    def rows(self) -> pa.RecordBatch:
        return self._parts[0]

    def add(self, rows: pa.RecordBatch, first: int, choice: RowChoice) -> None:
        self.first = min(self.first, first) if self.size else first
        self._parts.append(rows)
        self.size += rows.num_rows
        if self.size > max(_FEW, 2 * self._kept):
            self.reduce(choice)

    def reduce(self, choice: RowChoice) -> None:
        """Leave one row of every key."""
        if len(self._parts) == 1 and self.size == self._kept:
            return
        rows = _together(self._parts)
        self._parts = [choice.best(rows)]
        self.size = self._kept = self._parts[0].num_rows


class _Ranked:
    """Rows in the order of their keys, then of time and columns."""

    def __init__(self, order: Ints, codes: Ints, first: Ints, last: bool) -> None:
        self.order, self.first = order, first[order]
        self._codes, self._last = codes[order], last

    def one_of_each(self, places: Ints) -> Ints:
        """Among the rows at some places in this order, choose the row that stands for each key."""
        return self.order[places[_ends(self._codes[places], self._last)]]


class RowChoice:
    """Choice of the row that stands for a key among several.  Rows have the keys (k0, k1, …), the
    columns (c0, c1, …), the first window that they are in, and their time."""

    def __init__(self, keys: Sequence[Type], columns: int, last: bool) -> None:
        self._types = list(keys)
        self._keys = [f"k{place}" for place in range(len(keys))]
        self._columns = [f"c{place}" for place in range(columns)]
        self._last = last

    def rows(
        self, keys: list[pa.Array], columns: list[pa.Array], first: Ints, ticks: Ints
    ) -> pa.RecordBatch:
        names = [*self._keys, *self._columns, "first", "tick"]
        arrays = [*keys, *columns, pa.array(first), pa.array(ticks)]
        return pa.RecordBatch.from_arrays(arrays, names)

    def columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Output columns of rows."""
        return [rows.column(name) for name in self._columns]

    def in_order(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Sort rows by their keys."""
        return rows.take(pa.array(sorted_places([rows.column(name) for name in self._keys])))

    def ranked(self, rows: pa.RecordBatch) -> _Ranked:
        codes = self.codes(rows)
        columns = [pa.array(codes), rows.column("tick")]
        columns += [rows.column(name) for name in self._columns]
        return _Ranked(sorted_places(columns), codes, np.asarray(rows.column("first")), self._last)

    def best(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Choose one row of every key and of every first window: late rows are not in all of
        them."""
        codes, first = self.codes(rows), np.asarray(rows.column("first"))
        columns = [pa.array(codes), rows.column("first"), rows.column("tick")]
        columns += [rows.column(name) for name in self._columns]
        order = sorted_places(columns)
        _, groups = np.unique(first, return_inverse=True)
        apart = codes[order] * (int(groups.max(initial=0)) + 1) + groups[order]
        return rows.take(pa.array(order[_ends(apart, self._last)]))

    def codes(self, rows: pa.RecordBatch) -> Ints:
        """A number for each row, the same for those of one key."""
        columns = [rows.column(name) for name in self._keys]
        return KeyCodes(self._types).encode(columns, rows.num_rows)

    def ranks(self, rows: pa.RecordBatch) -> Ints:
        """Number rows like `codes`, in the order of their keys."""
        keys = KeyCodes(self._types)
        codes = keys.encode([rows.column(name) for name in self._keys], rows.num_rows)
        ranks = np.zeros(len(keys), np.int64)
        ranks[keys.order_of(np.arange(len(keys)))] = np.arange(len(keys))
        return ranks[codes]


def _ends(codes: Ints, last: bool) -> Mask:
    """Mask of the first row of every run of equal numbers, or of the last.

    >>> _ends(np.array([3, 3, 5]), last=False), _ends(np.array([3, 3, 5]), last=True)
    (array([ True, False,  True]), array([False,  True,  True]))
    """
    ends: Mask = np.ones(len(codes), np.bool_)
    differ = codes[1:] != codes[:-1]
    if last:
        ends[:-1] = differ
    else:
        ends[1:] = differ
    return ends


def _by_value(values: Ints, places: Ints) -> Iterator[tuple[int, Ints]]:
    """Places with equal values, in their order."""
    lowest, highest = extremes(values)
    if lowest == highest:
        yield lowest, places
        return
    order = stable_order(values)
    values, places = values[order], places[order]
    cuts = np.flatnonzero(values[1:] != values[:-1]) + 1
    begins = [0, *cuts.tolist()]
    for begin, own in zip(begins, np.split(places, cuts), strict=True):
        yield int(values[begin]), own


def _together(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches(parts)
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table.columns], schema=table.schema
    )


def _shown(column: pa.Array) -> pa.Array:
    """0.0 for −0.0, which is the same value."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


# DISTINCT: a tuple is emitted when it is first seen, and evicted when the bound has passed it.


class DistinctOperator(Base):
    """Emit each different tuple once; tuples below the bound are late."""

    def __init__(self, node: Distinct) -> None:
        self.schema = node.schema.arrow
        self._in_time = InTime([Column.of(each.field) for each in node.progress], node.input)
        types = [field.type for field in node.schema]
        self._seen = Slices(lambda: KeyCodes(types))

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, keys, late = self._in_time.split(batch)
        yield from late
        for seen, part, _ in self._seen.parts(given, keys):
            known = len(seen)
            codes = seen.encode(part.columns, part.num_rows)
            first, _ = first_rows(codes)
            new = first[codes[first] >= known]
            if len(new):
                columns = [_shown(column) for column in part.take(pa.array(new)).columns]
                yield Batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        self._seen.forget(self._in_time.promised(progress)[0])
        yield progress

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        self._seen.save(store)

    def load(self, store: ChunkStore) -> None:
        if store.get("newest") is not None:
            self._seen.load(store)


# DISTINCT ON: of every key in a window one row, the first or the last by time.


class DistinctOnOperator(Base):
    """Emit one row of every key in each window, when the window closes."""

    def __init__(self, node: DistinctOn) -> None:
        self._window, self._type = node.window, node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self._rows = ChosenRows(node)
        self._results = Results(node)
        self._next: Bound = BEGINNING  # the first window that has not been emitted

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        ticks = to_ticks(self._attribute(batch.rows), self._type)
        broken = (None, None) if batch.broken is None else self._bound.broken(batch)
        ranges = id_ranges(self._window, ticks, *broken)
        if ranges.missed is not None:
            yield ranges.missed.late_rows(batch.rows, self._type, BIGINT)
        self._rows.add(batch.rows, ticks, ranges.first, ranges.stop)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = self._bound.promised(progress)
        last: Bound = bound
        if bound not in (BEGINNING, END):
            last = last_closed(self._window, int(bound))
        for wid, rows in self._rows.windows(self._next, last):
            self._results.add(wid, self._rows.choice.columns(rows))
            yield from self._results.many()
        self._next = max(self._next, last + 1)
        self._rows.forget(self._next)
        batch = self._results.batch()
        if batch is not None:
            yield batch
        yield self._results.progress(last, progress.ended)

    def rows_held(self) -> int:
        return len(self._rows)

    def open_results(self) -> OpenResults:
        return open_spans(*self._rows.spans(self._next))

    def save(self, store: ChunkStore) -> None:
        panes = self._rows.save(store)
        saved = {"results": self._results.save(), "next": self._next}
        store.put("run", {**saved, "panes": panes})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._results.load(saved["results"])
            self._next = saved["next"]
            self._rows.load(store, saved["panes"])
