"""The tasks and buckets of a job, driven one after the other in this process, without Spark.

What Spark adds to them is transport: everything goes through packed messages here, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from uuid import uuid4
from weakref import finalize

import pyarrow as pa
import pytest

from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import Chunk
from penstock.kernel.state import MemoryStore
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.runs.run_options import Adaptation
from penstock.spark.run.job import Job
from penstock.spark.run.job_results import Recipient, Tally, deliver_all
from penstock.spark.sources.dataframe import Sources
from penstock.spark.sources.stream_inputs import streams_of
from penstock.spark.sources.tables import TableFiles
from penstock.spark.stages import StageConfig, StreamPaths
from penstock.spark.stateful import bucket_outputs
from penstock.spark.stateful.bucket import Bucket
from penstock.spark.tasks import ingest_tasks
from penstock.spark.tasks.ingest_tasks import IngestTask, Passing
from penstock.spark.tasks.messages import Message, Packed, packed_batch
from penstock.spark.tasks.paths import TaskCache
from tests.planning import on_spark
from tests.spark.helpers import Committed


@dataclass(frozen=True)
class Given:
    """What a task reads of a stream in a micro-batch."""

    chunks: Sequence[Chunk]
    ends: bool = False
    promise: int | None = None
    joins: Sequence[str] = ()
    leaves: Sequence[str] = ()


# By stream, what each of its tasks reads in one micro-batch.
MicroBatch = Mapping[str, Sequence[Given]]


class WithoutSpark:
    """A job whose buckets are saved after every micro-batch and, after a restart, made anew."""

    def __init__(
        self,
        query: QueryPlan | PhysicalPlan | Sequence[PhysicalPlan],
        buckets: int,
        live: bool = False,
        adaptation: Adaptation | None = None,
    ) -> None:
        """Of a query, or of several plans that share what they can."""
        if isinstance(query, QueryPlan):
            query = on_spark(query)
        plans = [query] if isinstance(query, PhysicalPlan) else query
        folder = Path(gettempdir()) / f"penstock-{uuid4().hex}"
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        tables = [TableFiles(plan.query, None, folder, False, buckets) for plan in plans]
        self._job = Job(plans, Sources({}, {}), buckets, tables=tables, adaptation=adaptation)
        self._live = live
        self._stores: dict[tuple[int, int], MemoryStore] = {}
        self._buckets: dict[tuple[int, int], Bucket] = {}
        self._caches: dict[tuple[int, int], TaskCache] = {}
        self._micro_batches = self._runs = 0
        self.now = 0
        self.tallies = [Tally() for _ in plans]
        self.all_received = [Committed() for _ in plans]

    @property
    def tally(self) -> Tally:
        """Of the only query."""
        (tally,) = self.tallies
        return tally

    @property
    def received(self) -> Committed:
        (received,) = self.all_received
        return received

    @property
    def makes_panes(self) -> bool:
        (config,) = self._tops()
        return config.stage.makes_panes(0)

    def _tops(self) -> list[StageConfig]:
        """The last stages, whose results go out."""
        return [each for each in self._configs() if each.goes_out]

    def _configs(self) -> list[StageConfig]:
        """Of all stages, those that feed others first."""
        made = self._job.configs(self._job.ends)
        return [replace(each, live=self._live, token=f"run {self._runs}") for each in made]

    def run(self, given: MicroBatch) -> None:
        """Stages in a row, each of which hands on what is not for it."""
        configs = self._configs()
        packed: list[Packed] = []
        for reading in self._job._readings(configs):
            read = self._ingest if reading.paths else self._passed
            for task, own in enumerate(given.get(reading.stream, ())):
                packed += read(reading, task, own)
        for config in configs:
            packed = self._stage(config, packed)
        made = self._deliver(packed)
        self.tallies = [a.plus(b) for a, b in zip(self.tallies, made, strict=True)]

    def _deliver(self, packed: list[Packed]) -> list[Tally]:
        to = [
            Recipient(received, streams=frozenset(streams_of(query)))
            for query, received in zip(self._job.queries, self.all_received, strict=True)
        ]
        table = pa.Table.from_batches([packed_batch(packed)])
        made = deliver_all(table, to, [[] for _ in to])
        for each in self.all_received:
            each.commit(self._micro_batches)
        self._micro_batches += 1
        return made

    def wake(self) -> None:
        """What timers do: the buckets look at the clock without a message."""
        packed = []
        for config in self._tops():
            for number in range(config.buckets):
                bucket = self._bucket(config, number)
                packed += bucket.process([], self.now)
                bucket.save(self._stores[_place(config, number)])
        self._deliver(packed)

    def lose_workers(self) -> None:
        """What was saved is left."""
        self._buckets.clear()
        self._caches.clear()

    def restart(self) -> None:
        """Another run that goes on from the checkpoint."""
        self.lose_workers()
        self._runs += 1

    def _passed(self, reading: StreamPaths, _: int, given: Given) -> list[Packed]:
        """What comes out without a stage."""
        passing = Passing(reading, None, strict=False)
        made = passing(chunk.batch for chunk in given.chunks)
        return [Packed(**row) for batch in made for row in batch.to_pylist()]

    def _ingest(self, reading: StreamPaths, task: int, given: Given) -> list[Packed]:
        return list(self._ingesting(reading, task, given))

    def _ingesting(self, reading: StreamPaths, task: int, given: Given) -> Iterator[Packed]:
        caches = [
            self._caches.setdefault(
                _place(path.config, path.number), TaskCache(path.config, path.number)
            )
            for path in reading.paths
        ]
        ingesting = IngestTask(reading, task, caches)
        ingesting._joins, ingesting._leaves = list(given.joins), list(given.leaves)
        return ingesting.run(iter(given.chunks), given.ends, given.promise)

    def _stage(self, config: StageConfig, packed: list[Packed]) -> list[Packed]:
        own = config.identity.stage
        made = [each for each in packed if not each.is_for(own)]
        for number, key in enumerate(config.bucket_keys):
            mine = [each for each in packed if each.is_for(own) and each.bucket == key]
            if mine:  # otherwise Spark does not call it
                messages = sorted(mine, key=lambda each: each.place)
                bucket = self._bucket(config, number)
                made += self._take_in(bucket, [Message.unpack(m.payload) for m in messages])
                bucket.save(self._stores[_place(config, number)])
        return made

    def _take_in(self, bucket: Bucket, messages: list[Message]) -> list[Packed]:
        return list(bucket.process(messages, self.now))

    def _bucket(self, config: StageConfig, number: int) -> Bucket:
        place = _place(config, number)
        if place not in self._buckets:
            bucket = Bucket(config, number, self.now)
            bucket.load(self._stores.setdefault(place, MemoryStore()))
            self._buckets[place] = bucket
        return self._buckets[place]


def send_after(patch: pytest.MonkeyPatch, rows: int) -> None:
    """Tasks and buckets send what they have after so many rows, not after a million."""
    for module in (ingest_tasks, bucket_outputs):
        patch.setattr(module, "MANY_ROWS", rows)


def _place(config: StageConfig, number: int) -> tuple[int, int]:
    """A bucket, or an entry, of a stage."""
    return config.identity.stage, number


def rows_of(query: QueryPlan) -> dict[str, pa.RecordBatch]:
    """All that the sources of a query hold."""
    found = {}
    for name, stream in streams_of(query).items():
        assert stream.source is not None
        schema = stream.input_schema
        chunks = stream.source.read(schema, RejectLog(strict=True).of(name))
        nothing = pa.RecordBatch.from_pylist([], schema.arrow)
        found[name] = pa.concat_batches([nothing, *(chunk.batch for chunk in chunks)])
    return found
