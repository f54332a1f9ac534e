"""time_bucket(width, time [, origin]) and date_bin: over times, or over whole numbers."""

from __future__ import annotations

from penstock.errors import BindError, Span
from penstock.plan.expressions import Expression, Literal


def bucket(name: str, arguments: list[Expression], span: Span | None) -> str:
    """Which function is meant.  The width and the origin are constants, so that progress on the
    time is progress on the bucket."""
    if len(arguments) < 2:
        return name  # which is refused for that
    width, value, *origin = arguments
    for each in (width, *origin):
        if not isinstance(each, Literal) or each.value is None:
            raise BindError(f"the width and origin of {name} are constants", span=each.span or span)
    assert isinstance(width, Literal)
    if isinstance(width.value, int) and width.value <= 0:
        raise BindError(
            f"the width of {name} is {width}", span=width.span or span, expected="more than zero"
        )
    return "number_bucket" if value.type.is_integer else name
