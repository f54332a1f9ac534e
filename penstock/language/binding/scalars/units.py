"""The units of date_trunc and date_part, by all their names."""

from __future__ import annotations

from penstock.errors import BindError, nearest
from penstock.model.types import STRING
from penstock.plan.expressions import Expression, Literal

_TRUNC_UNITS = [
    *("microsecond", "millisecond", "second", "minute", "hour"),
    *("day", "week", "month", "quarter", "year"),
]
_PART_UNITS = [*_TRUNC_UNITS, "isodow", "dayofyear", "epoch"]
_OTHER_NAMES = {
    **{f"{unit}s": unit for unit in _TRUNC_UNITS[2:]},
    "sec": "second",
    "min": "minute",
    "mins": "minute",
    "hr": "hour",
    "mon": "month",
    "mm": "month",
    "mons": "month",
    "qtr": "quarter",
    "yyyy": "year",
    "yy": "year",
    "yr": "year",
    "weekofyear": "week",
    "dayofmonth": "day",
    "dd": "day",
    "doy": "dayofyear",
    "dayofweek_iso": "isodow",
    "dow_iso": "isodow",
}
_COUNTED_DIFFERENTLY = ("dayofweek", "dow", "weekday")


def unit_of(function: str, unit: Expression) -> Expression:
    """The unit as we call it."""
    units = _TRUNC_UNITS if function == "date_trunc" else _PART_UNITS
    name = str(unit.value).lower() if isinstance(unit, Literal) else ""
    name = _OTHER_NAMES.get(name, name)
    if name in units:
        return Literal(name, STRING, span=unit.span)
    if name in _COUNTED_DIFFERENTLY and function == "date_part":
        raise BindError(
            f"{unit} begins with Sunday, which is 1 in Spark and Flink, and 0 in PostgreSQL",
            span=unit.span,
            hint="isodow, which is 1 for Monday to 7 for Sunday, or dayofweek(time) of Spark",
        )
    close = nearest(name, units)
    raise BindError(
        f"{unit} is not a unit of {function}",
        span=unit.span,
        expected=f"one of {', '.join(units)}",
        hint=f"'{close[0]}'" if close else None,
    )
