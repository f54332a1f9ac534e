"""A straight driver: reads the sources of a run and feeds it chunk by chunk until they end.

Data that is there is read in step where tuples of several sources meet, and one source after the
other where they do not.  As soon as a source is live, all of them are read side by side, each in a
thread: what comes from live ones is fed at once, and the others wait for those that they meet.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from penstock.engine.epochs import Epochs
from penstock.engine.in_step import Meeting, is_ahead
from penstock.engine.mailbox import Delivery, Ended, Mailbox
from penstock.engine.run import LocalRun
from penstock.engine.shared_scan import SharedScan
from penstock.errors import SourceError
from penstock.sources.live import nothing
from penstock.sources.source import Chunk

AT_ONCE = 65_536  # rows that are fed before looking whether to stop
_PATIENCE = 0.1  # seconds between two looks whether to stop
_SECOND = 1_000_000  # microseconds


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
            with closing(self._together() if together else self._in_step()) as deliveries:
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

    def _feed(self, scan: SharedScan, delivered: Chunk | Ended) -> None:
        if isinstance(delivered, Ended):
            keeps = self._epochs is not None and self._epochs.keeps
            if not keeps:  # otherwise it is a fact of this run, not of the stream
                self._run.end(scan)
            return
        self._run.feed(scan, delivered)
        if self._epochs is not None:
            self._epochs.fed(delivered)
        if self._watch is not None:
            self._watch(scan, delivered)

    def _in_step(self) -> Generator[Delivery, None, None]:
        for meeting in self._run.meetings:
            yield from self._read(meeting)

    def _read(self, meeting: Meeting) -> Generator[Delivery, None, None]:
        reading = {scan: self._pieces_of(scan) for scan in meeting.scans}
        try:
            while reading:
                scan = meeting.next(list(reading))
                piece = next(reading[scan], None)
                if piece is None:
                    del reading[scan]
                    yield scan, Ended()
                else:
                    yield scan, piece
        finally:
            for pieces in reading.values():
                pieces.close()

    def _pieces_of(self, scan: SharedScan) -> Generator[Chunk | Ended, None, None]:
        with closing(self._chunks_of(scan)) as chunks:
            for chunk in chunks:
                yield from _pieces(chunk)

    def _chunks_of(self, scan: SharedScan) -> Generator[Chunk, None, None]:
        """What a source has; if it is followed, what it has later on as well."""
        while True:
            with _closing(scan.chunks(growing=not self._final)) as chunks:
                yield from chunks
            if self._every is None or not scan.ingest.followed:
                return
            yield nothing(scan.ingest.stream.input_schema)
            if self._stop.wait(self._every / _SECOND):
                return

    def _together(self) -> Generator[Delivery, None, None]:
        run = self._run
        waited_for = {scan: run.waited_for(scan) for scan in run.scans}
        mailbox = Mailbox(lambda scan: not is_ahead(scan, waited_for[scan]))

        def read(scan: SharedScan) -> None:
            try:
                for chunk in self._chunks_of(scan):
                    if not mailbox.put(scan, chunk):
                        return
            except BaseException as failure:  # raised where the run is driven
                mailbox.put(scan, Ended(failure))
            else:
                mailbox.put(scan, Ended())

        threads = [
            # sources on an event loop find it in the context
            threading.Thread(target=contextvars.copy_context().run, args=(read, scan), daemon=True)
            for scan in run.scans
        ]
        for thread in threads:
            thread.start()
        try:
            reading = len(threads)
            while reading:
                delivery = mailbox.take(_PATIENCE)
                if delivery is None:
                    if self.stopped:
                        return
                    continue
                _, what = delivery
                if isinstance(what, Ended):
                    reading -= 1
                    if what.failure is not None:
                        raise what.failure
                yield delivery
        finally:
            mailbox.close()
            for thread in threads:
                thread.join(timeout=1)  # one that waits for data cannot be made to leave


def _pieces(delivered: Chunk | Ended) -> Iterator[Chunk | Ended]:
    """A chunk cut into pieces, so that nobody has to wait long for a run to stop."""
    if isinstance(delivered, Ended) or delivered.batch.num_rows <= AT_ONCE:
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
