"""EMIT EARLY EVERY: when provisional answers are due, by the clock of the run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from penstock.model.clock import Clock
from penstock.operators.operator import Base, Item, at_once
from penstock.physical.asked import Asked


class EarlyTimer:
    """Is due when `every` microseconds have passed since it last was; None: never.

    >>> from penstock.model.clock import ManualClock
    >>> timer = EarlyTimer(ManualClock(100), 10)
    >>> [timer.passes(now) for now in (109, 110, 115, 130)], timer.due
    ([False, True, False, True], 140)
    """

    def __init__(self, clock: Clock, every: int | None) -> None:
        self._every = every
        self.due = None if every is None else clock.now() + every

    def passes(self, now: int) -> bool:
        """Whether answers are due at a time; if so, the next ones will be later."""
        if self.due is None or self._every is None or now < self.due:
            return False
        self.due = now + self._every
        return True


class EarlyAnswers(Base):
    """An operator that gives provisional answers when they are due."""

    def __init__(self, clock: Clock, asked: Asked) -> None:
        self._timer = EarlyTimer(clock, asked.early_every)

    @abstractmethod
    def early(self) -> Iterator[Item]:
        """Provisional results of what has changed since this was last asked for."""

    def due(self) -> int | None:
        return self._timer.due

    @at_once
    def on_time(self, now: int) -> Iterator[Item]:
        if self._timer.passes(now):
            yield from self.early()
