"""Figure 6-15 of the thesis: what panes save, by tuples per pane and panes per window.

Time of Paned-WID over that of WID for a sliding max, one group; less than 1 is faster.  Panes pay
when they hold many tuples and many windows share them.  AdaptWID and buffering stand beside it.
The input has been read before, so that only the aggregation is measured.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import plotting
from benchmarks.driving import ALGORITHMS, aggregation, answer, ingested
from benchmarks.figure_6_10 import SCHEMA, stream
from benchmarks.measuring import agree, measured
from benchmarks.result import Result, Row

TUPLES_PER_PANE = (1, 5, 20, 100, 500)
PANES_PER_WINDOW = (1, 2, 5, 10, 50)
OTHERS = ("Paned-WID", "AdaptWID", "buffering")


def run(quick: bool = False) -> Result:
    tuples, panes = ((1, 20), (1, 5)) if quick else (TUPLES_PER_PANE, PANES_PER_WINDOW)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for per_pane in tuples:
        batches = stream(100 if quick else min(20_000, 1_000 * per_pane), 1 << 12)
        for per_window in panes:
            range_ = per_pane * per_window
            sql = f"SELECT max(v) AS top [RANGE {range_}, SLIDE {per_pane}, WA t] FROM s"
            node = aggregation(sql, batches, SCHEMA)
            items = list(ingested(node))
            contenders = {
                name: partial(answer, node, make, items) for name, make in ALGORITHMS.items()
            }
            times, found = measured(contenders, 1)
            agreed |= {f"{range_}/{per_pane}: {who}": n for who, n in agree(found).items()}
            rows.append(
                {"tuples per pane": per_pane, "panes per window": per_window}
                | {f"{name}": times[name] / times["WID"] for name in OTHERS}
            )
    title = "Figure 6-15: processor time over that of WID, sliding max"
    return Result("figure_6_15", title, rows, agreed, plot=partial(plot, rows))


def plot(rows: list[Row], path: Path) -> None:
    title = "Execution time over that of WID, sliding max (thesis, figure 6-15)"
    counts = sorted({row["panes per window"] for row in rows})
    with plotting.figure(path, title, panels=3, width=13, sharey=True) as axes:
        for axis, name in zip(axes, OTHERS, strict=True):
            for number, panes in enumerate(counts):
                chosen = [row for row in rows if row["panes per window"] == panes]
                axis.plot(
                    [row["tuples per pane"] for row in chosen],
                    [row[name] for row in chosen],
                    marker="o",
                    color=plotting.shade(number, len(counts)),
                    label=f"{panes}",
                )
            axis.axhline(1, color="0.4", linestyle="--", linewidth=1)
            axis.set(title=name, xscale="log", yscale="log", xlabel="tuples per pane")
        axes[0].set_ylabel("time / time of WID")
        axes[-1].legend(title="panes per window", loc="center left", bbox_to_anchor=(1, 0.5))
