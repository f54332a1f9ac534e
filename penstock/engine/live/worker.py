"""A thread at work on one group of a live graph: takes what sources deliver, and waits for more.

What its work leads to may change the graph: a query has ended or failed.  That concerns all groups,
so it is done when nobody else is at work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter_ns
from typing import TypeAlias

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.source_node import Ended, SourceNode
from penstock.engine.live.queries import LiveQueries
from penstock.engine.reading.inlets import Inlets, Quantum
from penstock.engine.run import LocalRun
from penstock.engine.scheduling.component import Component
from penstock.engine.scheduling.group import Group
from penstock.sources.bell import Bell

_SECOND = 1_000_000  # microseconds
Change: TypeAlias = Callable[[], None]


class Worker(ABC):
    """`noted` is told that something has come which is to be saved."""

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
        self.ending = False  # nothing more is read, and what is there is handled to its end

    # --- the thread ------------------------------------------------------------------------------

    def work(self) -> None:
        """Until the bell is closed."""
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
        """Before it looks for something to do."""

    @abstractmethod
    def _turn(self) -> AbstractContextManager[None]:
        """For as long as it is at work."""

    @abstractmethod
    def _give_way(self) -> None:
        """Somebody has interrupted it, who wants to change something."""

    @abstractmethod
    def _have_done(self, changes: list[Change]) -> None:
        """Have the graph changed."""

    # --- what there is to do ---------------------------------------------------------------------

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
        """Until nothing waits in the group; or `everywhere`, which takes somebody who is alone."""
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
        """Queries whose sources have ended, when what came before is in their results: in the parts
        that are this thread's by now, whoever has begun with them."""
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
        function of the program that wants to leave it: this is no thread of the program's."""
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
        """Have done what the work has led to."""
        if self._changes:
            changes, self._changes = self._changes, []
            self._have_done(changes)

    def _end(self, scan: SourceNode) -> None:
        """For queries that are lasting, the end is a fact of this engine, not of the stream."""
        if any(self.run.graph.queries[outlet].lasting for outlet in scan.outlets):
            scan.exhausted = True
        else:
            self.run.deliver(scan, Ended())

    # --- when nothing is delivered ---------------------------------------------------------------

    def _due(self) -> int | None:
        """When time alone has something to say, in microseconds."""
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
