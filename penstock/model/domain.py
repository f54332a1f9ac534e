"""Ticks: the integers that stand for the values of a progressing attribute.

Windows and bounds are exact because they are computed on integers: microseconds of a TIMESTAMP,
days of a DATE, units of an INT or BIGINT, units of the last place of a DECIMAL.  A DOUBLE has no
such tick, so it cannot progress (the thesis asks for a discrete domain, too).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from penstock.errors import PenstockError
from penstock.model.calendar import format_date, format_timestamp
from penstock.model.duration import DAY, format_duration
from penstock.model.room import ticks_of
from penstock.model.types import EXACT, Kind, Type

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
        """The ticks of a length of time."""
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
        """The ticks of a plain number."""
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
        """A length that is added to values, so it has to be one of them."""
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
