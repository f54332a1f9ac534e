"""Those who wait until a live engine has saved what has happened so far."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeAlias

Waiting: TypeAlias = list[Future[None]]


class Saves:
    """Somebody asks, from any thread; whoever saves takes all that have asked before."""

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
        """It is saved; the first who asks is told what went wrong with the sinks of queries that
        have been dropped."""
        self._untold += failures
        for future in waiting:
            if self._untold:
                future.set_exception(self._untold.pop(0))
            else:
                future.set_result(None)

    def fail(self, waiting: Waiting, error: BaseException) -> None:
        for future in waiting:
            future.set_exception(error)
