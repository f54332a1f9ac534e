"""Queries: explaining, running, starting and collecting them, also on an event loop and on
Spark."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.api import display
from penstock.api.arguments import check_flags, check_text, check_whole, path_of
from penstock.api.execution import RememberedAnswer, RememberedRun, Running, Setting
from penstock.api.spark_execution import computed_by_spark
from penstock.api.started_query import StartedQuery
from penstock.errors import BindError, EngineError, SinkError, Span, described
from penstock.io.sinks.sink import Callback, Collected, rows_of
from penstock.io.sources.asynchronous import HOST, LoopHost
from penstock.local.analysis import Analyzed, analyze
from penstock.optimizer.conflicts import explain_conflicts
from penstock.optimizer.estimates import ExpectedWork, expected_work
from penstock.optimizer.explain_dataflow import explain_dataflow, expressions_of
from penstock.optimizer.optimize import executed_query, rewrite
from penstock.plan.algorithms import duration, size_text
from penstock.plan.explain import explain, explain_physical
from penstock.plan.nodes import query as plan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalNode, PhysicalPlan
from penstock.plan.properties import scans_of
from penstock.runs.answer import Account, Decision, NodeWork
from penstock.runs.delivery import Delivery, Outcome, SinkLike, Target, check_places
from penstock.runs.lookup_tables import with_answers
from penstock.runs.run_options import AVAILABLE_NOW, RunOptions
from penstock.sql.parser.statements import pointing_into

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, Observation


async def drive_on_loop(running: Running) -> list[Outcome]:
    """Drive a run without blocking the event loop; cancelling it stops the run."""
    told = HOST.set(LoopHost(asyncio.get_running_loop(), waits=True))
    try:
        work = asyncio.create_task(asyncio.to_thread(running.drive, background=True))
    finally:
        HOST.reset(told)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        running.stop()
        await asyncio.wait([work])
        raise


def calling_on(
    loop: asyncio.AbstractEventLoop, function: Callable[[Any], object]
) -> Callable[[Any], object]:
    """Wrap a callback for the thread of a run: it runs on the loop, and the thread waits for it."""

    async def call(argument: Any) -> None:
        outcome = function(argument)
        if inspect.isawaitable(outcome):
            await outcome

    @wraps(function)
    def hand_over(argument: Any) -> None:
        asyncio.run_coroutine_threadsafe(call(argument), loop).result()

    return hand_over


# EXPLAIN ANALYZE: a plan with measurements next to the estimates.


def analyze_query(query: QueryPlan, setting: Setting) -> str:
    """Run a query over the input that is available, and explain its plan with measurements; its
    results are dropped."""
    if setting.engine == "spark":
        return "\n".join(_on_spark(query, setting))
    if setting.engine != "local":
        raise EngineError(
            f"EXPLAIN ANALYZE measures operators, and the {setting.engine} engine has none",
            hint="connect('local'), or connect('spark')",
        )
    plan = setting.planned(query)
    # what is expected is what was known before: a stream may be one that is read once
    expected = expected_work(plan.root)
    found = expressions_of(executed_query(query, setting.settings))
    told = [(str(each), each.time()) for each in found.expressions]
    analyzed = analyze(plan, setting.clock, setting.strict, setting.scheduling)
    return "\n".join(_in_process(analyzed, expected, told))


def _on_spark(query: QueryPlan, setting: Setting) -> Iterator[str]:
    plan = setting.planned(query)
    streams = {scan.stream.name: scan.stream for scan in scans_of(plan.query.input)}
    expected = expected_work(plan.root, streams)
    analyzed = setting.on_spark.analyze(plan, setting.strict)

    def more(node: PhysicalNode) -> Iterable[str]:
        return _of_node(analyzed.works[id(node)], expected[id(node)])

    yield explain_physical(plan, more)
    yield _account(analyzed.account, analyzed.written, analyzed.nanoseconds)
    if analyzed.stages:
        yield "Stages"
        yield from (f"  {line}" for line in analyzed.stages)


def _in_process(
    analyzed: Analyzed, expected: dict[int, ExpectedWork], told: list[tuple[str, float]]
) -> Iterator[str]:
    current, lines = analyzed.top.current, {}
    for measured, node in zip(analyzed.top.walk(), current.walk(), strict=True):
        lines[id(node)] = list(_of_node(measured.work, expected[id(measured.planned)]))

    def more(node: PhysicalNode) -> Iterable[str]:
        return lines[id(node)]

    plan = analyzed.plan
    shown = type(plan)(plan.query, current, plan.host, plan.simplified)
    yield explain_physical(shown, more)
    account = analyzed.run.account(analyzed.outlet)
    yield _account(account, analyzed.outlet.written, analyzed.nanoseconds)
    times = analyzed.stream_times()
    if len(times) == len(told):
        yield "Dataflow"
        for (expression, time), taken in zip(told, times, strict=True):
            yield expression
            measured_time = "nothing" if taken is None else duration(taken)
            yield f"  T = {measured_time} a tuple; expected {duration(time)}"
    decisions = analyzed.run.adapting.decisions
    looks = analyzed.run.adapting.looks
    yield f"Changes of the plan: {len(decisions)}, in {looks:,} look{'s' * (looks != 1)}"
    for decision in decisions:
        yield f"  {decision}"


def _account(account: Account, written: int, nanoseconds: int) -> str:
    beside = f"{account.late:,} late, {account.rejected:,} rejected"
    return f"{account.read:,} rows read, {written:,} written, {beside}, in {duration(nanoseconds)}"


def _of_node(work: NodeWork, expected: ExpectedWork) -> Iterator[str]:
    if work.is_source:
        known = "" if expected.rows_out is None else f"; expected {expected.rows_out:,.0f}"
        yield f"measured: {work.rows_out:,} rows{known}"
        return
    parts = [f"{work.rows_in:,} in, {work.rows_out:,} out"]
    if work.rows_in:
        parts.append(f"f = {work.rows_out / work.rows_in:.3g}")
        parts.append(f"τ = {duration(work.nanoseconds / work.rows_in)}")
    if work.kept:
        parts.append(f"kept {work.kept:,} tuples at most")
    if work.size is not None:
        parts.append(f"{size_text(work.size)} of state")
    yield f"measured: {', '.join(parts)}"
    yield from work.notes
    told = list(_expected(expected))
    if told:
        yield f"expected: {', '.join(told)}"


def _expected(work: ExpectedWork) -> Iterator[str]:
    if work.rows_in is not None:
        out = "" if work.rows_out is None else f", {work.rows_out:,.0f} out"
        yield f"{work.rows_in:,.0f} in{out}"
    if work.factor is not None:
        yield f"f = {work.factor:.3g}"
    if work.time is not None:
        yield f"τ = {duration(work.time)}"
    if work.kept is not None:
        yield f"kept {work.kept:,.0f} tuples"
    if work.size is not None:
        yield f"{size_text(work.size)} of state"


# The query.


class Query:
    """A query, which can be explained, run, started and collected.

    Its whole answer is computed once, when it is first needed; every `run` reads its streams again.
    `late`, `rejected` and `account` are those of the last run.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": "a", "t": 3}, {"k": "a", "t": 1}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k")
    >>> query.collect().to_pylist()
    [{'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 2}]
    >>> query.account
    Account(read=2, late=0, rejected=0)
    """

    def __init__(
        self,
        plan_: plan.QueryPlan,
        text: str,
        setting: Setting,
        name: str | None = None,
        span: Span | None = None,
    ) -> None:
        self.name = name  # that CREATE QUERY gave it
        self.plan = rewrite(with_answers(computed_by_spark(plan_)), setting.settings)
        self.text = text  # of the whole script
        self._span = span or Span(0, len(text))  # where the query stands in it
        self.setting = setting
        self._answered: RememberedAnswer | None = None
        self._decisions: list[Decision] = []
        self._last: RememberedAnswer | RememberedRun | None = None

    def explain(
        self,
        *,
        physical: bool = False,
        schedule: bool = False,
        dataflow: bool = False,
        conflicts: bool = False,
        analyze: bool = False,
    ) -> str:
        """Explain the query: its logical plan, or one of the following; at most one flag is True.

        Args:
            physical: The physical plan: operators, their algorithms, and the keys by which tuples
                meet.
            schedule: The state table: by which rule (NOS rules) the local engine goes from each
                operator to the next.
            dataflow: The dataflow expression of every stream: the operators that its tuples pass,
                and how long that takes.
            conflicts: The conflicts between tuples that are processed at the same time.
            analyze: Run the query over the input that is available now, and show measurements next
                to the estimates.

        >>> import penstock as ps
        >>> query = ps.sql("SELECT n FROM {s} WHERE n > 1", s=[{"n": 1}, {"n": 2}])
        >>> print(query.explain(physical=True).splitlines()[0])
        Physical plan, in process
        """
        flags = {
            "physical": physical,
            "schedule": schedule,
            "dataflow": dataflow,
            "conflicts": conflicts,
            "analyze": analyze,
        }
        check_flags(**flags)
        if sum(flags.values()) > 1:
            asked = " and ".join(name for name, flag in flags.items() if flag)
            raise BindError(f"explain is asked for {asked}", expected="one of them")
        if conflicts:
            with pointing_into(self.text):
                return explain_conflicts(self.plan, self.setting.settings)
        if analyze:
            with pointing_into(self.text):
                return analyze_query(self.plan, self.setting)
        if dataflow:
            with pointing_into(self.text):
                return explain_dataflow(self.plan, self.setting.settings)
        if schedule:
            with pointing_into(self.text):
                return self.setting.state_table(self.plan)
        if physical:
            with pointing_into(self.text):
                return explain_physical(self.physical)
        text = explain(self.plan)
        if self.setting.engine == "spark":
            text += "\n" + self.setting.on_spark.explain(self.plan)
        return text

    @property
    def physical(self) -> PhysicalPlan:
        """The physical plan that the engine of the database executes."""
        return self.setting.planned(self.plan)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.plan.schema.arrow

    def run(
        self,
        sink: SinkLike | None = None,
        *,
        late: SinkLike | None = None,
        rejected: SinkLike | None = None,
        rows: bool = False,
        checkpoint: str | Path | None = None,
        trigger: str = AVAILABLE_NOW,
        final: bool = False,
    ) -> Account:
        """Run the query, and write its rows while they are released.

        Args:
            sink: A function, which is called with every record batch; a file, in the format that
                its ending names; or None: standard output.
            late: A sink for late tuples; None: they are kept (see `Query.late`).
            rejected: A sink for rejected rows; None: they are kept (see `Query.rejected`).
            rows: Call functions with every row, as a dictionary, instead of every batch.
            checkpoint: A directory from which a later run continues where this one ended or was
                killed: complete results are emitted, and open windows stay open.
            trigger: "available-now": the run ends with the input that is available; a time like "5
                seconds": it checks that often for more, and does not end.
            final: The last run on the checkpoint: close all windows.

        Returns:
            An account: how many rows were read, late and rejected.

        >>> import penstock as ps
        >>> ps.sql("SELECT n FROM {s}", s=[{"n": 1}]).run(print, rows=True)
        {'n': 1}
        Account(read=1, late=0, rejected=0)
        """
        options = run_options(checkpoint, trigger, final, self.name)
        (account,) = run_together([self], [sink], [late], [rejected], rows=rows, options=options)
        return account

    async def run_async(
        self,
        sink: Callable[[Any], object],
        *,
        late: Callable[[Any], object] | None = None,
        rejected: Callable[[Any], object] | None = None,
        rows: bool = False,
    ) -> Account:
        """Run the query from a coroutine; asynchronous sources are read on its event loop.

        Cancelling it stops the run.

        Args:
            sink: A function or coroutine function, which is called on the loop with every batch.
            late: Such a function for late tuples; None: they are kept.
            rejected: Such a function for rejected rows; None: they are kept.
            rows: Call functions with every row, as a dictionary, instead of every batch.

        Returns:
            An account: how many rows were read, late and rejected.

        >>> import asyncio
        >>> import penstock as ps
        >>> query = ps.sql("SELECT n FROM {s}", s=[{"n": 1}])
        >>> asyncio.run(query.run_async(print, rows=True))
        {'n': 1}
        Account(read=1, late=0, rejected=0)
        """
        check_flags(rows=rows)
        for name, each in (("sink", sink), ("late", late), ("rejected", rejected)):
            if not callable(each) and (each is not None or name == "sink"):
                raise SinkError(f"{name} is {described(each)}", expected="a function of a batch")
        loop = asyncio.get_running_loop()
        aside, set_aside = (
            None if each is None else Callback(calling_on(loop, each), rows)
            for each in (late, rejected)
        )
        target = Target(Callback(calling_on(loop, sink), rows), aside, set_aside)
        with pointing_into(self.text), _remembering([self], [target]) as running:
            await drive_on_loop(running)
        return self.account

    async def stream(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the rows as dictionaries while they are released, for `async for`.

        >>> import asyncio
        >>> import penstock as ps
        >>> query = ps.sql("SELECT n FROM {s}", s=[{"n": 1}])
        >>> async def rows():
        ...     return [row async for row in query.stream()]
        >>> asyncio.run(rows())
        [{'n': 1}]
        """
        handed: asyncio.Queue[pa.RecordBatch | None] = asyncio.Queue(maxsize=8)

        async def work() -> None:
            try:
                await self.run_async(handed.put)
            finally:
                await handed.put(None)

        task = asyncio.create_task(work())
        try:
            while (batch := await handed.get()) is not None:
                for row in rows_of(batch):
                    yield row
            await task
        finally:
            task.cancel()
            while not task.done():  # it may be waiting for room in the queue
                while not handed.empty():
                    handed.get_nowait()
                await asyncio.wait([task], timeout=0.01)

    def start(
        self,
        sink: SinkLike | None = None,
        *,
        late: SinkLike | None = None,
        rejected: SinkLike | None = None,
        rows: bool = False,
        checkpoint: str | Path | None = None,
        trigger: str = AVAILABLE_NOW,
        final: bool = False,
    ) -> StartedQuery:
        """Start the query in the background, and return at once; on the local engine and on Spark.

        Args:
            sink: A sink for rows, as in `run`.
            late: A sink for late tuples, as in `run`.
            rejected: A sink for rejected rows, as in `run`.
            rows: Call functions with every row, as a dictionary, instead of every batch.
            checkpoint: A directory from which a later run continues, as in `run`.
            trigger: "available-now", or a time for a run that does not end, as in `run`.
            final: Close all windows that the checkpoint keeps open, as in `run`.

        >>> import penstock as ps
        >>> found = []
        >>> started = ps.sql("SELECT n FROM {s}", s=[{"n": 1}]).start(found.append, rows=True)
        >>> started.wait(), found
        (Account(read=1, late=0, rejected=0), [{'n': 1}])
        """
        check_flags(rows=rows)
        options = run_options(checkpoint, trigger, final, self.name)
        sinks = [sink, late, rejected]
        with pointing_into(self.text):
            return StartedQuery(self.plan, self.setting, sinks, rows, options, self._own_text)

    def dataframe(self, *, metrics: str | Observation | None = None) -> DataFrame:
        """Return the rows as a Spark DataFrame, streaming if a source is.

        A streaming DataFrame does not know that its input ends: windows that no bound has passed
        stay open; `start` closes them.

        Args:
            metrics: Name of the observed metrics of a streaming DataFrame (`lastProgress.
                observedMetrics`, "penstock" if it is not given), which count rows read, late and
                rejected; for a table, a Spark Observation.
        """
        return self._dataframe("rows", metrics)

    def late_dataframe(self, *, metrics: str | Observation | None = None) -> DataFrame:
        """Return the late tuples as a Spark DataFrame, with or without LATE SIDE.

        Next to `dataframe` it is a streaming query of its own, with its own state and checkpoint.

        Args:
            metrics: Name of the observed metrics, or an Observation, as in `dataframe`.
        """
        return self._dataframe("late", metrics)

    def rejected_dataframe(self, *, metrics: str | Observation | None = None) -> DataFrame:
        """Return the rejected rows as a Spark DataFrame.

        Next to `dataframe` it is a streaming query of its own, without state.

        Args:
            metrics: Name of the observed metrics, or an Observation, as in `dataframe`.
        """
        return self._dataframe("rejected", metrics)

    def _dataframe(self, wanted: str, metrics: str | Observation | None) -> DataFrame:
        with pointing_into(self.text):
            strict = self.setting.strict
            return self.setting.on_spark.dataframe(self.plan, strict, wanted, metrics)

    def collect(self) -> pa.Table:
        """Compute the whole answer, once, and return it as an Arrow table.

        >>> import penstock as ps
        >>> ps.sql("SELECT n FROM {s}", s=[{"n": 1}]).collect().to_pylist()
        [{'n': 1}]
        """
        return self._answer.answer.table

    def to_pandas(self) -> pd.DataFrame:
        """Return the whole answer as a pandas frame."""
        return display.to_pandas(self.collect())

    def to_polars(self) -> pl.DataFrame:
        """Return the whole answer as a Polars frame."""
        return display.to_polars(self.collect())

    def show(self, n: int = 20) -> None:
        """Print the first rows, as the command does.

        On the local engine the run stops after them, so the streams may be endless.  Rows that may
        be retracted, and all rows on other engines, need the whole answer.

        Args:
            n: Number of rows.

        >>> import penstock as ps
        >>> ps.sql("SELECT n FROM {s}", s=[{"n": 1}]).show()
        n
        ─
        1
        (1 row)
        """
        check_whole("n", n, 0)
        if self._emits_while_running:
            with closing(self._released()) as batches:
                display.show_first(batches, self.schema, n)
        else:
            display.show(self.collect(), n)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries.

        On the local engine they come while they are released: a stream may be endless, and leaving
        the loop stops the run.  Rows that may be retracted (LATE AMEND, EMIT EARLY) come at the
        end, when they are final, and so do all rows on other engines.  A time that `datetime`
        cannot hold is an ISO 8601 text.
        """
        batches = self._released() if self._emits_while_running else self.collect().to_batches()
        for batch in batches:
            yield from rows_of(batch)

    @property
    def _emits_while_running(self) -> bool:
        return self._answered is None and self.setting.engine == "local" and not self.plan.revises

    def _released(self) -> Generator[pa.RecordBatch, None, None]:
        rows = Collected()
        with (
            pointing_into(self.text),
            _remembering([self], [Target(rows)]) as running,
            closing(running.steps()) as steps,
        ):
            for _ in steps:
                yield from rows.take()

    @property
    def late(self) -> pa.Table:
        """The late tuples of the last run, or of the answer if there was none, with the bound that
        they broke and the windows that they missed.

        All of them with LATE SIDE, the first 10,000 otherwise.
        """
        return self._last_or_answer.late

    @property
    def rejected(self) -> pa.Table:
        """The rejected rows of the last run, or of the answer if there was none: rows that could
        not be read, had no progress value, came from the future, or have windows beyond their type.

        A run keeps the first 10,000.
        """
        return self._last_or_answer.rejected

    @property
    def account(self) -> Account:
        """Numbers of rows read, late and rejected in the last run, or in the answer if there was
        none.
        """
        return self._last_or_answer.account

    @property
    def decisions(self) -> list[Decision]:
        """The exchanges of operators in the last `run`, with their reasons."""
        return list(self._decisions)

    @property
    def _last_or_answer(self) -> RememberedAnswer | RememberedRun:
        return self._last if self._last is not None else self._answer

    @property
    def _answer(self) -> RememberedAnswer:
        if self._answered is None:
            with pointing_into(self.text):
                self._answered = self._last = RememberedAnswer(self.setting.answer(self.plan))
        return self._answered

    @property
    def _own_text(self) -> str:
        return self.text[self._span.start : self._span.end]

    def __repr__(self) -> str:
        return f"<penstock.Query {', '.join(map(str, self.plan.schema))}>"

    def _repr_html_(self) -> str:
        """Text and columns of the query, for notebooks.  The query is not run, which might not
        end.
        """
        return display.html_of(self.name, self._own_text, self.plan.schema, self.setting.engine)


def run_options(
    checkpoint: str | Path | None, trigger: str, final: bool, name: str | None = None
) -> RunOptions:
    """Check the options of a run."""
    check_text("trigger", trigger, "'5 seconds'")
    check_flags(final=final)
    directory = path_of("checkpoint", checkpoint) if checkpoint is not None else None
    return RunOptions(directory, trigger, final, name)


def run_together(
    queries: list[Query],
    sinks: list[SinkLike | None],
    late: list[SinkLike | None],
    rejected: list[SinkLike | None],
    *,
    rows: bool = False,
    options: RunOptions | None = None,
) -> list[Account]:
    """Run several queries of one database in one pass."""
    check_flags(rows=rows)
    if not queries:
        return []
    options = options or RunOptions()
    with Delivery(options, rows) as delivery, pointing_into(queries[0].text):
        given = list(zip(sinks, late, rejected, strict=True))
        check_places([query.plan for query in queries], given)
        targets = delivery.targets(given)
        with _remembering(queries, targets, options) as running:
            running.drive()
    return [query.account for query in queries]


@contextmanager
def _remembering(
    queries: list[Query], targets: list[Target], options: RunOptions | None = None
) -> Iterator[Running]:
    """Make a run of the queries, which remember its outcome, even if it fails or is left early."""
    setting = queries[0].setting
    remembered = [
        RememberedRun(query.plan, target, setting.engine)
        for query, target in zip(queries, targets, strict=True)
    ]
    plans = [query.plan for query in queries]
    running = Running(setting, plans, [each.target for each in remembered], options)
    try:
        yield running
    finally:
        ran = zip(queries, remembered, running.outcomes(), strict=True)
        for number, (query, run, outcome) in enumerate(ran):
            run.finish(outcome)
            query._last = run
            query._decisions = running.decisions(number)
