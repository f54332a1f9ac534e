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


TRIGONOMETRY: dict[str, Callable[..., Any]] = {
    **{
        name: _somewhere(getattr(math, name))
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    },
    "atan2": math.atan2,
    "degrees": math.degrees,
    "radians": math.radians,
}
