"""Row windows: tuples are numbered here, within their partition, and windows are over the numbers.

A window closes when the tuples counted pass its end; no punctuation is needed.  In rank order the
tuples wait until the bound has passed them, and are numbered then.  Windows that move by many rows
are made of panes, others of the rows themselves (`Extents`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

import numpy as np
import pyarrow as pa

from penstock.operators.bounds import without_bounds
from penstock.operators.exact_sums import Ints
from penstock.operators.extents import Extents
from penstock.operators.folding import Folder, Partials, Rows
from penstock.operators.grouped import InTime, as_batch
from penstock.operators.landmark import runs_of
from penstock.operators.operator import Item, Progress
from penstock.operators.pane_contents import BlockContents, Panes, SlidingContents
from penstock.operators.partitions import Partitions, Waiting, local_folder, localized
from penstock.operators.release import promised, window_columns
from penstock.plan.aggregates import WindowAggregate
from penstock.windows.rows import RowWindow
from penstock.windows.sliding import Sliding

_WIDE_PANE = 32  # rows; narrower panes cost more than they save


class RowsOperator:
    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, RowWindow)
        self.node = node
        self.window = node.window
        self.over = node.window.over_rows
        self.schema = node.schema.arrow
        self._in_time = InTime([node.attribute], node.input) if node.attribute else None
        self._waiting = Waiting()
        self.folder = Folder(node.keys, node.aggregates, node.input.schema)
        self.partitions = Partitions(node)
        self.states: dict[int, _ByPane | _ByRow] = {}

    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterable[Item]:  # noqa: ARG002
        if self._in_time is None:
            return self._count(without_bounds(batch))
        batch, ticks, late = self._in_time.split(batch)
        self._waiting.add(batch, ticks[0])
        return late

    def on_progress(self, port: int, progress: Progress) -> Iterable[Item]:  # noqa: ARG002
        if self._in_time is not None:
            settled = self._waiting.below(self._in_time.promised(progress)[0])
            if settled is not None:
                yield from self._count(settled[0])
        if progress.ended:
            yield from self._released({part: state.stop() for part, state in self.states.items()})
            yield self._promise(ended=True)

    def _count(self, batch: pa.RecordBatch) -> Iterator[Item]:
        """Number tuples, fold them, and release the windows whose end the count has passed."""
        parts, numbers = self.partitions.number(batch)
        closed: dict[int, int] = {}
        for part, rows in runs_of(self.folder.rows(batch, numbers), parts):
            state = self.states.get(part)
            if state is None:
                state = self.states[part] = self._new_state()
            state.take(localized(state.folder, rows))
            closed[part] = state.count // self.window.slide
        released = list(self._released(closed))
        yield from released
        if released and not self.window.partitioned:
            yield self._promise(ended=False)

    def _new_state(self) -> _ByPane | _ByRow:
        folder = local_folder(self.folder) if self.window.partitioned else self.folder
        length = self.window.range
        wide = length is None or gcd(length, self.window.slide) >= _WIDE_PANE
        return _ByPane(folder, self.window) if wide else _ByRow(folder, self.window)

    def _released(self, closed: dict[int, int]) -> Iterator[Item]:
        """Of each partition the windows before the given one that have not been released yet."""
        found: list[tuple[Ints, list[pa.Array]]] = []
        for part, stop in closed.items():
            state = self.states[part]
            if stop > state.next_window:
                found += state.windows(state.next_window, stop)
                state.next_window = stop
        if found:
            yield windows_batch(self.node, found)

    def _promise(self, ended: bool) -> Progress:
        state = None if self.window.partitioned else self.states.get(0)
        if state is None:
            return Progress(ended=ended)
        return promised(self.over, state.next_window, state.next_window or None, ended)


class _State:
    """The rows of one partition."""

    def __init__(self, folder: Folder, window: RowWindow) -> None:
        self.folder = folder
        self.window = window
        self.count = 0
        self.next_window = 0  # the first that has not been released

    def stop(self) -> int:
        """The one after the last window that has rows, if no more come."""
        if self.count == 0:
            return 0
        length = self.window.range
        if length is None:
            return (self.count - 1) // self.window.slide + 1
        return (self.count - 1 + length) // self.window.slide


class _ByPane(_State):
    def __init__(self, folder: Folder, window: RowWindow) -> None:
        super().__init__(folder, window)
        self.pane = gcd(window.range or window.slide, window.slide)
        self.panes = Panes(folder)
        self.contents: SlidingContents | BlockContents | _Growing
        if window.range is None:
            self.contents = _Growing(folder, self.panes)
        elif folder.differential:
            self.contents = SlidingContents(folder, self.panes)
        else:
            self.contents = BlockContents(folder, self.panes)

    def take(self, rows: Rows) -> None:
        self.count += len(rows)
        over = self.window.over_rows
        if isinstance(over, Sliding) and over.slide > over.range:  # some rows are in no window
            first, stop = over.wid_bounds(rows.positions)
            rows = rows.take(np.flatnonzero(first < stop))
        for pane, own in runs_of(rows, rows.positions // self.pane):
            self.folder.fold(self.panes.open(pane), own)

    def windows(self, first: int, stop: int) -> Iterator[tuple[Ints, list[pa.Array]]]:
        per_slide = self.window.slide // self.pane
        per_window = (self.window.range or 0) // self.pane
        for wid in range(first, stop):
            end = (wid + 1) * per_slide
            content = self.contents.of(end - per_window, end)
            codes = np.flatnonzero(content.rows.rows)
            yield np.full(len(codes), wid), self.folder.finish(content, codes)


class _Growing:
    """RANGE ALL: every pane up to the end, wherever the window is said to begin."""

    def __init__(self, folder: Folder, panes: Panes) -> None:
        self._folder, self._panes = folder, panes
        self._upto = 0
        self._content = folder.new()

    def of(self, begin: int, end: int) -> Partials:  # noqa: ARG002
        for number in range(self._upto, end):
            pane = self._panes.get(number)
            if pane is not None:
                self._folder.merge(self._content, pane)
                self._panes.drop(number)
        self._upto = end
        return self._content


class _ByRow(_State):
    def __init__(self, folder: Folder, window: RowWindow) -> None:
        super().__init__(folder, window)
        self.extents = Extents(folder)

    def take(self, rows: Rows) -> None:
        self.count += len(rows)
        self.extents.append(rows)

    def windows(self, first: int, stop: int) -> Iterator[tuple[Ints, list[pa.Array]]]:
        assert self.window.range is not None
        ends = (np.arange(first, stop) + 1) * self.window.slide
        begins = np.clip(ends - self.window.range, 0, self.count)
        for which, columns in self.extents.of(begins, np.minimum(ends, self.count)):
            yield which + first, columns
        self.extents.drop((stop + 1) * self.window.slide - self.window.range)


def windows_batch(
    node: WindowAggregate, found: list[tuple[Ints, list[pa.Array]]]
) -> pa.RecordBatch:
    """The rows of windows: their ids, keys and results."""
    ids = np.concatenate([ids for ids, _ in found])
    columns = [pa.concat_arrays(parts) for parts in zip(*(c for _, c in found), strict=True)]
    return as_batch([*window_columns(node, ids), *columns], node.schema.arrow)
