"""A batch job that is measured: what its steps and operators did, in tasks and in buckets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.operators.measured import OperatorStatus
from penstock.physical.plan import PhysicalPlan
from penstock.plan.algorithms import duration, size_text
from penstock.plan.nodes.stateless import Scan
from penstock.runs.answer import Account
from penstock.runs.node_work import NodeWork
from penstock.runs.outlet import Outlet
from penstock.sinks.discarded import Discarded
from penstock.spark.plan.config import StageConfig
from penstock.spark.plan.stages import Branch, Step, TableStep
from penstock.spark.run.answer import refuse_streaming, run_job
from penstock.spark.run.delivering import deliver
from penstock.spark.run.job import Job
from penstock.spark.run.outcome import rejects_of
from penstock.spark.tasks.messages import PackedKind, unpack_rows
from penstock.spark.tasks.step_work import FOLDING, SHUFFLE, StepName, StepWork, add_work
from penstock.state.chunks import Tree, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class AnalyzedOnSpark:
    """`works` are by the identity of the nodes of the plan, `stages` are lines about these."""

    works: dict[int, NodeWork]
    stages: list[str]
    account: Account
    written: int
    nanoseconds: int


def analyze_on_spark(
    plan: PhysicalPlan, spark: SparkSession, strict: bool, buckets: int
) -> AnalyzedOnSpark:
    """Run a plan over what is there, as a batch job; nothing of its answer is kept."""
    refuse_streaming(plan.query, "EXPLAIN ANALYZE runs a query to its end, and its answer has none")
    begun = perf_counter_ns()
    ran = run_job([plan], spark, strict, buckets, analyzed=True)
    (rejects,) = ran.rejects
    tally = deliver(ran.packed, Outlet(plan.query, Discarded()), rejects=rejects)
    took = perf_counter_ns() - begun
    said = _Said.of(ran.packed)
    configs = ran.job.configs(ran.job.ends)
    works = _works(plan, ran.job, configs, said)
    stages = [_stage_line(config, said) for config in configs]
    return AnalyzedOnSpark(works, stages, tally.account, tally.rows, took)


@dataclass(frozen=True)
class _Said:
    """What tasks and buckets have told of their work."""

    steps: dict[StepName, StepWork]
    operators: dict[str, list[_InBucket]]  # by token of the stage
    passed: Counter[str]  # rows of streams that take part

    @staticmethod
    def of(packed: pa.Table) -> _Said:
        said = _Said({}, {}, Counter())
        columns = (packed.column(name).to_pylist() for name in ("kind", "read", "payload"))
        for kind, read, payload in zip(*columns, strict=True):
            if kind == PackedKind.REJECTED:
                for batch in unpack_rows(payload).to_batches():
                    said.passed.subtract(each.stream for each in rejects_of(batch))
            elif kind == PackedKind.STATUS and payload:
                said._hear(unpack(payload), read)
        return said

    def _hear(self, status: Tree, read: int) -> None:
        if "work" in status:
            add_work(status["work"], self.steps)
        elif "read" in status:
            self.passed[status["read"]] += read
        for each in status.get("operators", ()):
            told = _InBucket(OperatorStatus.load(each["operator"]), *each["most"])
            self.operators.setdefault(each["stage"], []).append(told)

    def folded(self, config: StageConfig) -> StepWork:
        """What was folded into panes on all ways to a stage."""
        total = StepWork()
        for entry in range(len(config.stage.entries)):
            total.add(self.steps.get(StepName(config.identity.stage, entry, FOLDING), StepWork()))
        return total


@dataclass(frozen=True)
class _InBucket:
    status: OperatorStatus
    rows: int  # the most that it has kept
    size: int


def _works(
    plan: PhysicalPlan, job: Job, configs: list[StageConfig], said: _Said
) -> dict[int, NodeWork]:
    works = {id(node): NodeWork() for node in plan.root.walk()}
    by_logical = {id(node.logical): works[id(node)] for node in plan.root.walk()}
    for node in plan.root.walk():
        if isinstance(node.logical, Scan):
            work = works[id(node)]
            work.is_source, work.rows_out = True, said.passed[node.logical.stream.name]
    for config in configs:
        _add_operator(works[id(config.stage.physical)], config, said)
    ways = [(0, end.number, end.entry) for end in job.ends]
    for config in configs:
        entries = enumerate(config.stage.entries)
        ways += [(config.identity.stage, number, entry) for number, entry in entries]
    for stage, number, entry in ways:
        for place, step in enumerate(entry.steps):
            done = said.steps.get(StepName(stage, number, place))
            if done is not None:
                work = by_logical[id(_node_of(step))]
                work.rows_in += done.rows_in
                work.rows_out += done.rows_out
                work.nanoseconds += done.nanoseconds
    return works


def _add_operator(work: NodeWork, config: StageConfig, said: _Said) -> None:
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
    """What stands for it in the plan."""
    match step:
        case Branch():
            return step.union
        case TableStep():
            return step.lookup
        case _:
            return step


def _stage_line(config: StageConfig, said: _Said) -> str:
    """How much came through the shuffle, and how evenly."""
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
