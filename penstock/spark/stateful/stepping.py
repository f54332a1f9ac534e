"""What the stateful step of a Spark job does with the rows that come for its buckets.

A step has one stage, or several that do not feed each other: those have their state side by side,
under one key.  A bucket lives in the memory of its worker from micro-batch to micro-batch.  Its
state store says whether what is there is what was committed last; otherwise the bucket is read from
the store.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from penstock.spark.frames.columns import FrameColumns
from penstock.spark.plan.config import StageConfig
from penstock.spark.stateful.bucket import Bucket
from penstock.spark.tasks.messages import Message, Packed, PackedKind, in_pieces, packed_batch
from penstock.spark.tasks.worker_memory import settle
from penstock.state.chunks import ChunkStore, MemoryStore, Tree, Within, pack, unpack

_VERSION = "version"
_MILLISECOND = 1000  # microseconds
_MANY = 64  # keys whose buckets a worker keeps
_Buckets: TypeAlias = dict[int, Bucket]  # by stage
_kept: dict[tuple[str, int], tuple[str, _Buckets]] = {}  # by token and key: version, buckets


@dataclass(frozen=True)
class Stepping:
    """Gives everything that comes out, packed, or with `columns` the rows that they are for."""

    configs: tuple[StageConfig, ...]
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
        messages: dict[int, list[Packed]] = {each.identity.stage: [] for each in self.configs}
        # what the stages before have given out, and messages for those behind this one
        passing: list[Packed] = []
        for each in given:
            mine = each.kind == PackedKind.MESSAGE and each.stage in messages
            (messages[each.stage] if mine else passing).append(each)
        found = any(messages.values())
        if passing and (self.columns is None or not found):
            yield from self._frames(passing)
            passing = []
        if found:
            unpacked = {
                stage: [Message.unpack(each.payload) for each in sorted(own, key=_place)]
                for stage, own in messages.items()
                if own
            }
            yield from self._run(key, unpacked, now, chunks, handle, passing)

    def on_timer(
        self, key: int, now: int, chunks: Any, handle: StatefulProcessorHandle
    ) -> Iterator[pd.DataFrame]:
        every = {each.identity.stage: list[Message]() for each in self._of(key)}
        yield from self._run(key, every, now, chunks, handle)

    def _run(
        self,
        key: int,
        messages: Mapping[int, list[Message]],
        milliseconds: int,
        chunks: Any,
        handle: StatefulProcessorHandle,
        passing: Sequence[Packed] = (),
    ) -> Iterator[pd.DataFrame]:
        now = milliseconds * _MILLISECOND
        store = _StateStore(chunks)
        buckets = self._buckets(key, store, now)
        given = (buckets[stage].take_in(own, now) for stage, own in messages.items())
        # a piece at a time: Spark commits the state only after it has taken all of them
        for piece in in_pieces(chain(passing, *given)):
            yield from self._frames(piece)
        for stage in messages:
            buckets[stage].save(self._within(store, stage))
        version = uuid.uuid4().hex
        store.put(_VERSION, version)
        while len(_kept) >= _MANY:  # the one that was not asked for the longest
            del _kept[next(iter(_kept))]
        _kept[self.configs[0].token, key] = (version, buckets)
        if self.timed:
            due = [each.looks_at_clock for each in buckets.values()]
            _wake_up(handle, now, min((each for each in due if each is not None), default=None))
        settle()

    def _of(self, key: int) -> list[StageConfig]:
        """The stages that have a bucket under a key."""
        return [each for each in self.configs if key in each.bucket_keys]

    def _buckets(self, key: int, store: _StateStore, now: int) -> _Buckets:
        place = (self.configs[0].token, key)
        # taken out: if this attempt fails half-way, nobody finds what it left behind
        version, buckets = _kept.pop(place, ("", None))
        if buckets is not None and store.get(_VERSION) == version:
            return buckets
        saved, made = store.read(), _Buckets()
        if not self._of(key):  # a timer of a bucket which only another number of buckets has
            for config in self.configs:
                config.identity.owns(self._within(saved, config.identity.stage))
        for config in self._of(key):
            stage = config.identity.stage
            made[stage] = Bucket(config, config.bucket_keys.index(key), now)
            made[stage].load(self._within(saved, stage))
        return made

    def _within(self, store: ChunkStore, stage: int) -> ChunkStore:
        return store if len(self.configs) == 1 else Within(store, f"stage {stage}/")

    def _frames(self, packed: list[Packed]) -> Iterator[pd.DataFrame]:
        if self.columns is None:
            yield packed_batch(packed).to_pandas()
            return
        for table in self.columns.tables(packed):
            yield table.to_pandas(types_mapper=pd.ArrowDtype)  # pandas only hands it on


def _place(packed: Packed) -> int:
    return packed.place


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

    def names(self, prefix: str = "") -> Iterable[str]:
        names = (name for (name,) in self._state.keys())  # noqa: SIM118
        return [name for name in names if name.startswith(prefix)]

    def put(self, key: str, chunk: Tree) -> None:
        self._state.updateValue((key,), (pack(chunk),))

    def drop(self, key: str) -> None:
        self._state.removeKey((key,))

    def read(self) -> MemoryStore:
        """All chunks at once, which is faster than one after the other."""
        copied = MemoryStore()
        copied.packed = {name: bytes(packed) for (name,), (packed,) in self._state.iterator()}
        return copied
