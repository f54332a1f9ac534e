"""Row windows: tuples are numbered here, within their partition, and windows are over the numbers.

A window closes when the tuples counted pass its end; no punctuation is needed.  In rank order the
tuples wait until the bound has passed them, and are numbered then.  Windows that move by many rows
are made of panes, others of the rows themselves (see `row_partitions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.batch import Batch
from penstock.operators.folding.folder import Folder
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.groups.grouped import InTime, as_batch
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.windows.counted.filling_order import PlacesOfWindows, as_filled, as_left
from penstock.operators.windows.counted.partitions import (
    Partitions,
    Waiting,
    local_folder,
    localized,
)
from penstock.operators.windows.counted.row_partitions import (
    KeptRows,
    PanesOfRows,
    SavedPanes,
    SavedRows,
)
from penstock.operators.windows.landmark import runs_of
from penstock.operators.windows.results import AT_ONCE, promised, window_columns
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore
from penstock.windows.rows import RowWindow
from penstock.windows.sliding import Sliding

_WIDE_PANE = 32  # rows; narrower panes cost more than they save
_PUT_IN_ORDER = 4096  # tuples, whose results are put in order at once


class RowsOperator(Base):
    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, RowWindow)
        self.node = node
        self.window = node.window
        self.over = node.window.over_rows
        self.schema = node.schema.arrow
        self._in_time = InTime([node.attribute], node.input) if node.attribute else None
        self._waiting = Waiting()
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.partitions = Partitions(node)
        length = node.window.range
        self._wide = length is None or gcd(length, node.window.slide) >= _WIDE_PANE
        self.states: dict[int, PanesOfRows | KeptRows] = {}
        self._chunks: SavedPanes | SavedRows = (
            SavedPanes() if self._wide else SavedRows(node.window.partitioned)
        )
        self._ended = False
        self._dead = DeadKeys(self.folder)

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if self._in_time is None:
            yield from self._count_all(batch.rows)
            return
        given, ticks, late = self._in_time.split(batch)
        self._waiting.add(given, ticks[0])
        yield from late

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        if self._in_time is not None:
            settled = self._waiting.below(self._in_time.promised(progress)[0])
            if settled is not None:
                yield from self._count_all(settled[0])
        if progress.ended:
            self._ended = True
            stops = {part: state.stop() for part, state in self.states.items()}
            yield from self._released(stops, as_left(self.partitions.ranks))
            yield self._promise(ended=True)

    def _count_all(self, batch: pa.RecordBatch) -> Iterator[Item]:
        """Results that have to be put in order are all there at once, so tuples are not."""
        if not self.node.counted:
            yield from self._count(batch)
            return
        for begin in range(0, batch.num_rows, _PUT_IN_ORDER):
            yield from self._count(batch.slice(begin, _PUT_IN_ORDER))

    def _count(self, batch: pa.RecordBatch) -> Iterator[Item]:
        """Number tuples, fold them, and release the windows whose end the count has passed."""
        parts, numbers = self.partitions.number(batch)
        places = as_filled(parts, numbers, self.window.slide)
        different, begins = np.unique(parts, return_index=True)
        closed: dict[int, int] = {}
        for part, before in zip(different.tolist(), numbers[begins].tolist(), strict=True):
            state = self._state(part, before)
            state.count = int(self.partitions.counts[part])
            closed[part] = state.count // self.window.slide
        covered = self.over.covered(numbers) if isinstance(self.over, Sliding) else None
        if covered is not None:
            batch, parts, numbers = (
                batch.filter(pa.array(covered)),
                parts[covered],
                numbers[covered],
            )
        rows = self.folder.rows(batch, numbers)
        for part, own in runs_of(rows, parts):
            self.states[part].take(localized(self.states[part].folder, own))
        self._chunks.append(rows, parts, closed)
        released = list(self._released(closed, places))
        for part in closed:
            self.states[part].forget_keys()
        self._dead.forget(self._mark, self._renumber)
        yield from released
        if released and not self.window.partitioned:
            yield self._promise(ended=False)

    def _state(self, part: int, count: int) -> PanesOfRows | KeptRows:
        """What is kept of a partition, of which so many rows have been counted before."""
        state = self.states.get(part)
        if state is None:
            folder = local_folder(self.folder) if self.window.partitioned else self.folder
            kind = PanesOfRows if self._wide else KeptRows
            state = self.states[part] = kind(folder, self.window, count)
        return state

    def _released(self, closed: dict[int, int], places: PlacesOfWindows) -> Iterator[Item]:
        """Of each partition the windows before the given one that have not been released yet, in
        an order that all of them have together if somebody counts them."""
        found: list[tuple[Ints, list[pa.Array]]] = []
        parts: list[Codes] = []
        rows = 0
        for part, windows in self._windows(closed):
            found.append(windows)
            parts.append(np.full(len(windows[0]), part))
            rows += len(windows[0])
            if rows >= AT_ONCE and not self.node.counted:
                yield Batch(windows_batch(self.node, found))
                found, parts, rows = [], [], 0
        if not found:
            return
        batch = windows_batch(self.node, found)
        if self.node.counted:
            ids = np.concatenate([ids for ids, _ in found])
            batch = batch.take(pa.array(places(np.concatenate(parts), ids)))
        yield Batch(batch)

    def _windows(self, closed: dict[int, int]) -> Iterator[tuple[int, tuple[Ints, list[pa.Array]]]]:
        for part, stop in closed.items():
            state = self.states[part]
            if stop > state.next_window:
                for windows in state.windows(state.next_window, stop):
                    yield part, windows
                state.next_window = stop
                self._chunks.pass_(part, state)

    def _promise(self, ended: bool) -> Progress:
        state = None if self.window.partitioned else self.states.get(0)
        if state is None:
            return Progress(ended=ended)
        return promised(self.over, state.next_window, state.next_window or None, ended)

    def rows_held(self) -> int:
        return self._waiting.rows

    def open_results(self) -> OpenResults:
        """Partitions with windows that are not full; tuples that wait have no number yet."""
        full = sum(state.stop() > state.next_window for state in self.states.values())
        return OpenResults(others=full or int(self._waiting.rows > 0))

    # --- state -----------------------------------------------------------------------------------

    def _mark(self, live: Mask) -> None:
        for state in self.states.values():
            state.mark_known(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        for state in self.states.values():
            state.renumber_known(codes, place)
        self._chunks.begin_anew(self.states)

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self.partitions.save(store)
        self._waiting.save(store)
        self._chunks.save(store, self.states)
        store.put("run", {"ended": self._ended})

    def load(self, store: ChunkStore) -> None:
        """A partition of which nothing is kept starts from its count when its next tuple comes."""
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.partitions.load(store)
        self._waiting.load(store)
        counts = self.partitions.counts
        if not self.window.partitioned and counts[0]:
            self._state(0, int(counts[0]))
        self._chunks.load(store, lambda part: self._state(part, int(counts[part])))
        self._ended = saved["ended"]
        if self._ended:
            for state in self.states.values():
                state.next_window = state.stop()


def windows_batch(
    node: WindowAggregate, found: list[tuple[Ints, list[pa.Array]]]
) -> pa.RecordBatch:
    """The rows of windows: their ids, keys and results."""
    ids = np.concatenate([ids for ids, _ in found])
    columns = [pa.concat_arrays(parts) for parts in zip(*(c for _, c in found), strict=True)]
    return as_batch([*window_columns(node, ids), *columns], node.schema.arrow)
