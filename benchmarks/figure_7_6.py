"""Figures 7-6 to 7-8 of the thesis: memory, latency and execution time of the OA-Join beside joins
that keep their results in order, by the size of the band (Q7-2).

Packets of two links are joined with those of the opposite direction of their flow, and counted by
the time of the first link.  Neither the count nor the OA-Join needs an order; OPOB lets results
wait for it, OPIB tuples.  The latency is the time from a punctuation to the count that it releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.joins.oa_join import OaJoin
from penstock.kernel.joins.ordered_joins import OpibJoin, OpobJoin
from penstock.kernel.operator import Item, Operator, Progress
from penstock.model.clock import ManualClock
from penstock.optimizer.lowering import lower_node
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.join import Join

JOINS = {"OA": OaJoin, "OPOB": OpobJoin, "OPIB": OpibJoin}
COLOURS = {"OA": "C2", "OPOB": "C3", "OPIB": "C0"}
MARKERS = {"OA": "o", "OPOB": "D", "OPIB": "s"}
BANDS = (1, 3, 5, 7, 9)  # seconds
SCHEMA = "src INT, dst INT, sport INT, dport INT, ts BIGINT"  # ts in milliseconds
SQL = """
SELECT count(*) AS n [RANGE 10000, SLIDE 10000, WA m1.ts]
FROM m1 [RANGE {band}, WA ts], m2 [RANGE {band}, WA ts]
WHERE m1.src = m2.dst AND m1.dst = m2.src AND m1.sport = m2.dport AND m1.dport = m2.sport
"""


class Step(NamedTuple):
    """What comes to the join next: tuples, or the punctuation after a second of them."""

    port: int
    item: Batch | Progress


def run(quick: bool = False) -> Result:
    seconds, per_second, flows = (25, 20, 10) if quick else (45, 1_000, 1_000)
    steps = list(packets(seconds, per_second, flows))
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for band in BANDS[:2] if quick else BANDS:
        aggregate = planned(band)
        found = {name: Pipeline(aggregate, name).measured(steps) for name in JOINS}
        answers = {name: each.answer for name, each in found.items()}
        agreed |= {f"{band} s: {name}": count for name, count in agree(answers).items()}
        row: Row = {"band (s)": band}
        for what in ("MB", "ms", "s"):
            row |= {f"{name} {what}": getattr(each, what) for name, each in found.items()}
        rows.append(row)
    title = "Figures 7-6 to 7-8: peak of the state, median latency and processor time of Q7-2"
    last = rows[-1]
    bars = [
        Bar("state of OA against OPOB, widest band", 0.75, last["OA MB"] / last["OPOB MB"]),
        Bar("state of OA against OPIB, widest band", 1.05, last["OA MB"] / last["OPIB MB"]),
        Bar("latency of OA against OPOB, widest band", 1, last["OA ms"] / last["OPOB ms"]),
    ]
    return Result("figure_7_6", title, rows, agreed, [] if quick else bars, partial(plot, rows))


def packets(seconds: int, per_second: int, flows: int) -> Iterator[Step]:
    """Both links in step; a flow is the same address and port on either side, the other way round.
    Tuples come in tenths of a second, punctuations every second."""
    generator = np.random.default_rng(7)
    names = [f"m{port + 1}.{name}" for port in (0, 1) for name in ("src", "dst", "sport", "dport")]
    for tenth in range(seconds * 10):
        for port in (0, 1):
            flow = generator.integers(0, flows, per_second // 10)
            one, other = flow // 7, flow // 3 + 100_000
            sides = [one, other, flow % 1000, flow % 977]
            if port == 1:
                sides = [other, one, flow % 977, flow % 1000]
            columns = [pa.array(each.astype(np.int32)) for each in sides]
            ts = np.sort(generator.integers(tenth * 100, tenth * 100 + 100, len(flow)))
            own = [*names[4 * port : 4 * port + 4], f"m{port + 1}.ts"]
            batch = pa.RecordBatch.from_arrays([*columns, pa.array(ts)], own)
            yield Step(port, Batch(batch))
        if tenth % 10 == 9:
            for port in (0, 1):
                yield Step(port, Progress({f"m{port + 1}.ts": (tenth + 1) * 100}))
    for port in (0, 1):
        yield Step(port, Progress({}, ended=True))


def planned(band: int) -> WindowAggregate:
    database = ps.connect()
    for name in ("m1", "m2"):
        database.stream(name, [], schema=SCHEMA, progress=ps.progress("ts", ordered=True))
    query = database.sql(SQL.format(band=band * 1000))
    assert isinstance(query, ps.Query)
    return next(node for node in query.plan.walk() if isinstance(node, WindowAggregate))


class Measured(NamedTuple):
    MB: float
    ms: float
    s: float
    answer: pa.Table


class Pipeline:
    """A join and the count above it."""

    def __init__(self, aggregate: WindowAggregate, name: str) -> None:
        join = aggregate.input
        assert isinstance(join, Join)
        self._make = lambda: JOINS[name](join)
        self._aggregate = lower_node(aggregate)
        self._schema = aggregate.schema.arrow

    def measured(self, steps: list[Step]) -> Measured:
        """Memory in one pass, times in another one."""
        rows: list[pa.RecordBatch] = []
        join, count = self._operators()
        peak = 0
        for step in steps:
            rows += _through(join, count, step)
            if step.port == 1:  # both links have come as far
                peak = max(peak, join.metrics().bytes + count.metrics().bytes)
        join, count = self._operators()
        latencies = []
        begin = process_time()
        for step in steps:
            before = process_time()
            released = _through(join, count, step)
            if released and isinstance(step.item, Progress) and not step.item.ended:
                latencies.append(process_time() - before)
        took = process_time() - begin
        answer = pa.Table.from_batches(rows, self._schema)
        return Measured(peak / 1e6, 1e3 * float(np.median(latencies)), took, answer)

    def _operators(self) -> tuple[Operator, Operator]:
        return self._make(), operator_for(self._aggregate, ManualClock())


def _through(join: Operator, count: Operator, step: Step) -> list[pa.RecordBatch]:
    released: list[pa.RecordBatch] = []
    for item in _fed(join, step.port, step.item):
        made = _fed(count, 0, item)
        released += [each.rows for each in made if isinstance(each, Batch) and each.num_rows]
    return released


def _fed(operator: Operator, port: int, item: Item) -> list[Item]:
    if isinstance(item, Progress):
        return operator.on_progress(port, item)
    assert isinstance(item, Batch)
    return operator.on_batch(port, item)


def plot(rows: list[Row], path: Path) -> None:
    title = "OA-Join beside joins that keep order, Q7-2 (thesis, figures 7-6 to 7-8)"
    labels = {
        "MB": "peak of the state (MB)",
        "ms": "median latency (ms)",
        "s": "processor time (s)",
    }
    with plotting.figure(path, title, panels=3, width=14) as axes:
        for axis, (what, label) in zip(axes, labels.items(), strict=True):
            for name in JOINS:
                axis.plot(
                    [row["band (s)"] for row in rows],
                    [row[f"{name} {what}"] for row in rows],
                    marker=MARKERS[name],
                    color=COLOURS[name],
                    label=name,
                )
            axis.set(xlabel="size of the band (s)", ylabel=label, ylim=(0, None))
        axes[0].legend()
