"""Started queries, which run in the background of the program until they end or are stopped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.api.display import explain_stall, shortened
from penstock.api.execution import Setting, kept_late, late_table, say_left_out
from penstock.api.spark_execution import delivering_late
from penstock.errors import EngineError
from penstock.io.sinks.sink import Kept
from penstock.local.scheduling.scheduler import LocalJob
from penstock.local.status import GraphStatus
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Account, Decision, Outlet
from penstock.runs.delivery import Delivery, SinkLike, check_places
from penstock.runs.run_options import RunOptions
from penstock.runs.status import RunProgress

if TYPE_CHECKING:
    from penstock.spark.run.batch_job import BatchRun
    from penstock.spark.run.streaming import SparkRun


class StartedQuery:
    """A query that runs in the background of the program; `Query.start` makes one.

    >>> import penstock as ps
    >>> found = []
    >>> started = ps.sql("SELECT n FROM {s}", s=[{"n": 1}, {"n": 2}]).start(found.append, rows=True)
    >>> started.wait()
    Account(read=2, late=0, rejected=0)
    >>> started
    <penstock.StartedQuery 'SELECT n FROM s' on local, ended, 2 rows read>
    >>> found
    [{'n': 1}, {'n': 2}]
    """

    def __init__(
        self,
        query: QueryPlan,
        setting: Setting,
        sinks: Sequence[SinkLike | None],
        rows: bool,
        options: RunOptions,
        text: str = "",
    ) -> None:
        """Start a query.

        Args:
            query: The plan.
            setting: The engine and its options.
            sinks: Sinks for rows, late tuples and rejected rows; the last two are kept where the
                sink is None.
            rows: Call functions with every row instead of every batch.
            options: Checkpoint, trigger, and whether the run is final.
            text: The text of the query, its title if it has no name.
        """
        self._query = query
        self._engine = setting.engine
        self._title = options.name or shortened(text)
        self._late, self._rejected = kept_late(query), Kept("rejected rows")
        self._keeps_rejected = sinks[2] is None
        self._delivery = Delivery(options, rows)
        kept = [sinks[0], sinks[1] or self._late, sinks[2] or self._rejected]
        check_places([query], [sinks])
        with ExitStack() as failing:
            failing.push(self._delivery.__exit__)
            (target,) = self._delivery.targets([kept])
            if setting.engine == "spark" and sinks[1] is not None:
                query = delivering_late(query)
            self._outlet = Outlet(query, target.rows, target.late, target.rejected, target.ledger)
            self._run = _run_of(query, setting, self._outlet, options)
            self._run.start()
            failing.pop_all()

    def wait(self) -> Account:
        """Wait for the end of the input, and return the account.

        Every window has closed then, unless a checkpoint keeps it open for a later run.  An error
        of the run is raised here.
        """
        if self._run.at_work:  # it would wait for itself
            raise EngineError(
                "a function that is handed rows cannot wait for its query: it is at work",
                hint="another thread, or an event loop",
            )
        with self._delivery:
            self._run.wait()
            self._outlet.end()
        say_left_out(self.account, self._outlet.first_rejects, self._keeps_rejected)
        return self.account

    def stop(self) -> None:
        """Stop reading; `wait` returns soon.  Callbacks may call it, too."""
        self._run.stop()

    @property
    def active(self) -> bool:
        """Whether the query is still running."""
        return self._run.active

    @property
    def account(self) -> Account:
        """Numbers of rows read, late and rejected so far."""
        return self._run.account()

    @property
    def total(self) -> Account:
        """The account of all runs on the checkpoint."""
        return self._run.total()

    @property
    def closed(self) -> str | None:
        """Text about what a final run on the checkpoint has closed before this one, or None."""
        return self._run.closed

    @property
    def late(self) -> pa.Table:
        """The late tuples so far, unless a sink takes them: all with LATE SIDE, the first 10,000
        otherwise, and none with LATE DROP on Spark, where they are only counted.
        """
        return late_table(self._late)

    @property
    def rejected(self) -> pa.Table:
        """The first 10,000 rejected rows so far, unless a sink takes them."""
        return self._rejected.table

    def __repr__(self) -> str:
        state = "running" if self.active else "ended"
        read = self.account.read
        words = [f"on {self._engine}", state, f"{read:,} row{'s' * (read != 1)} read"]
        return f"<penstock.StartedQuery {self._title!r} {', '.join(words)}>"

    def progress(self) -> RunProgress:
        """Progress of the run: counts, state, bounds of the streams, and operators."""
        return self._run.progress()

    def graph_status(self) -> GraphStatus:
        """Status of the operators and the arcs between them; on the local engine."""
        if not isinstance(self._run, LocalJob):
            raise EngineError(
                f"the {self._engine} engine has no graph of ours",
                hint="progress().operators, or connect('local')",
            )
        return self._run.graph_status([self._title])

    @property
    def decisions(self) -> list[Decision]:
        """The exchanges of operators so far, with their reasons."""
        run = self._run
        return run.decisions if isinstance(run, LocalJob) else run.decisions()

    def explain_stall(self) -> str:
        """Name the source that holds back the oldest open window, and what would help."""
        streams = {n.stream.name: n.stream for n in self._query.walk() if isinstance(n, Scan)}
        return explain_stall(self.progress().sources, streams)


def _run_of(
    query: QueryPlan, setting: Setting, outlet: Outlet, options: RunOptions
) -> LocalJob | SparkRun | BatchRun:
    if setting.engine == "spark":
        return setting.on_spark.run([query], [outlet], setting.strict, options)
    if setting.engine == "local":
        return LocalJob(
            [setting.planned(query)],
            [outlet],
            setting.clock,
            setting.strict,
            options,
            scheduling=setting.scheduling,
            planned=lambda _, rules: setting.planned(query, rules),
        )
    raise EngineError(
        f"the {setting.engine} engine runs nothing beside the program",
        hint="connect('local'), or connect('spark')",
    )
