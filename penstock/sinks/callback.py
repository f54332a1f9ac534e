"""Rows handed to a function of the program: a batch at a time, or as dictionaries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError, RunError, SinkError
from penstock.sinks.cells import column_texts


class Callback:
    """Calls a function with every batch, or with every row if `rows` is asked for."""

    def __init__(self, function: Callable[[Any], object], rows: bool = False) -> None:
        if inspect.iscoroutinefunction(function):
            raise SinkError(
                f"the function {function.__qualname__} is asynchronous, and is not awaited here",
                hint="query.run_async(…), or a function that calls"
                " asyncio.run_coroutine_threadsafe",
            )
        self._function = function
        self.by_row = rows
        self._name = getattr(function, "__qualname__", None) or type(function).__qualname__

    def begin(self, schema: pa.Schema) -> None:
        """A batch says itself what its columns are."""

    def write(self, batch: pa.RecordBatch) -> None:
        for argument in rows_of(batch) if self.by_row else (batch,):
            try:
                self._function(argument)
            except PenstockError:
                raise
            except Exception as error:
                raise RunError(
                    f"the callback {self._name} failed: {type(error).__name__}: {error}",
                    expected="a function that takes " + ("a row" if self.by_row else "a batch"),
                ) from error

    def flush(self) -> None:
        """Nothing is held back."""

    def end(self) -> None:
        """Nothing is held back."""


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries.  A time that `datetime` cannot hold is an ISO 8601 text."""
    columns = [_values(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, row, strict=True))


def _values(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:  # what the others are must not depend on who is beside them
        values = [_value(column[place : place + 1]) for place in range(len(column))]
    return values


def _value(cell: pa.Array) -> Any:
    try:
        return cell[0].as_py()
    except OverflowError:
        return column_texts(cell)[0]
