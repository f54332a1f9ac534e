"""Enabling timestamps: what a live source that has nothing to say can promise all the same.

INTERNAL stamps come from the clock, so none below it will follow.  A stream with SKEW promises that
its tuples are at most so much behind the clock: after a tuple at t and a silence of τ, none below
t + τ − δ.  Nothing else is known of a silent source.
"""

from __future__ import annotations

from penstock.model.clock import Clock
from penstock.model.progress import ProgressPolicy, TimestampKind
from penstock.model.punctuation import BEGINNING, Bound


class EnablingTimestamps:
    def __init__(self, policy: ProgressPolicy, clock: Clock) -> None:
        self._clock = clock
        self._skew = policy.skew
        self._last: int | None = None  # when somebody spoke

    @staticmethod
    def of(policy: ProgressPolicy, clock: Clock) -> EnablingTimestamps | None:
        """None if nothing can be promised."""
        internal = policy.timestamps is TimestampKind.INTERNAL
        return EnablingTimestamps(policy, clock) if internal or policy.skew is not None else None

    def heard(self) -> None:
        if self._skew is not None:
            self._last = self._clock.now()

    def value(self, high: Bound) -> Bound:
        """What can be promised now, if the source has come as far as `high`."""
        if self._skew is None:
            return self._clock.now()
        if self._last is None or high == BEGINNING:
            return BEGINNING
        return int(high) + self._clock.now() - self._last - self._skew
