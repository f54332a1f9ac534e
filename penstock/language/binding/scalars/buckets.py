"""time_bucket(width, time [, origin]) and date_bin: over times, or over whole numbers."""

from __future__ import annotations

from penstock.errors import BindError, Span
from penstock.model.types import TIMESTAMP, Kind
from penstock.plan.expressions import Expression, Literal

# What time_bucket counts from in DuckDB and TimescaleDB: a Monday, 2000-01-03.
_MONDAY = 946_857_600_000_000


def bucket(
    name: str, arguments: list[Expression], span: Span | None
) -> tuple[str, list[Expression]]:
    """Which function is meant, and of what.  The width and the origin are constants, so that
    progress on the time is progress on the bucket."""
    if len(arguments) < 2:
        return name, arguments  # which is refused for that
    width, value, *origin = arguments
    for each in (width, *origin):
        if not isinstance(each, Literal) or each.value is None:
            raise BindError(f"the width and origin of {name} are constants", span=each.span or span)
    assert isinstance(width, Literal)
    if isinstance(width.value, int) and width.value <= 0:
        raise BindError(
            f"the width of {name} is {width}", span=width.span or span, expected="more than zero"
        )
    if value.type.is_integer:
        return "number_bucket", arguments
    of_times = width.type.kind is Kind.INTERVAL and name.lower() == "time_bucket"
    if of_times and not origin and _MONDAY % width.value:
        arguments = [width, value, Literal(_MONDAY, TIMESTAMP)]
    return name, arguments
