"""Functions on times for whole columns: the calendar by table, fields and whole units, calendar
months, and time zones.

The calendar repeats every 400 years, which are 146,097 days and also whole weeks. So one small
table for each field serves every day, before 1970 and beyond the year 9999 alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.columns import (
    Builder,
    Kernel,
    always,
    arrow,
    by_rows,
    column_of,
    holds_somewhere,
    ints_of,
    narrowed,
    same,
    too_large,
    values_of,
)
from penstock.functions.times import zone_of
from penstock.model.arrays import Ints
from penstock.model.durations import DAY, MICROSECONDS, days_of
from penstock.model.types import BIGINT, DATE, TIMESTAMP, Kind, Type
from penstock.plan.expressions import Call, Literal

_ERA = 146_097
_YEARS = 400


def _look_up(field: str, days: Ints) -> Ints:
    found: Ints = _table(field)[days - days // _ERA * _ERA].astype(np.int64)
    return found


def _year(days: Ints) -> Ints:
    return _look_up("year", days) + days // _ERA * _YEARS


def _day_of_week(days: Ints) -> Ints:
    return (days + 3) % 7 + 1  # 1970-01-01 was a Thursday


def start_of(unit: str, days: Ints) -> Ints:
    """First day of the week (a Monday), month, quarter or year of a day.

    >>> start_of("month", np.array([-1, 0, 31]))
    array([-31,   0,  31])
    """
    past = _day_of_week(days) if unit == "week" else _look_up(f"day of {unit}", days)
    return days - past + 1


@cache
def _table(field: str) -> npt.NDArray[np.int16]:
    """Table of a field for the first 146,097 days from 1970 on."""
    return _FIELDS[field](np.arange(_ERA)).astype(np.int16)


def _first_of(unit: str, days: Ints) -> Ints:
    """First day of the month (M) or year (Y) of a day."""
    return days.astype("M8[D]").astype(f"M8[{unit}]").astype("M8[D]").astype(np.int64)


def _month(days: Ints) -> Ints:
    """Whole months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _first_of_quarter(days: Ints) -> Ints:
    return (_month(days) // 3 * 3).astype("M8[M]").astype("M8[D]").astype(np.int64)


def _iso_week(days: Ints) -> Ints:
    """ISO number of the week: weeks begin on Monday, and the first one has the year's first
    Thursday.
    """
    thursdays = days - _day_of_week(days) + 4
    return (thursdays - _first_of("Y", thursdays)) // 7 + 1


_FIELDS: dict[str, Callable[[Ints], Ints]] = {
    "year": lambda days: _month(days) // 12 + 1970,
    "quarter": lambda days: _month(days) % 12 // 3 + 1,
    "month": lambda days: _month(days) % 12 + 1,
    "week": _iso_week,
    "day of month": lambda days: days - _first_of("M", days) + 1,
    "day of quarter": lambda days: days - _first_of_quarter(days) + 1,
    "day of year": lambda days: days - _first_of("Y", days) + 1,
}
# The fields of days counted from 1970.
OF_DAYS: dict[str, Callable[[Ints], Ints]] = {
    "year": _year,
    "quarter": partial(_look_up, "quarter"),
    "month": partial(_look_up, "month"),
    "week": partial(_look_up, "week"),
    "day": partial(_look_up, "day of month"),
    "dayofyear": partial(_look_up, "day of year"),
    "isodow": _day_of_week,
}


# Functions on times, which are whole numbers here: microseconds, or days, since 1970.

_MULTIPLY = arrow("multiply_checked")
OF_MICROSECONDS: dict[str, Callable[[Ints], Ints]] = {
    "hour": lambda times: times // MICROSECONDS["HOUR"] % 24,
    "minute": lambda times: times // MICROSECONDS["MINUTE"] % 60,
    "second": lambda times: times // MICROSECONDS["SECOND"] % 60,
    "millisecond": lambda times: times // 1_000 % 1_000,
    "microsecond": lambda times: times % 1_000_000,
    "epoch": lambda times: times // MICROSECONDS["SECOND"],
    "epoch_ms": lambda times: times // 1_000,
}
_OF_MIDNIGHTS: dict[str, Callable[[Ints], Ints]] = {
    **dict.fromkeys(
        ("hour", "minute", "second", "millisecond", "microsecond"), lambda days: days * 0
    ),
    "epoch": lambda days: days * 86_400,
}


# --- fields --------------------------------------------------------------------------------------


def _field(name: str) -> Builder:
    return lambda call, _: _extract(name, call.arguments[-1].type)


def _date_part(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    name = literals[0]
    kernel = _extract(str(name.value).lower(), call.arguments[1].type) if name else None
    return kernel and (lambda _, times: kernel(times))


def _extract(name: str, given: Type) -> Kernel | None:
    if given.kind is Kind.DATE:
        compute = OF_DAYS.get(name) or _OF_MIDNIGHTS.get(name)
    elif name in OF_DAYS:
        compute = _of_their_days(OF_DAYS[name])
    else:
        compute = OF_MICROSECONDS.get(name)
    return compute and _computed(compute, given, BIGINT)


def _of_their_days(of_days: Callable[[Ints], Ints]) -> Callable[[Ints], Ints]:
    return lambda times: of_days(times // DAY)


def _computed(compute: Callable[[Ints], Ints], given: Type, result: Type) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        return column_of(compute(ints_of(column, given)), result, column)

    return kernel


# --- date_trunc ----------------------------------------------------------------------------------


def _date_trunc(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    unit = str(literals[0].value).upper() if literals[0] else ""
    given = call.arguments[1].type
    if unit in MICROSECONDS and unit != "WEEK":
        kernel = (
            same if given.kind is Kind.DATE else _truncated(_to_multiple_of(MICROSECONDS[unit]))
        )
    elif unit not in ("WEEK", "MONTH", "QUARTER", "YEAR"):
        return None
    elif given.kind is Kind.DATE:
        kernel = _truncated_days(unit.lower())
    else:
        kernel = _truncated(lambda times: start_of(unit.lower(), times // DAY) * DAY)
    return lambda _, times: kernel(times)


def _to_multiple_of(length: int) -> Callable[[Ints], Ints]:
    return lambda times: times // length * length


def _truncated(truncate: Callable[[Ints], Ints]) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        times: Ints = values_of(column, TIMESTAMP)
        starts = truncate(times)
        if holds_somewhere(starts > times, column):  # wrapped around, below the first of all times
            raise too_large(TIMESTAMP)
        return column_of(starts, TIMESTAMP, column)

    return kernel


def _bucket(sql_type: Type) -> Builder:
    """Round down to a multiple of a width, counted from an origin; row by row unless both are
    constants.
    """

    def build(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
        width, origin = literals[0], literals[2].value if len(literals) > 2 and literals[2] else 0
        if width is None or width.value <= 0 or (len(literals) > 2 and literals[2] is None):
            return None
        phase = origin % width.value

        def kernel(_: pa.Scalar, column: pa.Array, *__: pa.Scalar) -> pa.Array:
            values: Ints = values_of(column, sql_type)
            starts = values - (values % width.value - phase) % width.value
            if holds_somewhere(starts > values, column):
                raise too_large(sql_type)
            return column_of(starts, sql_type, column)

        return kernel

    return build


def _truncated_days(unit: str) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        return narrowed(start_of(unit, ints_of(column, DATE)), DATE, column)

    return kernel


# --- between times and numbers -------------------------------------------------------------------


def _from_number(unit: int) -> Builder:
    factor = pa.scalar(unit)
    return always(lambda column: _MULTIPLY(column, factor).view(TIMESTAMP.arrow))


def _date(call: Call, _: Sequence[Literal | None]) -> Kernel:
    given = call.arguments[0].type
    return same if given.kind is Kind.DATE else _computed(lambda times: times // DAY, given, DATE)


TIMES: dict[str, Builder] = {
    **{name: _field(name) for name in (*OF_DAYS, "hour", "minute", "second", "epoch", "epoch_ms")},
    "date_part": _date_part,
    "date_trunc": _date_trunc,
    "promised_as": always(lambda value, _: value),
    "time_bucket": _bucket(TIMESTAMP),
    "number_bucket": _bucket(BIGINT),
    "epoch_us": always(lambda column: column.view(BIGINT.arrow)),
    "timestamp_seconds": _from_number(1_000_000),
    "timestamp_millis": _from_number(1_000),
    "timestamp_micros": always(lambda column: column.view(TIMESTAMP.arrow)),
    "date": _date,
}


# Calendar months and time zones of whole columns.

_FAR = 12 * 1_000_000  # months
_LAST_DAY = 106_000_000  # whose microseconds an int64 holds, with room for a month
_FROM, _TO = days_of(1902, 1, 1) * DAY, days_of(2037, 1, 1) * DAY  # where all tables agree


def _add_months(call: Call, _: Sequence[Literal | None]) -> Kernel:
    is_date, rows = call.type.kind is Kind.DATE, by_rows(call)

    def kernel(times: pa.Array | pa.Scalar, months: pa.Array | pa.Scalar) -> pa.Array:
        values, by = ints_of(times, call.type), ints_of(months, BIGINT)
        days = values if is_date else values // DAY
        far = (np.abs(days) > _LAST_DAY * (1 + 20 * is_date)) | (np.abs(by) > _FAR)
        if holds_somewhere(np.atleast_1d(far), times, months):
            return rows(times, months)
        moved = _moved(np.where(far, 0, days), np.where(np.abs(by) > _FAR, 0, by))
        if is_date:
            return narrowed(moved, DATE, times, months)
        if holds_somewhere(np.atleast_1d(np.abs(moved) > _LAST_DAY), times, months):
            return rows(times, months)
        return column_of(np.where(far, 0, moved * DAY + values % DAY), TIMESTAMP, times, months)

    return kernel


def _moved(days: Ints, months: Ints) -> Ints:
    own = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    into = days - _first(own)
    first, end = _first(own + months), _first(own + months + 1)
    moved: Ints = first + np.minimum(into, end - first - 1)
    return moved


def _first(months: Ints) -> Ints:
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _at_time_zone(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    zone = literals[1]
    if literals[0] is not None or zone is None:
        return None
    try:
        zone_of(zone.value)
    except RunError:
        return None  # which the first row says
    there, rows = pa.timestamp("us", zone.value), by_rows(call)

    def kernel(times: pa.Array, _: pa.Scalar) -> pa.Array:
        values = values_of(times, TIMESTAMP)
        if holds_somewhere((values < _FROM) | (values >= _TO), times):
            return rows(times)
        shown = pc.local_timestamp(times.cast(there))
        return shown.view(pa.int64()).view(TIMESTAMP.arrow)

    return kernel


def _row_by_row(call: Call, _: Sequence[Literal | None]) -> Kernel:
    return by_rows(call)


MONTHS: dict[str, Builder] = {
    "add_months": _add_months,
    "at_time_zone": _at_time_zone,
    "lowest_at_time_zone": _row_by_row,  # for bounds, of which there are few
    "highest_at_time_zone": _row_by_row,
}
