"""Angles, in radians; NaN where there is none, infinity where it is too large."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def _somewhere(function: Callable[[float], float]) -> Callable[[float], float]:
    def compute(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            return math.nan
        except OverflowError:
            negative = value < 0 and function is math.sinh
            return -math.inf if negative else math.inf

    return compute


def _to_the_end(function: Callable[[float], float], end: float) -> Callable[[float], float]:
    """Infinite at the end of what it is defined for, on the side of the end."""

    def compute(value: float) -> float:
        if abs(value) == abs(end) and (value == end or end > 0):
            return math.copysign(math.inf, value)
        try:
            return function(value)
        except ValueError:
            return math.nan

    return compute


TRIGONOMETRY: dict[str, Callable[..., Any]] = {
    **{
        name: _somewhere(getattr(math, name))
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    },
    **{name: _somewhere(getattr(math, name)) for name in ("asinh", "acosh", "expm1")},
    "atanh": _to_the_end(math.atanh, 1.0),
    "log1p": _to_the_end(math.log1p, -1.0),
    "atan2": math.atan2,
    "degrees": math.degrees,
    "radians": math.radians,
}
