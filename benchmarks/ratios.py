"""The ratio of RANGE to SLIDE: what Paned-WID costs per event, apart from emitting results.

The operator computes what every window contains, and its results are neither finished nor put out.
Tuples come at 100 per SLIDE, and the windows that are open at the end stay open.

Windows of one or two panes that begin and end in a batch are folded and leave together, which takes
a fraction; so what overlapping costs is judged from 10 panes on.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import plotting
from benchmarks.driving import aggregation, answer, drive, ingested
from benchmarks.measuring import agree, best_times
from benchmarks.result import Bar, Result, Row
from benchmarks.workloads import SCHEMA, cut, events
from penstock.kernel.operator import Item
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.wid import Wid
from penstock.plan.nodes.aggregation import WindowAggregate

RATIOS = (1, 2, 10, 60, 600, 3600)
SLIDE = 50  # ms
_PANES = 10  # of a window, from which on none of them leave together
CALLS = {"count, sum": "count(*) AS n, sum(len) AS bytes", "max": "max(len) AS top"}


def run(quick: bool = False) -> Result:
    count, ratios, rounds = (3_000, RATIOS[:3], 1) if quick else (500_000, RATIOS, 1)
    batches = cut(events(count), 1 << 16)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for name, calls in CALLS.items():
        contenders = {}
        for ratio in ratios:
            sql = f"SELECT k, {calls} [RANGE {ratio * SLIDE} MS, SLIDE {SLIDE} MS, WA ts] FROM s"
            node = aggregation(f"{sql} GROUP BY k", batches, SCHEMA, delay="5 seconds")
            items = list(ingested(node))
            if ratio == 2:
                found = {"Paned-WID": answer(node, Paned, items), "WID": answer(node, Wid, items)}
                agreed |= {f"{name}: {who}": size for who, size in agree(found).items()}
            contenders[str(ratio)] = partial(without_emitting, node, items[:-1])
        times = best_times(contenders, rounds)
        least = min(times[str(ratio)] for ratio in ratios if ratio >= _PANES)
        for ratio in ratios:
            seconds = times[str(ratio)]
            rows.append(
                {
                    "aggregate": name,
                    "RANGE/SLIDE": ratio,
                    "ns per event": seconds / count * 1e9,
                    "times tumbling": seconds / times["1"],
                    "times the least": seconds / least,
                }
            )
    bars = [
        Bar(
            f"RANGE/SLIDE from {_PANES} to 3,600, {name}, against the least of them",
            2,
            max(
                row["times the least"]
                for row in rows
                if row["aggregate"] == name and row["RANGE/SLIDE"] >= _PANES
            ),
        )
        for name in CALLS
    ]
    title = f"Paned-WID, {count:,} events, SLIDE {SLIDE} ms, apart from emitting"
    return Result("ratios", title, rows, agreed, bars, partial(plot, rows))


def without_emitting(node: WindowAggregate, items: list[Item]) -> None:
    operator = Paned(node)
    operator.folder.finish = lambda *_: []  # type: ignore[method-assign]
    operator.results.add = lambda *_: None  # type: ignore[method-assign]
    drive(operator, items)


def plot(rows: list[Row], path: Path) -> None:
    title = "Paned-WID: windows may overlap as much as they like"
    with plotting.figure(path, title) as (axis,):
        for name, marker in zip(CALLS, "os", strict=True):
            chosen = [row for row in rows if row["aggregate"] == name]
            ratios = [row["RANGE/SLIDE"] for row in chosen]
            axis.plot(ratios, [row["ns per event"] for row in chosen], marker=marker, label=name)
        axis.set(
            xscale="log",
            xlabel="RANGE / SLIDE",
            ylabel="processor time per event (ns),\napart from emitting",
            ylim=(0, None),
        )
        axis.legend()
