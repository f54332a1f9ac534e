"""EMIT EARLY EVERY: when provisional answers are due, by the clock of the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from penstock.model.clock import Clock
from penstock.operators.operator import Item


@runtime_checkable
class AnswersEarly(Protocol):
    def early(self) -> Iterable[Item]:
        """Provisional rows for what has changed since this was last asked for, and negative items
        for those that they replace."""
        ...


class Timer:
    """Is due when `every` microseconds have passed since it last was."""

    def __init__(self, clock: Clock, every: int) -> None:
        self._clock = clock
        self._every = every
        self.due = clock.now() + every

    def is_due(self) -> bool:
        now = self._clock.now()
        if now < self.due:
            return False
        self.due = now + self._every
        return True
