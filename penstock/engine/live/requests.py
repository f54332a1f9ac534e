"""What other threads ask of the one that works on the graph: done between two of its steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from penstock.errors import EngineError
from penstock.sinks.subscribers import works_for
from penstock.sources.bell import Bell

T = TypeVar("T")


class Requests:
    """As long as no thread is at work, whoever asks does it himself."""

    def __init__(self, bell: Bell, interrupt: Callable[[], None]) -> None:
        self._workers: list[threading.Thread] = []
        self._bell = bell
        self._interrupt = interrupt
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._turn = threading.RLock()
        self._closed = False

    def begin(self, workers: list[threading.Thread]) -> None:
        """Threads that work on the graph from now on; the first one does what is asked for."""
        self._workers = workers

    def ask(self, change: Callable[[], T]) -> T:
        """Have something done, and wait for it."""
        self.refuse_at_work()
        return self.ask_between(change)

    def refuse_at_work(self) -> None:
        """A thread that works on the graph would wait for itself; so would that of a subscriber,
        because who stops the engine waits until it has got everything."""
        at_work = not self._closed and threading.current_thread() in self._workers
        if at_work or works_for(self):
            raise EngineError(
                "a function that is handed rows cannot change the engine: it is at work",
                hint="another thread, or an event loop",
            )

    def ask_between(self, change: Callable[[], T]) -> T:
        """The same for a thread that works on the graph, and is between two of its steps."""
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
        """Do what was asked for; whether there was anything."""
        done = False
        while True:
            try:
                change, answer = self._asked.get_nowait()
            except Empty:
                return done
            done = True
            try:
                answer.set_result(change())
            except BaseException as error:  # raised where somebody waits
                answer.set_exception(error)

    def close(self) -> None:
        """The thread has left: whoever asks does it himself again."""
        with self._turn:
            self._closed = True
        self.apply()
