"""Time of day, injected everywhere it is needed so that runs can be replayed and tested."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Microseconds since the Unix epoch, UTC."""
        ...


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1000


@dataclass
class ManualClock:
    """A clock that moves only when it is told to, plus `step` at every reading.

    >>> clock = ManualClock(at=100, step=1)
    >>> clock.now(), clock.now()
    (100, 101)
    """

    at: int = 0
    step: int = 0

    def now(self) -> int:
        reading = self.at
        self.at += self.step
        return reading

    def advance(self, microseconds: int) -> None:
        if microseconds < 0:
            raise ValueError("a clock does not go back")
        self.at += microseconds
