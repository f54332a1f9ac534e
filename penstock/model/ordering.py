"""Equality and order of values: NaN is one value, larger than all numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any


def canonical(value: Any) -> Hashable:
    """Key that equal values share in grouping: all NaNs are one, and −0.0 is 0.0."""
    if isinstance(value, float):
        return ("NaN",) if math.isnan(value) else value + 0.0
    if isinstance(value, tuple):
        return tuple(map(canonical, value))
    return value  # type: ignore[no-any-return]


def shown(value: Any) -> Any:
    """Representative of equal values, independent of which came first: 0.0 for −0.0."""
    return value + 0.0 if isinstance(value, float) else value


def exact_key(value: Any) -> tuple[bool, bool, Any, float]:
    """Refinement of the order of `sort_key`, in which −0.0 comes before 0.0: values that can be
    told apart never compare equal.
    """
    if isinstance(value, tuple):
        return (False, False, tuple(map(exact_key, value)), 0.0)
    sign = math.copysign(1.0, value) if isinstance(value, float) and value == 0 else 0.0
    return (*sort_key(value), sign)


def sort_key(value: Any) -> tuple[bool, bool, Any]:
    """Sort key by which NaN is the largest number, and NULL comes after everything."""
    if value is None:
        return (True, False, 0)
    if isinstance(value, float) and math.isnan(value):
        return (False, True, 0)
    if isinstance(value, tuple):  # an ARRAY, STRUCT or MAP: part by part
        return (False, False, tuple(map(sort_key, value)))
    return (False, False, value)
