"""The DataFrames of stages: readings of streams, a shuffle and a stateful step for every stage.

Stages are a tree, as they feed each other.  Where one reading, or one stage, feeds several of them,
they stand in a row, the feeding ones first, so that everything comes by them: each hands on what is
not its own.  Spark would compute anew what it hands to several.  Stages that do not feed each other
can be in one place of the row, as one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from penstock.spark.catalyst.reading import read
from penstock.spark.frames.columns import FrameColumns
from penstock.spark.frames.observing import spark_schema
from penstock.spark.plan.config import StageConfig
from penstock.spark.plan.readings import StreamReading, WayToStage
from penstock.spark.plan.stages import Stage
from penstock.spark.sources.feed import portions_in
from penstock.spark.sources.given import Frame, Sources
from penstock.spark.sources.stamps import task_clock
from penstock.spark.stateful.batch_stage import at_once
from penstock.spark.stateful.step import StageStep
from penstock.spark.tasks.coalesced import joined
from penstock.spark.tasks.ingest import IngestTask
from penstock.spark.tasks.kit import Kit
from penstock.spark.tasks.messages import PACKED, in_pieces, packed_batch
from penstock.spark.tasks.passing import Passing
from penstock.spark.tasks.worker_errors import said_shortly
from penstock.spark.tasks.worker_memory import settle

_MANY = 64  # readings whose kits a worker keeps
_kits: dict[tuple[str, int], list[Kit]] = {}  # of this worker, by the first way of the reading


@dataclass(frozen=True)
class StageFrames:
    """Everything that comes out, packed, or the rows of some columns."""

    sources: Sources
    strict: bool
    bounded: bool  # whether the run ends by itself, so that nobody has to look at the clock

    def as_tree(
        self,
        configs: Sequence[StageConfig],
        readings: Sequence[StreamReading],
        columns: FrameColumns | None,
    ) -> DataFrame:
        """Of stages with readings of their own."""
        of_stage = {id(config.stage): config for config in configs}

        def made(config: StageConfig, columns: FrameColumns | None) -> DataFrame:
            inputs = [self._ingested(each) for each in readings if _feeds(each, config)]
            below = [entry.leaf for entry in config.stage.entries]
            inputs += [made(of_stage[id(leaf)], None) for leaf in below if isinstance(leaf, Stage)]
            return self._stages([config], inputs, columns)

        tops = [config for config in configs if config.goes_out]
        frames = [made(config, columns) for config in tops]
        frames += [self._passed(reading, columns) for reading in readings if reading.ends]
        return reduce(DataFrame.union, frames)

    def in_a_row(
        self,
        row: Sequence[Sequence[StageConfig]],
        readings: Sequence[StreamReading],
        columns: FrameColumns | None,
    ) -> DataFrame:
        """Of stages some of which share a reading, place by place.  Rows are unpacked behind the
        last one."""
        before: list[DataFrame] = []
        left = list(readings)
        for place in row:
            now = [reading for reading in left if _feeds(reading, *place)]
            left = [reading for reading in left if not _feeds(reading, *place)]
            inputs = [*before, *map(self._ingested, now)]
            before = [self._stages(place, inputs, columns if place is row[-1] else None)]
        frames = [*before, *(self._passed(reading, columns) for reading in left)]
        return reduce(DataFrame.union, frames)

    def _read(self, reading: StreamReading) -> Iterator[tuple[Frame, DataFrame]]:
        for source in self.sources.frames[reading.stream]:
            yield source, source.frame if source.fed else read(reading.scan, source.frame)

    def _ingested(self, reading: StreamReading) -> DataFrame:
        made = [
            frame.mapInArrow(Ingesting(reading, source, self.strict), PACKED)
            for source, frame in self._read(reading)
        ]
        return reduce(DataFrame.union, made)

    def _passed(self, reading: StreamReading, columns: FrameColumns | None) -> DataFrame:
        made = [
            frame.mapInArrow(
                Passing(reading, source.feed, self.strict, columns, source.stamps), _schema(columns)
            )
            for source, frame in self._read(reading)
        ]
        return reduce(DataFrame.union, made)

    def _stages(
        self,
        configs: Sequence[StageConfig],
        inputs: Sequence[DataFrame],
        columns: FrameColumns | None,
    ) -> DataFrame:
        given = reduce(DataFrame.union, inputs)
        if given.isStreaming:
            return self._step(configs, given, columns)
        packed = given.groupBy("bucket").applyInArrow(at_once(*configs), PACKED)
        if columns is None:
            return packed
        return packed.mapInArrow(columns.unpacked, _schema(columns))

    def _step(
        self, configs: Sequence[StageConfig], given: DataFrame, columns: FrameColumns | None
    ) -> DataFrame:
        """The stateful step; what comes out is packed, or rows in columns."""
        from penstock.spark.stateful.stepping import (
            Stepping,  # needs pandas, which batch jobs do not
        )

        timed = any(each.looks_at_clock for each in configs) and not self.bounded
        return given.groupBy("bucket").transformWithStateInPandas(
            StageStep(Stepping(tuple(configs), timed, columns)),
            _schema(columns),
            "Append",
            "ProcessingTime" if timed else "None",
        )


def _feeds(reading: StreamReading, *configs: StageConfig) -> bool:
    own = set(map(id, configs))
    return any(id(way.config) in own for way in reading.ways)


def _schema(columns: FrameColumns | None) -> StructType | str:
    return spark_schema(columns) if columns is not None else PACKED


class Ingesting:
    """The function that Spark maps over the rows of a source."""

    def __init__(self, reading: StreamReading, source: Frame, strict: bool) -> None:
        self._reading = reading
        self._feed = source.feed
        self._stamps = source.stamps
        self._strict = strict
        self._in_order = source.in_order

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with said_shortly():
            yield from self._packed(batches)

    def _packed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        kits = _kits_of(self._reading.ways)
        place = context.partitionId()
        clock = task_clock(self._reading.scan.stream, self._stamps)
        task = IngestTask(self._reading, place, kits, self._strict, self._in_order, clock)
        if self._feed is not None:
            portions = portions_in(batches)
            packed = task.run_portions(portions, Path(self._feed)) if portions else iter(())
        else:
            packed = task.run(task.fitted(joined(batches)))
        for piece in in_pieces(packed):
            yield packed_batch(piece)
        for kit in kits:
            kit.tidy()
        settle()


def _kits_of(ways: Sequence[WayToStage]) -> list[Kit]:
    key = (ways[0].config.token, ways[0].number)
    kits = _kits.get(key)
    if kits is None:
        while len(_kits) >= _MANY:  # of queries that are over, probably
            del _kits[next(iter(_kits))]
        kits = _kits[key] = [Kit(way.config, way.number) for way in ways]
    return kits
