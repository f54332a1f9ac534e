"""Running queries: the engine and its settings, the run itself, and what a query remembers of its
last run.

A run may not end, so not everything is remembered: all late tuples if LATE SIDE asks for them,
otherwise the first ones, and the first rejected rows."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import pyarrow as pa

from penstock.api.spark_execution import RunningOnSpark, SparkSetting
from penstock.errors import EngineError, RunError
from penstock.io.sinks.sink import LIMIT, Collected, Kept, Sink
from penstock.io.sources.rejects import Reject
from penstock.kernel.joins.ordered_joins import ALPHA
from penstock.local.graph_options import Scheduling
from penstock.local.run import LocalRun
from penstock.local.scheduling import scheduler
from penstock.local.scheduling.scheduler import LocalJob, Watch
from penstock.local.status import GraphStatus
from penstock.model.clock import Clock
from penstock.model.punctuation import sign_name
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import STATE_BUDGET, Settings
from penstock.optimizer.sharing import share_readings
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.physical import Host, PhysicalPlan
from penstock.reference import engine as reference
from penstock.runs.advice import advice_on_rejects
from penstock.runs.answer import SHOWN, Account, Answer, Decision, Outlet, join_tables
from penstock.runs.delivery import Outcome, Target
from penstock.runs.run_options import RunOptions
from penstock.runs.status import Watch as SparkWatch
from penstock.runs.status import WorkInProgress

_LOG = logging.getLogger("penstock")


class RememberedRun:
    """The account of a run, with its late tuples and rejected rows unless the target has sinks for
    them."""

    def __init__(self, query: QueryPlan, target: Target, engine: str) -> None:
        self._query = query
        self.account = Account(0, 0, 0)
        self._given = target
        self._late: Kept | None = None
        self._rejected: Kept | None = None
        # Spark would have to send along what is otherwise only counted
        if target.late is None and (engine != "spark" or query.late is not Late.DROP):
            self._late = kept_late(query)
        if target.rejected is None:
            self._rejected = Kept("rejected rows")
        self.target = replace(
            target, late=self._late or target.late, rejected=self._rejected or target.rejected
        )

    def finish(self, outcome: Outcome) -> None:
        self.account = outcome.account
        say_left_out(outcome.account, outcome.first_rejects, self._given.rejected is None)

    @property
    def late(self) -> pa.Table:
        if not self.account.late:
            return join_tables([], self._query)
        if self._given.late is not None:
            raise _taken_by_sink("the late tuples", "late")
        if self._late is None:
            raise only_counted(self.account.late)
        return late_table(self._late)

    @property
    def rejected(self) -> pa.Table:
        if self._rejected is None:
            raise _taken_by_sink("the rejected rows", "rejected")
        return self._rejected.table


class RememberedAnswer:
    """The account of an answer that is complete."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.account = answer.account
        say_left_out(self.account, islice(answer.rejects, SHOWN))

    @property
    def late(self) -> pa.Table:
        if self.account.late and not self.answer.late.num_rows:
            raise only_counted(self.account.late)
        return self.answer.late

    @property
    def rejected(self) -> pa.Table:
        return self.answer.rejects.table()


def kept_late(query: QueryPlan) -> Kept:
    """Make the collection of late tuples: of all of them if the query asks for them."""
    return Kept("late tuples", None if query.late is Late.SIDE else LIMIT)


def late_table(kept: Kept) -> pa.Table:
    return kept.marked(join_tables([pa.Table.from_batches([each]) for each in kept.batches]))


def say_left_out(account: Account, first: Iterable[Reject], kept: bool = True) -> None:
    """Log rejected rows as a warning, once per run; late tuples are nothing unusual."""
    if account.late:
        _LOG.info("%s of %s tuples were late", f"{account.late:,}", f"{account.read:,}")
    if account.rejected:
        shown = list(first)
        lines = [f"{account.rejected:,} of {account.read:,} rows were rejected"]
        lines[0] += " (they are in query.rejected):" if kept else ":"
        lines += [f"  {reject}" for reject in shown]
        more = account.rejected - len(shown)
        lines += [f"  … and {more:,} more"] if more else []
        if advice := advice_on_rejects(account, shown):
            lines.append(advice)
        _LOG.warning("%s", "\n".join(lines))


def only_counted(count: int) -> RunError:
    return RunError(
        f"the late tuples were counted and not kept; there were {count:,}",
        hint="LATE SIDE keeps them, and run(late=…) hands them on",
    )


def _taken_by_sink(what: str, sink: str) -> RunError:
    return RunError(
        f"{what} of the last run went to the sink that it was given",
        expected=f"a run without {sink}=…, which keeps them",
    )


# Running queries: on an engine, into targets, until their input ends or they are stopped.

ENGINES = ("spark", "local", "reference")


@dataclass(frozen=True, slots=True)
class Setting:
    """The engine of a database and its options, which all its queries share."""

    engine: str
    clock: Clock
    strict: bool
    state_budget: int = STATE_BUDGET
    spark: SparkSetting | None = None
    alpha: float = ALPHA
    scheduling: Scheduling = field(default_factory=Scheduling)

    def answer(self, query: QueryPlan) -> Answer:
        if self.engine == "spark":
            return self.on_spark.answer(query, self.strict)
        if self.engine == "local":
            return scheduler.answer(self.planned(query), self.clock, self.strict, self.scheduling)
        (query,) = share_readings([query])
        return reference.answer(query, self.clock, self.strict)

    @property
    def settings(self) -> Settings:
        host = Host.SPARK if self.engine == "spark" else Host.LOCAL
        return Settings(self.state_budget, host, alpha=self.alpha)

    def planned(
        self,
        query: QueryPlan,
        simplified: Collection[str] | None = None,
    ) -> PhysicalPlan:
        """Plan a query for the engine after the logical rules; `simplified` names the rules to
        apply, None all of them."""
        if self.engine == "spark":
            return self.on_spark.planned(query, simplified)
        return physical_plan(query, self.settings, simplified)

    def state_table(self, query: QueryPlan) -> str:
        """State table of a query in process: its nodes, and the rules that lead from one to the
        next."""
        if self.engine != "local":
            raise EngineError(
                f"the {self.engine} engine has no schedule of ours", hint="connect('local')"
            )
        outlet = Outlet(query, Collected())
        run = LocalRun([self.planned(query)], [outlet], self.clock, scheduling=self.scheduling)
        return str(run.graph.table)

    @property
    def on_spark(self) -> SparkSetting:
        if self.engine != "spark" or self.spark is None:
            raise EngineError(
                f"that is for the spark engine, and the database runs on {self.engine}",
                hint="connect(spark), connect('spark'), or --engine spark",
            )
        return self.spark


class Running:
    """A run of some queries in one pass: each source is read once for all of them."""

    def __init__(
        self,
        setting: Setting,
        queries: Sequence[QueryPlan],
        targets: Sequence[Target],
        options: RunOptions | None = None,
        watch: Watch | None = None,
        watch_spark: SparkWatch | None = None,
    ) -> None:
        options = options or RunOptions()
        if setting.engine == "reference":  # others share scans
            queries = share_readings(queries)
        self._setting = setting
        self._queries = queries
        self._targets = targets
        self._keeps = options.checkpoint is not None
        self._open = self._keeps and not options.final
        self._written = [Outcome(Account(0, 0, 0), 0, []) for _ in queries]
        self._job: LocalJob | RunningOnSpark | None = None
        if setting.engine == "local":
            outlets = [
                Outlet(query, target.rows, target.late, target.rejected, target.ledger)
                for query, target in zip(queries, targets, strict=True)
            ]
            plans = [setting.planned(query) for query in queries]
            self._job = LocalJob(
                plans,
                outlets,
                setting.clock,
                setting.strict,
                options,
                watch,
                setting.scheduling,
                lambda number, rules: setting.planned(queries[number], rules),
            )
        elif setting.engine == "spark":
            self._job = RunningOnSpark(
                setting.on_spark, queries, targets, setting.strict, options, watch_spark
            )
        elif replace(options, name=None) != RunOptions():
            raise EngineError(
                f"the {setting.engine} engine runs once over what is there, and keeps nothing",
                expected="no checkpoint and no trigger",
                hint="--engine local, or connect('local')",
            )

    def drive(self, background: bool = False) -> list[Outcome]:
        """Run to the end of the input, or until `stop`; `background` tells that this is a thread of
        its own."""
        if isinstance(self._job, LocalJob):
            self._job.drive(background)
        elif self._job is not None:
            self._job.drive()
        else:
            together = zip(self._queries, self._targets, strict=True)
            for number, (query, target) in enumerate(together):
                self._written[number] = _hand_over(query, self._setting.answer(query), target)
        return self.outcomes()

    def steps(self) -> Generator[None, None, None]:
        """Run on the local engine, one step for each item taken from the generator."""
        assert isinstance(self._job, LocalJob)
        return self._job.steps()

    def outcomes(self) -> list[Outcome]:
        """Outcomes of all queries so far."""
        if isinstance(self._job, RunningOnSpark):
            return self._job.outcomes()
        if self._job is None:
            return self._written
        return [
            Outcome(
                self._job.account(number),
                outlet.written,
                outlet.first_rejects,
                self._job.total(number) if self._keeps else None,
                self._job.open_windows(number) if self._open else None,
            )
            for number, outlet in enumerate(self._job.run.outlets)
        ]

    def stop(self) -> None:
        """Stop reading; results that have been released are written."""
        if self._job is not None:
            self._job.stop()

    def doing(self) -> WorkInProgress | None:
        """Work in progress on Spark; None on other engines."""
        return self._job.doing() if isinstance(self._job, RunningOnSpark) else None

    @property
    def stops_slowly(self) -> bool:
        """Whether a micro-batch that cannot be interrupted is completed first."""
        return isinstance(self._job, RunningOnSpark)

    @property
    def can_stop(self) -> bool:
        return self._job is not None

    @property
    def stopped(self) -> bool:
        return self._job is not None and self._job.stopped

    @property
    def closed(self) -> str | None:
        """Text about what a final run on the checkpoint has closed before this one, or None."""
        return self._job.closed if self._job is not None else None

    def graph_status(self, names: Sequence[str]) -> GraphStatus:
        """Status of the operators, on the local engine; `names` are those of the queries."""
        assert isinstance(self._job, LocalJob)
        return self._job.graph_status(names)

    def decisions(self, query: int = 0) -> list[Decision]:
        """Exchanges of operators and their reasons: in process of all queries, on Spark of one."""
        if isinstance(self._job, RunningOnSpark):
            return self._job.decisions(query)
        return self._job.decisions if self._job is not None else []

    @property
    def read(self) -> int:
        """Number of rows read so far."""
        return self._job.read if self._job is not None else 0


def _hand_over(query: QueryPlan, answer: Answer, target: Target) -> Outcome:
    """Write an answer that is complete to its target."""
    rows = answer.table
    if query.revises and not query.signed:  # nothing of it is ever retracted
        name = sign_name(rows.column_names)
        rows = rows.append_column(name, pa.array([1] * rows.num_rows, pa.int8()))
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
