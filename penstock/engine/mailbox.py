"""What sources that are read in threads have delivered, until somebody feeds it to the run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.engine.shared_scan import SharedScan
from penstock.sources.source import Chunk

AHEAD = 16  # chunks of a source that may wait: a slow run slows its sources down


@dataclass(frozen=True, slots=True)
class Ended:
    """The last that a source delivers."""

    failure: BaseException | None = None


Delivery: TypeAlias = tuple[SharedScan, Chunk | Ended]


class Mailbox:
    """Deliveries leave in the order in which they came, those first that `may_be_fed`; whoever puts
    one in waits while too many of the same source are there."""

    def __init__(self, may_be_fed: Callable[[SharedScan], bool]) -> None:
        self._may_be_fed = may_be_fed
        self._waiting: deque[Delivery] = deque()
        self._counts: dict[SharedScan, int] = {}
        self._changed = threading.Condition()
        self._closed = False

    def put(self, scan: SharedScan, what: Chunk | Ended) -> bool:
        """Whether anybody wants it."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._counts.get(scan, 0) < AHEAD)
            if self._closed:
                return False
            self._waiting.append((scan, what))
            self._counts[scan] = self._counts.get(scan, 0) + 1
            self._changed.notify_all()
            return True

    def take(self, seconds: float) -> Delivery | None:
        """The next delivery; None if none may be fed for so long."""
        with self._changed:
            place = self._next()
            if place is None:
                self._changed.wait(seconds)
                place = self._next()
            if place is None:
                return None
            delivery = self._waiting[place]
            del self._waiting[place]
            self._counts[delivery[0]] -= 1
            self._changed.notify_all()
            return delivery

    def close(self) -> None:
        """Nobody takes anything any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self) -> int | None:
        held = {}
        for place, (scan, _) in enumerate(self._waiting):
            if scan not in held:
                held[scan] = not self._may_be_fed(scan)
            if not held[scan]:
                return place
        return None
