"""The stateful step of a Spark job: buckets of a stage in the tasks of `transformWithState`, or one
after the other in a batch job.

When Spark plans a query, it starts a Python process only to ask for the states of its steps.  To
keep that fast, this file imports nothing large, and the contents of a step are unpickled when its
first row comes.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from penstock.kernel.state import ChunkStore, MemoryStore, Tree, Within, pack, unpack
from penstock.model.clock import SystemClock
from penstock.model.punctuation import SIGN
from penstock.runs.collected_answer import final_rows
from penstock.spark.run.job_results import all_signed
from penstock.spark.run.result_columns import FrameColumns
from penstock.spark.session.worker_errors import brief_errors, freeze_imports
from penstock.spark.stages import StageConfig
from penstock.spark.stateful.bucket import Bucket
from penstock.spark.stateful.registers import SourceRegister
from penstock.spark.tasks.messages import (
    PACKED_ARROW,
    SHUFFLE,
    Message,
    Packed,
    PackedKind,
    StepName,
    StepWork,
    in_pieces,
    pack_rows,
    packed_batch,
    unpack_rows,
    work_done,
)

_NAME = StructType([StructField("name", StringType())])
_PACKED = StructType([StructField("packed", BinaryType())])


class StageStep(StatefulProcessor):
    """The stateful processor of a step, as Spark sees it."""

    def __init__(self, stepping: Stepping) -> None:
        self._pickled: bytes = cloudpickle.dumps(stepping)  # type: ignore[no-untyped-call]

    @cached_property
    def _stepping(self) -> Stepping:
        stepping: Stepping = pickle.loads(self._pickled)  # pickled by __init__
        return stepping

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        # types, not their texts, which Spark would be asked to parse again and again
        self._chunks = handle.getMapState("chunks", _NAME, _PACKED)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        now = timerValues.getCurrentProcessingTimeInMs()
        with brief_errors():
            yield from self._stepping.on_rows(key[0], rows, now, self._chunks, self._handle)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        now = timerValues.getCurrentProcessingTimeInMs()
        with brief_errors():
            yield from self._stepping.on_timer(key[0], now, self._chunks, self._handle)

    def close(self) -> None:
        pass


# The work of the stateful step on the rows that come for its buckets.
#
# A step has one stage, or several that do not feed each other: those have their state together,
# under one key.  A bucket lives in the memory of its worker from micro-batch to micro-batch.  The
# version in the state store tells whether the bucket in memory is the one committed last; otherwise
# it is read from the store.

_VERSION = "version"
_MILLISECOND = 1000  # microseconds
_MANY = 64  # keys whose buckets a worker keeps
_Buckets: TypeAlias = dict[int, Bucket]  # by stage
_kept: dict[tuple[str, int], tuple[str, _Buckets]] = {}  # by token and key: version, buckets


@dataclass(frozen=True)
class Stepping:
    """The stages of a step.  Yields all output, packed, or with `columns` the rows of these."""

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
        # output of earlier stages, and messages for later ones
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
        given = (buckets[stage].process(own, now) for stage, own in messages.items())
        # a piece at a time: Spark commits the state only after it has taken all of them
        for piece in in_pieces(chain(passing, *given)):
            yield from self._frames(piece)
        for stage in messages:
            buckets[stage].save(self._within(store, stage))
        version = uuid.uuid4().hex
        store.put(_VERSION, version)
        while len(_kept) >= _MANY:  # the least recently used one
            del _kept[next(iter(_kept))]
        _kept[self.configs[0].token, key] = (version, buckets)
        if self.timed:
            due = [each.looks_at_clock for each in buckets.values()]
            _set_timer(handle, now, min((each for each in due if each is not None), default=None))
        freeze_imports()

    def _of(self, key: int) -> list[StageConfig]:
        """Stages that have a bucket under a key."""
        return [each for each in self.configs if key in each.bucket_keys]

    def _buckets(self, key: int, store: _StateStore, now: int) -> _Buckets:
        place = (self.configs[0].token, key)
        # taken out: if this attempt fails half-way, its remains are not found again
        version, buckets = _kept.pop(place, ("", None))
        if buckets is not None and store.get(_VERSION) == version:
            return buckets
        saved, made = store.read(), _Buckets()
        if not self._of(key):  # a timer of a bucket that exists only with another number of buckets
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


def _set_timer(handle: StatefulProcessorHandle, now: int, due: int | None) -> None:
    """Register a timer for when a source may have become idle, or early answers are due."""
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
        """Copy all chunks at once, which is faster than one after the other."""
        copied = MemoryStore()
        copied.packed = {name: bytes(packed) for (name,), (packed,) in self._state.iterator()}
        return copied


# A stage in a batch job: one bucket after the other, each from beginning to end.


def at_once(*configs: StageConfig) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Make the function that runs stages in a batch job: one bucket after the other, from beginning
    to end."""

    def run(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        now, own = SystemClock().now(), {each.identity.stage: each for each in configs}
        given = [Packed(**row) for row in table.to_pylist()]
        mine = [each.kind == PackedKind.MESSAGE and each.stage in own for each in given]
        passing = table.filter(pa.array([not each for each in mine]))
        messages = [each for each, is_mine in zip(given, mine, strict=True) if is_mine]
        packed: list[Packed] = []
        for number, config in own.items():
            of_stage = [each for each in messages if each.stage == number]
            if of_stage:
                packed += _of_bucket(config, key[0].as_py(), of_stage, now)
        if not packed:  # no message is for these stages
            return passing
        made = pa.Table.from_batches(map(packed_batch, in_pieces(packed)), PACKED_ARROW)
        return pa.concat_tables([passing.cast(made.schema), made])

    return run


def _of_bucket(config: StageConfig, key: int, messages: list[Packed], now: int) -> list[Packed]:
    bucket = Bucket(config, config.bucket_keys.index(key), now)
    in_order = sorted(messages, key=lambda each: each.place)
    packed = list(bucket.process([Message.unpack(each.payload) for each in in_order], now))
    # the status of the bucket is reported once, at the end; counts so far stay
    packed = [
        replace(each, payload=b"") if each.kind is PackedKind.STATUS else each for each in packed
    ]
    for register in bucket.registers:
        if isinstance(register, SourceRegister):
            register.finish()
    packed += bucket.process([], now)
    if config.analyzed:
        name = StepName(config.identity.stage, 0, SHUFFLE)
        came = StepWork(len(messages), sum(len(each.payload) for each in messages))
        packed.append(Packed(packed[-1].bucket, PackedKind.STATUS, work_done([(name, came)])))
    for each in config.destinations:
        if each.stage is None and not each.signed:
            packed = final(packed, each.width, each.query)
    return packed


def final(packed: list[Packed], width: int, query: int = 0) -> list[Packed]:
    """Remove the results of a query that were retracted: those of a group are all in this bucket,
    and a table needs no signs, which are one column more than results have (`width`)."""
    results = [each for each in packed if _are_results(each, query)]
    tables = [unpack_rows(each.payload) for each in results]
    if all(table.num_columns == width for table in tables):
        return packed
    batches = [batch for table in tables for batch in table.to_batches()]
    table = pa.Table.from_batches(all_signed(batches))
    if np.asarray(table.column(SIGN)).min() > 0:
        return packed
    left = final_rows(table)
    left = left.append_column(SIGN, pa.array(np.ones(left.num_rows, np.int8)))
    others = [each for each in packed if not _are_results(each, query)]
    key, batches = results[0].bucket, left.combine_chunks().to_batches()
    made = [Packed(key, PackedKind.ROWS, pack_rows(each), query=query) for each in batches]
    return [*others, *made]


def _are_results(packed: Packed, query: int) -> bool:
    return packed.kind is PackedKind.ROWS and packed.query == query
