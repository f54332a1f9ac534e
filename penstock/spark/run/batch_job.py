"""Queries over bounded sources as Spark batch jobs: their whole answer, runs in the background, and
EXPLAIN ANALYZE."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from penstock.errors import EngineError
from penstock.io.sinks.sink import Discarded
from penstock.io.sources.rejects import Reject, RejectKind
from penstock.kernel.operator import OperatorStatus
from penstock.kernel.state import Tree, unpack
from penstock.optimizer.sharing import share_panes
from penstock.plan.algorithms import duration, size_text
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.runs.answer import Account, Answer, Decision, NodeWork, Outlet
from penstock.runs.collected_answer import Gathered
from penstock.runs.status import RunProgress, Watch, WorkInProgress
from penstock.spark.run.job import Job
from penstock.spark.run.job_results import (
    Receiver,
    Recipient,
    Tally,
    counted_in,
    deliver,
    deliver_all,
    progress_of,
    rejects_of,
    tasks_at_work,
)
from penstock.spark.session.session import BUCKETS, PARTITIONS, setting
from penstock.spark.session.worker_errors import failure
from penstock.spark.sources.dataframe import DataFrameSource
from penstock.spark.sources.stream_inputs import batch_sources, streams_of
from penstock.spark.sources.tables import TableFiles
from penstock.spark.stages import Branch, StageConfig, Step, TableStep
from penstock.spark.tasks.messages import (
    FOLDING,
    SHUFFLE,
    PackedKind,
    StepName,
    StepWork,
    add_work,
    unpack_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(
    plan: PhysicalPlan, spark: SparkSession, strict: bool = False, buckets: int = BUCKETS
) -> Answer:
    refuse_streaming(plan.query, "its answer never ends")
    gathered = Gathered(plan.query)
    ran = run_job([plan], spark, strict, buckets)
    tally = deliver(ran.packed, gathered, rejects=ran.rejects[0])
    unreadable = gathered.log.count(RejectKind.BAD_ROW)
    return gathered.answer(tally.read - unreadable, tally.late)


def refuse_streaming(query: QueryPlan, why: str) -> None:
    for name, stream in streams_of(query).items():
        frame = getattr(stream.source, "frame", None)
        if frame is not None and frame.isStreaming:
            raise EngineError(
                f"stream {name} is a streaming DataFrame: {why}",
                hint="query.start(…), or query.dataframe()",
            )


class RunJob(NamedTuple):
    """A batch job that was run: its packed output, and for every plan the rejected rows of
    tables."""

    job: Job
    packed: pa.Table
    rejects: list[list[Reject]]


def run_job(
    plans: Sequence[PhysicalPlan],
    spark: SparkSession,
    strict: bool,
    buckets: int,
    analyzed: bool = False,
) -> RunJob:
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
        place, queries = Path(directory), [plan.query for plan in plans]
        sources = batch_sources(queries, spark, place, strict)
        tables = [TableFiles(query, spark, place, strict, buckets) for query in queries]
        job = Job(plans, sources, buckets, strict, tables=tables, analyzed=analyzed)
        try:
            with setting(spark, {PARTITIONS: str(buckets)}):
                packed = job.packed().toArrow()
        except Exception as error:
            raise failure(error) from error
        return RunJob(job, packed, [each.rejects for each in tables])


# Queries over DataFrames that are tables: a batch job that runs in the background.


def is_at_once(query: QueryPlan) -> bool:
    """Whether a source is a table of Spark's, and none is a stream of Spark's."""
    sources = [stream.source for stream in streams_of(query).values()]
    frames = [each.frame for each in sources if isinstance(each, DataFrameSource)]
    if any(frame.isStreaming for frame in frames):
        if not all(frame.isStreaming for frame in frames):
            raise EngineError(
                "some DataFrames of the query are streaming and some are not",
                hint="read all of them as streams: spark.readStream",
            )
        return False
    return bool(frames)


class BatchRun:
    """Queries over tables, run as one batch job in a thread of its own."""

    def __init__(
        self,
        plans: Sequence[PhysicalPlan],
        spark: SparkSession,
        receivers: Sequence[Receiver],
        buckets: int,
        strict: bool,
    ) -> None:
        self.queries = [plan.query for plan in plans]
        self._plans = share_panes(plans) if len(plans) > 1 else plans
        self.tallies = [Tally() for _ in plans]
        self._counted = Account(0, 0, 0)
        self.closed: str | None = None
        self._strict = strict
        self.watch: Watch | None = None
        self.stopped = False
        self._spark = spark
        self._recipients = [
            Recipient(
                receiver,
                query.progress[0].field.qualified if query.in_order else None,
                frozenset(streams_of(query)),
            )
            for query, receiver in zip(self.queries, receivers, strict=True)
        ]
        self._buckets = buckets
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _work(self) -> None:
        try:
            ran = run_job(self._plans, self._spark, self._strict, self._buckets)
            if self.stopped:
                return
            self.tallies = deliver_all(ran.packed, self._recipients, ran.rejects)
            self._counted = counted_in(ran.packed, ran.rejects)
            for each in self._recipients:
                each.receiver.commit(0)
            if self.watch is not None:
                self.watch(self.progress())
        except BaseException as error:  # raised in `wait`
            self._failure = error

    def wait(self) -> None:
        self._thread.join()
        if self._failure is not None and not self.stopped:
            raise failure(self._failure) from self._failure

    def stop(self) -> None:
        """Stop, and discard what has been computed: a table is read as a whole or not at all."""
        self.stopped = True

    def doing(self) -> WorkInProgress:
        return WorkInProgress(1, *tasks_at_work(self._spark))

    def open_windows(self, query: int = 0) -> int:  # noqa: ARG002
        """Number of open windows: none, because a table ends."""
        return 0

    @property
    def at_work(self) -> bool:
        """Whether the current thread is the one that delivers rows."""
        return threading.current_thread() is self._thread

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def account(self, query: int = 0) -> Account:
        return self.tallies[query].account

    def total(self, query: int = 0) -> Account:
        """Counts of all runs, of which there is only one."""
        return self.account(query)

    def progress(self) -> RunProgress:
        return progress_of(self.tallies, self._counted, batches=int(self.read > 0))

    def decisions(self, query: int = 0) -> list[Decision]:  # noqa: ARG002
        """Decisions of the adaptation: none, because a table is read as a whole."""
        return []

    @property
    def read(self) -> int:
        return self._counted.read


# EXPLAIN ANALYZE on Spark: a batch job whose steps and operators are measured in tasks and buckets.


@dataclass(frozen=True)
class AnalyzedOnSpark:
    """Measurements of a batch job: `works` by the identity of the nodes of the plan, and a line for
    each of the `stages`."""

    works: dict[int, NodeWork]
    stages: list[str]
    account: Account
    written: int
    nanoseconds: int


def analyze_on_spark(
    plan: PhysicalPlan, spark: SparkSession, strict: bool, buckets: int
) -> AnalyzedOnSpark:
    """Run a plan to the end of its streams as a measured batch job, and discard its answer."""
    refuse_streaming(plan.query, "EXPLAIN ANALYZE runs a query to its end, and its answer has none")
    begun = perf_counter_ns()
    ran = run_job([plan], spark, strict, buckets, analyzed=True)
    (rejects,) = ran.rejects
    tally = deliver(ran.packed, Outlet(plan.query, Discarded()), rejects=rejects)
    took = perf_counter_ns() - begun
    said = _WorkReport.of(ran.packed)
    configs = ran.job.configs(ran.job.ends)
    works = _works(plan, ran.job, configs, said)
    stages = [_stage_line(config, said) for config in configs]
    return AnalyzedOnSpark(works, stages, tally.account, tally.rows, took)


@dataclass(frozen=True)
class _WorkReport:
    """Work of steps and operators, as tasks and buckets have reported it."""

    steps: dict[StepName, StepWork]
    operators: dict[str, list[_InBucket]]  # by token of the stage
    passed: Counter[str]  # rows of streams that take part

    @staticmethod
    def of(packed: pa.Table) -> _WorkReport:
        said = _WorkReport({}, {}, Counter())
        columns = (packed.column(name).to_pylist() for name in ("kind", "read", "payload"))
        for kind, read, payload in zip(*columns, strict=True):
            if kind == PackedKind.REJECTED:
                for batch in unpack_rows(payload).to_batches():
                    said.passed.subtract(each.stream for each in rejects_of(batch))
            elif kind == PackedKind.STATUS and payload:
                said.add_status(unpack(payload), read)
        return said

    def add_status(self, status: Tree, read: int) -> None:
        if "work" in status:
            add_work(status["work"], self.steps)
        elif "read" in status:
            self.passed[status["read"]] += read
        for each in status.get("operators", ()):
            bucket = _InBucket(OperatorStatus.load(each["operator"]), *each["most"])
            self.operators.setdefault(each["stage"], []).append(bucket)

    def folded(self, config: StageConfig) -> StepWork:
        """Work of folding tuples into panes on all paths to a stage."""
        total = StepWork()
        for path in range(len(config.stage.paths)):
            total.add(self.steps.get(StepName(config.identity.stage, path, FOLDING), StepWork()))
        return total


@dataclass(frozen=True)
class _InBucket:
    status: OperatorStatus
    rows: int  # the most that it has kept
    size: int


def _works(
    plan: PhysicalPlan, job: Job, configs: list[StageConfig], said: _WorkReport
) -> dict[int, NodeWork]:
    works = {id(node): NodeWork() for node in plan.root.walk()}
    by_logical = {id(node.logical): works[id(node)] for node in plan.root.walk()}
    for node in plan.root.walk():
        if isinstance(node.logical, Scan):
            work = works[id(node)]
            work.is_source, work.rows_out = True, said.passed[node.logical.stream.name]
    for config in configs:
        _add_operator(works[id(config.stage.physical)], config, said)
    paths = [(0, end.number, end.path) for end in job.ends]
    for config in configs:
        stage = config.identity.stage
        paths += [(stage, number, each) for number, each in enumerate(config.stage.paths)]
    for stage, number, path in paths:
        for place, step in enumerate(path.steps):
            done = said.steps.get(StepName(stage, number, place))
            if done is not None:
                work = by_logical[id(_node_of(step))]
                work.rows_in += done.rows_in
                work.rows_out += done.rows_out
                work.nanoseconds += done.nanoseconds
    return works


def _add_operator(work: NodeWork, config: StageConfig, said: _WorkReport) -> None:
    work.size = 0
    for bucket in said.operators.get(config.token, ()):
        flow = bucket.status.flow
        work.rows_in += flow.rows_in
        work.rows_out += flow.rows_out
        work.nanoseconds += flow.nanoseconds
        work.kept += bucket.rows
        work.size += bucket.size
    folded = said.folded(config)
    if folded.rows_in:
        work.rows_in += folded.rows_in
        tuples = duration(folded.nanoseconds / folded.rows_in)
        work.notes.append(
            f"before the shuffle: {folded.rows_in:,} in, {folded.rows_out:,} partial panes out,"
            f" τ = {tuples}"
        )


def _node_of(step: Step) -> object:
    """Logical node of the plan that a step stands for."""
    match step:
        case Branch():
            return step.union
        case TableStep():
            return step.lookup
        case _:
            return step


def _stage_line(config: StageConfig, said: _WorkReport) -> str:
    """Describe the shuffle of a stage: messages and bytes, buckets, and their times."""
    number = config.identity.stage
    came = said.steps.get(StepName(number, 0, SHUFFLE), StepWork())
    found = said.operators.get(config.token, [])
    times = [each.status.flow.nanoseconds for each in found]
    words = [
        f"{came.rows_in:,} message{'s' * (came.rows_in != 1)} of {size_text(came.rows_out)}",
        f"{len(found)} bucket{'s' * (len(found) != 1)}",
    ]
    if times:
        words.append(f"{duration(sum(times))} in its operator, {duration(max(times))} at most")
    return f"stage {number}: {config.stage.physical.operator.value}, {', '.join(words)}"
