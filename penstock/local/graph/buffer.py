"""Buffers: the arcs of the query graph, which hold the output of a node until all readers passed
it.

One reader is the ordinary arc.  Several readers are a fork: they share one buffer, and each has its
own position in it, so nothing is copied however many queries read one stream.  Consecutive progress
without rows in between is merged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Measured, Progress


def superseding(earlier: Progress, later: Progress) -> Progress | None:
    """One progress for two between which no rows come; None if both are needed, because each has
    promised something for groups of its own.

    >>> superseding(Progress({"s.t": 3}), Progress({"s.t": 7})).bounds
    {'s.t': 7}
    """
    if earlier.groups is None:
        return later
    return replace(later, groups=earlier.groups) if later.groups is None else None


Flowing: TypeAlias = Batch | Progress


class Wakes(Protocol):
    """Owner of a reader: is woken when items wait for it."""

    def wake(self) -> None: ...

    def takes_at_once(self, reader: Reader, batch: Batch, arrived: int) -> bool:
        """Handle a batch that had `arrived` then without buffering; False if it has to wait
        here."""
        ...


class _Slot:
    __slots__ = ("arrived", "item", "left", "rows")

    def __init__(self, item: Flowing, left: int, arrived: int) -> None:
        self.item = item
        self.arrived = arrived
        self.left = left  # readers that have not passed it
        self.rows = item.num_rows if isinstance(item, Batch) else 0


class Buffer:
    """FIFO buffer between one producer and its readers; an item is freed when the last of them
    passed it."""

    def __init__(self) -> None:
        self.readers: list[Reader] = []
        self.rows = 0  # that are kept
        self.peak = 0  # the most that were kept
        self._slots: deque[_Slot] = deque()
        self._first = 0  # the number of the first item that is kept
        self._ready: deque[Reader] = deque()  # for whom something waits, the next one first
        self.changes = 0  # of its readers

    @property
    def end(self) -> int:
        """Number of items that have been put in so far."""
        return self._first + len(self._slots)

    def put(self, item: Flowing, arrived: int = 0, readers: Sequence[Reader] | None = None) -> None:
        """Append an item that follows from input which had `arrived` then; for some `readers` only,
        if all others have handled it already and nothing else waits for them."""
        if readers is None:
            readers = self.readers
        else:
            some = set(readers)
            for reader in self.readers:
                if reader not in some:
                    reader.at += 1
        if not readers:
            return
        slot = _Slot(item, len(readers), arrived)
        self._slots.append(slot)
        self.rows += slot.rows
        if self.rows > self.peak:
            self.peak = self.rows
        for reader in readers:
            reader.waiting += 1
            reader.rows += slot.rows
            if not reader.listed:
                reader.listed = True
                self._ready.append(reader)
            reader.owner.wake()

    def read_by(
        self, owner: Wakes, names: Mapping[str, str] | None = None, port: int = 0
    ) -> Reader:
        """Register a reader, which gets the items from now on; under other `names`, if given.  The
        `port` is where its owner takes them in."""
        reader = Reader(self, owner, names, port)
        self.readers.append(reader)
        self.changes += 1
        return reader

    def leave(self, reader: Reader) -> None:
        """Remove a reader, and free the items that waited for it alone."""
        self.passed(reader, self.end)
        self.readers.remove(reader)
        self.changes += 1
        if reader.listed:
            self._ready.remove(reader)

    @property
    def waits(self) -> bool:
        """Whether items wait for any reader."""
        return bool(self._slots)

    def turn(self) -> Reader | None:
        """Next reader for which items wait; the branches of a fork take turns."""
        reader = self._next()
        if reader is not None:
            self._ready.rotate(-1)
        return reader

    def _next(self) -> Reader | None:
        ready = self._ready
        while ready:
            if ready[0].waiting:
                return ready[0]
            ready.popleft().listed = False
        return None

    # --- for readers -----------------------------------------------------------------------------

    def slot(self, number: int) -> _Slot:
        return self._slots[number - self._first]

    def passed(self, reader: Reader, upto: int) -> None:
        slots, first = self._slots, self._first
        for number in range(reader.at, upto):
            slots[number - first].left -= 1
        reader.waiting -= upto - reader.at
        reader.at = upto
        while slots and not slots[0].left:
            self.rows -= slots.popleft().rows
            self._first += 1


class Reader:
    """A position in a buffer."""

    __slots__ = (
        "_buffer",
        "_offset",
        "arrived",
        "at",
        "listed",
        "measured",
        "names",
        "owner",
        "port",
        "rows",
        "waiting",
    )

    def __init__(
        self, buffer: Buffer, owner: Wakes, names: Mapping[str, str] | None, port: int
    ) -> None:
        self.owner = owner
        self.port = port
        self.at = buffer.end  # the number of the next item
        self.waiting = 0  # items
        self.rows = 0  # that wait
        self.arrived = 0  # when what was taken last had come, the first of it
        self.listed = False  # among those for whom something waits
        self._offset = 0  # rows of the next batch that have been taken
        self._buffer = buffer
        self.names = names
        self.measured: Measured | None = None  # the operator that takes it in

    @property
    def peak(self) -> int:
        """The most rows that were kept for this reader and those it shares the buffer with."""
        return self._buffer.peak

    def take(self, most: int) -> Flowing:
        """The next batch of at most so many rows, made of as many as wait, or the next progress,
        the last one if several come without rows between them."""
        slot = self._buffer.slot(self.at)
        item = slot.item
        self.arrived = slot.arrived
        if self.waiting == 1 and not self._offset and slot.rows <= most:
            self._buffer.passed(self, self.at + 1)
            self.rows -= slot.rows
        elif isinstance(item, Progress):
            item = self._progress(item)
        else:
            item = self._batch(item, slot.rows, most)
            self.rows -= item.num_rows
        return item if self.names is None else renamed(item, self.names)

    @property
    def renames(self) -> bool:
        """Whether columns have other names here."""
        return self.names is not None

    def known(self, batch: Batch) -> Batch:
        """Rename the columns of a batch that bypasses the buffer, as this reader names them."""
        return batch if self.names is None else batch.renamed(self.names)

    def renamed(self, progress: Progress) -> Progress:
        """Rename the columns of progress that bypasses the buffer, as this reader names them."""
        return progress if self.names is None else renamed_progress(progress, self.names)

    def leave(self) -> None:
        self._buffer.leave(self)

    def _progress(self, item: Progress) -> Progress:
        buffer, at = self._buffer, self.at + 1
        while at < buffer.end and isinstance(later := buffer.slot(at).item, Progress):
            united = superseding(item, later)
            if united is None:
                break
            item, at = united, at + 1
        buffer.passed(self, at)
        return item

    def _batch(self, item: Batch, rows: int, most: int) -> Batch:
        buffer = self._buffer
        rows -= self._offset
        if rows > most:
            taken = item.slice(self._offset, most)
            self._offset += most
            return taken
        taken = item.slice(self._offset) if self._offset else item
        self._offset = 0
        several, at = [taken], self.at + 1
        while at < buffer.end and isinstance(later := buffer.slot(at).item, Batch):
            rows += later.num_rows
            if rows > most or not taken.is_like(later):
                break
            several.append(later)
            at += 1
        buffer.passed(self, at)
        return taken if len(several) == 1 else Batch.joined(several)


def renamed(item: Flowing, names: Mapping[str, str]) -> Flowing:
    return renamed_progress(item, names) if isinstance(item, Progress) else item.renamed(names)


def renamed_progress(item: Progress, names: Mapping[str, str]) -> Progress:
    bounds = {names[name]: bound for name, bound in item.bounds.items()}
    high = {names[name]: bound for name, bound in item.high.items()}
    groups = item.groups.renamed(names) if item.groups is not None else None
    joint = tuple(each.renamed(names) for each in item.joint)
    return Progress(bounds, high, item.ended, groups, joint)
