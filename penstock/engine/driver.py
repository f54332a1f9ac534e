"""A straight driver: reads the sources of a run and feeds it chunk by chunk until they end.

Data that is there is read one source after the other, as the definitions have it.  As soon as a
source is live, all of them are read side by side, each in a thread, and whatever comes is fed.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.engine.epochs import Epochs
from penstock.engine.run import LocalRun, SharedScan
from penstock.errors import SourceError
from penstock.sources.live import nothing
from penstock.sources.source import Chunk

AT_ONCE = 65_536  # rows that are fed before looking whether to stop
AHEAD = 16  # chunks that may wait to be fed: a slow run slows its sources down
_PATIENCE = 0.1  # seconds between two looks whether to stop
_SECOND = 1_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class _Ended:
    failure: BaseException | None = None


_Delivery: TypeAlias = tuple[SharedScan, Chunk | _Ended]


class Driver:
    """`watch` is called after every chunk, to show how far the run has come.  With `epochs` the run
    is saved now and then, and its input may go on later, unless this is the `final` run.  With
    `every`, in microseconds, files are looked for again and again, until somebody stops the run."""

    def __init__(
        self,
        run: LocalRun,
        watch: Callable[[SharedScan, Chunk], None] | None = None,
        epochs: Epochs | None = None,
        every: int | None = None,
        final: bool = False,
    ) -> None:
        self._run = run
        self._watch = watch
        self._epochs = epochs
        self._every = every
        self._final = final
        self._stop = threading.Event()

    def stop(self) -> None:
        """Read no further.  Safe to call from signal handlers and other threads."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def drive(self) -> None:
        """Feed the run until its sources end or somebody stops it, and close its sinks."""
        for _ in self.steps():
            pass

    def steps(self) -> Generator[None, None, None]:
        """The same, stopping after every piece of a chunk.  Whoever closes it before its end
        closes the sources."""
        run = self._run
        together = len(run.scans) > 1 and any(scan.ingest.live for scan in run.scans)
        try:
            with closing(self._together() if together else self._in_turn()) as deliveries:
                for scan, delivered in deliveries:
                    for piece in _pieces(delivered):
                        if self.stopped:
                            break
                        self._feed(scan, piece)
                        yield
                    if self.stopped:
                        break
        except SourceError:
            if not self.stopped:  # otherwise nobody wants to know
                raise
        if self._epochs is not None:
            if self._epochs.keeps and self._final and not self.stopped:
                run.close_all()
            self._epochs.commit()
        run.close()

    def _feed(self, scan: SharedScan, delivered: Chunk | _Ended) -> None:
        if isinstance(delivered, _Ended):
            keeps = self._epochs is not None and self._epochs.keeps
            if not keeps:  # otherwise it is a fact of this run, not of the stream
                self._run.end(scan)
            return
        self._run.feed(scan, delivered)
        if self._epochs is not None:
            self._epochs.fed(delivered)
        if self._watch is not None:
            self._watch(scan, delivered)

    def _in_turn(self) -> Generator[_Delivery, None, None]:
        for scan in self._run.scans:
            for chunk in self._chunks_of(scan):
                yield scan, chunk
            yield scan, _Ended()

    def _chunks_of(self, scan: SharedScan) -> Iterator[Chunk]:
        """What a source has; if it is followed, what it has later on as well."""
        while True:
            with _closing(scan.chunks(growing=not self._final)) as chunks:
                yield from chunks
            if self._every is None or not scan.ingest.followed:
                return
            yield nothing(scan.ingest.stream.input_schema)
            if self._stop.wait(self._every / _SECOND):
                return

    def _together(self) -> Generator[_Delivery, None, None]:
        waiting: queue.Queue[_Delivery] = queue.Queue(AHEAD)
        left = threading.Event()

        def deliver(scan: SharedScan, what: Chunk | _Ended) -> None:
            while not left.is_set():
                with suppress(queue.Full):
                    waiting.put((scan, what), timeout=_PATIENCE)
                    return

        def read(scan: SharedScan) -> None:
            try:
                for chunk in self._chunks_of(scan):
                    deliver(scan, chunk)
                    if left.is_set():
                        return
            except BaseException as failure:  # raised where the run is driven
                deliver(scan, _Ended(failure))
            else:
                deliver(scan, _Ended())

        threads = [
            # sources on an event loop find it in the context
            threading.Thread(target=contextvars.copy_context().run, args=(read, scan), daemon=True)
            for scan in self._run.scans
        ]
        for thread in threads:
            thread.start()
        try:
            reading = len(threads)
            while reading:
                try:
                    scan, what = waiting.get(timeout=_PATIENCE)
                except queue.Empty:
                    if self.stopped:
                        return
                    continue
                if isinstance(what, _Ended):
                    reading -= 1
                    if what.failure is not None:
                        raise what.failure
                yield scan, what
        finally:
            left.set()
            for thread in threads:
                thread.join(timeout=1)  # one that waits for data cannot be made to leave


def _pieces(delivered: Chunk | _Ended) -> Iterator[Chunk | _Ended]:
    """A chunk cut into pieces, so that nobody has to wait long for a run to stop."""
    if isinstance(delivered, _Ended) or delivered.batch.num_rows <= AT_ONCE:
        yield delivered
        return
    last = (delivered.batch.num_rows - 1) // AT_ONCE * AT_ONCE
    for begin in range(0, last, AT_ONCE):
        # only behind the last piece can reading begin again
        yield replace(delivered, batch=delivered.batch.slice(begin, AT_ONCE), restart=None)
    yield replace(delivered, batch=delivered.batch.slice(last))


@contextmanager
def _closing(chunks: Iterator[Chunk]) -> Iterator[Iterator[Chunk]]:
    """Sources that are generators let go of files and sockets when they are closed."""
    try:
        yield chunks
    finally:
        if isinstance(chunks, Generator):
            chunks.close()
