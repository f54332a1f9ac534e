"""Reading of sources: in step where their tuples meet, or concurrently in threads whose inboxes are
bounded by an overload policy."""

from __future__ import annotations

import contextvars
import re
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from penstock.errors import EngineError, nearest
from penstock.io.sources.source import Attention, Bell, Chunk, LiveSource, nothing
from penstock.local.graph.query_graph import QueryGraph
from penstock.local.graph.source_node import Delivered, Ended, Meeting, SourceNode, is_ahead
from penstock.local.scheduling.components import Group

_ROOM = 1 << 16  # rows
_NAMES = ("block", "drop-oldest")
_TEXT = re.compile(r"([\w-]+?)(?:\s+(\d+))?")


@dataclass(frozen=True, slots=True)
class Overload:
    """Policy for rows that come faster than they are handled.  With `keeping` None, a source waits
    until there is room.  Otherwise so many rows may wait, and of a source that cannot wait the
    oldest ones beyond that are dropped and counted.

    >>> Overload.of("block"), Overload.of("drop-oldest 1000")
    (Overload(keeping=None), Overload(keeping=1000))
    """

    keeping: int | None = None

    @staticmethod
    def of(text: str) -> Overload:
        match = _TEXT.fullmatch(str(text).strip().lower())
        if match is None or match[1] not in _NAMES or (match[2] and match[1] == "block"):
            close = nearest(str(text), _NAMES)
            raise EngineError(
                f"{text!r} does not say what happens when rows come too fast",
                expected="'block', or 'drop-oldest' and how many rows may wait",
                hint=close[0] if close else "'drop-oldest 10000'",
            )
        if match[1] == "block":
            return Overload()
        return Overload(int(match[2]) if match[2] else _ROOM)


# Deliveries of a source that is read in a thread of its own, until the scheduler takes them.

AHEAD = 16  # chunks that may wait: a slow run slows its sources down


class Inbox:
    """Bounded queue between a reading thread and the scheduler; `put` rings the bell.  A thread
    waits while the queue is full; or else, if at most `keeping` rows may wait, the oldest ones are
    dropped and counted."""

    def __init__(self, bell: Bell, keeping: int | None = None) -> None:
        self.bell = bell  # of the thread that takes what is put in
        self._keeping = keeping
        self._waiting: deque[Delivered] = deque()
        self._rows = 0  # that wait; counted only where some may be dropped
        self._changing = threading.Condition()
        self._closed = False
        self.dropped = 0  # rows

    def put(self, delivered: Delivered) -> bool:
        """Enqueue; False if the reader has gone."""
        if self._keeping is not None:
            self._put_dropping_oldest(delivered, self._keeping)
        else:
            if len(self._waiting) >= AHEAD:
                with self._changing:
                    self._changing.wait_for(lambda: self._closed or len(self._waiting) < AHEAD)
            if not self._closed:
                self._waiting.append(delivered)
        if not self._closed:
            self.bell.ring()
        return not self._closed

    def _put_dropping_oldest(self, delivered: Delivered, keeping: int) -> None:
        """Enqueue, and drop the oldest rows if there are too many; the last delivery always has
        room, and the end needs none."""
        with self._changing:
            coming = _rows_of(delivered)
            self._rows += coming
            while coming and self._rows > keeping and self._waiting:
                dropped = _rows_of(self._waiting.popleft())
                self._rows -= dropped
                self.dropped += dropped
            self._waiting.append(delivered)

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> Delivered | None:
        """Take the oldest delivery; None if it has been dropped meanwhile."""
        if self._keeping is not None:
            with self._changing:
                taken = self._waiting.popleft() if self._waiting else None
                self._rows -= _rows_of(taken)
                return taken
        full = len(self._waiting) >= AHEAD
        delivered = self._waiting.popleft()
        if full:
            with self._changing:
                self._changing.notify()
        return delivered

    def close(self) -> None:
        """Refuse further deliveries, and wake a thread that waits for room."""
        with self._changing:
            self._closed = True
            self._changing.notify_all()


def _rows_of(delivered: Delivered | None) -> int:
    return 0 if delivered is None or isinstance(delivered, Ended) else delivered.num_rows


# Sources that are read concurrently, each in a thread of its own that wakes the scheduler.
#
# They may come and go while others are read.  Rows of live sources are handled at once; a source
# that is ahead of others whose tuples it meets waits for them.

AT_ONCE = 65_536  # rows that are fed before looking whether to stop
_LEAVING = 0.5  # seconds that all sources together have to leave

Delivery: TypeAlias = tuple[SourceNode, Delivered]
Quantum: TypeAlias = list[Delivery]
"""Deliveries that one component of the graph handles before the next component's turn."""
ChunksOf: TypeAlias = Callable[[SourceNode, Attention], Generator[Chunk, None, None]]


@dataclass(slots=True)
class _Inlet:
    inbox: Inbox
    waited_for: list[SourceNode] = field(default_factory=list)
    before: list[SourceNode] = field(default_factory=list)  # that are read first
    attention: Attention = field(init=False)
    thread: threading.Thread | None = None
    reading: bool = True

    def __post_init__(self) -> None:
        # the scheduler minds the clock
        self.attention = Attention(lambda: None, meanwhile=self._put_meanwhile)

    def put(self, chunk: Chunk) -> bool:
        """Enqueue a chunk in pieces; False if the reader has gone."""
        return all(map(self.inbox.put, pieces_of(chunk)))

    def _put_meanwhile(self, take: Callable[[], Chunk | None]) -> None:
        try:
            chunk = take()
        except BaseException as failure:
            self.inbox.put(Ended(failure))
            self.inbox.close()  # nothing follows, whatever else is read
        else:
            if chunk is not None:
                self.put(chunk)


class Inlets:
    """The sources that are read concurrently, with a thread and an inbox for each."""

    def __init__(
        self, graph: QueryGraph, bell: Bell, chunks_of: ChunksOf, overload: Overload | None = None
    ) -> None:
        self._graph = graph
        self.bells = [bell]  # of the groups that the graph is worked on in
        self._chunks_of = chunks_of
        self._overload = overload or Overload()
        self._inlets: dict[SourceNode, _Inlet] = {}
        self._dropped: Counter[str] = Counter()  # by sources that have been closed
        self.opening = 0  # scripts that may name more queries before sources are opened

    # --- sources come and go ---------------------------------------------------------------------

    def open(self, scan: SourceNode) -> None:
        """Begin to read a source."""
        keeping = self._overload.keeping if _is_live(scan) else None
        inlet = _Inlet(Inbox(self._bell_of(scan), keeping))
        self._inlets[scan] = inlet
        scan.outside = inlet.inbox
        # sources on an event loop find it in the context
        work = contextvars.copy_context().run
        inlet.thread = threading.Thread(
            target=work, args=(self._deliver, scan, inlet), name=scan.name, daemon=True
        )
        inlet.thread.start()

    def _bell_of(self, scan: SourceNode) -> Bell:
        return self.bells[self._graph.component_of(scan).group]

    def close(self, scan: SourceNode) -> None:
        """Stop reading a source that no query needs."""
        inlet = self._inlets.pop(scan)
        inlet.attention.bell.close()
        inlet.inbox.close()
        self._dropped[scan.ingest.stream.name] += inlet.inbox.dropped

    def close_all(self) -> None:
        inlets = list(self._inlets.values())
        for scan in list(self._inlets):
            self.close(scan)
        until = time.monotonic() + _LEAVING
        for inlet in inlets:
            if inlet.thread is not None:
                # one that waits for rows of the program cannot be made to leave
                inlet.thread.join(timeout=max(0.0, until - time.monotonic()))

    def rest(self) -> Iterator[Delivery]:
        """Stop reading, and yield all that has been delivered so far, also from sources that would
        have to wait."""
        for inlet in self._inlets.values():
            inlet.attention.bell.close()
            inlet.inbox.close()
        for scan, inlet in self._inlets.items():
            while len(inlet.inbox):
                delivered = inlet.inbox.take()
                if delivered is not None:
                    yield scan, delivered

    def topology_changed(self) -> None:
        """Open and close sources after queries have come or gone, and update which sources wait for
        which."""
        waited_for, before = self._graph.waited_for(), self._graph.in_turn()
        for scan in [each for each in self._inlets if each not in waited_for]:
            self.close(scan)
        for scan, others in waited_for.items():
            if scan not in self._inlets:
                if self.opening:
                    continue
                self.open(scan)
            inbox = self._inlets[scan].inbox
            inbox.bell = self._bell_of(scan)
            if len(inbox):  # it may have rung another bell
                inbox.bell.ring()
            self._inlets[scan].waited_for = others
            self._inlets[scan].before = before.get(scan, [])

    @property
    def reading(self) -> bool:
        """Whether a source has not come to its end."""
        return any(inlet.reading for inlet in self._inlets.values())

    def dropped(self) -> dict[str, int]:
        """Number of rows dropped because they came too fast, by stream."""
        found = self._dropped.copy()
        for scan, inlet in self._inlets.items():
            found[scan.ingest.stream.name] += inlet.inbox.dropped
        return {name: rows for name, rows in found.items() if rows}

    # --- what they deliver -----------------------------------------------------------------------

    def _deliver(self, scan: SourceNode, inlet: _Inlet) -> None:
        try:
            for chunk in self._chunks_of(scan, inlet.attention):
                if not inlet.put(chunk):
                    return
        except BaseException as failure:  # raised where the run is driven
            inlet.inbox.put(Ended(failure))
        else:
            inlet.inbox.put(Ended())

    def next(self, group: Group | None = None) -> Quantum:
        """Take the deliveries for the component, of a group or of the graph, that has had the least
        of its share."""
        ready = [
            scan
            for scan, inlet in self._inlets.items()
            if len(inlet.inbox)
            and (group is None or group.has(scan.component))
            and not self._has_to_wait(scan, inlet)
        ]
        if not ready:
            return []
        least = min(map(self._graph.component_of, ready), key=lambda each: each.used)
        quantum: Quantum = []
        for scan in ready:
            if scan.component is least:
                quantum += self._taken(scan)
        return quantum

    def _has_to_wait(self, scan: SourceNode, inlet: _Inlet) -> bool:
        first = any(self._is_reading(each) for each in inlet.before)
        return scan.waits or first or is_ahead(scan, inlet.waited_for)

    def _is_reading(self, scan: SourceNode) -> bool:
        """Whether a source is read, or will be when it is opened."""
        inlet = self._inlets.get(scan)
        return inlet is None or inlet.reading

    def _taken(self, scan: SourceNode) -> Iterator[Delivery]:
        """Take as many deliveries as may be handled before the turn of the others.  A source that
        can wait is checked after every chunk, because it may be ahead."""
        inlet, rows = self._inlets[scan], 0
        may_wait = inlet.waited_for and not _is_live(scan)
        for _ in range(1 if may_wait else len(inlet.inbox)):
            delivered = inlet.inbox.take()
            if delivered is None:
                return
            if isinstance(delivered, Ended):
                inlet.reading = False
            else:
                rows += delivered.num_rows
            yield scan, delivered
            if rows >= AT_ONCE:
                return


def pieces_of(chunk: Chunk) -> Iterator[Chunk]:
    """Cut a chunk into pieces, so that a run stops promptly."""
    rows = chunk.num_rows
    if rows <= AT_ONCE:
        yield chunk
        return
    last = (rows - 1) // AT_ONCE * AT_ONCE
    began = chunk.began
    for begin in range(0, last, AT_ONCE):
        position = chunk.began + (chunk.position - chunk.began) * (begin + AT_ONCE) // rows
        # only behind the last piece can reading begin again
        piece = replace(chunk, batch=chunk.batch.slice(begin, AT_ONCE), restart=None)
        piece.began, began = began, position
        piece.position = position
        yield piece
    yield replace(chunk, batch=chunk.batch.slice(last), began=began)


def _is_live(scan: SourceNode) -> bool:
    return isinstance(scan.ingest.stream.source, LiveSource)


# The order in which sources are read: in step, or concurrently in threads of their own.

_SECOND = 1_000_000  # microseconds

Patience: TypeAlias = Callable[[], float | None]


class Feeding(ABC):
    """Reads the sources of a graph.  Files may go on `growing` unless this is the last time that
    they are read; with `every`, in microseconds, they are polled until the bell is closed."""

    def __init__(self, graph: QueryGraph, bell: Bell, growing: bool, every: int | None) -> None:
        self.graph = graph
        self.bell = bell
        self._growing = growing
        self._every = every

    @abstractmethod
    def quanta(self, patience: Patience) -> Generator[Quantum, None, None]:
        """Yield quanta until the sources end or the bell is closed; an empty one when so many
        seconds have passed."""

    def chunks_of(self, scan: SourceNode, attention: Attention) -> Generator[Chunk, None, None]:
        """Yield the chunks of a source; if it is followed, also those that come later."""
        return chunks_of(scan, attention, self._growing, self._every)


def chunks_of(
    scan: SourceNode, attention: Attention, growing: bool, every: int | None
) -> Generator[Chunk, None, None]:
    """Yield the chunks of a source; if it is followed, also those that come later.  It polls again
    once all delivered rows have been handled, because only then is it known where to resume."""
    looks = scan.looks
    while True:
        with _closing(scan.chunks(growing, attention)) as chunks:
            yield from chunks
        if every is None or not scan.ingest.followed:
            return
        yield nothing(scan.ingest.stream.input_schema)
        looks += 1
        while True:
            if attention.bell.pause(every / _SECOND):
                return
            if scan.looks >= looks:
                break


class InStep(Feeding):
    """Reads sources that meet in step, the one with the lowest bound first; others one after the
    other.  A single live source is read here as well."""

    def quanta(self, patience: Patience) -> Generator[Quantum, None, None]:
        attention = Attention(patience, self.bell)
        for meeting in self.graph.meetings:
            yield from self._read(meeting, attention)

    def _read(self, meeting: Meeting, attention: Attention) -> Generator[Quantum, None, None]:
        reading = {scan: self._pieces_of(scan, attention) for scan in meeting.scans}
        try:
            if len(reading) == 1:
                ((scan, pieces),) = reading.items()
                for only in pieces:
                    yield [(scan, only)]
                yield [(scan, Ended())]
                return
            while reading:
                scan = meeting.next(list(reading))
                piece = next(reading[scan], None)
                if piece is None:
                    del reading[scan]
                    yield [(scan, Ended())]
                else:
                    yield [(scan, piece)]
        finally:
            for pieces in reading.values():
                pieces.close()

    def _pieces_of(self, scan: SourceNode, attention: Attention) -> Generator[Chunk, None, None]:
        chunks = self.chunks_of(scan, attention)
        try:
            for chunk in chunks:
                yield from pieces_of(chunk)
        finally:
            chunks.close()


class Concurrently(Feeding):
    """Reads all sources concurrently; one that is ahead of others that it meets waits for them."""

    def quanta(self, patience: Patience) -> Generator[Quantum, None, None]:
        inlets = Inlets(self.graph, self.bell, self.chunks_of)
        inlets.topology_changed()
        try:
            while inlets.reading and not self.bell.closed:
                quantum = inlets.next()
                for _, delivered in quantum:
                    if isinstance(delivered, Ended) and delivered.failure is not None:
                        raise delivered.failure
                if quantum or not self.bell.wait(patience()):
                    yield quantum
        finally:
            inlets.close_all()


@contextmanager
def _closing(chunks: Iterator[Chunk]) -> Iterator[Iterator[Chunk]]:
    """Close the generators of sources, so that they release files and sockets."""
    try:
        yield chunks
    finally:
        if isinstance(chunks, Generator):
            chunks.close()
