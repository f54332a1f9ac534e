"""Queries at work: which engine runs them, where their rows go, and how they are stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from penstock.answer import Answer
from penstock.engine import local
from penstock.engine.driver import Driver
from penstock.engine.outlet import SHOWN, Outlet
from penstock.engine.run import LocalRun, SharedScan
from penstock.errors import EngineError
from penstock.model.batch import SIGN
from penstock.model.clock import Clock
from penstock.optimizer.settings import STATE_BUDGET
from penstock.plan.query import Query
from penstock.reference import engine as reference
from penstock.running_on_spark import RunningOnSpark, SparkSetting
from penstock.sinks.sink import Sink
from penstock.sources.source import Chunk
from penstock.spark import progress
from penstock.targets import Outcome, Target

ENGINES = ("spark", "local", "reference")
_ANSWERS: dict[str, Callable[[Query, Clock, bool], Answer]] = {
    "local": local.answer,
    "reference": reference.answer,
}
Watch = Callable[[LocalRun, SharedScan, Chunk], None]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a database tells its queries."""

    engine: str
    clock: Clock
    strict: bool
    state_budget: int = STATE_BUDGET
    spark: SparkSetting | None = None

    def answer(self, query: Query) -> Answer:
        if self.engine == "spark":
            return self.on_spark.answer(query, self.strict)
        return _ANSWERS[self.engine](query, self.clock, self.strict)

    @property
    def on_spark(self) -> SparkSetting:
        if self.engine != "spark" or self.spark is None:
            raise EngineError(
                f"that is for the spark engine, and the database runs on {self.engine}",
                hint="connect(spark), connect('spark'), or --engine spark",
            )
        return self.spark


class Running:
    """Some queries that are run in one pass: each source is read once for all of them."""

    def __init__(
        self,
        setting: Setting,
        queries: Sequence[Query],
        targets: Sequence[Target],
        watch: Watch | None = None,
        watch_spark: progress.Watch | None = None,
    ) -> None:
        self._setting = setting
        self._queries = queries
        self._targets = targets
        self._driver: Driver | None = None
        if setting.engine == "local":
            outlets = [
                Outlet(query, target.rows, target.late, target.rejected)
                for query, target in zip(queries, targets, strict=True)
            ]
            self.run = LocalRun(queries, outlets, setting.clock, setting.strict)
            self._driver = Driver(
                self.run,
                None if watch is None else lambda scan, chunk: watch(self.run, scan, chunk),
            )
        self._on_spark: RunningOnSpark | None = None
        if setting.engine == "spark":
            self._on_spark = RunningOnSpark(
                setting.on_spark, queries, targets, setting.strict, watch_spark
            )

    def drive(self) -> list[Outcome]:
        """Run to the end of the input, or until somebody stops it."""
        if self._on_spark is not None:
            return self._on_spark.drive()
        if self._driver is None:
            return [
                _hand_over(query, self._setting.answer(query), target)
                for query, target in zip(self._queries, self._targets, strict=True)
            ]
        self._driver.drive()
        return [
            Outcome(self.run.account(outlet), outlet.written, outlet.first_rejects)
            for outlet in self.run.outlets
        ]

    def stop(self) -> None:
        """Read no further; what has been released is written."""
        for each in (self._driver, self._on_spark):
            if each is not None:
                each.stop()

    @property
    def can_stop(self) -> bool:
        return self._driver is not None or self._on_spark is not None

    @property
    def stopped(self) -> bool:
        return any(each.stopped for each in (self._driver, self._on_spark) if each is not None)

    @property
    def read(self) -> int:
        """How many rows have been read."""
        if self._on_spark is not None:
            return self._on_spark.read
        return sum(scan.read for scan in self.run.scans) if self._driver is not None else 0


def _hand_over(query: Query, answer: Answer, target: Target) -> Outcome:
    """An answer that is there as a whole."""
    rows = answer.table
    if query.revises and not query.signed:  # nothing of it is ever taken back
        rows = rows.append_column(SIGN, pa.array([1] * rows.num_rows, pa.int8()))
    sides = ((answer.late, target.late), (answer.rejects.table(), target.rejected))
    for table, sink in ((rows, target.rows), *sides):
        if sink is not None:
            _write(table, sink)
    return Outcome(answer.account, answer.table.num_rows, list(islice(answer.rejects, SHOWN)))


def _write(table: pa.Table, sink: Sink) -> None:
    sink.begin(table.schema)
    for batch in table.to_batches():
        sink.write(batch)
    sink.end()
