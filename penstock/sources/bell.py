"""What somebody waits for who has nothing to do: whoever has something for him rings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

_GLANCE = 0.25  # seconds


def glances(seconds: float | None) -> Iterator[float | None]:
    """How long to wait at a time, for somebody who waits so many seconds altogether.

    Python handles signals in the main thread, between two of its own instructions: one that comes
    just before a wait begins is not noticed before it is over.  So the main thread looks up now and
    then; all others wait in one go."""
    if threading.current_thread() is not threading.main_thread():
        yield seconds
        return
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        left = _GLANCE if until is None else min(_GLANCE, until - time.monotonic())
        yield max(0.0, left)
        if until is not None and time.monotonic() >= until:
            return


class Bell:
    """Ringing takes no lock, so signal handlers may do it, too, whatever they have interrupted."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()
        self._rung = False
        self._told: list[Callable[[], None]] = []  # when it is closed
        self.closed = False

    def ring(self) -> None:
        if not self._rung:  # somebody who has been rung for looks at everything
            self._rung = True
            self._rings.put(None)

    def wait(self, seconds: float | None) -> bool:
        """Until it rings; whether it has, within so many seconds.  One thread waits."""
        for left in glances(seconds):
            if self.closed:
                break
            try:
                self._rings.get(timeout=left)
            except Empty:
                continue
            self._rung = False
            return True
        return self.closed

    def close(self) -> None:
        """Nobody waits any more, now or later."""
        self.closed = True
        self.ring()
        for tell in list(self._told):
            tell()

    @contextmanager
    def closing(self, tell: Callable[[], None]) -> Iterator[None]:
        """Somebody who is told when it is closed, or that it has been."""
        self._told.append(tell)
        if self.closed:
            tell()
        try:
            yield
        finally:
            self._told.remove(tell)

    def pause(self, seconds: float) -> bool:
        """Wait for so long, in any thread, whoever rings; whether the bell has been closed."""
        own = Bell()
        with self.closing(own.close):
            own.wait(seconds)
        return self.closed
