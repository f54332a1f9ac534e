"""What a source that is read in a thread of its own has delivered, until the scheduler takes it."""

from __future__ import annotations

import threading
from collections import deque

from penstock.engine.graph.source_node import Delivered, Ended
from penstock.sources.bell import Bell

AHEAD = 16  # chunks that may wait: a slow run slows its sources down


class Inbox:
    """Whoever puts something in rings the bell.  He waits while too much is there; or else, if at
    most `keeping` rows may wait, the oldest ones are dropped, and counted."""

    def __init__(self, bell: Bell, keeping: int | None = None) -> None:
        self.bell = bell  # of whoever takes what is put in
        self._keeping = keeping
        self._waiting: deque[Delivered] = deque()
        self._rows = 0  # that wait; counted only where some may be dropped
        self._changing = threading.Condition()
        self._closed = False
        self.dropped = 0  # rows

    def put(self, delivered: Delivered) -> bool:
        """Whether anybody wants it."""
        if self._keeping is not None:
            self._put_for_others(delivered, self._keeping)
        else:
            if len(self._waiting) >= AHEAD:
                with self._changing:
                    self._changing.wait_for(lambda: self._closed or len(self._waiting) < AHEAD)
            if not self._closed:
                self._waiting.append(delivered)
        if not self._closed:
            self.bell.ring()
        return not self._closed

    def _put_for_others(self, delivered: Delivered, keeping: int) -> None:
        """Make room for rows; what comes last always has some, and the end needs none."""
        with self._changing:
            coming = _rows_of(delivered)
            self._rows += coming
            while coming and self._rows > keeping and self._waiting:
                dropped = _rows_of(self._waiting.popleft())
                self._rows -= dropped
                self.dropped += dropped
            self._waiting.append(delivered)

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> Delivered | None:
        """The oldest; None if it has been dropped meanwhile."""
        if self._keeping is not None:
            with self._changing:
                taken = self._waiting.popleft() if self._waiting else None
                self._rows -= _rows_of(taken)
                return taken
        full = len(self._waiting) >= AHEAD
        delivered = self._waiting.popleft()
        if full:
            with self._changing:
                self._changing.notify()
        return delivered

    def close(self) -> None:
        """Nobody takes anything any more."""
        with self._changing:
            self._closed = True
            self._changing.notify_all()


def _rows_of(delivered: Delivered | None) -> int:
    return 0 if delivered is None or isinstance(delivered, Ended) else delivered.num_rows
