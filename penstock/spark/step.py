"""The stateful step of a Spark job: buckets of a stage in the tasks of `transformWithState`.

A bucket lives in the memory of its worker from micro-batch to micro-batch.  Its state store says
whether what is there is what was committed last; otherwise the bucket is read from the store.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.operators.chunks import MemoryStore, Tree, pack, unpack
from penstock.spark.bucket import Bucket
from penstock.spark.config import StageConfig
from penstock.spark.messages import PACKED_ARROW, Kind, Message, Packed, packed_batch

_VERSION = "version"
_MILLISECOND = 1000  # microseconds
_MANY = 64  # buckets that a worker keeps
_kept: dict[tuple[str, int], tuple[str, Bucket]] = {}  # by token and bucket: version, bucket


class StageStep(StatefulProcessor):
    def __init__(self, config: StageConfig, timed: bool) -> None:
        self._config = config
        self._timed = timed

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._chunks = handle.getMapState("chunks", "name string", "packed binary")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        given = [row for frame in rows for row in frame.itertuples(index=False)]
        messages = sorted(
            (row for row in given if row.kind == Kind.MESSAGE), key=lambda row: int(row.place)
        )
        passing = [row for row in given if row.kind != Kind.MESSAGE]
        if passing:  # late and rejected rows of the stages before
            yield pd.DataFrame(passing, columns=PACKED_ARROW.names)
        now = timerValues.getCurrentProcessingTimeInMs() * _MILLISECOND
        unpacked = [Message.unpack(row.payload) for row in messages]
        yield _frame(self._run(key[0], unpacked, now))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        now = timerValues.getCurrentProcessingTimeInMs() * _MILLISECOND
        yield _frame(self._run(key[0], [], now))

    def _run(self, key: int, messages: list[Message], now: int) -> list[Packed]:
        number = self._config.bucket_keys.index(key)
        store = _StateStore(self._chunks)
        bucket = self._bucket(number, store, now)
        packed = list(bucket.take_in(messages, now))
        bucket.save(store)
        version = uuid.uuid4().hex
        store.put(_VERSION, version)
        while len(_kept) >= _MANY:  # the one that was not asked for the longest
            del _kept[next(iter(_kept))]
        _kept[self._config.token, number] = (version, bucket)
        self._wake_up(now, bucket.looks_at_clock)
        return packed

    def _bucket(self, number: int, store: _StateStore, now: int) -> Bucket:
        place = (self._config.token, number)
        # taken out: if this attempt fails half-way, nobody finds what it left behind
        version, bucket = _kept.pop(place, ("", None))
        if bucket is not None and store.get(_VERSION) == version:
            return bucket
        bucket = Bucket(self._config, number, now)
        bucket.load(store.read())
        return bucket

    def _wake_up(self, now: int, due: int | None) -> None:
        """Ask for a look at the clock when a source may have become idle, or answers are due."""
        if due is not None and self._timed:
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            self._handle.registerTimer(max(now, due) // _MILLISECOND + 1)

    def close(self) -> None:
        pass


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


def _frame(packed: list[Packed]) -> pd.DataFrame:
    return packed_batch(packed).to_pandas()
