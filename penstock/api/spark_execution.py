"""Running queries on Spark. PySpark is imported only when a query really runs there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.errors import EngineError
from penstock.kernel.joins.ordered_joins import ALPHA
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import BROADCAST_ROWS, Settings
from penstock.optimizer.sharing import share_readings
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.physical import Host, PhysicalPlan
from penstock.plan.streams import StreamDefinition
from penstock.runs.answer import Answer, Decision, Outlet
from penstock.runs.delivery import Outcome, Target
from penstock.runs.run_options import Adaptation, RunOptions
from penstock.runs.status import Watch, WorkInProgress
from penstock.spark.explain import explain_on_spark
from penstock.spark.session.session import BUCKETS, check_packages, session
from penstock.spark.sources.dataframe import DataFrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.run.batch_job import AnalyzedOnSpark, BatchRun
    from penstock.spark.run.job_results import Receiver
    from penstock.spark.run.observed_counts import ObservedBy
    from penstock.spark.run.streaming import SparkRun


@dataclass(frozen=True)
class SparkSetting:
    """A Spark session, or how to start one, and how queries run on it."""

    given: SparkSession | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    buckets: int = BUCKETS
    broadcast_rows: int = BROADCAST_ROWS
    alpha: float = ALPHA
    adaptation: Adaptation = field(default_factory=Adaptation)

    @cached_property
    def session(self) -> SparkSession:
        return self.given if self.given is not None else session(self.master, self.conf)

    def present(self) -> SparkSession | None:
        """The session, unless one would have to be started."""
        if self.given is not None or "session" in vars(self):
            return self.session
        pyspark = sys.modules.get("pyspark.sql")
        return None if pyspark is None else pyspark.SparkSession.getActiveSession()

    def answer(self, query: QueryPlan, strict: bool) -> Answer:
        check_packages()
        from penstock.spark.run.batch_job import answer

        return answer(self.planned(query), self.session, strict, self.buckets)

    def run(
        self,
        queries: Sequence[QueryPlan],
        receivers: Sequence[Receiver],
        strict: bool,
        options: RunOptions,
    ) -> SparkRun | BatchRun:
        """Start queries as one job: see `run_together`."""
        check_packages()
        from penstock.spark.run.batch_job import BatchRun, is_at_once
        from penstock.spark.run.streaming import Options, SparkRun

        plans = [self.planned(query) for query in queries]
        if is_at_once(queries[0]):
            return BatchRun(plans, self.session, receivers, self.buckets, strict)
        chosen = Options(**asdict(options), buckets=self.buckets, adaptation=self.adaptation)

        def planned(number: int, simplified: Collection[str]) -> PhysicalPlan:
            return self.planned(queries[number], simplified)

        return SparkRun(plans, self.session, receivers, chosen, strict, planned)

    def planned(self, query: QueryPlan, simplified: Collection[str] | None = None) -> PhysicalPlan:
        rows, alpha = self.broadcast_rows, self.alpha
        settings = Settings(host=Host.SPARK, broadcast_rows=rows, alpha=alpha)
        return physical_plan(query, settings, simplified)

    def analyze(self, plan: PhysicalPlan, strict: bool) -> AnalyzedOnSpark:
        check_packages()
        from penstock.spark.run.batch_job import analyze_on_spark

        return analyze_on_spark(plan, self.session, strict, self.buckets)

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
        from penstock.spark.run.query_frames import Wanted, dataframe

        if Wanted(wanted) is Wanted.LATE:  # early answers would be for nothing
            query = replace(delivering_late(query), early_every=None)
        plan = self.planned(query)
        of, told = Wanted(wanted), self.adaptation
        return dataframe(plan, self.session, strict, self.buckets, of, metrics, told)


class RunningOnSpark:
    """Some queries as one job: every stream is read once for all of them. Several jobs only run
    where that is impossible (`run_together`)."""

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
        check_packages()
        groups = run_together(queries)
        if len(groups) > 1:  # each of which reads for itself
            queries = share_readings(queries, functions=False)
        self.runs = [
            setting.run(
                [queries[number] for number in group],
                [self.outlets[number] for number in group],
                strict,
                apart(options, place, len(groups)),
            )
            for place, group in enumerate(groups)
        ]
        self._places = {  # by query: its run, and its number there
            query: (run, number)
            for run, group in zip(self.runs, groups, strict=True)
            for number, query in enumerate(group)
        }
        for run in self.runs:
            run.watch = watch
        self.stopped = False
        self._options = options

    def drive(self) -> list[Outcome]:
        """Run jobs that end by themselves one after the other, others at the same time."""
        groups = [[run] for run in self.runs] if self._options.bounded else [self.runs]
        for together in groups:
            self._drive(together)
        for outlet in self.outlets:
            outlet.end()
        return self.outcomes()

    def outcomes(self) -> list[Outcome]:
        keeps, options = self._options.checkpoint is not None, self._options
        made = []
        for place, outlet in enumerate(self.outlets):
            run, number = self._places[place]
            total = run.total(number) if keeps else None
            opened = run.open_windows(number) if keeps and not options.final else None
            account = run.account(number)
            made.append(Outcome(account, outlet.written, outlet.first_rejects, total, opened))
        return made

    def decisions(self, query: int) -> list[Decision]:
        run, number = self._places[query]
        return run.decisions(number)

    @property
    def closed(self) -> str | None:
        """Text about what a final run on the checkpoint has closed before this one, or None."""
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
        """Stop in a thread of its own: a signal may have interrupted a call to Java."""
        self.stopped = True
        threading.Thread(target=self._stop_runs, daemon=True).start()

    def _stop_runs(self) -> None:
        for run in self.runs:
            run.stop()

    def doing(self) -> WorkInProgress:
        """Work in progress of the last job that has begun."""
        return next((run for run in reversed(self.runs) if run.active), self.runs[0]).doing()

    @property
    def read(self) -> int:
        return sum(run.read for run in self.runs)


def computed_by_spark(query: QueryPlan) -> QueryPlan:
    """Move expressions that only Spark computes into the DataFrames that the query reads, as
    columns."""
    if "pyspark.sql" not in sys.modules:  # only a session knows such functions
        return query
    from penstock.spark.catalyst.computed_columns import with_computed_columns

    return with_computed_columns(query)


def delivering_late(query: QueryPlan) -> QueryPlan:
    """Let the query emit its late tuples, which otherwise are only counted."""
    return replace(query, late=Late.SIDE) if query.late is Late.DROP else query


def run_together(queries: Sequence[QueryPlan]) -> list[list[int]]:
    """Group the numbers of queries into jobs. Tables of Spark are read as a whole, streams as they
    come; and a name must mean the same in all queries of a job: a function that only Spark computes
    makes a column of its own for a query."""
    from penstock.spark.run.batch_job import is_at_once
    from penstock.spark.sources.stream_inputs import streams_of

    groups: list[tuple[bool, dict[str, StreamDefinition], list[int]]] = []
    for number, query in enumerate(queries):
        at_once, streams = is_at_once(query), streams_of(query)
        for known_at_once, known, group in groups:
            same = all(_is_same(known.get(name, each), each) for name, each in streams.items())
            if known_at_once is at_once and same:
                known |= streams
                group.append(number)
                break
        else:
            groups.append((at_once, dict(streams), [number]))
    return [group for _, _, group in groups]


def _is_same(one: StreamDefinition, other: StreamDefinition) -> bool:
    if one is other:
        return True
    if one.schema != other.schema or one.progress != other.progress:
        return False
    mine, its = one.source, other.source
    if isinstance(mine, DataFrameSource) and isinstance(its, DataFrameSource):
        return mine.frame.sameSemantics(its.frame)  # a view is looked up anew by every query
    return mine is its


def apart(options: RunOptions, number: int, jobs: int) -> RunOptions:
    """Give each of several jobs its own checkpoint, within that of all."""
    if jobs == 1 or options.checkpoint is None:
        return options
    return replace(options, checkpoint=options.checkpoint / f"job {number + 1}")
