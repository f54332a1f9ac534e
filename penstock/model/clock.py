"""Time of day, injected everywhere it is needed so that runs can be replayed and tested."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Source of the time of day."""

    def now(self) -> int:
        """Microseconds since the Unix epoch, UTC."""
        ...


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> int:
        return time.time_ns() // 1000


class SteadyClock:
    """A clock that never goes back, whatever becomes of the one it reads: that may be set.

    >>> readings = ManualClock(at=100)
    >>> clock = SteadyClock(readings)
    >>> before, readings.at = clock.now(), 40
    >>> before, clock.now(), clock.last
    (100, 100, 100)
    """

    def __init__(self, clock: Clock, last: int | None = None) -> None:
        self._clock = clock
        self.last = last  # last reading, None: nothing read yet

    def now(self) -> int:
        self.go_on_from(self._clock.now())
        assert self.last is not None
        return self.last

    def go_on_from(self, last: int | None) -> None:
        """Never return less than `last` from now on."""
        if last is not None and (self.last is None or last > self.last):
            self.last = last


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
