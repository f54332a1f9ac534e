"""A query as Spark DataFrames: ingest, shuffle, stateful step, for every stage; then the rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import EngineError
from penstock.optimizer.share_readings import read_in_turn
from penstock.physical.plan import PhysicalPlan
from penstock.plan.stateless import Scan
from penstock.sources.rejects import Reject, rejects_batch
from penstock.spark.catalyst.columns import SETTINGS
from penstock.spark.frames.columns import (
    FrameColumns,
    late_frame_columns,
    reject_columns,
    result_columns,
)
from penstock.spark.frames.observing import FrameWithCounts
from penstock.spark.plan.config import Destination, StageConfig
from penstock.spark.plan.readings import StreamReading, readings_of
from penstock.spark.plan.stages import Entry, Stage, entries_of
from penstock.spark.run.checkpoint import algorithms_on_spark, identity_on_spark
from penstock.spark.run.stage_frames import StageFrames
from penstock.spark.session.session import setting
from penstock.spark.session.worker_python import installed_packages
from penstock.spark.sources.feeds import streams_of
from penstock.spark.sources.given import Sources
from penstock.spark.sources.tables import TableFiles
from penstock.spark.stateful.identity import StateIdentity
from penstock.spark.tasks.buckets import keys_for
from penstock.spark.tasks.messages import Packed, PackedKind, pack_rows
from penstock.spark.tasks.passing import plain


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
            return self._all(None)

    def rows(self) -> FrameWithCounts:
        """The results as columns."""
        columns = result_columns(self.query, self.streaming)
        with installed_packages(self._spark):
            return FrameWithCounts(self._all(columns), columns)

    def late_rows(self) -> FrameWithCounts:
        """The tuples that missed windows.  Results are never late, so the stages that sources come
        to are enough, and those below them."""
        stages = [stage for entry in self.entries for stage in _stages_of_tuples(entry)]
        made = late_frame_columns(self.query, [stage.node for stage in stages])
        able = [(Entry(s), c) for s, c in zip(stages, made, strict=True) if c is not None]
        if not able:
            raise EngineError(
                "no tuple of this query can be late: nothing in it waits for progress",
                expected="windows, or groups of a column that progresses",
                hint="query.rejected_dataframe() has the rows that could not take part",
            )
        frames, counted = [], set[str]()
        for entry, columns in able:
            configs = self.configs([entry], columns.kind)
            readings = readings_of(configs, [], streams_of(self.query))
            apart = [
                replace(part, counts=part.counts and reading.stream not in counted)
                for reading in readings
                for part in reading.apart()
            ]
            counted |= {reading.stream for reading in readings}
            with installed_packages(self._spark):
                frames.append(self._frames.as_tree(configs, apart, columns))
        return FrameWithCounts(reduce(DataFrame.union, frames), able[0][1])

    def rejected_rows(self, of_tables: Sequence[Reject] = ()) -> FrameWithCounts:
        """The rows that could not take part, which needs no state.  Those `of_tables` are known
        already; Spark adds no rows that are known to a stream."""
        columns = reject_columns()
        scans = [node.logical for node in self._plan.root.walk() if isinstance(node.logical, Scan)]
        ends = [Entry(scan) for scan in scans]
        with installed_packages(self._spark):
            frame = self._frames.as_tree([], readings_of([], ends, streams_of(self.query)), columns)
        made = FrameWithCounts(frame, columns)
        if self.streaming or not of_tables:
            return made
        payload = pack_rows(rejects_batch(list(of_tables)))
        packed = Packed(0, PackedKind.REJECTED, payload, rejected=len(of_tables))
        known = [self._spark.createDataFrame(table) for table in columns.tables([packed])]
        return made._replace(frame=reduce(DataFrame.union, [made.frame, *known]))

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

    def _all(self, columns: FrameColumns | None) -> DataFrame:
        """Everything that comes out, packed, or the rows of some columns."""
        configs = self.configs(self.entries)
        readings = self._readings(configs)
        if any(reading.needs_row for reading in readings):
            return self._frames.in_a_row(configs, readings, columns)
        return self._frames.as_tree(configs, readings, columns)

    def _readings(self, configs: Sequence[StageConfig]) -> list[StreamReading]:
        """One for every stream, or one for every way where rows are counted as they come."""
        in_turn = {stream.name for stream in read_in_turn(self.query)}
        return [
            each
            for reading in readings_of(configs, self.entries, streams_of(self.query))
            for each in (reading.in_turn() if reading.stream in in_turn else [reading])
        ]

    @property
    def _frames(self) -> StageFrames:
        return StageFrames(self._sources, self._strict, self._bounded)

    def configs(
        self, entries: Sequence[Entry], kind: PackedKind = PackedKind.ROWS
    ) -> list[StageConfig]:
        """Of all stages on some ways to the end, those that feed others first."""
        made: list[StageConfig] = []

        def add(entry: Entry, destination: Destination) -> None:
            if isinstance(entry.leaf, Stage):
                config = self._config(entry.leaf, destination)
                config = config.giving(kind) if destination.stage is None else config
                for number, each in enumerate(config.stage.entries):
                    add(each, Destination(each, config, number))
                made.append(config)

        for entry in entries:
            add(entry, Destination(entry, None))
        return made

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
