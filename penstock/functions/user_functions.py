"""User-defined functions in Python: scalar functions on Arrow columns or on the values of one row,
and aggregates whose errors and results are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError, RunError
from penstock.functions.aggregate_functions import PythonAggregate
from penstock.model.types import Type
from penstock.model.values import to_python


@dataclass(frozen=True, slots=True)
class UserFunction:
    """User-defined scalar function.

    The result for a row must depend on that row alone, because rows come in batches of any size.
    The result is NULL, without a call, for rows in which an argument is NULL, unless the function
    `takes_nulls`.
    """

    name: str
    implementation: Callable[..., Any]
    returns: Type
    arguments: tuple[Type, ...] | None = None  # None: any
    by_row: bool = False
    takes_nulls: bool = False
    typed: Callable[[Sequence[Type]], Type] | None = None  # result type, if it depends on arguments
    only_spark: bool = False  # only Spark computes it, as a column of a DataFrame

    def column(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        """Compute one value for each of `count` rows."""
        with_nulls = [] if self.takes_nulls else [each for each in columns if each.null_count]
        if not with_nulls:
            return self._checked(columns, count)
        present = with_nulls[0].is_valid()
        for each in with_nulls[1:]:
            present = pc.and_(present, each.is_valid())
        some = [each.filter(present) for each in columns]
        found = self._checked(some, present.true_count)
        places = np.cumsum(present.to_numpy(zero_copy_only=False)) - 1
        return found.take(pc.if_else(present, pa.array(places), pa.scalar(None, pa.int64())))

    def _checked(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        if not count:
            return pa.nulls(0, self.returns.arrow)
        try:
            found = self._called(columns, count)
        except PenstockError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise RunError(f"the function {self.name} failed: {reason}") from error
        try:
            values = _as_array(found, self.returns)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise RunError(
                f"the function {self.name} gave {_described(found)}, not {self.returns.a}"
            ) from error
        if len(values) != count:
            raise RunError(f"the function {self.name} gave {len(values)} values for {count} rows")
        return values

    def _called(self, columns: Sequence[pa.Array], count: int) -> Any:
        if not self.by_row:
            return self.implementation(*columns)
        if not columns:
            return [self.implementation() for _ in range(count)]
        rows = zip(*(each.to_pylist() for each in columns), strict=True)
        return [self.implementation(*row) for row in rows]


def _as_array(found: Any, wanted: Type) -> pa.Array:
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if isinstance(found, pa.Array):
        return found if found.type == wanted.arrow else found.cast(wanted.arrow)
    if isinstance(found, np.ndarray):
        return pa.array(found).cast(wanted.arrow)
    if isinstance(found, list | tuple):
        return pa.array(found, wanted.arrow)
    raise TypeError("not a column")


def _described(found: Any) -> str:
    if isinstance(found, pa.Array | pa.ChunkedArray | np.ndarray):
        kind = found.dtype if isinstance(found, np.ndarray) else found.type
        return f"a column of {kind}"
    if isinstance(found, list | tuple):
        return f"values such as {found[0]!r}" if found else "an empty list"
    return f"{type(found).__name__} and no column"


# Running a user-defined aggregate: errors name it, and its results are checked against its type.


@dataclass(frozen=True, slots=True)
class Guarded:
    """User-defined aggregate whose errors become errors of the run."""

    name: str
    implementation: PythonAggregate
    result: Type

    @property
    def subtracts(self) -> bool:
        return callable(getattr(self.implementation, "subtract", None))

    @property
    def saves(self) -> bool:
        both = (getattr(self.implementation, name, None) for name in ("save", "load"))
        return all(map(callable, both))

    def init(self) -> Any:
        return self._call(self.implementation.init)

    def accumulate(self, state: Any, columns: Sequence[pa.Array]) -> Any:
        return self._call(self.implementation.accumulate, state, *columns)

    def merge(self, state: Any, other: Any) -> Any:
        """Merge two states. `other` is still used afterwards, so it must not become the result
        itself.
        """
        merged = self._call(self.implementation.merge, state, other)
        return self._call(deepcopy, merged) if merged is other else merged

    def subtract(self, state: Any, other: Any) -> Any:
        rest = self._call(self.implementation.subtract, state, other)  # type: ignore[attr-defined]
        return self._call(deepcopy, rest) if rest is other else rest

    def save(self, state: Any) -> bytes:
        saved = self._call(self.implementation.save, state)  # type: ignore[attr-defined]
        if not isinstance(saved, bytes):
            raise RunError(f"save of the aggregate {self.name} returned {saved!r}, not bytes")
        return saved

    def load(self, saved: bytes) -> Any:
        return self._call(self.implementation.load, saved)  # type: ignore[attr-defined]

    def finish(self, state: Any) -> Any:
        """Result as a plain value."""
        value = self._call(self.implementation.finish, state)
        try:
            if isinstance(value, float) and self.result.is_integer and not value.is_integer():
                raise ValueError("not a whole number")
            return to_python(pa.array([value], self.result.arrow), self.result)[0]
        except (ValueError, TypeError, OverflowError) as error:
            raise RunError(
                f"the aggregate {self.name} returned {value!r}, which is not {self.result.a}"
            ) from error

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise RunError(f"the aggregate {self.name} failed: {reason}") from error


def run_python_aggregate(
    name: str, implementation: PythonAggregate, columns: Sequence[pa.Array], rows: int, result: Type
) -> Any:
    """Compute the result over rows given as columns, as a plain value."""
    guarded = Guarded(name, implementation, result)
    state = guarded.init()
    if rows:
        state = guarded.accumulate(state, columns)
    return guarded.finish(state)
