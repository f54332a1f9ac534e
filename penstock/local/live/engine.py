"""The live engine: a run that goes on while queries are created, altered and dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

from penstock.errors import EngineError, nearest
from penstock.io.sources.asynchronous import HOST, LoopHost, refuse_to_hold_up, running_loop
from penstock.io.sources.source import Attention, Bell, Chunk
from penstock.local.graph.source_node import SourceNode
from penstock.local.graph_options import Enabling, Scheduling
from penstock.local.live.checkpoint import EVERY, LiveCheckpoint
from penstock.local.live.queries import (
    Lasting,
    LiveQueries,
    OnClose,
    QueryRecord,
    QueryStatus,
    is_to_pause,
)
from penstock.local.live.workers import FirstWorker, Gate, SideWorker
from penstock.local.run import LocalRun
from penstock.local.scheduling.components import Group
from penstock.local.scheduling.reading import Inlets, Overload, chunks_of
from penstock.local.status import GraphStatus, source_status
from penstock.local.strategies import StateTable, Strategy
from penstock.model.clock import Clock
from penstock.plan.nodes.join import Lookup
from penstock.plan.physical import PhysicalPlan
from penstock.runs.answer import Account, IsolatedOutlet
from penstock.runs.lookup_tables import Tables
from penstock.runs.status import SourceStatus

SETTINGS = ("share", "strategy", "ets", "breaks", "paused")
_ANOTHER = "what a query asks for stays as it is: DROP QUERY, and CREATE QUERY with other state"


class Altering:
    """ALTER QUERY: settings that change how a query is worked on, and no answer.  They are its
    `share` of the time, the `strategy` of its operators, the `ets` of the streams that it reads,
    break nodes among its operators (`breaks`); or whether it is `paused`."""

    def __init__(self, run: LocalRun, queries: LiveQueries) -> None:
        self._graph = run.graph
        self._queries = queries
        self._known: Mapping[str, Callable[[str, str], None]] = {
            "share": self._share,
            "strategy": self._strategy,
            "ets": self._ets,
            "breaks": self._breaks,
            "paused": self._pause,
        }
        self._again = False  # whether settings are those of a checkpoint

    @staticmethod
    def check(setting: str) -> str:
        """Normalise the name of a setting, or raise an error that names the nearest one."""
        if setting.lower() not in SETTINGS:
            close = nearest(setting, SETTINGS)
            raise EngineError(
                f"a query has no setting {setting!r}",
                expected=f"one of {', '.join(each.upper() for each in SETTINGS)}",
                hint=close[0].upper() if close else _ANOTHER,
            )
        return setting.lower()

    def alter(self, name: str, setting: str, value: str) -> None:
        self._known[setting](name, value)
        self._queries.set(name, setting, value)

    def alter_again(self, name: str, setting: str, value: str) -> None:
        """Restore a setting from a checkpoint: an operator may have another name by now, and then
        keeps none."""
        self._again = True
        try:
            self.alter(name, setting, value)
        finally:
            self._again = False

    def _share(self, name: str, value: str) -> None:
        try:
            share = float(value)
        except ValueError:
            share = 0.0
        if not 0 < share < float("inf"):
            raise EngineError(f"{value!r} is not a share", expected="a number above 0")
        self._graph.give(self._queries.outlet(name), share=share)

    def _strategy(self, name: str, value: str) -> None:
        """Set one strategy for all operators, or several: `bfs; dfs 10 at Union-dbe2fdec`."""
        names = self._nodes(name)
        found = [part.partition(" at ") for part in value.split(";")]
        uses = [
            (Strategy.of(text), self._some(where, names) if at else names)
            for text, at, where in found
        ]
        for strategy, nodes in uses:
            self._graph.use(strategy, nodes)

    def _breaks(self, name: str, value: str) -> None:
        names = self._nodes(name)
        self._graph.break_off(self._named(value, names), among=names)

    def _ets(self, name: str, value: str) -> None:
        self._graph.give(self._queries.outlet(name), ets=Enabling.of(value))

    def _pause(self, name: str, value: str) -> None:
        self._queries.pause([name], is_to_pause(value))

    # --- nodes -----------------------------------------------------------------------------------

    def _nodes(self, name: str) -> list[str]:
        placed = self._graph.queries[self._queries.outlet(name)]
        return [node.name for node in (*placed.operators, *placed.sources)]

    def _some(self, value: str, names: Sequence[str]) -> list[str]:
        if not value.strip(" ,"):
            raise EngineError(
                "at which operators is missing", expected=f"one of {', '.join(names)} after at"
            )
        return self._named(value, names)

    def _named(self, value: str, names: Sequence[str]) -> list[str]:
        """Parse names of operators, as the state table has them, with commas between them."""
        wanted = [each.strip() for each in value.split(",") if each.strip()]
        for each in wanted:
            if each not in names and not self._again:
                close = nearest(each, names)
                raise EngineError(
                    f"the query has no operator called {each!r}",
                    expected=f"one of {', '.join(names)}",
                    hint=close[0] if close else None,
                )
        return [each for each in wanted if each in names]


# The engine.
#
# Some threads work on the graph, each on a group of its components; sources have threads of their
# own.  Requests of other threads are handled between two steps: rows that came before are in the
# results of the queries of that time, and later rows go to the queries after the change.

_SECOND = 1_000_000  # microseconds
T = TypeVar("T")


class LiveEngine:
    """Runs queries that come and go.  `overload` is the policy for rows that come faster than they
    are handled.  With a `checkpoint`, lasting queries are restored when another engine is made on
    it.  With `every`, in microseconds, files are polled, and everything is saved that often.  So
    many `threads` work on components of the graph.  Public methods are thread-safe."""

    def __init__(
        self,
        clock: Clock,
        strict: bool = False,
        scheduling: Scheduling | None = None,
        overload: Overload | None = None,
        checkpoint: Path | None = None,
        every: int | None = None,
        threads: int = 1,
    ) -> None:
        if threads < 1:
            raise EngineError(f"{threads} threads cannot work", expected="1 or more")
        self._clock = clock
        self._strict = strict
        keeps, self._every = checkpoint is not None, every
        self._run = LocalRun(
            [], [], clock, strict, keeps, every is not None, scheduling=scheduling, groups=threads
        )
        self._graph = self._run.graph
        self._bell = Bell()
        self._inlets = Inlets(self._graph, self._bell, self._chunks, overload)
        self._queries = LiveQueries(self._run, self._ring_all, self._tell_settled)
        self._altering = Altering(self._run, self._queries)
        self.kept: LiveCheckpoint | None = None
        if checkpoint is not None:
            self.kept = LiveCheckpoint(checkpoint, self._run, every or EVERY)
        self._settled = threading.Condition()  # notified whenever a query stops
        self._gate = Gate(self._interrupt_others)
        self._first = FirstWorker(
            self._run, self._inlets, self._queries, self._bell, self._gate, self._settle, self.kept
        )
        self._others = [self._beside(group) for group in self._run.groups[1:]]
        self._inlets.bells = [self._bell, *(each.bell for each in self._others)]
        self._thread = threading.Thread(target=self._work, name="penstock", daemon=True)
        self._failure: BaseException | None = None
        self._left = False
        loop = running_loop()
        self._host = None if loop is None else LoopHost(loop)  # for rows that come asynchronously

    def _beside(self, group: Group) -> SideWorker:
        ask = self._first.requests.ask_between
        return SideWorker(
            self._run,
            group,
            self._inlets,
            self._queries,
            self._first.note,
            self._gate,
            lambda changes: ask(lambda: self._first.change(changes)),
            self._break_down,
        )

    # --- for any thread --------------------------------------------------------------------------

    def start(self) -> None:
        if self.kept is not None:
            self.kept.load(self._queries)
        self._inlets.topology_changed()
        self._first.requests.begin([self._thread, *(each.thread for each in self._others)])
        self._thread.start()
        for worker in self._others:
            worker.thread.start()

    def give_up(self) -> None:
        """Close an engine that has not been started; nothing is saved."""
        self._leave()

    def stop(self, final: bool = False, drain: bool = True) -> None:
        """Read no further; what has been released is written.  If that is `final`, what has been
        delivered is handled, and what is open is closed and released as well.  Rows that wait for
        subscribers then are delivered, unless the queues are not to `drain`."""
        self.refuse_at_work()
        self._first.final = final
        self._bell.close()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._leave()
        self._queries.drain(drain)
        if self._failure is not None:
            raise self._failure

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def wait(self, name: str | None = None, timeout: float | None = None) -> bool:
        """Wait until a query, or all of them, no longer run; False after a timeout."""
        self.refuse_at_work()
        self._refuse_to_hold_up(name)

        def over() -> bool:
            running = self._queries.running
            over = not running if name is None else name not in running
            return over and self._queries.drained(name)

        with self._settled:
            return self._settled.wait_for(over, timeout)

    def _refuse_to_hold_up(self, name: str | None) -> None:
        running = self._queries.running if name is None else [name]
        queries = [each for each in running if each in self._queries.running]
        placed = [self._graph.queries.get(self._queries.outlet(each)) for each in queries]
        sources = {source: None for each in placed if each is not None for source in each.sources}
        reading = (source for source in sources if not source.has_nothing_now)
        refuse_to_hold_up((source.ingest.stream.source for source in reading), self._host)

    def add(
        self,
        name: str,
        plan: PhysicalPlan,
        outlet: IsolatedOutlet,
        on_close: OnClose | None = None,
        lasting: Lasting | None = None,
    ) -> None:
        """Add a query, from the next step on.  Streams that can be read again are read from their
        beginning; of others it gets what comes from now on.  A `lasting` query is first saved at
        the next `save`."""
        if outlet.backlog is not None:
            outlet.backlog.owner = self._first.requests
        tables = Tables(self._clock, self._strict)
        for node in plan.query.walk():
            if isinstance(node, Lookup):
                tables.rows(node)  # here, so that no worker waits for it
        self._ask_at_work(
            lambda: self._changed(
                lambda: self._queries.add(name, plan, outlet, tables, on_close, lasting)
            )
        )

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Defer the opening of sources until several queries have come, so that they see the same
        rows."""
        self._count_opening(1)
        try:
            yield
        finally:
            self._count_opening(-1)

    def _count_opening(self, change: int) -> None:
        def count() -> None:
            self._inlets.opening += change
            if not self._inlets.opening:
                self._settle()

        self._ask(count)

    def restore(
        self,
        record: QueryRecord,
        plan: PhysicalPlan,
        outlet: IsolatedOutlet,
        on_close: OnClose | None = None,
    ) -> None:
        """Restore a query of the checkpoint, before the engine starts."""
        assert self.kept is not None
        account, outlet.written = self.kept.counted(record)
        if record.is_over:
            self._queries.add_over(outlet, record, account)
            return
        record.check(plan.query)
        self._graph.reserve(record.placement.names)
        lasting = Lasting(record.number, record.definition, record)
        self.add(record.name, plan, outlet, on_close, lasting)
        self._run.before[outlet] = account
        for setting, value in record.settings.items():
            self._altering.alter_again(record.name, setting, value)

    def save(self) -> None:
        """Save everything that has happened so far, and wait for it."""
        if self.kept is None:
            return
        done = self._first.saves.ask()
        if self._ask(threading.current_thread) is not self._thread:
            self._first.save_now()
        done.result()

    def drop(self, name: str) -> Account:
        """Drop a query.  What it has released is written; what is open is discarded."""
        return self._ask(lambda: self._changed(lambda: self._queries.drop(name)))

    def alter(self, name: str, setting: str, value: str) -> None:
        """Change how a query is worked on, which changes no answer; see `Altering`."""
        known = self._altering.check(setting)
        self._ask_at_work(lambda: self._altering.alter(name, known, value))

    def pause(self, names: Sequence[str] | None, paused: bool) -> None:
        """Hold the sources of some queries, or of all, or resume them."""
        self._ask_at_work(lambda: self._queries.pause(names or self._queries.here, paused))

    def state_table(self, name: str | None = None) -> StateTable:
        """The state table of the graph, or of the part that serves a query."""
        if name is None:
            return self._ask(lambda: self._graph.table)
        return self._ask(lambda: self._graph.table_of(self._queries.outlet(name)))

    def status(self) -> list[QueryStatus]:
        def status() -> list[QueryStatus]:
            if self._queries.failing:
                self._changed(lambda: self._queries.look(ended=False))
            return self._queries.status()

        return self._ask(status)

    def graph_status(self) -> GraphStatus:
        return self._ask(lambda: self._run.status(self._queries.names, self._inlets.dropped()))

    def sources(self, name: str) -> list[SourceStatus]:
        """Status of the streams that a query reads."""

        def status() -> list[SourceStatus]:
            placed = self._graph.queries[self._queries.outlet(name)]
            return [source_status(each) for each in placed.sources]

        return self._ask(status)

    def is_paused(self, name: str) -> bool:
        return self._ask(lambda: self._queries.is_paused(name))

    def refuse_over(self, name: str) -> None:
        """Raise an error if a query no longer runs: it is too late to change how it is worked
        on."""
        self._ask(lambda: self._queries.outlet(name))

    def refuse_at_work(self) -> None:
        """Callbacks must not modify the engine or wait for it: raise an error in a thread that
        delivers rows."""
        self._first.requests.refuse_at_work()

    def refuse(self, name: str) -> NoReturn:
        """Raise the error that no query has that name."""
        self._queries.refuse(name)

    def error(self, name: str) -> BaseException | None:
        """Error that has stopped a query, or None."""
        return self._ask(lambda: self._queries.error(name))

    def ask(self, change: Callable[[], T]) -> T:
        """Call a function between two steps, and return its result."""
        return self._ask(change)

    def _ask(self, change: Callable[[], T]) -> T:
        return self._first.requests.ask(change)

    def _ask_at_work(self, change: Callable[[], None]) -> None:
        """Make a change between two steps, unless the engine has stopped."""

        def checked() -> None:
            if self._left:
                why = f", because of {type(self._failure).__name__}: {self._failure}"
                raise EngineError(
                    f"the engine has stopped{why if self._failure is not None else ''}",
                    hint="another one, by db.live()",
                )
            change()

        self._ask(checked)

    def _interrupt_others(self) -> None:
        for worker in self._others:
            worker.group.cycle.interrupted = True

    # --- changes, between two steps --------------------------------------------------------------

    def _changed(self, change: Callable[[], T]) -> T:
        try:
            return change()
        finally:
            self._settle()

    def _settle(self) -> None:
        """Find the components again after the topology has changed; open and close sources, and
        notify waiters."""
        self._graph.parts.all()  # found now, when no thread is at work
        if self.active:
            self._inlets.topology_changed()
        self._tell_settled()

    def _tell_settled(self) -> None:
        with self._settled:
            self._settled.notify_all()

    def _ring_all(self) -> None:
        for bell in self._inlets.bells:
            bell.ring()

    def _chunks(self, scan: SourceNode, attention: Attention) -> Generator[Chunk, None, None]:
        HOST.set(self._host)
        growing = self.kept is not None or scan.ingest.followed
        return chunks_of(scan, attention, growing, self._every)

    # --- the thread ------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._first.work()
            self._first.finish(self._others)
        except BaseException as error:  # of the engine itself
            self._break_down(error)
        finally:
            self._leave()

    def _break_down(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._bell.close()

    def _leave(self) -> None:
        self._left = True
        for worker in self._others:
            worker.bell.close()
            if worker.thread.ident is not None:
                worker.thread.join()
        if self._failure is not None:
            self._queries.fail([*self._graph.queries], self._failure)
        self._inlets.close_all()
        self._queries.close()
        if self.kept is not None:
            self.kept.close()
        self._first.requests.close()
        saves, stopped = self._first.saves, EngineError("the engine has stopped")
        saves.fail(saves.take(), self._failure or stopped)
        self._tell_settled()
