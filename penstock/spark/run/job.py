"""A query as Spark DataFrames: ingest, shuffle, stateful step, for every stage; then the rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.errors import EngineError
from penstock.physical.plan import PhysicalPlan
from penstock.plan.stateless import Scan
from penstock.sources.rejects import Reject, rejects_batch
from penstock.spark.catalyst.columns import SETTINGS
from penstock.spark.catalyst.reading import read
from penstock.spark.frames.columns import (
    FrameColumns,
    late_frame_columns,
    reject_columns,
    result_columns,
)
from penstock.spark.frames.observing import FrameWithCounts, spark_schema
from penstock.spark.plan.config import Destination, StageConfig
from penstock.spark.plan.stages import Entry, Stage, entries_of
from penstock.spark.run.checkpoint import algorithms_on_spark, identity_on_spark
from penstock.spark.session.session import setting
from penstock.spark.session.worker_python import installed_packages
from penstock.spark.sources.feed import portions_in
from penstock.spark.sources.tables import TableFiles
from penstock.spark.stateful.batch_stage import at_once
from penstock.spark.stateful.identity import StateIdentity
from penstock.spark.stateful.step import StageStep
from penstock.spark.tasks.buckets import keys_for
from penstock.spark.tasks.coalesced import joined
from penstock.spark.tasks.ingest import IngestTask
from penstock.spark.tasks.kit import Kit
from penstock.spark.tasks.messages import PACKED, Packed, PackedKind, pack_rows, packed_batch
from penstock.spark.tasks.passing import Passing, plain
from penstock.spark.tasks.worker_memory import settle

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


class Job:
    def __init__(
        self,
        plan: PhysicalPlan,
        sources: Sources,
        buckets: int,
        strict: bool = False,
        bounded: bool = False,
        tables: TableFiles | None = None,
    ) -> None:
        """A `bounded` run ends by itself, so nobody has to look at the clock.  What tuples are
        looked up in is read from `tables` now."""
        self.query = plan.query
        self._plan = plan
        self._bounded = bounded
        self._sources = sources
        self._buckets = buckets
        self._strict = strict
        self._token = uuid.uuid4().hex
        self.entries = entries_of(plan.root, tables)

    @property
    def frames(self) -> list[DataFrame]:
        return [each.frame for frames in self._sources.frames.values() for each in frames]

    @property
    def _spark(self) -> SparkSession:
        return self.frames[0].sparkSession

    @property
    def streaming(self) -> bool:
        return any(frame.isStreaming for frame in self.frames)

    @property
    def stateful(self) -> bool:
        """Whether anything is ever open."""
        return any(isinstance(entry.leaf, Stage) for entry in self.entries)

    def packed(self) -> DataFrame:
        """Results and all else that comes out, packed."""
        with installed_packages(self._spark):
            return reduce(DataFrame.union, [self._outputs(entry) for entry in self.entries])

    def rows(self) -> FrameWithCounts:
        """The results as columns."""
        columns = result_columns(self.query, self.streaming)
        return self._counted([(entry, columns) for entry in self.entries])

    def late_rows(self) -> FrameWithCounts:
        """The tuples that missed windows.  Results are never late, so the stages that sources come
        to are enough, and those below them."""
        stages = [stage for entry in self.entries for stage in _stages_of_tuples(entry)]
        made = late_frame_columns(self.query, [stage.node for stage in stages])
        able = [
            (Entry(stage), columns)
            for stage, columns in zip(stages, made, strict=True)
            if columns is not None
        ]
        if not able:
            raise EngineError(
                "no tuple of this query can be late: nothing in it waits for progress",
                expected="windows, or groups of a column that progresses",
                hint="query.rejected_dataframe() has the rows that could not take part",
            )
        return self._counted(able)

    def rejected_rows(self, of_tables: Sequence[Reject] = ()) -> FrameWithCounts:
        """The rows that could not take part, which needs no state.  Those `of_tables` are known
        already; Spark adds no rows that are known to a stream."""
        columns = reject_columns()
        scans = [node.logical for node in self._plan.root.walk() if isinstance(node.logical, Scan)]
        made = self._counted([(Entry(scan), columns) for scan in scans])
        if self.streaming or not of_tables:
            return made
        payload = pack_rows(rejects_batch(list(of_tables)))
        packed = Packed(0, PackedKind.REJECTED, payload, rejected=len(of_tables))
        known = [self._spark.createDataFrame(table) for table in columns.tables([packed])]
        return made._replace(frame=reduce(DataFrame.union, [made.frame, *known]))

    def _counted(self, ways: list[tuple[Entry, FrameColumns]]) -> FrameWithCounts:
        with installed_packages(self._spark):
            made = [self._outputs(entry, columns) for entry, columns in ways]
        _, columns = ways[0]
        return FrameWithCounts(reduce(DataFrame.union, made), columns)

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

    def _outputs(self, entry: Entry, columns: FrameColumns | None = None) -> DataFrame:
        """Everything that comes out on a way, packed, or the rows of some columns."""
        if isinstance(entry.leaf, Stage):
            config = self._config(entry.leaf, Destination(entry, None))
            if columns is not None:
                config = config.giving(columns.kind)
            return self._stage(config, columns)
        made = []
        for source, frame in self._read(entry.leaf):
            passing = Passing(entry, source.feed, self._strict, columns)
            made.append(frame.mapInArrow(passing, _schema(columns)))
        return reduce(DataFrame.union, made)

    def _read(self, scan: Scan) -> Iterator[tuple[Frame, DataFrame]]:
        for source in self._sources.frames[scan.stream.name]:
            yield source, source.frame if source.fed else read(scan, source.frame)

    def _config(self, stage: Stage, destination: Destination) -> StageConfig:
        buckets = 1 if stage.one_bucket else self._buckets
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
                (1 if entry.leaf.one_bucket else self._buckets)
                if isinstance(entry.leaf, Stage)
                else 0
                for entry in stage.entries
            ),
            self._state_identity(stage, buckets),
            self._strict,
            self.query.signed,
            self.streaming and not self._bounded,
        )

    def _state_identity(self, stage: Stage, buckets: int) -> StateIdentity:
        tops = [entry.leaf for entry in self.entries if isinstance(entry.leaf, Stage)]
        numbers = [id(each) for top in tops for each in top.stages()]
        plan, algorithms = identity_on_spark(self._plan), algorithms_on_spark(self._plan)
        number = numbers.index(id(stage)) + 1
        return StateIdentity(tuple(plan), tuple(algorithms), number, buckets)

    def _stage(self, config: StageConfig, columns: FrameColumns | None = None) -> DataFrame:
        given = self._given(config)
        if given.isStreaming:
            return self._step(config, given, columns)
        packed = given.groupBy("bucket").applyInArrow(at_once(config), PACKED)
        if columns is None:
            return packed
        return packed.mapInArrow(columns.unpacked, _schema(columns))

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
        self, config: StageConfig, given: DataFrame, columns: FrameColumns | None
    ) -> DataFrame:
        """The stateful step; what comes out is packed, or rows in columns."""
        from penstock.spark.stateful.stepping import (
            Stepping,  # needs pandas, which batch jobs do not
        )

        timed = config.looks_at_clock and not self._bounded
        return given.groupBy("bucket").transformWithStateInPandas(
            StageStep(Stepping(config, timed, columns)),
            _schema(columns),
            "Append",
            "ProcessingTime" if timed else "None",
        )


def _schema(columns: FrameColumns | None) -> StructType | str:
    return spark_schema(columns) if columns is not None else PACKED


def _stages_of_tuples(entry: Entry) -> Iterator[Stage]:
    """The last stages that tuples of a source come to, on every way to an entry."""
    stage = entry.leaf
    if isinstance(stage, Scan):
        return
    if not stage.passes_tuples and any(_gives_tuples(each.leaf) for each in stage.entries):
        yield stage
        return
    for each in stage.entries:
        yield from _stages_of_tuples(each)


def _gives_tuples(leaf: Scan | Stage) -> bool:
    """Whether tuples of a source come out, not only results."""
    if isinstance(leaf, Scan):
        return True
    return leaf.passes_tuples and any(_gives_tuples(each.leaf) for each in leaf.entries)


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
            kit = _kits[key] = Kit(config, self._entry)
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
