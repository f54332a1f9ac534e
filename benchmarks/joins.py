"""Workload C and its relatives: joins of two streams, beside systems that have all of both at once.

What a join holds is compared with the tuples that can still find a partner, and what it costs to
forget tuples is measured with few and with many that stay.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter_ns, process_time_ns

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import plotting
from benchmarks.joining import BAND, C_LEFT, SCHEMA, C, Fed, Joining, fed_alternately, stream
from benchmarks.measuring import agree, measured
from benchmarks.offline_joins import SECOND, DuckDBJoins, PolarsJoins
from benchmarks.result import Bar, Result, Row, shown
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.operator import Progress
from penstock.model.clock import ManualClock
from penstock.optimizer.lowering import lower_node
from penstock.plan.nodes.join import Join

LARGE, SMALL = "Penstock, 64 Ki rows", "Penstock, 1 Ki rows"
BATCHES = {LARGE: 1 << 16, SMALL: 1 << 10}
LIMIT = 4.0  # times Polars
ALONE = 150.0  # µs, for the median
HELD = 1.3  # times the tuples that can still join
Ints = npt.NDArray[np.int64]


def run(quick: bool = False) -> Result:
    count, band, rounds = (3_000, 300, 1) if quick else (200_000, 100_000, 5)
    rows: list[Row] = []
    bars: list[Bar] = []
    agreed: dict[str, int] = {}
    for joining in (C, C_LEFT, BAND):
        size = band if joining is BAND else count
        # a band has a hundred million pairs
        times, answers = contest(joining, size, 1 if joining is BAND else rounds)
        agreed |= {f"{joining.name}: {who}": found for who, found in agree(answers).items()}
        floor = times[PolarsJoins.name]
        for name, seconds in times.items():
            rows.append(
                {
                    "join": joining.name,
                    "system": name,
                    "ns per event": seconds / size / 2 * 1e9,
                    "times Polars": seconds / floor,
                }
            )
        if joining is C:
            for name, of in ((LARGE, "64 Ki"), (SMALL, "1 Ki")):
                what = f"C in batches of {of}, against Polars"
                bars.append(Bar(what, LIMIT, times[name] / floor))
    before, alone = (2_000, 200) if quick else (20_000, 20_000)
    bars.append(Bar("C, a tuple alone, median", ALONE, single(before, alone), "µs"))
    bars += [
        Bar(f"C in batches of {rows:,}, tuples held against those that can join", HELD, held)
        for rows, held in peaks(count)
    ]
    few, many = (10_000, 20_000) if quick else (20_000, 1_000_000)
    cost = {live: forgetting(live) for live in (few, many)}
    what = f"to forget a tuple among {many:,}, against one among {few:,}"
    bars.append(Bar(what, 2, cost[many] / cost[few]))
    title = f"{count:,} events in each of two streams, one thread, best of {rounds} rounds"
    return Result("joins", title, rows, agreed, bars, partial(plot, rows))


def contest(
    joining: Joining, count: int, rounds: int
) -> tuple[dict[str, float], dict[str, pa.Table]]:
    streams = stream(count, 1), stream(count, 2)
    query = joining.query()
    polars, duckdb = PolarsJoins(*streams), DuckDBJoins(*streams)
    contenders = {
        PolarsJoins.name: partial(polars.answer, joining),
        DuckDBJoins.name: partial(duckdb.answer, joining),
        **{name: partial(fed_alternately, query, streams, rows) for name, rows in BATCHES.items()},
    }
    times, found = measured(contenders, rounds)
    columns = ["pairs", "apart"] if joining is BAND else ["n", "m"]
    return times, {name: table.select(columns) for name, table in found.items()}


def single(before: int, count: int) -> float:
    """The median time of a tuple that comes alone, in microseconds of the wall clock."""
    streams = stream(before + count, 1), stream(before + count, 2)
    fed = Fed(C.query())
    for port, each in enumerate(streams):
        fed.feed(port, each.slice(0, before))
    taken = []
    for row in range(before, before + count // 2):
        for port, each in enumerate(streams):
            batch = each.slice(row, 1)
            begin = perf_counter_ns()
            fed.feed(port, batch)
            taken.append(perf_counter_ns() - begin)
    return float(np.median(taken)) / 1000


class Peak:
    """The most tuples that are held, and the most that can still join."""

    def __init__(self, streams: tuple[pa.RecordBatch, pa.RecordBatch]) -> None:
        self._ticks = [each.column("ts").cast(pa.int64()).to_numpy() for each in streams]
        self._come = [0, 0]
        self.held = self.needed = 0

    def look(self, fed: Fed, port: int, so_far: int) -> None:
        self._come[port] = so_far
        self.held = max(self.held, fed.held())
        left, right = (ticks[:come] for ticks, come in zip(self._ticks, self._come, strict=True))
        self.needed = max(self.needed, _can_join(left, right) + _can_join(right, left))


def _can_join(own: Ints, others: Ints) -> int:
    """How many tuples are not too old for those that may come of the other stream."""
    if not len(others):
        return len(own)
    return int(np.count_nonzero(own >= others.max() - 3 * SECOND - 5 * SECOND))


def peaks(count: int) -> list[tuple[int, float]]:
    streams = stream(count, 1), stream(count, 2)
    found = []
    for rows in BATCHES.values():
        peak = Peak(streams)
        fed_alternately(C.query(), streams, rows, peak.look)
        found.append((rows, peak.held / peak.needed))
    return found


def forgetting(live: int) -> float:
    """Nanoseconds to forget a tuple while so many others stay."""
    node = next(node for node in C.query().walk() if isinstance(node, Join))
    join = operator_for(lower_node(node), ManualClock())
    names = [f"l.{name}" for name in SCHEMA.names]
    step, taken, gone = 1 << 10, 0, 0
    generator = np.random.default_rng(3)
    for begin in range(0, 3 * live, step):
        ticks = pa.array((begin + np.arange(step)) * 1000).cast(SCHEMA.field(2).type)
        keys = pa.array(generator.integers(0, 10_000, step))
        join.on_batch(0, Batch(pa.RecordBatch.from_arrays([keys, keys, ticks], names)))
        if begin >= live:
            before = join.metrics().rows
            start = process_time_ns()
            join.on_progress(1, Progress({"r.ts": (begin - live) * 1000}))
            taken += process_time_ns() - start
            gone += before - join.metrics().rows
    return taken / max(gone, 1)


def plot(rows: list[Row], path: Path) -> None:
    names = list(dict.fromkeys(row["join"] for row in rows))
    title = "Joins of two streams, 10,000 keys, one thread"
    with plotting.figure(path, title, panels=len(names)) as axes:
        for axis, name in zip(axes, names, strict=True):
            chosen = [row for row in rows if row["join"] == name]
            systems = [row["system"] for row in chosen]
            colours = ["C0" if each.startswith("Penstock") else "0.6" for each in systems]
            bars = axis.barh(systems, [row["ns per event"] for row in chosen], color=colours)
            axis.bar_label(bars, [f"{shown(row['times Polars'])}×" for row in chosen], padding=3)
            axis.invert_yaxis()
            axis.set(title=name, xlabel="processor time per event (ns), and times Polars")
            axis.margins(x=0.3)
