"""Calendar months, and what clocks show elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from penstock.errors import RunError, shortened
from penstock.model.calendar import civil, days_of
from penstock.model.duration import DAY

_ERA = 146_097 * DAY  # 400 years, after which the calendar is the same
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_000_000_000_000_000, 250_000_000_000_000_000  # of the years 5 to 9892


def add_months(days: int, months: int) -> int:
    """The same day of another month, or its last if it has none so late.

    >>> civil(add_months(days_of(2026, 1, 31), 1))
    (2026, 2, 28)
    """
    year, month, day = civil(days)
    year, month = divmod(year * 12 + month - 1 + months, 12)
    first = days_of(year, month + 1, 1)
    end = days_of(year + (month + 1) // 12, (month + 1) % 12 + 1, 1)
    return first + min(day, end - first) - 1


def add_months_to_time(value: int, months: int) -> int:
    days, within = divmod(value, DAY)
    return add_months(days, months) * DAY + within


@lru_cache(64)
def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: there is none of the name
        raise RunError(
            f"there is no time zone called {shortened(repr(name))}", hint="'Europe/Berlin' or 'UTC'"
        ) from None


def at_time_zone(value: int, zone: str) -> int:
    """What a clock there shows at a moment, taken for a moment."""
    known, near = zone_of(zone), value
    if near > _LAST:
        near -= ((near - _LAST) // _ERA + 1) * _ERA
    near = max(near, _FIRST)
    moment = _EPOCH + timedelta(microseconds=near)
    offset = moment.astimezone(known).utcoffset()
    assert offset is not None
    return value + offset // timedelta(microseconds=1)
