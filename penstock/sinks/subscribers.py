"""Rows handed to whoever asks for them while they are made, beside the sink that they are for."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.sinks.sink import Sink


class Subscribers:
    """`also` is a sink that gets everything; subscribers get what comes while they are there."""

    def __init__(self, also: Sink | None = None) -> None:
        self._schema = pa.schema([])
        self._sinks: tuple[Sink, ...] = () if also is None else (also,)

    @property
    def wanted(self) -> bool:
        """Whether anybody is there."""
        return bool(self._sinks)

    def subscribe(self, sink: Sink) -> Callable[[], None]:
        """From now on, until the answer is called."""
        sink.begin(self._schema)
        self._sinks = (*self._sinks, sink)

        def leave() -> None:
            self._sinks = tuple(each for each in self._sinks if each is not sink)

        return leave

    def begin(self, schema: pa.Schema) -> None:
        self._schema = schema
        for sink in self._sinks:
            sink.begin(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        for sink in self._sinks:
            sink.write(batch)

    def flush(self) -> None:
        for sink in self._sinks:
            sink.flush()

    def prepare(self, epoch: int) -> None:
        for sink in self._sinks:
            prepare = getattr(sink, "prepare", None)
            if prepare is not None:
                prepare(epoch)

    def commit(self, epoch: int) -> None:
        for sink in self._sinks:
            commit = getattr(sink, "commit", None)
            if commit is not None:
                commit(epoch)

    def end(self) -> None:
        for sink in self._sinks:
            sink.end()
