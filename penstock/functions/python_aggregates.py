"""Running an aggregate of the user's: what goes wrong names it, and its results have the type that
it declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import RunError
from penstock.functions.aggregates import PythonAggregate
from penstock.model.plain_values import to_python
from penstock.model.types import Type


@dataclass(frozen=True, slots=True)
class Guarded:
    """An aggregate of the user's whose errors become errors of the run."""

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
        """`other` is still used afterwards, so it must not become the state itself."""
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
        """The plain value."""
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
    """The plain value over some rows, given as columns."""
    guarded = Guarded(name, implementation, result)
    state = guarded.init()
    if rows:
        state = guarded.accumulate(state, columns)
    return guarded.finish(state)
