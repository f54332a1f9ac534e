"""The calendar by table.

It repeats every 400 years, which are 146,097 days and also whole weeks.  So one small table for
each field answers for every day there is, before 1970 and beyond the year 9999 alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from penstock.model.arrays import Ints

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
    """The first day of the week (a Monday), month, quarter or year that a day lies in.

    >>> start_of("month", np.array([-1, 0, 31]))
    array([-31,   0,  31])
    """
    past = _day_of_week(days) if unit == "week" else _look_up(f"day of {unit}", days)
    return days - past + 1


@cache
def _table(field: str) -> npt.NDArray[np.int16]:
    """The field of the first 146,097 days from 1970 on."""
    return _FIELDS[field](np.arange(_ERA)).astype(np.int16)


def _first_of(unit: str, days: Ints) -> Ints:
    """The first day of the month (M) or year (Y) that a day lies in."""
    return days.astype("M8[D]").astype(f"M8[{unit}]").astype("M8[D]").astype(np.int64)


def _month(days: Ints) -> Ints:
    """Whole months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _first_of_quarter(days: Ints) -> Ints:
    return (_month(days) // 3 * 3).astype("M8[M]").astype("M8[D]").astype(np.int64)


def _iso_week(days: Ints) -> Ints:
    """Weeks begin on Monday; the first one has the year's first Thursday."""
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
