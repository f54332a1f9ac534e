"""Running an aggregate of the user's, and holding it to the type that it declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import RunError
from penstock.functions.aggregates import PythonAggregate
from penstock.model.types import Type, to_python


def run_python_aggregate(
    name: str, implementation: PythonAggregate, columns: Sequence[pa.Array], rows: int, result: Type
) -> Any:
    """The plain value over some rows, given as columns; what goes wrong names the aggregate."""
    try:
        state = implementation.init()
        if rows:
            state = implementation.accumulate(state, *columns)
        value = implementation.finish(state)
    except Exception as error:
        raise RunError(f"the aggregate {name} failed: {type(error).__name__}: {error}") from error
    try:
        if isinstance(value, float) and result.is_integer and not value.is_integer():
            raise ValueError("not a whole number")
        return to_python(pa.array([value], result.arrow), result)[0]
    except (ValueError, TypeError, OverflowError) as error:
        raise RunError(
            f"the aggregate {name} returned {value!r}, which is not {result.a}"
        ) from error
