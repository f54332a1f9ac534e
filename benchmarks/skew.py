"""Section 8.4 of the thesis: what plans keep while some of their inputs lag behind others, if
unions keep order (Merge) and if they do not (Meld).

In-order processing (IOP) puts the tuples of a union in order before anybody sees them, so those of
the inputs that are ahead wait.  Out-of-order processing (OOP) hands them on at once.  Everything
above the unions is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Row
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import OperatorKind, PhysicalNode, PhysicalPlan
from penstock.runs.answer import Outlet

SCHEMA = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("ts", pa.int64())])  # milliseconds
COLOURS = {"IOP": "C3", "OOP": "C2"}
MARKERS = {"IOP": "D", "OOP": "o"}


@dataclass(frozen=True, slots=True)
class Link:
    """Packets that come in order, at a rate per second; of flows that are numbered from 0, in one
    direction or in the other (`back`).  One that `lags` comes later than the others."""

    per_second: float
    flows: int
    back: bool = False
    lags: bool = False

    def packets(self, seconds: int, seed: int) -> pa.RecordBatch:
        generator = np.random.default_rng(seed)
        count = int(seconds * self.per_second)
        ts = np.sort(generator.integers(0, seconds * 1000, count))
        flow = generator.integers(0, self.flows, count)
        sides = (flow + self.flows, flow) if self.back else (flow, flow + self.flows)
        return pa.RecordBatch.from_arrays([*map(pa.array, sides), pa.array(ts)], schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Query:
    figure: str
    sql: str
    links: Mapping[str, Link]
    skews: Sequence[int]  # seconds by which some links come later
    seconds: int


def compared(query: Query) -> tuple[list[Row], dict[str, int]]:
    """The most that is kept at any time, with both kinds of unions, for every skew."""
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    given = {
        name: link.packets(query.seconds, seed)
        for seed, (name, link) in enumerate(query.links.items())
    }
    plan = _planned(query)
    for skew in query.skews:
        peaks, answers = {}, {}
        for name, physical in (("IOP", merging(plan)), ("OOP", plan)):
            lags = {each: skew * link.lags for each, link in query.links.items()}
            peaks[name], answers[name] = _peak(physical, given, lags, query.seconds + skew)
        agreed |= {f"{query.figure}, {skew} s: {who}": n for who, n in agree(answers).items()}
        row: Row = {"figure": query.figure, "skew (s)": skew}
        row |= {f"{name} MB": size / 1e6 for name, (size, _) in peaks.items()}
        row |= {f"{name} tuples": tuples for name, (_, tuples) in peaks.items()}
        rows.append(row)
    return rows, agreed


def merging(plan: PhysicalPlan) -> PhysicalPlan:
    """The same plan with unions that keep order."""

    def change(node: PhysicalNode) -> PhysicalNode:
        ports = tuple(replace(port, input=change(port.input)) for port in node.ports)
        operator = node.operator
        if operator is OperatorKind.UNION:
            operator = OperatorKind.MERGE
        return replace(node, operator=operator, ports=ports)

    return replace(plan, root=change(plan.root))


def _planned(query: Query) -> PhysicalPlan:
    database = ps.connect()
    for name in query.links:
        progress = ps.progress("ts", ordered=True)
        database.stream(name, [], schema="src BIGINT, dst BIGINT, ts BIGINT", progress=progress)
    found = database.sql(query.sql)
    assert isinstance(found, ps.Query)
    plan: QueryPlan = found.plan
    return physical_plan(plan, Settings())


def _peak(
    plan: PhysicalPlan, given: Mapping[str, pa.RecordBatch], lags: Mapping[str, int], seconds: int
) -> tuple[tuple[int, int], pa.Table]:
    """Bytes and tuples; every half second, what has come of each link is fed."""
    rows = Collected()
    outlet = Outlet(plan.query, rows)
    run = LocalRun([plan], [outlet], ManualClock())
    size = tuples = 0
    for half in range(2 * seconds):
        for scan in run.scans:
            packets = given[scan.name]
            ts = np.asarray(packets.column("ts")) + 1000 * lags[scan.name]
            begin, end = np.searchsorted(ts, [500 * half, 500 * half + 500])
            if begin < end:
                run.feed(scan, Chunk(packets.slice(begin, end - begin), ""))
        held = [status.held for status in run.operators(outlet)]
        size = max(size, sum(each.bytes for each in held))
        tuples = max(tuples, sum(each.rows for each in held))
    for scan in run.scans:
        run.end(scan)
    return (size, tuples), rows.table


Titles = Mapping[tuple[str, str], str]  # by figure, and what is drawn: MB or tuples


def plot(rows: list[Row], titles: Titles, title: str, path: Path) -> None:
    labels = {"MB": "peak of the state (MB)", "tuples": "tuples kept at most"}
    with plotting.figure(path, title, panels=len(titles)) as axes:
        for axis, ((figure, what), name) in zip(axes, titles.items(), strict=True):
            chosen = [row for row in rows if row["figure"] == figure]
            for kind in ("IOP", "OOP"):
                axis.plot(
                    [row["skew (s)"] for row in chosen],
                    [row[f"{kind} {what}"] for row in chosen],
                    marker=MARKERS[kind],
                    color=COLOURS[kind],
                    label=kind,
                )
            axis.set(title=f"{figure}: {name}", xlabel="arrival skew (s)", ylabel=labels[what])
            axis.set_ylim(bottom=0)
        axes[0].legend()
