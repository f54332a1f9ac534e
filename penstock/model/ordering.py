"""When values are the same, and which comes first: NaN is one value, larger than all numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any


def canonical(value: Any) -> Hashable:
    """What equal values share in grouping: all NaNs are one, and −0.0 is 0.0."""
    if isinstance(value, float):
        return ("NaN",) if math.isnan(value) else value + 0.0
    if isinstance(value, tuple):
        return tuple(map(canonical, value))
    return value  # type: ignore[no-any-return]


def shown(value: Any) -> Any:
    """The one of several equal values that is shown, whichever came first: 0.0 for −0.0."""
    return value + 0.0 if isinstance(value, float) else value


def exact_key(value: Any) -> tuple[bool, bool, Any, float]:
    """The same order as that of `sort_key`, in which −0.0 comes before 0.0: two values that can be
    told apart are never at one place."""
    if isinstance(value, tuple):
        return (False, False, tuple(map(exact_key, value)), 0.0)
    sign = math.copysign(1.0, value) if isinstance(value, float) and value == 0 else 0.0
    return (*sort_key(value), sign)


def sort_key(value: Any) -> tuple[bool, bool, Any]:
    """An order in which NaN is the largest number, and NULL comes after everything."""
    if value is None:
        return (True, False, 0)
    if isinstance(value, float) and math.isnan(value):
        return (False, True, 0)
    if isinstance(value, tuple):  # an ARRAY, STRUCT or MAP: part by part
        return (False, False, tuple(map(sort_key, value)))
    return (False, False, value)
