"""The threads that work on the graph of a live engine: any number at a time, each on its own group
of components, or one alone; and the requests that other threads make."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from queue import Empty, SimpleQueue
from time import perf_counter_ns
from typing import Any, TypeAlias, TypeVar

from penstock.errors import EngineError
from penstock.io.sinks.sink import works_for
from penstock.io.sources.source import Bell
from penstock.local.graph.node import GraphNode
from penstock.local.graph.source_node import Ended, SourceNode
from penstock.local.live.checkpoint import LiveCheckpoint
from penstock.local.live.queries import LiveQueries
from penstock.local.run import ENDED, LocalRun
from penstock.local.scheduling.components import Component, Group
from penstock.local.scheduling.reading import Inlets, Quantum


class Gate:
    """Lets workers in, or one thread alone.  A thread that wants to be alone interrupts the workers
    and waits until they have left; only one thread ever does."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._turning = threading.Condition()
        self._inside: set[int] = set()  # threads
        self._wanted = False  # by the thread that is alone, or will be

    def enter(self) -> None:
        with self._turning:
            while self._wanted:
                self._turning.wait()
            self._inside.add(threading.get_ident())

    def leave(self) -> None:
        with self._turning:
            self._inside.discard(threading.get_ident())
            if self._wanted and not self._inside:
                self._turning.notify_all()

    @contextmanager
    def working(self) -> Iterator[None]:
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Leave for a while, in a worker that is inside."""
        self.leave()
        try:
            yield
        finally:
            self.enter()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._turning:
            before, self._wanted = self._wanted, True
            while self._inside:
                self._interrupt()
                self._turning.wait()
        try:
            yield
        finally:
            with self._turning:
                self._wanted = before  # it may be wanted by the same thread already
                if not before:
                    self._turning.notify_all()

    def is_inside(self) -> bool:
        """Whether this thread is inside."""
        return threading.get_ident() in self._inside


# Requests of other threads to the one that works on the graph, handled between two of its steps.

T = TypeVar("T")


class Requests:
    """Requests to the workers.  While no worker runs, the caller handles its request itself."""

    def __init__(self, bell: Bell, interrupt: Callable[[], None]) -> None:
        self._workers: list[threading.Thread] = []
        self._bell = bell
        self._interrupt = interrupt
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._turn = threading.RLock()
        self._closed = False

    def begin(self, workers: list[threading.Thread]) -> None:
        """Start handling requests in the first of the threads that work on the graph from now
        on."""
        self._workers = workers

    def ask(self, change: Callable[[], T]) -> T:
        """Call a function between two steps, and wait for its result."""
        self.refuse_at_work()
        return self.ask_between(change)

    def refuse_at_work(self) -> None:
        """Raise an error in a worker, which would wait for itself.  A subscriber's thread would do
        the same, because stopping the engine waits until the subscriber has got everything."""
        at_work = not self._closed and threading.current_thread() in self._workers
        if at_work or works_for(self):
            raise EngineError(
                "a function that is handed rows cannot change the engine: it is at work",
                hint="another thread, or an event loop",
            )

    def ask_between(self, change: Callable[[], T]) -> T:
        """Like `ask`, for a worker that is between two of its steps."""
        with self._turn:
            if not self._workers or self._closed:
                return change()
            answer: Future[T] = Future()
            self._asked.put((change, answer))
        self._interrupt()
        self._bell.ring()
        return answer.result()

    @property
    def waiting(self) -> bool:
        return not self._asked.empty()

    def apply(self) -> bool:
        """Handle the requests that wait; whether there were any."""
        done = False
        while True:
            try:
                change, answer = self._asked.get_nowait()
            except Empty:
                return done
            done = True
            try:
                answer.set_result(change())
            except BaseException as error:  # raised in the thread that waits
                answer.set_exception(error)

    def close(self) -> None:
        """Stop handling requests in the worker, which has left: callers handle theirs
        themselves."""
        with self._turn:
            self._closed = True
        self.apply()


# Callers that wait until a live engine has saved what has happened so far.

Waiting: TypeAlias = list[Future[None]]


class Saves:
    """Requests to save, from any thread; one save answers all requests made before it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._waiting: Waiting = []
        self._untold: list[BaseException] = []

    @property
    def asked(self) -> bool:
        return bool(self._waiting)

    def ask(self) -> Future[None]:
        done: Future[None] = Future()
        with self._turn:
            self._waiting.append(done)
        return done

    def take(self) -> Waiting:
        with self._turn:
            waiting, self._waiting = self._waiting, []
        return waiting

    def tell(self, waiting: Waiting, failures: Sequence[BaseException] = ()) -> None:
        """Answer requests after a save.  Errors of sinks of dropped queries go to the first
        callers."""
        self._untold += failures
        for future in waiting:
            if self._untold:
                future.set_exception(self._untold.pop(0))
            else:
                future.set_result(None)

    def fail(self, waiting: Waiting, error: BaseException) -> None:
        for future in waiting:
            future.set_exception(error)


# A worker: a thread that works on one group of the graph, and waits for deliveries of sources.
#
# Its work may change the graph, because a query has ended or failed.  That concerns all groups, so
# it is done when no other thread is at work.

_SECOND = 1_000_000  # microseconds
Change: TypeAlias = Callable[[], None]


class Worker(ABC):
    """A thread that works on a group.  `noted` is called when something has come which is to be
    saved."""

    def __init__(
        self,
        run: LocalRun,
        group: Group,
        inlets: Inlets,
        queries: LiveQueries,
        bell: Bell,
        noted: Callable[[], None],
    ) -> None:
        self.run = run
        self.group = group
        self.inlets = inlets
        self.queries = queries
        self.bell = bell
        self._noted = noted
        self._changes: list[Change] = []  # that its work has led to
        self.ending = False  # nothing more is read, and what was delivered is handled to its end

    # --- the thread ------------------------------------------------------------------------------

    def work(self) -> None:
        """Work until the bell is closed."""
        while not self.bell.closed:
            self._between()
            with self._turn():
                quantum = self.inlets.next(self.group)
                if quantum:
                    self.handle(quantum)
                    continue
                self.go_on()  # a change may have left something to do
                self._look_for_ends()
                patience = self._patience()
                holding = [n for each in self.group.components for n in each.waiting_idly]
                begun = perf_counter_ns()
            rung = self.bell.wait(patience)
            with self._turn():
                for node in holding:
                    node.measured.flow.waiting += perf_counter_ns() - begun
                if not rung:
                    self._look_at_clock()

    def _between(self) -> None:  # noqa: B027
        """Handle requests before looking for something to do."""

    @abstractmethod
    def _turn(self) -> AbstractContextManager[None]:
        """Enter the gate while at work."""

    @abstractmethod
    def _give_way(self) -> None:
        """Let an interrupting thread change the graph."""

    @abstractmethod
    def _apply_changes(self, changes: list[Change]) -> None:
        """Apply changes to the graph."""

    # --- deliveries ------------------------------------------------------------------------------

    def handle(self, quantum: Quantum) -> None:
        ended = self.queries.ended
        for scan, delivered in quantum:
            if not isinstance(delivered, Ended):
                self.run.deliver(scan, delivered)
                continue
            ended[scan] = delivered.failure
            if delivered.failure is None:
                self._end(scan)
        if not all(isinstance(each, Ended) for _, each in quantum):
            self._noted()
        self.go_on()
        self._look_for_ends()

    def go_on(self, everywhere: bool = False) -> None:
        """Work until nothing waits in the group; or `everywhere`, which only a thread that is alone
        may do."""
        while (component := self._busy(everywhere)) is not None:
            self._work_on(component)
            cycle = self.run.groups[component.group].cycle
            if cycle.interrupted:
                cycle.interrupted = False
                if not self.ending:
                    self._give_way()
            if self.bell.closed and not self.ending:
                return

    def _look_for_ends(self) -> None:
        """Find queries whose sources have ended, once all earlier rows are in their results; in the
        components that are this thread's by now, even if another thread began with them."""
        over = [scan for scan in list(self.queries.ended) if self._is_over(scan)]
        if over:
            self._changes.append(lambda: self.queries.end(over))
        elif self.queries.failing:
            self._changes.append(lambda: self.queries.look(ended=False))
        self._settle()

    def _is_over(self, scan: SourceNode) -> bool:
        component = scan.component
        return component is None or (self.group.has(component) and not component.busy)

    def _busy(self, everywhere: bool) -> Component | None:
        components = self.run.graph.components if everywhere else self.group.components
        return next((each for each in components if each.busy), None)

    def _work_on(self, component: Component) -> None:
        self.guarded(self.run.groups[component.group], lambda: self.run.work(component))

    def guarded(self, group: Group, work: Callable[[], None]) -> None:
        """Let the graph work.  An operator that fails stops the queries that it serves; so does a
        callback that raises SystemExit, because this is not a thread of the program."""
        cycle = group.cycle
        cycle.current = cycle.failed = None
        try:
            work()
        except BaseException as error:
            at = cycle.failed or cycle.current
            if at is None or not at.outlets:
                raise
            self._fail(at, error)
            self._settle()

    def _fail(self, node: GraphNode, error: BaseException) -> None:
        self._changes.append(lambda: self.queries.fail(node.outlets, error))

    def _settle(self) -> None:
        """Apply the changes that the work has led to."""
        if self._changes:
            changes, self._changes = self._changes, []
            self._apply_changes(changes)

    def _end(self, scan: SourceNode) -> None:
        """End a source; for lasting queries that is a fact of this engine, not of the stream."""
        if any(self.run.graph.queries[outlet].lasting for outlet in scan.outlets):
            scan.exhausted = True
        else:
            self.run.deliver(scan, Ended())

    # --- when nothing is delivered ---------------------------------------------------------------

    def _due(self) -> int | None:
        """Next wake-up time in microseconds, or None."""
        return self.run.due(self.group)

    def _patience(self) -> float | None:
        due = self._due()
        return None if due is None else max(0, due - self.run.clock.now()) / _SECOND

    def _look_at_clock(self) -> None:
        written = self.queries.written
        self.guarded(self.group, lambda: self.run.look_at_clock(self.group))
        self.go_on()
        if self.queries.written != written:
            self._noted()


# Workers of further groups, which work as long as no thread is alone with the graph.


class SideWorker(Worker):
    """The worker of a further group.  `ask` has changes made by the first worker; `failed` is
    called with errors of the engine itself."""

    def __init__(
        self,
        run: LocalRun,
        group: Group,
        inlets: Inlets,
        queries: LiveQueries,
        noted: Callable[[], None],
        gate: Gate,
        ask: Callable[[list[Change]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(run, group, inlets, queries, Bell(), noted)
        self._gate = gate
        self._ask = ask
        self._failed = failed
        name = f"penstock {group.number + 1}"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self._failed(error)

    def _turn(self) -> AbstractContextManager[None]:
        self.group.cycle.interrupted = False
        return self._gate.working()

    def _give_way(self) -> None:
        with self._gate.outside():
            pass

    def _apply_changes(self, changes: list[Change]) -> None:
        with self._gate.outside():
            self._ask(changes)


# The worker of the first group, which also does what concerns all of them: it handles requests
# between two of its steps, and saves when nothing waits anywhere.

_MOMENT = 0.01  # seconds


class FirstWorker(Worker):
    """The worker of the first group.  `settled` is called whenever a query has come, gone or
    stopped."""

    def __init__(
        self,
        run: LocalRun,
        inlets: Inlets,
        queries: LiveQueries,
        bell: Bell,
        gate: Gate,
        settled: Callable[[], None],
        kept: LiveCheckpoint | None,
    ) -> None:
        super().__init__(run, run.groups[0], inlets, queries, bell, self.note)
        self.requests = Requests(bell, self._interrupt)
        self.saves = Saves()
        self.final = False
        self._gate = gate
        self._settled = settled
        self._kept = kept

    def _interrupt(self) -> None:
        self.group.cycle.interrupted = True

    def note(self) -> None:
        """Note a change that is to be saved; from any worker."""
        if self._kept is not None and self._kept.change():
            self.bell.ring()  # it may be waiting for longer than that

    # --- the thread ------------------------------------------------------------------------------

    def finish(self, others: Sequence[SideWorker]) -> None:
        """Finish after the last delivery: what has come is handled to its end if it is to be saved,
        or if this is final."""
        for worker in others:
            worker.bell.close()
        for worker in others:  # which may have asked for something
            while worker.thread.is_alive():
                self.requests.apply()
                worker.thread.join(_MOMENT)
        self.ending = self.final or self._kept is not None
        if self.final:
            self._close_all()
        if self._kept is not None:
            self.go_on(everywhere=True)
            self._save()

    def _between(self) -> None:
        self.group.cycle.interrupted = False
        if self._apply():
            self.go_on()
        self._save_in_time()

    def _turn(self) -> AbstractContextManager[None]:
        return nullcontext()  # no other thread ever wants to be alone

    def _give_way(self) -> None:
        self._apply()

    def _apply(self) -> bool:
        if not self.requests.waiting:
            return False
        with self._gate.alone():
            done = self.requests.apply()
        self._wake_others()
        return done

    def _wake_others(self) -> None:
        """Wake the other workers, because the change may concern them."""
        for bell in self.inlets.bells[1:]:
            bell.ring()

    def _apply_changes(self, changes: list[Change]) -> None:
        with self._gate.alone():
            self.change(changes)
        self._wake_others()

    def change(self, changes: Sequence[Change]) -> None:
        """Change the graph while no other thread is at work on it."""
        try:
            for change in changes:
                change()
        finally:
            self._settled()

    def _due(self) -> int | None:
        times = (super()._due(), None if self._kept is None else self._kept.due)
        return min((each for each in times if each is not None), default=None)

    # --- saving ----------------------------------------------------------------------------------

    def _save_in_time(self) -> None:
        """Save if a caller has asked for it, or it is time."""
        if self._kept is None:
            return
        due = self._kept.due
        if self.saves.asked or (due is not None and due <= self.run.clock.now()):
            with self._gate.alone():
                self.go_on(everywhere=True)
                if not self.bell.closed:
                    self._save()

    def _save(self) -> None:
        assert self._kept is not None
        asked, queries = self.saves.take(), len(self.run.graph.queries)
        try:
            failures = self._kept.save(self.queries)
        except BaseException as error:
            self.saves.fail(asked, error)
            raise
        self.saves.tell(asked, failures)
        if len(self.run.graph.queries) < queries:  # a sink could not be written to
            self._settled()

    def save_now(self) -> None:
        """Save in the caller's thread, because no worker runs: not yet, or not any more."""
        assert self._kept is not None
        if self._kept.closed:
            stopped = EngineError("the engine has stopped, and saves nothing any more")
            self.saves.fail(self.saves.take(), stopped)
        else:
            self._save()

    # --- closing ---------------------------------------------------------------------------------

    def _close_all(self) -> None:
        """Close everything that is open, because nothing more is expected."""
        for delivery in self.inlets.rest():
            self.handle([delivery])
            self.go_on(everywhere=True)
        closed, run = self.run.closing(), self.run
        self._close({scan: closed[scan.name] for scan in run.scans if scan.name in closed})
        self._close(dict.fromkeys(run.left_open(), ENDED))
        self.queries.end(list(self.queries.ended))

    def _close(self, closing: Mapping[SourceNode, int | str]) -> None:
        run = self.run
        for scan, bound in closing.items():
            if scan in run.scans:  # its queries may have failed
                group = run.groups[run.graph.component_of(scan).group]
                self.guarded(group, lambda scan=scan, bound=bound: run.close_scan(scan, bound))  # type: ignore[misc]
                self.go_on(everywhere=True)
