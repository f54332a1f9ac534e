"""Ticks: the integers that stand for the values of a progressing attribute, with the intervals
that a query can count in, and lengths in ticks.

Ticks are 64-bit integers, and a window reaches beyond its values. A row whose windows have no such
bounds is rejected where it enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from penstock.errors import PenstockError
from penstock.model.durations import DAY, format_date, format_duration, format_timestamp
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Kind, Type

_DAYS = 2**31 - 1  # a DATE is 32 bits of days


@dataclass(frozen=True, slots=True)
class Interval:
    """Ticks from `low` to `high`, both included; empty if `low` is above `high`.

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
    """Interval of the ticks that values of a type can have."""
    match sql_type.kind:
        case Kind.DATE:
            return Interval(-_DAYS - 1, _DAYS)
        case Kind.INT:
            return Interval(-(2**31), 2**31 - 1)
        case _:
            return TICKS


@dataclass(frozen=True, slots=True)
class Room:
    """Allowed ticks of a scan: of its tuples, and of the bounds in its punctuations."""

    tuples: Interval = TICKS
    reached: Interval = TICKS

    def meet(self, other: Room) -> Room:
        return Room(self.tuples.meet(other.tuples), self.reached.meet(other.reached))


EVERYWHERE = Room()


# Ticks: the integers that stand for the values of a progressing attribute.
#
# Windows and bounds are exact because they are computed on integers: microseconds of a TIMESTAMP,
# days of a DATE, units of an INT or BIGINT, units of the last place of a DECIMAL.  A DOUBLE has no
# such tick, so it cannot progress (the thesis asks for a discrete domain, too).

_KINDS = (Kind.TIMESTAMP, Kind.DATE, Kind.INT, Kind.BIGINT, Kind.DECIMAL)


class Domain:
    """The ticks of one type.

    >>> from penstock.model.types import decimal_type
    >>> Domain(decimal_type(9, 3)).tick(Decimal("1.5"))
    1500
    """

    def __init__(self, sql_type: Type) -> None:
        if sql_type.kind not in _KINDS:
            raise PenstockError(
                f"{sql_type.a} column cannot progress",
                expected="TIMESTAMP, DATE, INT, BIGINT or DECIMAL",
                hint="DECIMAL(18,6)" if sql_type.kind is Kind.DOUBLE else None,
            )
        self.type = sql_type

    @staticmethod
    def has(sql_type: Type) -> bool:
        """Whether values of the type have ticks."""
        return sql_type.kind in _KINDS

    @property
    def is_time(self) -> bool:
        return self.type.kind in (Kind.TIMESTAMP, Kind.DATE)

    def tick(self, value: Any) -> int:
        if self.type.kind is Kind.DECIMAL:
            return int(EXACT.scaleb(value, self.type.scale))
        return int(value)

    def value(self, tick: int) -> Any:
        if self.type.kind is Kind.DECIMAL:
            return EXACT.scaleb(Decimal(tick), -self.type.scale)
        return tick

    def length_of_time(self, microseconds: int) -> int:
        """Convert a length of time to ticks."""
        if self.type.kind is Kind.TIMESTAMP:
            return self._fitting(microseconds, format_duration(microseconds))
        if self.type.kind is Kind.DATE:
            if microseconds % DAY:
                raise PenstockError(
                    f"{format_duration(microseconds)} is not a whole number of days",
                    expected="whole days, because the column is a DATE",
                )
            return self._fitting(microseconds // DAY, format_duration(microseconds))
        raise PenstockError(
            f"{format_duration(microseconds)} is a length of time, the column is {self.type.a}",
            expected="a plain number",
        )

    def length_of_number(self, amount: Decimal) -> int:
        """Convert a plain number to ticks."""
        if self.is_time:
            raise PenstockError(
                f"{amount} has no unit, but the column is {self.type.a}",
                expected="a number and a unit of time",
                hint=f"{amount} SECONDS" if self.type.kind is Kind.TIMESTAMP else f"{amount} DAYS",
            )
        ticks = EXACT.scaleb(amount, self.type.scale)
        if ticks != ticks.to_integral_value():
            raise PenstockError(f"{amount} is finer than the column's type {self.type}")
        return self._fitting(int(ticks), str(amount))

    def _fitting(self, ticks: int, shown: str) -> int:
        """Check that a length is within the range of the type, because it is added to values."""
        most = ticks_of(self.type).high
        if abs(ticks) > most:
            raise PenstockError(
                f"{shown} is longer than {self.type.a} can be far from 0",
                expected=f"at most {self.format_length(most)}",
            )
        return ticks

    def format_length(self, ticks: int) -> str:
        if self.type.kind is Kind.TIMESTAMP:
            return format_duration(ticks)
        if self.type.kind is Kind.DATE:
            return format_duration(ticks * DAY)
        return str(self.value(ticks))

    def format(self, tick: int) -> str:
        if self.type.kind is Kind.TIMESTAMP:
            return format_timestamp(tick)
        if self.type.kind is Kind.DATE:
            return format_date(tick)
        return str(self.value(tick))


# Lengths, before it is known on which column they are measured.


@dataclass(frozen=True, slots=True)
class Length:
    """Microseconds of time, or a plain number.

    >>> from penstock.model.types import DATE
    >>> Length(microseconds=172_800_000_000).ticks(Domain(DATE))
    2
    """

    microseconds: int | None = None
    number: Decimal = Decimal(0)  # where it is not a length of time

    def ticks(self, domain: Domain) -> int:
        if self.microseconds is not None:
            return domain.length_of_time(self.microseconds)
        return domain.length_of_number(self.number)

    def __str__(self) -> str:
        if self.microseconds is not None:
            return format_duration(self.microseconds)
        return str(self.number)
