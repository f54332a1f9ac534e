"""Row windows: windows over numbered tuples of each partition, made of panes or of rows, the chunks
in which these are saved, and the order in which windows of several partitions leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import gcd
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import DeadKeys, Folder, Partials, Rows, mark_groups
from penstock.kernel.groups.group_by import InTime, as_batch
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once
from penstock.kernel.state import AppendLog, ChunkStore, Tree, required
from penstock.kernel.windows.counted_rows import (
    Extents,
    Partition,
    Partitions,
    Waiting,
    known,
    load_known,
    local_folder,
    localized,
    save_known,
)
from penstock.kernel.windows.landmark import runs_of
from penstock.kernel.windows.panes import BlockContents, Panes, SlidingContents, Unchanged
from penstock.kernel.windows.results import AT_ONCE, promised, repeated, window_columns
from penstock.model.arrays import Codes, Ints, Mask, stable_order
from penstock.model.punctuation import END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import RowWindow, Sliding

# order of the rows of windows, by their partitions and ids
PlacesOfWindows = Callable[[Codes, Ints], Ints]


# The order in which the row windows of several partitions leave where their rows are counted
# together: as the tuples come that fill them, whatever the batches are.  Those that are not full
# when the stream ends follow by id, then by partition.


def as_filled(parts: Codes, numbers: Ints, slide: int) -> PlacesOfWindows:
    """Order of windows that tuples fill, which have such numbers in their partitions.

    >>> places = as_filled(np.array([7, 4, 7, 4, 4]), np.array([0, 3, 1, 4, 5]), 2)
    >>> places(np.array([4, 4, 7]), np.array([1, 2, 0])).tolist()
    [0, 2, 1]
    """
    filling = np.flatnonzero((numbers + 1) % slide == 0)
    filling = filling[stable_order(parts[filling])]
    filled = (numbers[filling] + 1) // slide - 1

    def places(of: Codes, ids: Ints) -> Ints:
        first = np.searchsorted(parts[filling], of)  # the windows of a partition follow each other
        return stable_order(filling[first + ids - filled[first]])

    return places


def as_left(ranks: Callable[[Codes], Ints]) -> PlacesOfWindows:
    """Order of windows that no tuple fills any more, by partitions that have such ranks."""

    def places(of: Codes, ids: Ints) -> Ints:
        return np.lexsort((ranks(of), ids))

    return places


# State of row windows by partition, panes or rows, and the way it is saved.
#
# Partitions may be many, so they are saved in blocks: a chunk holds the panes of the same number of
# all partitions of a block, or the rows that came to them since the save before.

_BLOCK = 64  # partitions that are saved together
_RUNNING = -1  # the pane that RANGE ALL merges the others into
_FEW = 1024  # rows of a block that may be dead before it is written again


class CountedRows(Partition):
    """State of one partition of row windows: the number of rows counted so far."""

    def __init__(self, folder: Folder, window: RowWindow, count: int) -> None:
        super().__init__(folder)
        self.window = window
        self.count = count  # of all rows; those in no window are not kept
        self.next_window = count // window.slide  # the first that has not been released

    def stop(self) -> int:
        """The number after the last window that has rows, if no more come."""
        if self.count == 0:
            return 0
        length = self.window.range
        if length is None:
            return (self.count - 1) // self.window.slide + 1
        return (self.count - 1 + length) // self.window.slide


# --- panes ---------------------------------------------------------------------------------------


class PanesOfRows(CountedRows):
    """Rows of a partition folded into panes, for windows that move by many rows."""

    def __init__(self, folder: Folder, window: RowWindow, count: int) -> None:
        super().__init__(folder, window, count)
        self.pane = gcd(window.range or window.slide, window.slide)
        self.panes = Panes(folder)
        self.contents: SlidingContents | BlockContents | _Growing
        if window.range is None:
            self.contents = _Growing(folder, self.panes, self.next_window)
        elif folder.differential:
            self.contents = SlidingContents(folder, self.panes)
        else:
            self.contents = BlockContents(folder, self.panes)

    def take(self, rows: Rows) -> None:
        for pane, own in runs_of(rows, rows.positions // self.pane):
            self.folder.fold(self.panes.open(pane), own)

    def windows(self, first: int, stop: int) -> Iterator[tuple[Ints, list[pa.Array]]]:
        per_slide = self.window.slide // self.pane
        per_window = (self.window.range or 0) // self.pane
        unchanged = Unchanged(self.panes, per_window, per_slide)
        wid = first
        while wid < stop:
            end = (wid + 1) * per_slide
            content = self.contents.of(end - per_window, end)
            codes = self.folder.present(content)
            columns = self.folder.finish(content, codes)
            upto = wid if self.window.range is None else unchanged.until(wid, stop - 1)
            yield from repeated(wid, upto + 1, columns)
            wid = upto + 1

    def mark(self, live: Mask) -> None:
        for pane in self.panes.all():
            mark_groups(live, pane)

    def renumber(self, codes: Codes, place: Codes) -> None:  # noqa: ARG002
        def change(partials: Partials) -> Partials:
            return self.folder.take(partials, codes)

        self.panes.renumber(change)
        self.contents.renumber(change)


class _Growing:
    """RANGE ALL: contents of every pane up to the end, for any begin."""

    def __init__(self, folder: Folder, panes: Panes, upto: int) -> None:
        self._folder, self._panes = folder, panes
        self._upto = upto

    def of(self, begin: int, end: int) -> Partials:  # noqa: ARG002
        content = self._panes.open(_RUNNING)
        for number in range(self._upto, end):
            pane = self._panes.get(number)
            if pane is not None:
                self._folder.merge(content, pane)
                self._panes.drop(number)
        self._upto = end
        return content

    def renumber(self, change: Callable[[Partials], Partials]) -> None:
        """No-op: the merged content is a pane like the others, and renumbered with them."""


class SavedPanes:
    """Panes of row windows in chunks: one for the same pane of all partitions of a block."""

    def __init__(self) -> None:
        self._touched: set[int] = set()  # partitions, since the last save

    def append(self, rows: Rows, parts: Codes, different: Iterable[int]) -> None:  # noqa: ARG002
        self._touched.update(different)

    def pass_(self, part: int, state: CountedRows) -> None:  # noqa: ARG002
        self._touched.add(part)

    def begin_anew(self, states: PartitionStates) -> None:
        """Mark all chunks as changed, because keys have got other codes."""
        for part, state in states.items():
            assert isinstance(state, PanesOfRows)
            state.panes.renumber(lambda pane: pane)
            self._touched.add(part)

    def save(self, store: ChunkStore, states: PartitionStates) -> None:
        changed: dict[int, set[int]] = {}  # panes by block
        for part in self._touched & states.keys():
            state = states[part]
            assert isinstance(state, PanesOfRows)
            touched, gone = state.panes.changed()
            changed.setdefault(part // _BLOCK, set()).update(touched, gone)
        for block, numbers in changed.items():
            for number in numbers:
                pieces = list(_panes_of(block, number, states))
                if pieces:
                    store.put(f"panes/{block}/{number}", pieces)
                else:
                    store.drop(f"panes/{block}/{number}")
        self._touched.clear()

    def load(self, store: ChunkStore, state_of: Callable[[int], PanesOfRows | KeptRows]) -> None:
        for name in store.names():
            if name.startswith("panes/"):
                number = int(name.rpartition("/")[2])
                for part, saved in required(store, name):
                    state = state_of(part)
                    assert isinstance(state, PanesOfRows)
                    state.panes.restore(number, load_known(state.folder, saved))


def _panes_of(block: int, number: int, states: PartitionStates) -> Iterator[Tree]:
    for part in range(block * _BLOCK, (block + 1) * _BLOCK):
        state = states.get(part)
        pane = state.panes.get(number) if isinstance(state, PanesOfRows) else None
        if state is not None and pane is not None:
            yield [part, save_known(state.folder, pane)]


# --- rows ----------------------------------------------------------------------------------------


class KeptRows(CountedRows):
    """Rows of a partition, for windows that move by few rows."""

    def __init__(self, folder: Folder, window: RowWindow, count: int) -> None:
        super().__init__(folder, window, count)
        self.extents = Extents(folder, int(self._place(np.array(count))))

    def take(self, rows: Rows) -> None:
        self.extents.append(rows)

    def _place(self, numbers: Ints) -> Ints:
        """Places of rows among those that are in windows, by number; for other rows, the place of
        the next one that is."""
        assert self.window.range is not None
        gap = self.window.slide - self.window.range
        if gap <= 0:
            return numbers
        before, within = np.divmod(numbers, self.window.slide)
        places: Ints = before * self.window.range + np.maximum(within - gap, 0)
        return places

    def windows(self, first: int, stop: int) -> Iterator[tuple[Ints, list[pa.Array]]]:
        assert self.window.range is not None
        length, slide = self.window.range, self.window.slide
        # those that begin before the first row and end behind the last one
        alike = range(max(first, -(-self.count // slide) - 1), min(stop, length // slide))
        if len(alike) > 1:
            yield from self._each(first, alike.start)
            for _, columns in self.extents.of(np.zeros(1, np.int64), np.array([self.count])):
                yield from repeated(alike.start, alike.stop, columns)
            first = alike.stop
        yield from self._each(first, stop)
        self.extents.drop(int(self._place(np.array(self.needed(stop)))))

    def _each(self, first: int, stop: int) -> Iterator[tuple[Ints, list[pa.Array]]]:
        assert self.window.range is not None
        ends = (np.arange(first, stop) + 1) * self.window.slide
        begins = np.clip(ends - self.window.range, 0, self.count)
        ends = np.minimum(ends, self.count)
        for which, columns in self.extents.of(self._place(begins), self._place(ends)):
            yield which + first, columns

    def needed(self, window: int) -> int:
        """The first row that is in a window or a later one."""
        assert self.window.range is not None
        return (window + 1) * self.window.slide - self.window.range

    def restore(self, rows: Rows) -> None:
        """Put back rows that had been counted before; they come in their order."""
        needed = self.needed(self.count // self.window.slide)
        rows = rows.take(np.flatnonzero(rows.positions >= needed))
        if len(rows):
            self.extents.append(localized(self.folder, rows))
            self.extents.first -= len(rows)

    def mark(self, live: Mask) -> None:
        self.extents.mark(live)

    def renumber(self, codes: Codes, place: Codes) -> None:
        self.extents.renumber(codes, place)


PartitionStates: TypeAlias = dict[int, PanesOfRows | KeptRows]


class SavedRows:
    """A log of rows for each block.  Without partitions, rows leave in their order, and so do the
    chunks.  Otherwise a block is written again when most rows of its chunks have left."""

    def __init__(self, partitioned: bool) -> None:
        self._partitioned = partitioned
        self._logs: dict[int, AppendLog] = {}
        self._sizes: dict[int, int] = {}  # rows in the chunks of each block, when partitioned
        self._touched: set[int] = set()  # blocks, since the last save
        self._used = False  # nothing is held here until there has been a first save

    def _log(self, block: int) -> AppendLog:
        if block not in self._logs:
            self._logs[block] = AppendLog(f"rows/{block}")
        self._touched.add(block)
        return self._logs[block]

    def append(self, rows: Rows, parts: Codes, different: Iterable[int]) -> None:  # noqa: ARG002
        if not self._used or len(rows) == 0:
            return
        for block, places in runs_of_places(parts // _BLOCK):
            own = rows if len(places) == len(rows) else rows.take(places)
            self._log(block).append(*self._piece(own, parts[places]))
            self._sizes[block] = self._sizes.get(block, 0) + len(own)

    def _piece(self, rows: Rows, parts: Codes) -> tuple[Tree, Bound]:
        until = END if self._partitioned else int(rows.positions.max()) + 1
        return {"parts": parts, "rows": rows.save()}, until

    def pass_(self, part: int, state: CountedRows) -> None:
        if self._used and not self._partitioned:
            assert isinstance(state, KeptRows)
            self._log(part // _BLOCK).pass_(state.needed(state.next_window))

    def begin_anew(self, states: PartitionStates) -> None:  # noqa: ARG002
        for block in self._logs:
            self._log(block).begin_anew()

    def save(self, store: ChunkStore, states: PartitionStates) -> None:
        if not self._used:
            self._used = True
            for part in states:
                self._log(part // _BLOCK)
        for block in self._touched:
            kept = list(_kept_rows(block, states))
            size = sum(len(rows) for _, _, rows in kept)
            if self._partitioned and self._sizes.setdefault(block, size) > 2 * size + _FEW:
                self._logs[block].begin_anew()
                self._sizes[block] = size
            self._logs[block].save(store, partial(self._pieces, kept))
        self._touched.clear()

    def _pieces(self, kept: list[tuple[int, Folder, Rows]]) -> list[tuple[Tree, Bound]]:
        return [
            self._piece(known(folder, rows), np.full(len(rows), part))
            for part, folder, rows in kept
        ]

    def load(self, store: ChunkStore, state_of: Callable[[int], PanesOfRows | KeptRows]) -> None:
        self._used = True
        names = [name.split("/") for name in store.names() if name.startswith("rows/")]
        for block in {int(parts[1]) for parts in names}:
            for piece in self._log(block).load(store):
                rows = Rows.load(piece["rows"])
                self._sizes[block] = self._sizes.get(block, 0) + len(rows)
                for part, own in runs_of(rows, piece["parts"]):
                    state = state_of(part)
                    assert isinstance(state, KeptRows)
                    state.restore(own)
        self._touched.clear()


def _kept_rows(block: int, states: PartitionStates) -> Iterator[tuple[int, Folder, Rows]]:
    for part in range(block * _BLOCK, (block + 1) * _BLOCK):
        state = states.get(part)
        if isinstance(state, KeptRows) and state.extents.rows is not None:
            yield part, state.folder, state.extents.rows


def runs_of_places(numbers: Codes) -> Iterator[tuple[int, Ints]]:
    """Places of each different number."""
    different, inverse = np.unique(numbers, return_inverse=True)
    order = stable_order(inverse)
    cuts = np.searchsorted(inverse[order], np.arange(1, len(different)))
    yield from zip(different.tolist(), np.split(order, cuts), strict=True)


# Row windows: tuples are numbered here, within their partition, and windows are over the numbers.
#
# A window closes when the tuples counted pass its end; no punctuation is needed.  In rank order the
# tuples wait until the bound has passed them, and are numbered then.  Windows that move by many
# rows are made of panes, others of the rows themselves.

_WIDE_PANE = 32  # rows; narrower panes cost more than they save
_PUT_IN_ORDER = 4096  # tuples, whose results are put in order at once


class RowsOperator(Base):
    """Row windows: number tuples by partition, fold them, and emit the windows that they fill."""

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
        """Count tuples: a slice at a time where results are put in order, because all results of a
        slice are in memory at once."""
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
        """State of a partition, of which `count` rows have been counted before."""
        state = self.states.get(part)
        if state is None:
            folder = local_folder(self.folder) if self.window.partitioned else self.folder
            kind = PanesOfRows if self._wide else KeptRows
            state = self.states[part] = kind(folder, self.window, count)
        return state

    def _released(self, closed: dict[int, int], places: PlacesOfWindows) -> Iterator[Item]:
        """Emit the windows of each partition before the given one that have not been released yet;
        in an order across all partitions where results are counted downstream."""
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
        """Restore the state; a partition without state starts from its count when its next tuple
        comes."""
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
