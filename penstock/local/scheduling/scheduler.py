"""The scheduler: asks sources for more, lets the graph work on it, and waits when there is nothing.

Data that is available is read in step where tuples of several sources meet, and one source after
the other where they do not.  As soon as one of several sources is live, all of them are read
concurrently, each in a thread that wakes the scheduler: rows of live sources are handled at once,
and the others wait for those that they meet.  So are iterators if the run has a thread of its own,
because their next row may take any time; in the thread of the program they stay in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from time import perf_counter_ns

from penstock.errors import SourceError
from penstock.io.sources.asynchronous import HOST, LoopHost, refuse_to_hold_up, running_loop
from penstock.io.sources.memory import IteratorSource
from penstock.io.sources.source import Bell, Chunk
from penstock.local.checkpoint import EVERY, Checkpoints, Epochs, Planned, as_begun, shared_as_begun
from penstock.local.graph.source_node import Delivered, Ended, SourceNode
from penstock.local.graph_options import Scheduling
from penstock.local.run import LocalRun
from penstock.local.scheduling.reading import Concurrently, Delivery, InStep, Quantum
from penstock.local.status import GraphStatus, source_status
from penstock.model.clock import Clock
from penstock.model.ticks import Domain
from penstock.plan.physical import PhysicalPlan
from penstock.runs.answer import Account, Answer, Decision, Outlet
from penstock.runs.collected_answer import Gathered
from penstock.runs.run_options import RunOptions
from penstock.runs.status import RunProgress

_SECOND = 1_000_000  # microseconds


class Scheduler:
    """Drives a run.  `watch` is called after every chunk, to show the progress of the run.  With
    `epochs` the run is saved now and then, and its input may be resumed later, unless this is the
    `final` run.  With `every`, in microseconds, files are polled for more until the run is
    stopped."""

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
        """Feed the run until its sources end or it is stopped, and close its sinks."""
        for _ in self.steps():
            pass

    def steps(self, background: bool = False) -> Generator[None, None, None]:
        """Drive the run, yielding after every piece of work.  Closing the generator before its end
        closes the sources.  A run in the `background` need not be held up by rows that the program
        makes."""
        run = self._run
        try:
            with closing(self._quanta(background)) as quanta:
                while (quantum := self._next(quanta)) is not None and not self.stopped:
                    self._work(quantum)
                    yield
        except SourceError:
            if not self.stopped:  # errors of sources do not matter after a stop
                raise
        if self._epochs is not None:
            if self._epochs.keeps and self._final and not self.stopped:
                run.close_all()
            self._epochs.commit()
        run.close()

    def _quanta(self, background: bool) -> Generator[Quantum, None, None]:
        """Quanta of work, as sources deliver them; an empty one if the clock is due."""
        scans = self._run.scans
        live = len(scans) > 1 and any(scan.ingest.live for scan in scans)
        made = any(isinstance(scan.ingest.stream.source, IteratorSource) for scan in scans)
        feeding = Concurrently if live or (background and made) else InStep
        growing = not self._final or self._every is not None
        return feeding(self._run.graph, self._bell, growing, self._every).quanta(self._patience)

    def _next(self, quanta: Iterator[Quantum]) -> Quantum | None:
        """Wait for the next quantum; operators that hold rows meanwhile wait idly."""
        holding = [node for each in self._run.graph.components for node in each.waiting_idly]
        begun = perf_counter_ns() if holding else 0
        quantum = next(quanta, None)
        for node in holding:
            node.measured.flow.waiting += perf_counter_ns() - begun
        return quantum

    def _patience(self) -> float | None:
        """Seconds until the next wake-up time, or None."""
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


# The whole answer of a query at once: a run whose outlet collects everything.


def answer(
    plan: PhysicalPlan, clock: Clock, strict: bool = False, scheduling: Scheduling | None = None
) -> Answer:
    gathered = Gathered(plan.query)
    run = LocalRun([plan], [gathered], clock, strict, scheduling=scheduling)
    Scheduler(run).drive()
    return gathered.answer(sum(scan.ingest.read for scan in run.scans if not scan.again))


# Jobs: queries run to their end in the thread of the program, or in the background.

Watch = Callable[[LocalRun, SourceNode, Chunk], None]


class LocalJob:
    """Queries that run in this process, with their checkpoint: driven by the caller, or started in
    a thread of their own."""

    def __init__(
        self,
        plans: Sequence[PhysicalPlan],
        outlets: Sequence[Outlet],
        clock: Clock,
        strict: bool = False,
        options: RunOptions | None = None,
        watch: Watch | None = None,
        scheduling: Scheduling | None = None,
        planned: Planned | None = None,
    ) -> None:
        """`planned` makes the plan of a query, by its number, by some of the rules that simplify
        it, as a checkpoint may have been begun."""
        options = options or RunOptions()
        store = None if options.checkpoint is None else Checkpoints(options.checkpoint)
        self._epochs: Epochs | None = None
        try:
            if store is not None and planned is not None:
                plans = as_begun(plans, store, planned)
            if store is not None:
                plans = shared_as_begun(plans, store)
            keeps = store is not None
            self.run = run = LocalRun(
                plans, outlets, clock, strict, keeps, not options.bounded, scheduling
            )
            if keeps or any(outlet.commits for outlet in outlets):
                self._epochs = Epochs(run, store, clock, options.every or EVERY)
        except BaseException:
            if store is not None:
                store.close()
            raise
        self.closed = _closed_below(run)  # by a final run before this one
        self._clock = clock
        self._began = 0  # set by `start`; stamps of other runs must not see a look at the clock
        watching = None if watch is None else lambda scan, chunk: watch(run, scan, chunk)
        self._scheduler = Scheduler(
            run, watching, self._epochs, options.every, options.final or not keeps
        )
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: BaseException | None = None
        self._host: LoopHost | None = None

    def drive(self, background: bool = False) -> None:
        """Run until the input ends or the run is stopped; in the `background` if in a thread of its
        own."""
        for _ in self.steps(background):
            pass

    def steps(self, background: bool = False) -> Generator[None, None, None]:
        """Run step by step, as the caller advances the generator."""
        try:
            yield from self._scheduler.steps(background)
        finally:
            if self._epochs is not None:
                self._epochs.close()

    def stop(self) -> None:
        """Read no further; what has been released is written.  Safe in signal handlers."""
        self._scheduler.stop()

    @property
    def stopped(self) -> bool:
        return self._scheduler.stopped

    # --- in the background -----------------------------------------------------------------------

    def start(self) -> None:
        self._began = self._clock.now()
        loop = running_loop()
        self._host = None if loop is None else LoopHost(loop)
        self._thread.start()

    def _work(self) -> None:
        HOST.set(self._host)
        try:
            self.drive(background=True)
        except BaseException as error:  # raised in `wait`
            self._failure = error

    def wait(self) -> None:
        if self.active:
            reading = (scan for scan in list(self.run.scans) if not scan.has_nothing_now)
            refuse_to_hold_up((scan.ingest.stream.source for scan in reading), self._host)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def at_work(self) -> bool:
        """Whether the current thread is the one that delivers rows."""
        return threading.current_thread() is self._thread

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    # --- status ----------------------------------------------------------------------------------

    @property
    def read(self) -> int:
        return sum(scan.read for scan in self.run.scans)

    def open_windows(self, number: int = 0) -> int:
        """Number of windows, or groups, of a query that have been begun and not been emitted."""
        return self.run.open_results(self.run.outlets[number]).count

    def account(self, number: int = 0) -> Account:
        """Counts of the tuples that a query, by its number, has read in this run."""
        return self.run.account(self.run.outlets[number])

    def total(self, number: int = 0) -> Account:
        """Counts of a query in all runs on the checkpoint."""
        return self.run.total(self.run.outlets[number])

    def progress(self) -> RunProgress:
        account = self.account()
        return RunProgress(
            batches=self._epochs.count if self._epochs is not None else 0,
            read=account.read,
            rows_per_second=account.read * 1_000_000 / max(1, self._clock.now() - self._began),
            late=account.late,
            rejected=account.rejected,
            rows=self.run.outlets[0].written,
            state_bytes=self._epochs.state_bytes if self._epochs is not None else 0,
            open_windows=self.open_windows(),
            sources=[source_status(scan) for scan in self.run.scans],
            operators=self.run.operators(self.run.outlets[0]),
            latency=self.run.outlets[0].latencies.summary(),
        )

    def graph_status(self, names: Sequence[str]) -> GraphStatus:
        """Status of the graph; `names` are those of the queries."""
        outlets = self.run.outlets
        return self.run.status(dict(zip(outlets, names, strict=True)))

    @property
    def decisions(self) -> list[Decision]:
        """Decisions of the adaptation: operators that have been exchanged, and why."""
        return list(self.run.adapting.decisions)


def _text_of(scan: SourceNode, tick: int) -> str:
    return Domain(scan.ingest.stream.attribute.type).format(tick)


def _closed_below(run: LocalRun) -> str | None:
    """Describe the bounds that a final run has promised, unless the streams have gone beyond
    them."""
    texts = [
        f"tuples of {scan.name} below {_text_of(scan, int(run.closed[scan.name]))}"
        for scan in run.scans
        if scan.ingest.low == run.closed.get(scan.name)
    ]
    return (
        f"the checkpoint was closed by a final run: {', '.join(texts)} are late" if texts else None
    )
