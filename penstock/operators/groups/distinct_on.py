"""DISTINCT ON: a row of every key and pane is kept, and windows take the first or the last of them.

Tuples that are in the same windows share a pane; a late one shares it with those that are late by
as much.  Panes are kept by the window that follows their last one, so that what is over goes away
as a whole.  Rows are gathered as they come, and now and then all but one of each key go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import BIGINT, Type
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.folding.key_order import sorted_places
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.open_results import OpenResults, open_spans
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.ticks import to_ticks
from penstock.operators.windows.id_ranges import id_ranges, last_closed
from penstock.operators.windows.results import Results
from penstock.plan.distinct_on import DistinctOn
from penstock.state.chunks import ChunkStore, required
from penstock.windows.columns import extremes

_FEW = 1024  # rows that may wait before all but one of each key go


class DistinctOnOperator(Base):
    def __init__(self, node: DistinctOn) -> None:
        schema = node.input.schema
        self._window, self._type = node.window, node.attribute.type
        self._attribute = compile_expression(node.attribute, schema)
        self._bound = BoundOf(node.attribute)
        self._keys = [compile_expression(key, schema) for key in node.keys]
        self._columns = [compile_expression(column, schema) for column in node.columns]
        self._choice = _Choice([key.type for key in node.keys], len(node.columns), node.last)
        self._results = Results(node)
        self._panes: dict[int, _Pane] = {}  # by the window after the last
        self._next: Bound = BEGINNING  # the first window that has not been given out
        self._touched: set[int] = set()
        self._stored: set[int] = set()

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        ticks = to_ticks(self._attribute(batch.rows), self._type)
        broken = (None, None) if batch.broken is None else self._bound.broken(batch)
        ranges = id_ranges(self._window, ticks, *broken)
        if ranges.missed is not None:
            yield ranges.missed.late_rows(batch.rows, self._type, BIGINT)
        places = np.flatnonzero(ranges.first < ranges.stop)
        if not len(places):
            return
        rows = self._choice.rows(
            [key(batch.rows) for key in self._keys],
            [_shown(column(batch.rows)) for column in self._columns],
            ranges.first,
            ticks,
        )
        for stop, own in _by_value(ranges.stop[places], places):
            part = rows if len(own) == rows.num_rows else rows.take(pa.array(own))
            first = int(ranges.first[own].min())
            self._panes.setdefault(stop, _Pane()).add(part, first, self._choice)
            self._touched.add(stop)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = self._bound.promised(progress)
        last: Bound = bound
        if bound not in (BEGINNING, END):
            last = last_closed(self._window, int(bound))
        for wid, columns in self._closed(last):
            self._results.add(wid, columns)
            yield from self._results.many()
        self._next = max(self._next, last + 1)
        for stop in [each for each in self._panes if each <= self._next]:
            del self._panes[stop]
        batch = self._results.batch()
        if batch is not None:
            yield batch
        yield self._results.progress(last, progress.ended)

    def _closed(self, last: Bound) -> Iterator[tuple[int, list[pa.Array]]]:
        """The rows of every window up to the last one that have not been given out."""
        open_ = [(stop, pane) for stop, pane in self._panes.items() if pane.first <= last]
        if not open_:
            return
        for _, pane in open_:
            pane.reduce(self._choice)
        stops = np.repeat([stop for stop, _ in open_], [pane.size for _, pane in open_])
        rows = _together([pane.rows for _, pane in open_])
        chosen = self._choice.ranked(rows)
        first, stops = chosen.first, stops[chosen.order]
        wid = int(max(self._next, int(first.min())))
        while wid <= last:
            inside = np.flatnonzero((first <= wid) & (wid < stops))
            if len(inside):
                yield wid, self._choice.columns(rows.take(pa.array(chosen.one_of_each(inside))))
            later = first[stops > wid + 1]
            if not len(later):
                return
            wid = max(wid + 1, int(later.min()))

    def rows_held(self) -> int:
        return sum(pane.size for pane in self._panes.values())

    def open_results(self) -> OpenResults:
        spans = ((max(self._next, pane.first), stop) for stop, pane in self._panes.items())
        return open_spans(*((int(first), stop) for first, stop in spans))

    def save(self, store: ChunkStore) -> None:
        for stop in self._touched & self._panes.keys():
            self._panes[stop].reduce(self._choice)
            store.put(f"rows/{stop}", self._panes[stop].rows)
        for stop in self._stored - self._panes.keys():
            store.drop(f"rows/{stop}")
        self._stored, self._touched = set(self._panes), set()
        saved = {"results": self._results.save(), "next": self._next}
        store.put("run", {**saved, "panes": sorted(self._panes)})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._results.load(saved["results"])
        self._next = saved["next"]
        for stop in saved["panes"]:
            self._panes[stop] = _Pane()
            rows = required(store, f"rows/{stop}")
            self._panes[stop].add(rows, int(np.asarray(rows.column("first")).min()), self._choice)
        self._stored = set(self._panes)


class _Pane:
    """The rows of a pane: one of every key, and what has come since."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._kept = 0  # after the rows were last looked at
        self.size = 0
        self.first = 0  # the first window that a row is in

    @property
    def rows(self) -> pa.RecordBatch:
        return self._parts[0]

    def add(self, rows: pa.RecordBatch, first: int, choice: _Choice) -> None:
        self.first = min(self.first, first) if self.size else first
        self._parts.append(rows)
        self.size += rows.num_rows
        if self.size > max(_FEW, 2 * self._kept):
            self.reduce(choice)

    def reduce(self, choice: _Choice) -> None:
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
        """Of the rows at some places in this order, the one that stands for its key."""
        return self.order[places[_ends(self._codes[places], self._last)]]


class _Choice:
    """Which of several rows of a key stands for it.  Rows have the keys (k0, k1, …), the columns
    (c0, c1, …), the first window that they are in, and their time."""

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
        """What comes out, in the order of the keys."""
        order = sorted_places([rows.column(name) for name in self._keys])
        return [rows.column(name).take(pa.array(order)) for name in self._columns]

    def ranked(self, rows: pa.RecordBatch) -> _Ranked:
        codes = self._codes(rows)
        columns = [pa.array(codes), rows.column("tick")]
        columns += [rows.column(name) for name in self._columns]
        return _Ranked(sorted_places(columns), codes, np.asarray(rows.column("first")), self._last)

    def best(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """One row of every key, and of every first window: late rows are not in all of them."""
        codes, first = self._codes(rows), np.asarray(rows.column("first"))
        columns = [pa.array(codes), rows.column("first"), rows.column("tick")]
        columns += [rows.column(name) for name in self._columns]
        order = sorted_places(columns)
        _, groups = np.unique(first, return_inverse=True)
        apart = codes[order] * (int(groups.max(initial=0)) + 1) + groups[order]
        return rows.take(pa.array(order[_ends(apart, self._last)]))

    def _codes(self, rows: pa.RecordBatch) -> Ints:
        columns = [rows.column(name) for name in self._keys]
        return KeyCodes(self._types).encode(columns, rows.num_rows)


def _ends(codes: Ints, last: bool) -> Mask:
    """The first of every run of equal numbers, or the last.

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
    order = np.argsort(values, kind="stable")
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
