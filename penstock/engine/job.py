"""Queries at work in this process: run to their end here, or beside the program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence

from penstock.engine.checkpoints.checkpoint import Checkpoints
from penstock.engine.checkpoints.epochs import EVERY, Epochs
from penstock.engine.checkpoints.resuming import Planned, as_begun, shared_as_begun
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.options import Scheduling
from penstock.engine.run import LocalRun
from penstock.engine.scheduling.scheduler import Scheduler
from penstock.engine.status import GraphStatus, source_status
from penstock.model.clock import Clock
from penstock.model.domain import Domain
from penstock.physical.plan import PhysicalPlan
from penstock.runs.adapting.decision import Decision
from penstock.runs.answer import Account
from penstock.runs.options import RunOptions
from penstock.runs.outlet import Outlet
from penstock.runs.status import RunProgress
from penstock.sources.asynchronous import HOST, refuse_to_hold_up
from penstock.sources.pumps import Host, running_loop
from penstock.sources.source import Chunk

Watch = Callable[[LocalRun, SourceNode, Chunk], None]


class LocalJob:
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
        self._began = 0  # told by `start`; stamps of other runs must not see a look at the clock
        told = None if watch is None else lambda scan, chunk: watch(run, scan, chunk)
        self._scheduler = Scheduler(
            run, told, self._epochs, options.every, options.final or not keeps
        )
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: BaseException | None = None
        self._host: Host | None = None

    def drive(self, beside: bool = False) -> None:
        """Until the input ends, or somebody stops it; in a thread of its own if it is `beside` the
        program."""
        for _ in self.steps(beside):
            pass

    def steps(self, beside: bool = False) -> Generator[None, None, None]:
        """The same, step by step as somebody asks."""
        try:
            yield from self._scheduler.steps(beside)
        finally:
            if self._epochs is not None:
                self._epochs.close()

    def stop(self) -> None:
        """Read no further; what has been released is written.  Safe in signal handlers."""
        self._scheduler.stop()

    @property
    def stopped(self) -> bool:
        return self._scheduler.stopped

    # --- beside the program ----------------------------------------------------------------------

    def start(self) -> None:
        self._began = self._clock.now()
        loop = running_loop()
        self._host = None if loop is None else Host(loop)
        self._thread.start()

    def _work(self) -> None:
        HOST.set(self._host)
        try:
            self.drive(beside=True)
        except BaseException as error:  # raised where somebody waits
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
        """Whether it is this thread that hands rows over."""
        return threading.current_thread() is self._thread

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    # --- how it is doing -------------------------------------------------------------------------

    @property
    def read(self) -> int:
        return sum(scan.read for scan in self.run.scans)

    def open_windows(self, number: int = 0) -> int:
        """How many windows, or groups, of a query have been begun and not been given out."""
        return self.run.open_results(self.run.outlets[number]).count

    def account(self, number: int = 0) -> Account:
        """What has become of the tuples that the query of that number has read in this run."""
        return self.run.account(self.run.outlets[number])

    def total(self, number: int = 0) -> Account:
        """The same for all runs on the checkpoint."""
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
        """How the nodes are doing; `names` are those of the queries."""
        outlets = self.run.outlets
        return self.run.status(dict(zip(outlets, names, strict=True)))

    @property
    def decisions(self) -> list[Decision]:
        """Which operators have been exchanged, and why."""
        return list(self.run.adapting.decisions)


def _text_of(scan: SourceNode, tick: int) -> str:
    return Domain(scan.ingest.stream.attribute.type).format(tick)


def _closed_below(run: LocalRun) -> str | None:
    """What a final run has promised, unless the streams have gone beyond it."""
    told = [
        f"tuples of {scan.name} below {_text_of(scan, int(run.closed[scan.name]))}"
        for scan in run.scans
        if scan.ingest.low == run.closed.get(scan.name)
    ]
    return f"the checkpoint was closed by a final run: {', '.join(told)} are late" if told else None
