"""A query as Spark DataFrames: ingest, shuffle, stateful step, for every stage; then the rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ByteType, StructType

from penstock.model.batch import SIGN
from penstock.operators.build_revising import asked_of_results
from penstock.optimizer.rewrite import with_inputs
from penstock.plan.identity import identity
from penstock.plan.node import Node
from penstock.plan.query import Query
from penstock.plan.stateless import Scan
from penstock.spark.at_once import at_once
from penstock.spark.buckets import keys_for
from penstock.spark.checkpoint import algorithms_on_spark
from penstock.spark.columns import SETTINGS
from penstock.spark.config import Destination, StageConfig
from penstock.spark.feed import portions_in
from penstock.spark.ingest_task import IngestTask, Kit
from penstock.spark.joining import joined
from penstock.spark.messages import PACKED, Kind, packed_batch, unpack_columns
from penstock.spark.reading import narrowed, read
from penstock.spark.session import setting
from penstock.spark.stages import Entry, Stage, entries_of
from penstock.spark.state_identity import StateIdentity
from penstock.spark.stateless import Passing, plain
from penstock.spark.step import StageStep
from penstock.spark.types import to_spark
from penstock.spark.worker_memory import settle
from penstock.spark.worker_python import installed_packages

_MANY = 64  # entries whose kits a worker keeps
_kits: dict[tuple[str, int], Kit] = {}  # of this worker, by token of the stage and entry


@dataclass(frozen=True)
class Frame:
    """A DataFrame of a stream: its rows, or the portions of the `feed` in a directory, which say
    where they are."""

    frame: DataFrame
    feed: str | None = None

    @property
    def fed(self) -> bool:
        return self.feed is not None

    @property
    def in_order(self) -> bool:
        """A table has no order in which rows could be late."""
        return self.fed or self.frame.isStreaming


@dataclass(frozen=True)
class Sources:
    """By the name of the stream: what Spark reads, and the parts that are known from the start."""

    frames: dict[str, list[Frame]]
    parts: dict[str, tuple[str, ...]]


class Columns(NamedTuple):
    """The columns of results, as Arrow and as Spark have them."""

    arrow: pa.Schema
    spark: StructType


class Job:
    def __init__(
        self,
        query: Query,
        sources: Sources,
        buckets: int,
        strict: bool = False,
        bounded: bool = False,
    ) -> None:
        """A `bounded` run ends by itself, so nobody has to look at the clock."""
        self.query = query
        self._bounded = bounded
        self._sources = sources
        self._buckets = buckets
        self._strict = strict
        self._token = uuid.uuid4().hex
        # executors are handed the data, and must not be sent it along with the plan
        self.entries = entries_of(_without_sources(narrowed(query)), asked_of_results(query))

    @property
    def _frames(self) -> list[DataFrame]:
        return [each.frame for frames in self._sources.frames.values() for each in frames]

    @property
    def _spark(self) -> SparkSession:
        return self._frames[0].sparkSession

    @property
    def streaming(self) -> bool:
        return any(frame.isStreaming for frame in self._frames)

    @property
    def stateful(self) -> bool:
        """Whether anything is ever open."""
        return any(isinstance(entry.leaf, Stage) for entry in self.entries)

    def packed(self) -> DataFrame:
        """Results and all else that comes out, packed."""
        with installed_packages(self._spark):
            return reduce(DataFrame.union, [self._outputs(entry) for entry in self.entries])

    def rows(self) -> DataFrame:
        """The results as columns, and nothing else."""
        with installed_packages(self._spark):
            return reduce(DataFrame.union, [self._rows(entry) for entry in self.entries])

    def _rows(self, entry: Entry) -> DataFrame:
        columns = self._columns()
        if isinstance(entry.leaf, Stage) and self.streaming:
            config = self._config(entry.leaf, Destination(entry, None))
            return self._step(config, self._given(config), columns)
        packed = self._outputs(entry)
        rows = packed.where(F.col("kind") == int(Kind.ROWS)).select("payload")
        return rows.mapInArrow(Unpacking(columns.arrow), columns.spark)

    def _columns(self) -> Columns:
        """Rows of a table are final; those of a stream have a sign if they may be taken back."""
        schema = self.query.schema
        columns = Columns(schema.arrow, to_spark(schema))
        if not (self.query.revises and self.streaming):
            return columns
        signed = columns.arrow.append(pa.field(SIGN, pa.int8()))
        return Columns(signed, columns.spark.add(SIGN, ByteType()))

    def plain_rows(self) -> DataFrame | None:
        """The results by Catalyst alone, filters pushed into the scan; None if it cannot give them.
        A feed beside a DataFrame says only that the stream has ended, which nobody here awaits."""
        made = []
        for entry in self.entries:
            if not isinstance(entry.leaf, Scan):
                return None
            given = self._sources.frames[entry.leaf.stream.name]
            if given[0].fed:
                return None
            with setting(given[0].frame.sparkSession, SETTINGS):
                rows = plain(entry, given[0].frame)
            if isinstance(rows, str):
                return None
            made.append(rows)
        return reduce(DataFrame.union, made)

    def _outputs(self, entry: Entry) -> DataFrame:
        if isinstance(entry.leaf, Scan):
            return reduce(
                DataFrame.union,
                (
                    frame.mapInArrow(Passing(entry, source.feed, self._strict), PACKED)
                    for source, frame in self._read(entry.leaf)
                ),
            )
        config = self._config(entry.leaf, Destination(entry, None))
        return self._stage(config)

    def _read(self, scan: Scan) -> Iterator[tuple[Frame, DataFrame]]:
        for source in self._sources.frames[scan.stream.name]:
            yield source, source.frame if source.fed else read(scan, source.frame)

    def _config(self, stage: Stage, destination: Destination) -> StageConfig:
        buckets = self._buckets if stage.routing else 1
        return StageConfig(
            stage,
            destination,
            tuple(keys_for(self._buckets)[:buckets]),
            self.query.late,
            f"{self._token}/{id(stage)}",
            tuple(
                self._sources.parts.get(entry.leaf.stream.name, ())
                if isinstance(entry.leaf, Scan)
                else ()
                for entry in stage.entries
            ),
            tuple(
                (self._buckets if entry.leaf.routing else 1) if isinstance(entry.leaf, Stage) else 0
                for entry in stage.entries
            ),
            self._state_identity(stage, buckets),
            self._strict,
            self.streaming and not self._bounded,
            self.query.early_every if destination.stage is None else None,
        )

    def _state_identity(self, stage: Stage, buckets: int) -> StateIdentity:
        tops = [entry.leaf for entry in self.entries if isinstance(entry.leaf, Stage)]
        numbers = [id(each) for top in tops for each in top.stages()]
        plan, algorithms = identity(self.query), algorithms_on_spark(self.query)
        number = numbers.index(id(stage)) + 1
        return StateIdentity(tuple(plan), tuple(algorithms), number, buckets)

    def _stage(self, config: StageConfig) -> DataFrame:
        given = self._given(config)
        if not given.isStreaming:
            return given.groupBy("bucket").applyInArrow(at_once(config), PACKED)
        return self._step(config, given)

    def _given(self, config: StageConfig) -> DataFrame:
        """What comes to the buckets of a stage."""
        inputs = []
        for number, entry in enumerate(config.stage.entries):
            if isinstance(entry.leaf, Scan):
                for source, frame in self._read(entry.leaf):
                    ingesting = Ingesting(config, number, source.feed, source.in_order)
                    inputs.append(frame.mapInArrow(ingesting, PACKED))
            else:
                below = self._config(entry.leaf, Destination(entry, config, number))
                inputs.append(self._stage(below))
        return reduce(DataFrame.union, inputs)

    def _step(
        self, config: StageConfig, given: DataFrame, columns: Columns | None = None
    ) -> DataFrame:
        """The stateful step; what comes out is packed, or results in columns."""
        from penstock.spark.stepping import Stepping  # needs pandas, which batch jobs do not

        timed = config.looks_at_clock and not self._bounded
        stepping = Stepping(config, timed, columns.arrow if columns is not None else None)
        return given.groupBy("bucket").transformWithStateInPandas(
            StageStep(stepping),
            columns.spark if columns is not None else PACKED,
            "Append",
            "ProcessingTime" if timed else "None",
        )


def _without_sources(node: Node) -> Node:
    if isinstance(node, Scan):
        return replace(node, stream=replace(node.stream, source=None))
    return with_inputs(node, _without_sources)


class Ingesting:
    """The function that Spark maps over the rows of a source."""

    def __init__(self, config: StageConfig, entry: int, feed: str | None, in_order: bool) -> None:
        self._config = config
        self._entry = entry
        self._feed = feed
        self._in_order = in_order

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        config = self._config
        key = (config.token, self._entry)
        kit = _kits.get(key)
        if kit is None:
            while len(_kits) >= _MANY:  # of queries that are over, probably
                del _kits[next(iter(_kits))]
            kit = _kits[key] = Kit(config)
        place = context.partitionId()
        task = IngestTask(config, self._entry, place, kit, self._in_order)
        if self._feed is not None:
            portions = portions_in(batches)
            if portions:
                yield packed_batch(task.run_portions(portions, Path(self._feed)))
        else:
            yield packed_batch(task.run(task.fitted(joined(batches))))
        kit.tidy()
        settle()


class Unpacking:
    """The function that makes rows of packed ones."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column(0):
                yield from unpack_columns(payload.as_buffer(), self._schema).to_batches()
        settle()
