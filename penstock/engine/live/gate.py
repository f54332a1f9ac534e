"""Who may be at work on the graph: any number of threads, each on its own group, or one alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Gate:
    """Whoever wants to be alone has the others interrupted, and waits until they have left.  Only
    one thread ever wants that."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._turning = threading.Condition()
        self._inside: set[int] = set()  # threads
        self._wanted = False  # by the one who is alone, or will be

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
        """For a while, by somebody who is inside."""
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
        """Whether this thread is at work."""
        return threading.get_ident() in self._inside
