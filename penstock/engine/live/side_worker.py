"""A thread for a further group: it works as long as nobody is alone with the graph."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from penstock.engine.live.gate import Gate
from penstock.engine.live.queries import LiveQueries
from penstock.engine.live.worker import Change, Worker
from penstock.engine.reading.inlets import Inlets
from penstock.engine.run import LocalRun
from penstock.engine.scheduling.group import Group
from penstock.sources.bell import Bell


class SideWorker(Worker):
    """`ask` has changes made by the first thread; `failed` is told what the engine itself has done
    wrong."""

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

    def _have_done(self, changes: list[Change]) -> None:
        with self._gate.outside():
            self._ask(changes)
