"""Calendar months, and what clocks show elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from penstock.errors import RunError, shortened
from penstock.model.calendar import civil, days_of, time_zone
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


def zone_of(name: str) -> ZoneInfo:
    found = time_zone(name)
    if found is None:
        raise RunError(
            f"there is no time zone called {shortened(repr(name))}", hint="'Europe/Berlin' or 'UTC'"
        )
    return found


_HOUR = 3_600_000_000
_NEAR = 26 * _HOUR  # clocks are not put back by more, and not put forward and back within it


def lowest_at_time_zone(value: int, zone: str) -> int:
    """What a clock there shows at the least from a moment on: it may be put back.

    >>> from penstock.model.calendar import format_timestamp
    >>> half_past_two = days_of(2026, 10, 25) * DAY + DAY // 48  # of summer time
    >>> format_timestamp(at_time_zone(half_past_two, "Europe/Berlin"))
    '2026-10-25T02:30:00.000000Z'
    >>> format_timestamp(lowest_at_time_zone(half_past_two, "Europe/Berlin"))
    '2026-10-25T02:00:00.000000Z'
    """
    shown = at_time_zone(value, zone)
    change = _change(value, value + _NEAR, zone)
    return shown if change is None else min(shown, at_time_zone(change, zone))


def highest_at_time_zone(value: int, zone: str) -> int:
    """What a clock there has shown at the most up to a moment."""
    shown = at_time_zone(value, zone)
    change = _change(value - _NEAR, value, zone)
    return shown if change is None else max(shown, at_time_zone(change - 1, zone))


def _change(begin: int, end: int, zone: str) -> int | None:
    """The first moment after one and up to another at which clocks show time in another way."""
    before = at_time_zone(begin, zone) - begin
    if at_time_zone(end, zone) - end == before:
        return None
    while end - begin > 1:
        middle = (begin + end) // 2
        if at_time_zone(middle, zone) - middle == before:
            begin = middle
        else:
            end = middle
    return end


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
