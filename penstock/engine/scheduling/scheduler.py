"""The scheduler: asks sources for more, lets the graph work on it, and waits when there is nothing.

Data that is there is read in step where tuples of several sources meet, and one source after the
other where they do not.  As soon as one of several sources is live, all of them are read side by
side, each in a thread that wakes the scheduler: what comes from live ones is handled at once, and
the others wait for those that they meet.  So are iterators if the run has a thread of its own, as
nobody knows how long their next row takes; in the thread of the program they stay in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from time import perf_counter_ns

from penstock.engine.checkpoints.epochs import Epochs
from penstock.engine.graph.source_node import Delivered, Ended, SourceNode
from penstock.engine.reading.feeding import InStep, SideBySide
from penstock.engine.reading.inlets import Delivery, Quantum
from penstock.engine.run import LocalRun
from penstock.errors import SourceError
from penstock.sources.bell import Bell
from penstock.sources.memory import IteratorSource
from penstock.sources.source import Chunk

_SECOND = 1_000_000  # microseconds


class Scheduler:
    """`watch` is called after every chunk, to show how far the run has come.  With `epochs` the run
    is saved now and then, and its input may go on later, unless this is the `final` run.  With
    `every`, in microseconds, files are looked for again and again, until somebody stops the run."""

    def __init__(
        self,
        run: LocalRun,
        watch: Callable[[SourceNode, Chunk], None] | None = None,
        epochs: Epochs | None = None,
        every: int | None = None,
        final: bool = False,
    ) -> None:
        self._run = run
        self._watch = watch
        self._epochs = epochs
        self._every = every
        self._final = final
        self._bell = Bell()

    def stop(self) -> None:
        """Read no further.  Safe to call from signal handlers and other threads."""
        self._bell.close()

    @property
    def stopped(self) -> bool:
        return self._bell.closed

    def drive(self) -> None:
        """Feed the run until its sources end or somebody stops it, and close its sinks."""
        for _ in self.steps():
            pass

    def steps(self, beside: bool = False) -> Generator[None, None, None]:
        """The same, stopping after every piece of work.  Whoever closes it before its end closes
        the sources.  A run `beside` the program need not be held up by rows that it makes."""
        run = self._run
        try:
            with closing(self._quanta(beside)) as quanta:
                while (quantum := self._next(quanta)) is not None and not self.stopped:
                    self._work(quantum)
                    yield
        except SourceError:
            if not self.stopped:  # otherwise nobody wants to know
                raise
        if self._epochs is not None:
            if self._epochs.keeps and self._final and not self.stopped:
                run.close_all()
            self._epochs.commit()
        run.close()

    def _quanta(self, beside: bool) -> Generator[Quantum, None, None]:
        """What there is to do next, as sources deliver it; nothing if it is time for something."""
        scans = self._run.scans
        live = len(scans) > 1 and any(scan.ingest.live for scan in scans)
        made = any(isinstance(scan.ingest.stream.source, IteratorSource) for scan in scans)
        feeding = SideBySide if live or (beside and made) else InStep
        growing = not self._final or self._every is not None
        return feeding(self._run.graph, self._bell, growing, self._every).quanta(self._patience)

    def _next(self, quanta: Iterator[Quantum]) -> Quantum | None:
        """Wait for it; operators that hold rows meanwhile wait idly."""
        holding = [node for each in self._run.graph.components for node in each.waiting_idly]
        begun = perf_counter_ns() if holding else 0
        quantum = next(quanta, None)
        for node in holding:
            node.measured.flow.waiting += perf_counter_ns() - begun
        return quantum

    def _patience(self) -> float | None:
        """Seconds until time alone has something to say."""
        due = self._run.due()
        return None if due is None else max(0, due - self._run.clock.now()) / _SECOND

    def _work(self, quantum: Quantum) -> None:
        run, keeps = self._run, self._epochs is not None and self._epochs.keeps
        for scan, delivered in quantum:
            if not (keeps and isinstance(delivered, Ended)):
                # otherwise the end is a fact of this run, not of the stream
                run.deliver(scan, delivered)
        if quantum:
            run.work(run.graph.component_of(quantum[0][0]))
        if not any(_has_rows(delivered) for _, delivered in quantum):
            run.look_at_clock()
        for each in quantum:
            self._tell(each)

    def _tell(self, delivery: Delivery) -> None:
        scan, delivered = delivery
        if isinstance(delivered, Ended):
            return
        if self._epochs is not None:
            self._epochs.fed(delivered)
        if self._watch is not None:
            self._watch(scan, delivered)


def _has_rows(delivered: Delivered) -> bool:
    return isinstance(delivered, Ended) or delivered.num_rows > 0
