"""Queries as one Spark job: the configurations of its stages, the DataFrames that they become, and
the job over both."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.errors import EngineError
from penstock.io.sources.rejects import Reject, rejects_batch
from penstock.optimizer.sharing import read_in_turn
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.plan.streams import StreamDefinition
from penstock.runs.adaptation import can_change
from penstock.runs.run_options import Adaptation
from penstock.spark.catalyst.columns import SETTINGS
from penstock.spark.catalyst.plain_plans import plain
from penstock.spark.run.job_checkpoint import algorithms_on_spark, identity_on_spark
from penstock.spark.run.observed_counts import (
    FrameWithCounts,
    ObservedBy,
    observed_plainly,
    spark_schema,
)
from penstock.spark.run.result_columns import (
    FrameColumns,
    late_frame_columns,
    reject_columns,
    result_columns,
)
from penstock.spark.session.session import setting
from penstock.spark.session.worker_errors import brief_errors, freeze_imports
from penstock.spark.session.workers import installed_packages
from penstock.spark.sources.dataframe import Frame, Sources, read
from penstock.spark.sources.feed import portions_in, task_clock
from penstock.spark.sources.stream_inputs import streams_of
from penstock.spark.sources.tables import TableFiles
from penstock.spark.stages import (
    Destination,
    PathToEnd,
    PathToStage,
    SharedPaneStages,
    SharedStages,
    Stage,
    StageConfig,
    StagePath,
    StateIdentity,
    StreamPaths,
    paths_of,
    stream_paths,
)
from penstock.spark.stateful.step import StageStep, at_once
from penstock.spark.tasks.buckets import keys_for
from penstock.spark.tasks.ingest_tasks import IngestTask, Passing, joined
from penstock.spark.tasks.messages import (
    PACKED,
    Packed,
    PackedKind,
    in_pieces,
    pack_rows,
    packed_batch,
)
from penstock.spark.tasks.paths import TaskCache


@dataclass(frozen=True)
class Configs:
    """Makes the configurations of the stages of some plans; `parts` are the sub-sources that
    streams have from the start."""

    plans: Sequence[PhysicalPlan]
    buckets: int
    token: str
    parts: Mapping[str, tuple[str, ...]]
    strict: bool
    live: bool
    analyzed: bool = False
    adaptation: Adaptation = field(default_factory=Adaptation.never)

    def of(
        self, ends: Sequence[PathToEnd], every: Sequence[PathToEnd], kind: PackedKind
    ) -> list[StageConfig]:
        """Configurations of the stages on some paths to the end, in an order in which a stage comes
        before those that it feeds.  Stages are numbered among those of `every` path."""
        numbers = {id(each): number for number, each in enumerate(_stages(every), start=1)}
        stages = _stages(ends)
        asked: dict[int, list[_Consumer]] = {id(stage): [] for stage in stages}
        for end in ends:
            if isinstance(end.path.leaf, Stage):
                asked[id(end.path.leaf)].append(_Consumer(end.path, end.query, None, end.number))
        made: dict[int, StageConfig] = {}
        for stage in reversed(stages):  # consumers are made before the stages that feed them
            destinations = tuple(self._destination(each, made) for each in asked[id(stage)])
            config = self._config(stage, destinations, numbers[id(stage)])
            made[id(stage)] = config.giving(kind) if config.goes_out else config
            (query,) = config.queries if len(config.queries) == 1 else (0,)
            times = sum(each.times for each in destinations)
            for number, path in enumerate(stage.paths):  # which are scans, where queries share
                if isinstance(path.leaf, Stage):
                    asked[id(path.leaf)].append(_Consumer(path, query, stage, number, times))
        return [made[id(stage)] for stage in stages]

    def _destination(self, asked: _Consumer, made: Mapping[int, StageConfig]) -> Destination:
        query = self.plans[asked.query].query
        fed = None if asked.by is None else made[id(asked.by)]
        late, signed = query.late, query.signed
        return Destination(asked.path, fed, asked.number, asked.query, late, signed, asked.times)

    def _config(
        self, stage: Stage, destinations: tuple[Destination, ...], number: int
    ) -> StageConfig:
        buckets = 1 if stage.one_bucket else self.buckets
        scans = [path.leaf if isinstance(path.leaf, Scan) else None for path in stage.paths]
        feeding = [path.leaf if isinstance(path.leaf, Stage) else None for path in stage.paths]
        queries = list(dict.fromkeys(each.query for each in destinations))
        return StageConfig(
            stage,
            destinations,
            tuple(keys_for(self.buckets)[:buckets]),
            f"{self.token}/{id(stage)}",
            tuple(self.parts.get(scan.stream.name, ()) if scan else () for scan in scans),
            tuple((1 if each.one_bucket else self.buckets) if each else 0 for each in feeding),
            self._identity(queries, number, buckets),
            self.strict,
            self.live,
            self.analyzed,
            self.adaptation,
        )

    def _identity(self, queries: Sequence[int], number: int, buckets: int) -> StateIdentity:
        """Identity of the state of a stage: that of a query, or of all queries that share the
        stage."""
        if len(self.plans) == 1:
            plan, how = self._of_plans[0]
            return StateIdentity(tuple(plan), tuple(how), number, buckets)
        plan, how = [], []
        for query in queries:
            title = f"query {query + 1} of {len(self.plans)}"
            plan += [title, *self._of_plans[query][0]]
            how += self._of_plans[query][1]
        return StateIdentity(tuple(plan), tuple(how), number, buckets)

    @cached_property
    def _of_plans(self) -> list[tuple[list[str], list[str]]]:
        return [(identity_on_spark(plan), algorithms_on_spark(plan)) for plan in self.plans]


@dataclass(frozen=True)
class _Consumer:
    """A consumer of the results of a stage: a path to another stage, or a query."""

    path: StagePath
    query: int
    by: Stage | None = None
    number: int = 0
    times: int = 1


def _stages(ends: Sequence[PathToEnd]) -> list[Stage]:
    """Stages on some paths, each once, after those that feed it."""
    found: dict[int, Stage] = {}
    for end in ends:
        if isinstance(end.path.leaf, Stage):
            for stage in end.path.leaf.stages():
                found.setdefault(id(stage), stage)
    return list(found.values())


# The DataFrames of stages: scans of streams, a shuffle and a stateful step for every stage.
#
# Stages form a tree, as they feed each other.  Where one scan, or one stage, feeds several of them,
# they are chained, the feeding ones first, so that all messages pass them: each stage forwards the
# messages of later stages.  Spark would otherwise compute the shared part once for each of its
# consumers.  Stages that do not feed each other can be one step of the chain.

_MANY = 64  # scans whose task caches a worker keeps
_caches: dict[tuple[str, int], list[TaskCache]] = {}  # of this worker, by first path


@dataclass(frozen=True)
class StageFrames:
    """Makes the DataFrame of a job: all output, packed, or the rows of some columns."""

    sources: Sources
    strict: bool
    bounded: bool  # whether the run ends by itself, so that no timers are needed

    def as_tree(
        self,
        configs: Sequence[StageConfig],
        readings: Sequence[StreamPaths],
        columns: FrameColumns | None,
    ) -> DataFrame:
        """Connect stages as a tree; every stage has scans of its own."""
        of_stage = {id(config.stage): config for config in configs}

        def made(config: StageConfig, columns: FrameColumns | None) -> DataFrame:
            inputs = [self._ingested(each) for each in readings if _feeds(each, config)]
            below = [path.leaf for path in config.stage.paths]
            inputs += [made(of_stage[id(leaf)], None) for leaf in below if isinstance(leaf, Stage)]
            return self._stages([config], inputs, columns)

        tops = [config for config in configs if config.goes_out]
        frames = [made(config, columns) for config in tops]
        frames += [self._passed(reading, columns) for reading in readings if reading.ends]
        return reduce(DataFrame.union, frames)

    def in_a_row(
        self,
        row: Sequence[Sequence[StageConfig]],
        readings: Sequence[StreamPaths],
        columns: FrameColumns | None,
    ) -> DataFrame:
        """Chain stages, some of which share a scan, step by step.  Rows are unpacked after the last
        step."""
        before: list[DataFrame] = []
        left = list(readings)
        for place in row:
            now = [reading for reading in left if _feeds(reading, *place)]
            left = [reading for reading in left if not _feeds(reading, *place)]
            inputs = [*before, *map(self._ingested, now)]
            before = [self._stages(place, inputs, columns if place is row[-1] else None)]
        frames = [*before, *(self._passed(reading, columns) for reading in left)]
        return reduce(DataFrame.union, frames)

    def _read(self, reading: StreamPaths) -> Iterator[tuple[Frame, DataFrame]]:
        for source in self.sources.frames[reading.stream]:
            yield source, source.frame if source.fed else read(reading.scan, source.frame)

    def _ingested(self, reading: StreamPaths) -> DataFrame:
        made = [
            frame.mapInArrow(Ingesting(reading, source, self.strict), PACKED)
            for source, frame in self._read(reading)
        ]
        return reduce(DataFrame.union, made)

    def _passed(self, reading: StreamPaths, columns: FrameColumns | None) -> DataFrame:
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
        """Add the stateful step; its output is packed, or rows in columns."""
        from penstock.spark.stateful.step import Stepping

        timed = any(each.looks_at_clock for each in configs) and not self.bounded
        return given.groupBy("bucket").transformWithStateInPandas(
            StageStep(Stepping(tuple(configs), timed, columns)),
            _schema(columns),
            "Append",
            "ProcessingTime" if timed else "None",
        )


def _feeds(reading: StreamPaths, *configs: StageConfig) -> bool:
    own = set(map(id, configs))
    return any(id(path.config) in own for path in reading.paths)


def _schema(columns: FrameColumns | None) -> StructType | str:
    return spark_schema(columns) if columns is not None else PACKED


class Ingesting:
    """The function that Spark maps over the rows of a source before the shuffle."""

    def __init__(self, reading: StreamPaths, source: Frame, strict: bool) -> None:
        self._reading = reading
        self._feed = source.feed
        self._stamps = source.stamps
        self._strict = strict
        self._in_order = source.in_order

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with brief_errors():
            yield from self._packed(batches)

    def _packed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        caches = _caches_of(self._reading.paths)
        place = context.partitionId()
        clock = task_clock(self._reading.scan.stream, self._stamps)
        task = IngestTask(self._reading, place, caches, self._strict, self._in_order, clock)
        if self._feed is not None:
            portions = portions_in(batches)
            packed = task.run_portions(portions, Path(self._feed)) if portions else iter(())
        else:
            packed = task.run(task.fitted(joined(batches)))
        for piece in in_pieces(packed):
            yield packed_batch(piece)
        for cache in caches:
            cache.tidy()
        freeze_imports()


def _caches_of(paths: Sequence[PathToStage]) -> list[TaskCache]:
    key = (paths[0].config.token, paths[0].number)
    caches = _caches.get(key)
    if caches is None:
        while len(_caches) >= _MANY:  # of queries that are over, probably
            del _caches[next(iter(_caches))]
        caches = _caches[key] = [TaskCache(path.config, path.number) for path in paths]
    return caches


# The job: ingest, shuffle and stateful step for every stage; then the rows.
#
# Several queries are one job: every stream is read once for all of them, and stages that do not
# feed each other are one step.


class Job:
    """One Spark job for some queries, as DataFrames of results, late tuples or rejected rows."""

    def __init__(
        self,
        plans: Sequence[PhysicalPlan],
        sources: Sources,
        buckets: int,
        strict: bool = False,
        bounded: bool = False,
        tables: Sequence[TableFiles] | None = None,
        analyzed: bool = False,
        adaptation: Adaptation | None = None,
    ) -> None:
        """A `bounded` run ends by itself, so it needs no timers.  The tables that tuples of each
        plan are looked up in are read from `tables` now.  An `analyzed` job reports the work of its
        steps.  Operators of a streaming job may be exchanged while it runs."""
        self.queries = [plan.query for plan in plans]
        self._plans = plans
        self._bounded = bounded
        self._sources = sources
        self._buckets = buckets
        self._strict = strict
        self._analyzed = analyzed
        self._adaptation = adaptation or Adaptation.never()
        self._token = uuid.uuid4().hex
        panes = SharedPaneStages(plan.root for plan in plans)
        self.ends: list[PathToEnd] = []
        for number, plan in enumerate(plans):
            common = SharedStages(panes, frozenset(plan.shared))
            found = paths_of(plan.root, tables[number] if tables else None, common)
            first = len(self.ends)
            self.ends += [PathToEnd(e, number, place) for place, e in enumerate(found, first)]

    @property
    def query(self) -> QueryPlan:
        """The only query of the job."""
        (query,) = self.queries
        return query

    @property
    def _streams(self) -> dict[str, StreamDefinition]:
        return streams_of(*self.queries)

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
    def looks_at_clock(self) -> bool:
        """Whether Spark has to run micro-batches although no rows have come."""
        return not self._bounded and any(each.looks_at_clock for each in self.configs(self.ends))

    @property
    def stateful(self) -> bool:
        """Whether the job has a stage."""
        return any(isinstance(end.path.leaf, Stage) for end in self.ends)

    @property
    def adapts(self) -> bool:
        """Whether operators may be exchanged while it runs."""
        nodes = [node for plan in self._plans for node in plan.root.walk()]
        return self.streaming and self._adaptation.on and any(map(can_change, nodes))

    def packed(self) -> DataFrame:
        """DataFrame with all output of the job, packed."""
        with installed_packages(self._spark):
            return self._all(None)

    def rows(self) -> FrameWithCounts:
        """DataFrame with the results as columns."""
        columns = result_columns(self.query, self.streaming, self.adapts)
        with installed_packages(self._spark):
            return FrameWithCounts(self._all(columns), columns)

    def late_rows(self) -> FrameWithCounts:
        """DataFrame with the late tuples.  Results are never late, so the stages that tuples of
        sources come to are enough, and those below them."""
        stages = [stage for end in self.ends for stage in _stages_of_tuples(end.path)]
        made = late_frame_columns(self.query, [stage.node for stage in stages])
        able = [(StagePath(s), c) for s, c in zip(stages, made, strict=True) if c is not None]
        if not able:
            raise EngineError(
                "no tuple of this query can be late: nothing in it waits for progress",
                expected="windows, or groups of a column that progresses",
                hint="query.rejected_dataframe() has the rows that could not take part",
            )
        frames, counted = [], set[str]()
        for path, columns in able:
            configs = self.configs([PathToEnd(path)], columns.kind)
            readings = stream_paths(configs, [], self._streams)
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
        """DataFrame with the rejected rows, which needs no state.  Those `of_tables` are known
        already; they cannot be added to a streaming DataFrame."""
        columns = reject_columns()
        nodes = [node.logical for plan in self._plans for node in plan.root.walk()]
        ends = [PathToEnd(StagePath(node)) for node in nodes if isinstance(node, Scan)]
        with installed_packages(self._spark):
            frame = self._frames.as_tree([], stream_paths([], ends, self._streams), columns)
        made = FrameWithCounts(frame, columns)
        if self.streaming or not of_tables:
            return made
        payload = pack_rows(rejects_batch(list(of_tables)))
        packed = Packed(0, PackedKind.REJECTED, payload, rejected=len(of_tables))
        known = [self._spark.createDataFrame(table) for table in columns.tables([packed])]
        return made._replace(frame=reduce(DataFrame.union, [made.frame, *known]))

    def plain_rows(self, metrics: ObservedBy | None = None) -> DataFrame | None:
        """DataFrame with the results by Catalyst alone; None if it cannot give them.  `metrics` is
        where they are counted.  A feed of a DataFrame says only that the stream has ended, which is
        not needed here."""
        made, progress = [], False
        for path in (end.path for end in self.ends):
            if not isinstance(path.leaf, Scan):
                return None
            given = self._sources.frames[path.leaf.stream.name]
            progresses = path.leaf.stream.progress is not None
            if given[0].fed or (progresses and self._strict):
                return None
            progress = progress or progresses
            if progress and metrics is not None and len(self.ends) > 1:  # one name, several counts
                return None
            with setting(given[0].frame.sparkSession, SETTINGS):
                rows = plain(path, given[0].frame, metrics)
            if isinstance(rows, str):
                return None
            made.append(rows)
        frame = reduce(DataFrame.union, made)
        return frame if progress or metrics is None else observed_plainly(frame, metrics)

    def _all(self, columns: FrameColumns | None) -> DataFrame:
        """DataFrame with all output, packed, or the rows of some columns."""
        configs = self.configs(self.ends)
        readings = self._readings(configs)
        several = len(self.queries) > 1 or any(len(each.destinations) > 1 for each in configs)
        if several and configs:
            return self._frames.in_a_row(in_steps(configs), readings, columns)
        if any(reading.needs_row for reading in readings):
            return self._frames.in_a_row([[each] for each in configs], readings, columns)
        return self._frames.as_tree(configs, readings, columns)

    def _readings(self, configs: Sequence[StageConfig]) -> list[StreamPaths]:
        """Scans of all streams with their paths: one for every stream, or one for every path where
        rows are counted as they come."""
        in_turn: dict[str, list[int]] = {}
        for number, query in enumerate(self.queries):
            for stream in read_in_turn(query):
                in_turn.setdefault(stream.name, []).append(number)
        return [
            replace(each, analyzed=self._analyzed)
            for reading in stream_paths(configs, self.ends, self._streams)
            for each in (
                reading.in_turn(in_turn[reading.stream]) if reading.stream in in_turn else [reading]
            )
        ]

    @property
    def _frames(self) -> StageFrames:
        return StageFrames(self._sources, self._strict, self._bounded)

    def configs(
        self, ends: Sequence[PathToEnd], kind: PackedKind = PackedKind.ROWS
    ) -> list[StageConfig]:
        """Configurations of all stages on some paths to the end; a stage comes before those that it
        feeds."""
        live = self.streaming and not self._bounded
        parts, strict = self._sources.parts, self._strict
        made = Configs(
            self._plans,
            self._buckets,
            self._token,
            parts,
            strict,
            live,
            self._analyzed,
            self._adaptation,
        )
        return made.of(ends, self.ends, kind)


def in_steps(configs: Sequence[StageConfig]) -> list[list[StageConfig]]:
    """Order stages in steps, so that each is in a later step than all that feed it."""
    place: dict[int, int] = {}
    row: list[list[StageConfig]] = []
    for config in configs:  # those that feed others come first
        feeding = [each.leaf for each in config.stage.paths if isinstance(each.leaf, Stage)]
        own = max((place[id(stage)] + 1 for stage in feeding), default=0)
        place[id(config.stage)] = own
        row += [[] for _ in range(own + 1 - len(row))]
        row[own].append(config)
    return row


def _stages_of_tuples(path: StagePath) -> Iterator[Stage]:
    """Yield the last stages that tuples of a source come to, on every path to this one."""
    stage = path.leaf
    if isinstance(stage, Scan):
        return
    if not stage.passes_tuples and any(_gives_tuples(each.leaf) for each in stage.paths):
        yield stage
        return
    for each in stage.paths:
        yield from _stages_of_tuples(each)


def _gives_tuples(leaf: Scan | Stage) -> bool:
    """Whether tuples of a source come out, and not only results."""
    if isinstance(leaf, Scan):
        return True
    return leaf.passes_tuples and any(_gives_tuples(each.leaf) for each in leaf.paths)
