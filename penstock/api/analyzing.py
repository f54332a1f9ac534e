"""EXPLAIN ANALYZE: a plan with what was measured of it, beside what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.api.running import Setting
from penstock.engine.analysis import Analyzed, analyze
from penstock.errors import EngineError
from penstock.optimizer.dataflow.explain import expressions_of
from penstock.optimizer.estimates.expected import ExpectedWork, expected_work
from penstock.optimizer.optimize import executed_query
from penstock.physical.explain import explain_physical
from penstock.physical.node import PhysicalNode
from penstock.plan.algorithms import duration, size_text
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties.reading import scans_of
from penstock.runs.answer import Account
from penstock.runs.node_work import NodeWork


def analyze_query(query: QueryPlan, setting: Setting) -> str:
    """Run a query over what is there; nothing of its answer is kept."""
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
