"""The units of date_trunc and date_part."""

from __future__ import annotations

from penstock.errors import BindError, nearest
from penstock.plan.expressions import Expression, Literal

_TRUNC_UNITS = [
    *("microsecond", "millisecond", "second", "minute", "hour"),
    *("day", "week", "month", "quarter", "year"),
]
_PART_UNITS = [*_TRUNC_UNITS, "dayofweek", "dayofyear", "epoch"]


def check_unit(function: str, unit: Expression) -> None:
    units = _TRUNC_UNITS if function == "date_trunc" else _PART_UNITS
    if not isinstance(unit, Literal) or str(unit.value).lower() not in units:
        close = nearest(str(getattr(unit, "value", "")), units)
        raise BindError(
            f"{unit} is not a unit of {function}",
            span=unit.span,
            expected=f"one of {', '.join(units)}",
            hint=f"'{close[0]}'" if close else None,
        )
