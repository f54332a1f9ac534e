"""Queries at work on Spark.  PySpark is imported only when a query really runs there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from penstock.errors import EngineError
from penstock.operators.joins.ordered.adaptive_join import ALPHA
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.settings import BROADCAST_ROWS, Settings
from penstock.physical.host import Host
from penstock.physical.plan import PhysicalPlan
from penstock.plan.query import Late, QueryPlan
from penstock.runs.answer import Answer
from penstock.runs.options import RunOptions
from penstock.runs.outlet import Outlet
from penstock.runs.status import Watch
from penstock.runs.targets import Outcome, Target
from penstock.spark.plan.explain import explain_on_spark
from penstock.spark.session.session import BUCKETS, session
from penstock.spark.session.versions import check_packages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.frames.observing import ObservedBy
    from penstock.spark.run.batch import BatchRun
    from penstock.spark.run.outcome import Receiver
    from penstock.spark.run.streaming import SparkRun


@dataclass(frozen=True)
class SparkSetting:
    """A session that is there, or how to start one, and how queries run on it."""

    given: SparkSession | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    buckets: int = BUCKETS
    broadcast_rows: int = BROADCAST_ROWS
    alpha: float = ALPHA

    @cached_property
    def session(self) -> SparkSession:
        return self.given if self.given is not None else session(self.master, self.conf)

    def present(self) -> SparkSession | None:
        """The session, if nobody has to wait for it to start."""
        if self.given is not None or "session" in vars(self):
            return self.session
        pyspark = sys.modules.get("pyspark.sql")
        return None if pyspark is None else pyspark.SparkSession.getActiveSession()

    def answer(self, query: QueryPlan, strict: bool) -> Answer:
        check_packages()
        from penstock.spark.run.answer import answer

        return answer(self.planned(query), self.session, strict, self.buckets)

    def run(
        self, query: QueryPlan, receiver: Receiver, strict: bool, options: RunOptions
    ) -> SparkRun | BatchRun:
        check_packages()
        from penstock.spark.run.batch import BatchRun, is_at_once
        from penstock.spark.run.options import Options
        from penstock.spark.run.streaming import SparkRun

        if is_at_once(query):
            return BatchRun(self.planned(query), self.session, receiver, self.buckets, strict)
        chosen = Options(**asdict(options), buckets=self.buckets)
        as_begun = partial(self.planned, query)
        return SparkRun(as_begun(), self.session, receiver, chosen, strict, as_begun)

    def planned(self, query: QueryPlan, simplified: Collection[str] | None = None) -> PhysicalPlan:
        rows, alpha = self.broadcast_rows, self.alpha
        settings = Settings(host=Host.SPARK, broadcast_rows=rows, alpha=alpha)
        return physical_plan(query, settings, simplified)

    def explain(self, query: QueryPlan) -> str:
        try:
            return explain_on_spark(self.planned(query), self.buckets)
        except EngineError as error:
            return f"On Spark: {error.message}"

    def dataframe(
        self,
        query: QueryPlan,
        strict: bool,
        wanted: str = "rows",
        metrics: ObservedBy | None = None,
    ) -> DataFrame:
        check_packages()
        from penstock.spark.frames.dataframe import Wanted, dataframe

        if Wanted(wanted) is Wanted.LATE:  # early answers would be for nothing
            query = replace(delivering_late(query), early_every=None)
        plan = self.planned(query)
        return dataframe(plan, self.session, strict, self.buckets, Wanted(wanted), metrics)


class RunningOnSpark:
    """Some queries, each a streaming query of its own; the sources are read once for each."""

    def __init__(
        self,
        setting: SparkSetting,
        queries: Sequence[QueryPlan],
        targets: Sequence[Target],
        strict: bool,
        options: RunOptions,
        watch: Watch | None = None,
    ) -> None:
        self.outlets = [
            Outlet(query, target.rows, target.late, target.rejected, target.ledger)
            for query, target in zip(queries, targets, strict=True)
        ]
        queries = [
            delivering_late(query) if target.late is not None else query
            for query, target in zip(queries, targets, strict=True)
        ]
        self.runs = [
            setting.run(query, outlet, strict, apart(options, number, len(queries)))
            for number, (query, outlet) in enumerate(zip(queries, self.outlets, strict=True))
        ]

        for run in self.runs:
            run.watch = watch
        self.stopped = False
        self._options = options

    def drive(self) -> list[Outcome]:
        """Queries that end by themselves come one after the other, the others run side by side."""
        groups = [[run] for run in self.runs] if self._options.bounded else [self.runs]
        for together in groups:
            self._drive(together)
        for outlet in self.outlets:
            outlet.end()
        return self.outcomes()

    def outcomes(self) -> list[Outcome]:
        return [
            Outcome(
                run.account(),
                outlet.written,
                outlet.first_rejects,
                run.total() if self._options.checkpoint is not None else None,
                run.open_windows
                if self._options.checkpoint is not None and not self._options.final
                else None,
            )
            for run, outlet in zip(self.runs, self.outlets, strict=True)
        ]

    @property
    def closed(self) -> str | None:
        """What a final run on the checkpoint has closed before this one."""
        return next((run.closed for run in self.runs if run.closed is not None), None)

    def _drive(self, runs: Sequence[SparkRun | BatchRun]) -> None:
        started = []
        try:
            for run in runs:
                if not self.stopped:
                    run.start()
                    started.append(run)
            for run in started:
                run.wait()
        except BaseException:
            self._stop_runs()
            raise

    def stop(self) -> None:
        """By a thread of its own: a signal may have come in the middle of a call to Java."""
        self.stopped = True
        threading.Thread(target=self._stop_runs, daemon=True).start()

    def _stop_runs(self) -> None:
        for run in self.runs:
            run.stop()

    @property
    def read(self) -> int:
        return sum(run.tally.read for run in self.runs)


def computed_by_spark(query: QueryPlan) -> QueryPlan:
    """The query with what only Spark computes among the columns of the DataFrames that it reads."""
    if "pyspark.sql" not in sys.modules:  # only a session knows such functions
        return query
    from penstock.spark.catalyst.computed import with_computed_columns

    return with_computed_columns(query)


def delivering_late(query: QueryPlan) -> QueryPlan:
    """The query with its late tuples sent along, which otherwise are only counted."""
    return replace(query, late=Late.SIDE) if query.late is Late.DROP else query


def apart(options: RunOptions, number: int, queries: int) -> RunOptions:
    """Several queries have a checkpoint each, within that of all."""
    if queries == 1 or options.checkpoint is None:
        return options
    return replace(options, checkpoint=options.checkpoint / str(number))
