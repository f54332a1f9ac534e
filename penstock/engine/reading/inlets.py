"""Sources that are read side by side, each in a thread of its own that wakes the scheduler.

They may come and go while others are read.  What comes from live ones is handled at once; what is
ahead of others that it meets waits for them.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from penstock.engine.graph.query_graph import QueryGraph
from penstock.engine.graph.source_node import Delivered, Ended, SourceNode
from penstock.engine.reading.in_step import is_ahead
from penstock.engine.reading.inbox import Inbox
from penstock.engine.reading.overload import Overload
from penstock.engine.scheduling.group import Group
from penstock.sources.bell import Bell
from penstock.sources.live import Attention, LiveSource
from penstock.sources.source import Chunk

AT_ONCE = 65_536  # rows that are fed before looking whether to stop
_LEAVING = 0.5  # seconds that all sources together have to leave

Delivery: TypeAlias = tuple[SourceNode, Delivered]
Quantum: TypeAlias = list[Delivery]
"""What one part of the graph works on before it is somebody else's turn."""
ChunksOf: TypeAlias = Callable[[SourceNode, Attention], Generator[Chunk, None, None]]


@dataclass(slots=True)
class _Inlet:
    inbox: Inbox
    waited_for: list[SourceNode] = field(default_factory=list)
    before: list[SourceNode] = field(default_factory=list)  # whose turn comes first
    attention: Attention = field(init=False)
    thread: threading.Thread | None = None
    reading: bool = True

    def __post_init__(self) -> None:
        # the scheduler minds the clock
        self.attention = Attention(lambda: None, meanwhile=self._put_meanwhile)

    def put(self, chunk: Chunk) -> bool:
        """Whether anybody wants it."""
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
    def __init__(
        self, graph: QueryGraph, bell: Bell, chunks_of: ChunksOf, overload: Overload | None = None
    ) -> None:
        self._graph = graph
        self.bells = [bell]  # of the groups that the graph is worked on in
        self._chunks_of = chunks_of
        self._overload = overload or Overload()
        self._inlets: dict[SourceNode, _Inlet] = {}
        self._dropped: Counter[str] = Counter()  # by those that nobody reads any more
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
        """Nobody wants a source any more."""
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
        """Read no further: all that has been delivered so far, whoever would have to wait."""
        for inlet in self._inlets.values():
            inlet.attention.bell.close()
            inlet.inbox.close()
        for scan, inlet in self._inlets.items():
            while len(inlet.inbox):
                delivered = inlet.inbox.take()
                if delivered is not None:
                    yield scan, delivered

    def topology_changed(self) -> None:
        """Queries have come or gone: other sources are read, and waited for."""
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
            if len(inbox):  # it may have told somebody else
                inbox.bell.ring()
            self._inlets[scan].waited_for = others
            self._inlets[scan].before = before.get(scan, [])

    @property
    def reading(self) -> bool:
        """Whether a source has not come to its end."""
        return any(inlet.reading for inlet in self._inlets.values())

    def dropped(self) -> dict[str, int]:
        """How many rows have been dropped because they came too fast, by stream."""
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
        except BaseException as failure:  # told where the run is driven
            inlet.inbox.put(Ended(failure))
        else:
            inlet.inbox.put(Ended())

    def next(self, group: Group | None = None) -> Quantum:
        """What waits for the part of the graph, or of a group, that has had the least of its
        share."""
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
        """Or will be, when it is opened."""
        inlet = self._inlets.get(scan)
        return inlet is None or inlet.reading

    def _taken(self, scan: SourceNode) -> Iterator[Delivery]:
        """As much as may be handled before looking at the others again.  A source that can wait is
        asked again whether it is ahead after every chunk."""
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
    """A chunk cut into pieces, so that nobody has to wait long for a run to stop."""
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
