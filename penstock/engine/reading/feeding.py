"""Who is asked for data next: sources in step, or side by side in threads of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from penstock.engine.graph.query_graph import QueryGraph
from penstock.engine.graph.source_node import Ended, SourceNode
from penstock.engine.reading.in_step import Meeting
from penstock.engine.reading.inlets import Inlets, Quantum, pieces_of
from penstock.sources.bell import Bell
from penstock.sources.live import Attention, nothing
from penstock.sources.source import Chunk

_SECOND = 1_000_000  # microseconds

Patience: TypeAlias = Callable[[], float | None]


class Feeding(ABC):
    """Sources go on `growing` unless this is the last time that they are read; with `every`, in
    microseconds, files are looked at again and again until the bell is closed."""

    def __init__(self, graph: QueryGraph, bell: Bell, growing: bool, every: int | None) -> None:
        self.graph = graph
        self.bell = bell
        self._growing = growing
        self._every = every

    @abstractmethod
    def quanta(self, patience: Patience) -> Generator[Quantum, None, None]:
        """One after the other, until the sources end or the bell is closed; an empty one when so
        many seconds have passed."""

    def chunks_of(self, scan: SourceNode, attention: Attention) -> Generator[Chunk, None, None]:
        """What a source has; if it is followed, what it has later on as well."""
        return chunks_of(scan, attention, self._growing, self._every)


def chunks_of(
    scan: SourceNode, attention: Attention, growing: bool, every: int | None
) -> Generator[Chunk, None, None]:
    """What a source has; if it is followed, what it has later on as well.  Where to go on is known
    as soon as all that was handed over has been taken in, and not before."""
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
    """Sources that meet, the one with the lowest promise first; others one after the other.  A live
    source that is alone is read here as well."""

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


class SideBySide(Feeding):
    """All sources at the same time; what is ahead of others that it meets waits for them."""

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
    """Sources that are generators let go of files and sockets when they are closed."""
    try:
        yield chunks
    finally:
        if isinstance(chunks, Generator):
            chunks.close()
