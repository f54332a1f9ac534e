"""Rows of queries that run, printed as they come, while somebody writes the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

import pyarrow as pa

from penstock.api.live import Live
from penstock.cli.report import readable
from penstock.errors import PenstockError, nearest
from penstock.sinks.cells import column_texts

_SHOWN = 20  # rows of one batch: a terminal is slower than an engine


class Watching:
    def __init__(self, live: Live, out: TextIO) -> None:
        self._live = live
        self._out = out
        self._leaving: dict[str, Callable[[], None]] = {}

    def watch(self, name: str) -> None:
        if name in self._leaving:
            raise PenstockError(f"{name} is watched already", hint=f"\\unwatch {name}")
        self._leaving[name] = self._live.subscribe(name, lambda batch: self._show(name, batch))

    def unwatch(self, name: str) -> None:
        if name not in self._leaving:
            close = nearest(name, self._leaving)
            raise PenstockError(f"{name} is not watched", hint=close[0] if close else None)
        self._leaving.pop(name)()

    def _show(self, name: str, batch: pa.RecordBatch) -> None:
        self._out.write(lines_of(name, batch))
        self._out.flush()


def lines_of(name: str, batch: pa.RecordBatch) -> str:
    """
    >>> print(lines_of("q", pa.record_batch({"k": ["a", None], "n": [1, 2]})), end="")
    q │ k a, n 1
    q │ k NULL, n 2
    """
    some = batch.slice(0, _SHOWN)
    columns = [
        [f"{column} {'NULL' if text is None else text}" for text in column_texts(values)]
        for column, values in zip(some.schema.names, some.columns, strict=True)
    ]
    lines = [f"{name} │ {', '.join(row)}" for row in zip(*columns, strict=True)]
    if batch.num_rows > _SHOWN:
        lines.append(f"{name} │ … {batch.num_rows - _SHOWN:,} more")
    return "".join(f"{readable(line)}\n" for line in lines)
