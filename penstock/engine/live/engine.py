"""A run that goes on while queries come and go.

One thread works on the graph; sources have threads of their own.  Whatever others ask for is done
between two steps: what has come before is in the results of those that were there, and what comes
later is for those that are there now.  It is saved when nothing waits anywhere in the graph.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import NoReturn, TypeVar

from penstock.engine.feeding import chunks_of
from penstock.engine.graph.source_node import Ended, SourceNode
from penstock.engine.inlets import Inlets, Quantum
from penstock.engine.live.checkpoint import EVERY, LiveCheckpoint
from penstock.engine.live.pausing import is_to_pause
from penstock.engine.live.queries import Lasting, LiveQueries, OnClose
from penstock.engine.live.records import QueryRecord
from penstock.engine.live.requests import Requests
from penstock.engine.live.saves import Saves
from penstock.engine.live.status import QueryStatus
from penstock.engine.options import Enabling, Scheduling
from penstock.engine.overload import Overload
from penstock.engine.run import LocalRun
from penstock.engine.status import GraphStatus, source_status
from penstock.engine.strategy.strategy import Strategy
from penstock.errors import EngineError, nearest
from penstock.model.clock import Clock
from penstock.physical.plan import PhysicalPlan
from penstock.plan.joins import Lookup
from penstock.runs.answer import Account
from penstock.runs.isolated import IsolatedOutlet
from penstock.runs.status import SourceStatus
from penstock.runs.tables import Tables
from penstock.sources.bell import Bell
from penstock.sources.live import Attention
from penstock.sources.source import Chunk

_SECOND = 1_000_000  # microseconds
T = TypeVar("T")


class LiveEngine:
    """`overload` says what happens to rows that come faster than they are handled.  With a
    `checkpoint`, queries that are lasting are there again when another engine is made on it.  With
    `every`, in microseconds, files are looked at again and again, and that often everything is
    saved.  What is here may be called from any thread."""

    def __init__(
        self,
        clock: Clock,
        strict: bool = False,
        scheduling: Scheduling | None = None,
        overload: Overload | None = None,
        checkpoint: Path | None = None,
        every: int | None = None,
    ) -> None:
        self._clock = clock
        self._strict = strict
        keeps, self._every = checkpoint is not None, every
        self._run = LocalRun([], [], clock, strict, keeps, every is not None, scheduling=scheduling)
        self._graph = self._run.graph
        self._bell = Bell()
        self._inlets = Inlets(self._graph, self._bell, self._chunks, overload)
        self._queries = LiveQueries(self._run)
        self.kept: LiveCheckpoint | None = None
        if checkpoint is not None:
            self.kept = LiveCheckpoint(checkpoint, self._run, every or EVERY)
        self._saves = Saves()
        self._requests = Requests(self._bell, self._interrupt)
        self._settled = threading.Condition()  # told whenever a query stops
        self._thread = threading.Thread(target=self._work, name="penstock", daemon=True)
        self._failure: BaseException | None = None

    # --- for any thread --------------------------------------------------------------------------

    def start(self) -> None:
        if self.kept is not None:
            self.kept.load(self._queries)
        self._inlets.topology_changed()
        self._requests.owner = self._thread
        self._thread.start()

    def give_up(self) -> None:
        """Before it has been started: nothing is saved."""
        self._leave()

    def stop(self) -> None:
        """Read no further; what has been released is written."""
        self._bell.close()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._leave()
        if self._failure is not None:
            raise self._failure

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def wait(self, name: str | None = None, timeout: float | None = None) -> bool:
        """Until a query, or all of them, no longer run; whether that has come within the time."""

        def over() -> bool:
            running = self._queries.running
            return not running if name is None else name not in running

        with self._settled:
            return self._settled.wait_for(over, timeout)

    def add(
        self,
        name: str,
        plan: PhysicalPlan,
        outlet: IsolatedOutlet,
        on_close: OnClose | None = None,
        lasting: Lasting | None = None,
    ) -> None:
        """One more query, from the next step on.  Streams that can be read again are read from
        their beginning; of others it gets what comes from now on.  What is saved of it, if it is
        `lasting`, is at the next `save`."""
        tables = Tables(self._clock, self._strict)
        for node in plan.query.walk():
            if isinstance(node, Lookup):
                tables.rows(node)  # here, so that nobody else waits for it
        self._ask(
            lambda: self._changed(
                lambda: self._queries.add(name, plan, outlet, tables, on_close, lasting)
            )
        )

    def restore(
        self,
        record: QueryRecord,
        plan: PhysicalPlan,
        outlet: IsolatedOutlet,
        on_close: OnClose | None = None,
    ) -> None:
        """A query of the checkpoint as it was saved, before the engine starts."""
        assert self.kept is not None
        account, outlet.written = self.kept.counted(record.number)
        if record.error is not None:
            self._queries.add_failed(outlet, record, account)
            return
        record.check(plan.query)
        self._graph.reserve(record.placement.names)
        lasting = Lasting(record.number, record.definition, record)
        self.add(record.name, plan, outlet, on_close, lasting)
        self._run.before[outlet] = account
        for setting, value in record.settings.items():
            self.alter(record.name, setting, value)

    def save(self) -> None:
        """Have everything saved that has happened so far, and wait for it."""
        if self.kept is None:
            return
        done = self._saves.ask()
        thread = self._ask(threading.current_thread)
        if thread is not self._thread:  # nobody is at work: not yet, or not any more
            if self.kept.closed:
                stopped = EngineError("the engine has stopped, and saves nothing any more")
                self._saves.fail(self._saves.take(), stopped)
            else:
                self._save()
        done.result()

    def drop(self, name: str) -> Account:
        """A query leaves.  What it has released is written; what is open is gone."""
        return self._ask(lambda: self._changed(lambda: self._queries.drop(name)))

    def alter(self, name: str, setting: str, value: str) -> None:
        """Change how a query is worked on, which changes no answer: its `share` of the time, the
        `strategy` of its operators, the `ets` of the streams that it reads; or whether it is
        `paused`."""
        known: Mapping[str, Callable[[str, str], None]] = {
            "share": self._share,
            "strategy": self._strategy,
            "ets": self._ets,
            "paused": lambda name, value: self._queries.pause([name], is_to_pause(value)),
        }
        if setting.lower() not in known:
            close = nearest(setting, known)
            raise EngineError(
                f"a query has no setting {setting!r}",
                expected=f"one of {', '.join(each.upper() for each in known)}",
                hint=close[0].upper() if close else None,
            )
        self._ask(lambda: self._alter(known[setting.lower()], name, setting.lower(), value))

    def pause(self, names: Sequence[str] | None, paused: bool) -> None:
        """Hold the sources of some queries, or of all, or let them go on."""
        self._ask(lambda: self._queries.pause(names or self._queries.here, paused))

    def _alter(
        self, change: Callable[[str, str], None], name: str, setting: str, value: str
    ) -> None:
        change(name, value)
        self._queries.set(name, setting, value)

    def status(self) -> list[QueryStatus]:
        return self._ask(self._queries.status)

    def graph_status(self) -> GraphStatus:
        return self._ask(lambda: self._run.status(self._queries.names, self._inlets.dropped()))

    def sources(self, name: str) -> list[SourceStatus]:
        """How far the streams have come that a query reads."""

        def told() -> list[SourceStatus]:
            placed = self._graph.queries[self._queries.outlet(name)]
            return [source_status(each) for each in placed.sources]

        return self._ask(told)

    def refuse(self, name: str) -> NoReturn:
        """No query has that name."""
        self._queries.refuse(name)

    def error(self, name: str) -> BaseException | None:
        """What has stopped a query."""
        return self._ask(lambda: self._queries.error(name))

    def ask(self, change: Callable[[], T]) -> T:
        """Have something done between two steps."""
        return self._ask(change)

    def _ask(self, change: Callable[[], T]) -> T:
        return self._requests.ask(change)

    def _interrupt(self) -> None:
        self._graph.cycle.interrupted = True

    # --- changes, between two steps --------------------------------------------------------------

    def _changed(self, change: Callable[[], T]) -> T:
        try:
            return change()
        finally:
            self._settle()

    def _settle(self) -> None:
        """The topology has changed: other sources are read, and somebody may wait for that."""
        if self.active:
            self._inlets.topology_changed()
        with self._settled:
            self._settled.notify_all()

    def _share(self, name: str, value: str) -> None:
        try:
            share = float(value)
        except ValueError:
            share = 0.0
        if not 0 < share < float("inf"):
            raise EngineError(f"{value!r} is not a share", expected="a number above 0")
        self._graph.give(self._queries.outlet(name), share=share)

    def _strategy(self, name: str, value: str) -> None:
        placed = self._graph.queries[self._queries.outlet(name)]
        nodes = [*placed.operators, *placed.sources]
        self._graph.use(Strategy.of(value), [node.name for node in nodes])

    def _ets(self, name: str, value: str) -> None:
        self._graph.give(self._queries.outlet(name), ets=Enabling.of(value))

    def _chunks(self, scan: SourceNode, attention: Attention) -> Generator[Chunk, None, None]:
        growing = self.kept is not None or scan.ingest.followed
        return chunks_of(scan, attention, growing, self._every)

    # --- the thread ------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._bell.closed:
                self._apply()
                self._save_in_time()
                quantum = self._inlets.next()
                if quantum:
                    self._handle(quantum)
                elif not self._wait():
                    self._look_at_clock()
            if self.kept is not None:
                self._go_on(to_the_end=True)
                self._save()
        except BaseException as error:  # of the engine itself
            self._failure = error
            self._queries.fail([*self._graph.queries], error)
        finally:
            self._leave()

    def _look_at_clock(self) -> None:
        written = self._queries.written
        self._guarded(self._run.look_at_clock)
        self._go_on()
        if self.kept is not None and self._queries.written != written:
            self.kept.change()

    def _save_in_time(self) -> None:
        """If somebody has asked for it, or it is time, and nothing waits."""
        if self.kept is None:
            return
        due = self.kept.due
        if self._saves.asked or (due is not None and due <= self._clock.now()):
            self._save()

    def _save(self) -> None:
        assert self.kept is not None
        asked, queries = self._saves.take(), len(self._graph.queries)
        try:
            failures = self.kept.save(self._queries)
        except BaseException as error:
            self._saves.fail(asked, error)
            raise
        self._saves.tell(asked, failures)
        if len(self._graph.queries) < queries:  # a sink could not be written to
            self._settle()

    def _apply(self) -> None:
        self._graph.cycle.interrupted = False
        if self._requests.apply():
            self._go_on()

    def _go_on(self, to_the_end: bool = False) -> None:
        """With what waits because somebody has interrupted it, or because of a change; `to_the_end`
        although the engine is to stop."""
        while busy := [each for each in self._graph.components if each.busy]:
            self._guarded(partial(self._run.work, busy[0]))
            if self._graph.cycle.interrupted:
                self._graph.cycle.interrupted = False
                self._requests.apply()
            if self._bell.closed and not to_the_end:
                return

    def _leave(self) -> None:
        self._inlets.close_all()
        self._queries.close()
        if self.kept is not None:
            self.kept.close()
        self._requests.close()
        stopped = self._failure or EngineError("the engine has stopped")
        self._saves.fail(self._saves.take(), stopped)
        with self._settled:
            self._settled.notify_all()

    def _wait(self) -> bool:
        """For something to do, as long as time alone has nothing to say; whether there is.
        Operators that hold rows meanwhile wait idly."""
        times = (self._run.due(), None if self.kept is None else self.kept.due)
        due = min((each for each in times if each is not None), default=None)
        patience = None if due is None else max(0, due - self._clock.now()) / _SECOND
        holding = [node for each in self._graph.components for node in each.waiting_idly]
        begun = perf_counter_ns()
        rung = self._bell.wait(patience)
        for node in holding:
            node.measured.flow.waiting += perf_counter_ns() - begun
        return rung

    def _handle(self, quantum: Quantum) -> None:
        ends = [(scan, each) for scan, each in quantum if isinstance(each, Ended)]
        for scan, delivered in quantum:
            if not isinstance(delivered, Ended):
                self._run.deliver(scan, delivered)
            elif delivered.failure is None:
                self._end(scan)
        if self.kept is not None and len(ends) < len(quantum):
            self.kept.change()
        self._go_on()
        for scan, end in ends:  # what came before is in the results
            if end.failure is not None:
                self._queries.fail(scan.outlets, end.failure)
        if self._queries.look(bool(ends)) or ends:
            self._settle()

    def _end(self, scan: SourceNode) -> None:
        """For queries that are lasting, the end is a fact of this engine, not of the stream."""
        if any(self._graph.queries[outlet].lasting for outlet in scan.outlets):
            scan.exhausted = True
        else:
            self._run.deliver(scan, Ended())

    def _guarded(self, work: Callable[[], None]) -> None:
        """Let the graph work.  An operator that fails stops the queries that it serves."""
        self._graph.cycle.current = None
        try:
            work()
        except Exception as error:
            at = self._graph.cycle.current
            if at is None or not at.outlets:
                raise
            self._queries.fail(at.outlets, error)
            self._settle()
