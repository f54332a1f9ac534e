"""The thread of the first group, which also does what concerns all of them: what others ask for is
done between two of its steps, and everything is saved when nothing waits anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from penstock.engine.graph.source_node import SourceNode
from penstock.engine.live.checkpoint import LiveCheckpoint
from penstock.engine.live.gate import Gate
from penstock.engine.live.queries import LiveQueries
from penstock.engine.live.requests import Requests
from penstock.engine.live.saves import Saves
from penstock.engine.live.side_worker import SideWorker
from penstock.engine.live.worker import Change, Worker
from penstock.engine.reading.inlets import Inlets
from penstock.engine.run import ENDED, LocalRun
from penstock.errors import EngineError
from penstock.sources.bell import Bell

_MOMENT = 0.01  # seconds


class FirstWorker(Worker):
    """`settled` is told whenever a query has come, gone or stopped."""

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
        """Something has come that is to be saved; from any worker."""
        if self._kept is not None and self._kept.change():
            self.bell.ring()  # it may be waiting for longer than that

    # --- the thread ------------------------------------------------------------------------------

    def finish(self, others: Sequence[SideWorker]) -> None:
        """Nothing more is read: what has come is handled to its end if it is to be saved, or if
        this is final."""
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
        return nullcontext()  # nobody else ever wants to be alone

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
        """What has changed may concern them."""
        for bell in self.inlets.bells[1:]:
            bell.ring()

    def _have_done(self, changes: list[Change]) -> None:
        with self._gate.alone():
            self.change(changes)
        self._wake_others()

    def change(self, changes: Sequence[Change]) -> None:
        """Change the graph, when nobody is at work on it."""
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
        """If somebody has asked for it, or it is time."""
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
        """By whoever has asked for it, because nobody is at work: not yet, or not any more."""
        assert self._kept is not None
        if self._kept.closed:
            stopped = EngineError("the engine has stopped, and saves nothing any more")
            self.saves.fail(self.saves.take(), stopped)
        else:
            self._save()

    # --- closing ---------------------------------------------------------------------------------

    def _close_all(self) -> None:
        """What is open is complete: nothing more is expected."""
        for delivery in self.inlets.rest():
            self.handle([delivery])
            self.go_on(everywhere=True)
        closed, run = self.run.closing(), self.run
        self._close({scan: closed[scan.name] for scan in run.scans if scan.name in closed})
        self._close(dict.fromkeys(run.left_open(), ENDED))
        self.queries.end(list(self.queries.ended))

    def _close(self, closing: Mapping[SourceNode, int | str]) -> None:
        run = self.run
        for scan, told in closing.items():
            if scan in run.scans:  # its queries may have failed
                group = run.groups[run.graph.component_of(scan).group]
                self.guarded(group, lambda scan=scan, told=told: run.close_scan(scan, told))  # type: ignore[misc]
                self.go_on(everywhere=True)
