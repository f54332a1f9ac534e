"""How far the values of a progressing attribute may lie apart for a query to be able to count.

Ticks are 64-bit integers, and a window reaches beyond the values that are in it.  A row whose
windows have no such bounds cannot take part; it is set aside where it enters.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.types import INT64_MAX, INT64_MIN, Kind, Type

_DAYS = 2**31 - 1  # a DATE is 32 bits of days


@dataclass(frozen=True, slots=True)
class Interval:
    """Ticks from `low` to `high`, both included; none at all if they are the wrong way round.

    >>> Interval(0, 10).meet(Interval(5, 20))
    Interval(low=5, high=10)
    """

    low: int
    high: int

    def meet(self, other: Interval) -> Interval:
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def holds(self, tick: int) -> bool:
        return self.low <= tick <= self.high


TICKS = Interval(INT64_MIN, INT64_MAX)


def ticks_of(sql_type: Type) -> Interval:
    """The ticks that values of a type can have here."""
    match sql_type.kind:
        case Kind.DATE:
            return Interval(-_DAYS - 1, _DAYS)
        case Kind.INT:
            return Interval(-(2**31), 2**31 - 1)
        case _:
            return TICKS


@dataclass(frozen=True, slots=True)
class Room:
    """For the tuples of a scan, and for what its punctuations say that it has passed."""

    tuples: Interval = TICKS
    reached: Interval = TICKS

    def meet(self, other: Room) -> Room:
        return Room(self.tuples.meet(other.tuples), self.reached.meet(other.reached))


EVERYWHERE = Room()
