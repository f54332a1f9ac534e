"""What the stateful step of a Spark job does with the rows that come for a bucket of a stage.

A bucket lives in the memory of its worker from micro-batch to micro-batch.  Its state store says
whether what is there is what was committed last; otherwise the bucket is read from the store.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from penstock.spark.frames.columns import FrameColumns
from penstock.spark.plan.config import StageConfig
from penstock.spark.stateful.bucket import Bucket
from penstock.spark.tasks.messages import Message, Packed, in_pieces, packed_batch
from penstock.spark.tasks.worker_memory import settle
from penstock.state.chunks import MemoryStore, Tree, pack, unpack

_VERSION = "version"
_MILLISECOND = 1000  # microseconds
_MANY = 64  # buckets that a worker keeps
_kept: dict[tuple[str, int], tuple[str, Bucket]] = {}  # by token and bucket: version, bucket


@dataclass(frozen=True)
class Stepping:
    """Gives everything that comes out, packed, or with `columns` the rows that they are for."""

    config: StageConfig
    timed: bool
    columns: FrameColumns | None = None

    def on_rows(
        self,
        key: int,
        rows: Iterator[pd.DataFrame],
        now: int,
        chunks: Any,
        handle: StatefulProcessorHandle,
    ) -> Iterator[pd.DataFrame]:
        given = [Packed(**row._asdict()) for frame in rows for row in frame.itertuples(index=False)]
        own = self.config.identity.stage
        messages = sorted((each for each in given if each.is_for(own)), key=lambda each: each.place)
        # what the stages before have given out, and messages for those behind this one
        passing = [each for each in given if not each.is_for(own)]
        if passing and (self.columns is None or not messages):
            yield from self._frames(passing)
            passing = []
        if messages:
            unpacked = [Message.unpack(each.payload) for each in messages]
            yield from self._run(key, unpacked, now, chunks, handle, passing)

    def on_timer(
        self, key: int, now: int, chunks: Any, handle: StatefulProcessorHandle
    ) -> Iterator[pd.DataFrame]:
        yield from self._run(key, [], now, chunks, handle)

    def _run(
        self,
        key: int,
        messages: list[Message],
        milliseconds: int,
        chunks: Any,
        handle: StatefulProcessorHandle,
        passing: Sequence[Packed] = (),
    ) -> Iterator[pd.DataFrame]:
        now = milliseconds * _MILLISECOND
        store = _StateStore(chunks)
        number = self._number(key, store)
        bucket = self._bucket(number, store, now)
        # a piece at a time: Spark commits the state only after it has taken all of them
        for piece in in_pieces(chain(passing, bucket.take_in(messages, now))):
            yield from self._frames(piece)
        bucket.save(store)
        version = uuid.uuid4().hex
        store.put(_VERSION, version)
        while len(_kept) >= _MANY:  # the one that was not asked for the longest
            del _kept[next(iter(_kept))]
        _kept[self.config.token, number] = (version, bucket)
        if self.timed:
            _wake_up(handle, now, bucket.looks_at_clock)
        settle()

    def _number(self, key: int, store: _StateStore) -> int:
        """A timer may be that of a bucket which only another number of buckets has."""
        if key not in self.config.bucket_keys:
            self.config.identity.owns(store)
        return self.config.bucket_keys.index(key)

    def _bucket(self, number: int, store: _StateStore, now: int) -> Bucket:
        place = (self.config.token, number)
        # taken out: if this attempt fails half-way, nobody finds what it left behind
        version, bucket = _kept.pop(place, ("", None))
        if bucket is not None and store.get(_VERSION) == version:
            return bucket
        bucket = Bucket(self.config, number, now)
        bucket.load(store.read())
        return bucket

    def _frames(self, packed: list[Packed]) -> Iterator[pd.DataFrame]:
        if self.columns is None:
            yield packed_batch(packed).to_pandas()
            return
        for table in self.columns.tables(packed):
            yield table.to_pandas(types_mapper=pd.ArrowDtype)  # pandas only hands it on


def _wake_up(handle: StatefulProcessorHandle, now: int, due: int | None) -> None:
    """Ask for a look at the clock when a source may have become idle, or answers are due."""
    if due is not None:
        for timer in list(handle.listTimers()):
            handle.deleteTimer(timer)
        handle.registerTimer(max(now, due) // _MILLISECOND + 1)


class _StateStore:
    """The chunks of one bucket in Spark's state store."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, key: str) -> Tree | None:
        found = self._state.getValue((key,))
        return None if found is None else unpack(bytes(found[0]))

    def names(self) -> Iterable[str]:
        return [name for (name,) in self._state.keys()]  # noqa: SIM118

    def put(self, key: str, chunk: Tree) -> None:
        self._state.updateValue((key,), (pack(chunk),))

    def drop(self, key: str) -> None:
        self._state.removeKey((key,))

    def read(self) -> MemoryStore:
        """All chunks at once, which is faster than one after the other."""
        copied = MemoryStore()
        copied.packed = {name: bytes(packed) for (name,), (packed,) in self._state.iterator()}
        return copied
