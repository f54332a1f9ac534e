"""Queries as Spark DataFrames: ingest, shuffle, stateful step, for every stage; then the rows.

Several queries are one job: every stream is read once for all of them, and stages that do not feed
each other are one step.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import EngineError
from penstock.optimizer.share_readings import read_in_turn
from penstock.physical.plan import PhysicalPlan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import StreamDefinition
from penstock.runs.adapting.adaptation import Adaptation
from penstock.runs.adapting.watched import can_change
from penstock.sources.rejects import Reject, rejects_batch
from penstock.spark.catalyst.columns import SETTINGS
from penstock.spark.catalyst.plain import plain
from penstock.spark.frames.columns import (
    FrameColumns,
    late_frame_columns,
    reject_columns,
    result_columns,
)
from penstock.spark.frames.observing import FrameWithCounts, ObservedBy, observed_plainly
from penstock.spark.plan.config import StageConfig
from penstock.spark.plan.readings import StreamReading, WayToEnd, readings_of
from penstock.spark.plan.stages import Entry, InCommon, PanesInCommon, Stage, entries_of
from penstock.spark.run.configs import Configs
from penstock.spark.run.stage_frames import StageFrames
from penstock.spark.session.session import setting
from penstock.spark.session.worker_python import installed_packages
from penstock.spark.sources.feeds import streams_of
from penstock.spark.sources.given import Sources
from penstock.spark.sources.tables import TableFiles
from penstock.spark.tasks.messages import Packed, PackedKind, pack_rows


class Job:
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
        """A `bounded` run ends by itself, so nobody has to look at the clock.  What the tuples of
        each plan are looked up in is read from its `tables` now.  One that is `analyzed` tells what
        its steps do.  Operators of a job that goes on may be exchanged while it runs."""
        self.queries = [plan.query for plan in plans]
        self._plans = plans
        self._bounded = bounded
        self._sources = sources
        self._buckets = buckets
        self._strict = strict
        self._analyzed = analyzed
        self._adaptation = adaptation or Adaptation.never()
        self._token = uuid.uuid4().hex
        panes = PanesInCommon(plan.root for plan in plans)
        self.ends: list[WayToEnd] = []
        for number, plan in enumerate(plans):
            common = InCommon(panes, frozenset(plan.shared))
            found = entries_of(plan.root, tables[number] if tables else None, common)
            first = len(self.ends)
            self.ends += [WayToEnd(e, number, place) for place, e in enumerate(found, first)]

    @property
    def query(self) -> QueryPlan:
        """The only one."""
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
        """Whether Spark has to run micro-batches although nothing has come."""
        return not self._bounded and any(each.looks_at_clock for each in self.configs(self.ends))

    @property
    def stateful(self) -> bool:
        """Whether anything is ever open."""
        return any(isinstance(end.entry.leaf, Stage) for end in self.ends)

    @property
    def adapts(self) -> bool:
        """Whether operators may be exchanged while it runs."""
        nodes = [node for plan in self._plans for node in plan.root.walk()]
        return self.streaming and self._adaptation.on and any(map(can_change, nodes))

    def packed(self) -> DataFrame:
        """Results and all else that comes out, packed."""
        with installed_packages(self._spark):
            return self._all(None)

    def rows(self) -> FrameWithCounts:
        """The results as columns."""
        columns = result_columns(self.query, self.streaming, self.adapts)
        with installed_packages(self._spark):
            return FrameWithCounts(self._all(columns), columns)

    def late_rows(self) -> FrameWithCounts:
        """The tuples that missed windows.  Results are never late, so the stages that sources come
        to are enough, and those below them."""
        stages = [stage for end in self.ends for stage in _stages_of_tuples(end.entry)]
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
            configs = self.configs([WayToEnd(entry)], columns.kind)
            readings = readings_of(configs, [], self._streams)
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
        nodes = [node.logical for plan in self._plans for node in plan.root.walk()]
        ends = [WayToEnd(Entry(node)) for node in nodes if isinstance(node, Scan)]
        with installed_packages(self._spark):
            frame = self._frames.as_tree([], readings_of([], ends, self._streams), columns)
        made = FrameWithCounts(frame, columns)
        if self.streaming or not of_tables:
            return made
        payload = pack_rows(rejects_batch(list(of_tables)))
        packed = Packed(0, PackedKind.REJECTED, payload, rejected=len(of_tables))
        known = [self._spark.createDataFrame(table) for table in columns.tables([packed])]
        return made._replace(frame=reduce(DataFrame.union, [made.frame, *known]))

    def plain_rows(self, metrics: ObservedBy | None = None) -> DataFrame | None:
        """The results by Catalyst alone; None if it cannot give them.  `metrics` is where they are
        counted.  A feed beside a DataFrame says only that the stream has ended, which nobody here
        awaits."""
        made, progress = [], False
        for entry in (end.entry for end in self.ends):
            if not isinstance(entry.leaf, Scan):
                return None
            given = self._sources.frames[entry.leaf.stream.name]
            progresses = entry.leaf.stream.progress is not None
            if given[0].fed or (progresses and self._strict):
                return None
            progress = progress or progresses
            if progress and metrics is not None and len(self.ends) > 1:  # one name, several counts
                return None
            with setting(given[0].frame.sparkSession, SETTINGS):
                rows = plain(entry, given[0].frame, metrics)
            if isinstance(rows, str):
                return None
            made.append(rows)
        frame = reduce(DataFrame.union, made)
        return frame if progress or metrics is None else observed_plainly(frame, metrics)

    def _all(self, columns: FrameColumns | None) -> DataFrame:
        """Everything that comes out, packed, or the rows of some columns."""
        configs = self.configs(self.ends)
        readings = self._readings(configs)
        several = len(self.queries) > 1 or any(len(each.destinations) > 1 for each in configs)
        if several and configs:
            return self._frames.in_a_row(in_places(configs), readings, columns)
        if any(reading.needs_row for reading in readings):
            return self._frames.in_a_row([[each] for each in configs], readings, columns)
        return self._frames.as_tree(configs, readings, columns)

    def _readings(self, configs: Sequence[StageConfig]) -> list[StreamReading]:
        """One for every stream, or one for every way where rows are counted as they come."""
        in_turn: dict[str, list[int]] = {}
        for number, query in enumerate(self.queries):
            for stream in read_in_turn(query):
                in_turn.setdefault(stream.name, []).append(number)
        return [
            replace(each, analyzed=self._analyzed)
            for reading in readings_of(configs, self.ends, self._streams)
            for each in (
                reading.in_turn(in_turn[reading.stream]) if reading.stream in in_turn else [reading]
            )
        ]

    @property
    def _frames(self) -> StageFrames:
        return StageFrames(self._sources, self._strict, self._bounded)

    def configs(
        self, ends: Sequence[WayToEnd], kind: PackedKind = PackedKind.ROWS
    ) -> list[StageConfig]:
        """Of all stages on some ways to the end, those that feed others first."""
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


def in_places(configs: Sequence[StageConfig]) -> list[list[StageConfig]]:
    """Stages in a row of places: each is behind all that feed it."""
    place: dict[int, int] = {}
    row: list[list[StageConfig]] = []
    for config in configs:  # those that feed others come first
        feeding = [each.leaf for each in config.stage.entries if isinstance(each.leaf, Stage)]
        own = max((place[id(stage)] + 1 for stage in feeding), default=0)
        place[id(config.stage)] = own
        row += [[] for _ in range(own + 1 - len(row))]
        row[own].append(config)
    return row


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
