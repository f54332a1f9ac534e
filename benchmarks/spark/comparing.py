"""Benchmarks that are contests: rows of a table, bars, and a plot of how many times faster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import plotting
from benchmarks.result import Bar, Row, shown
from benchmarks.spark.contest import Contest


def row(what: str, events: int, found: Contest) -> Row:
    ours, theirs = found.penstock, found.spark
    return {
        "query": what,
        "Penstock s": ours.seconds,
        "Spark s": theirs.seconds,
        "times faster": found.speedup,
        "Penstock events/s": events / ours.seconds,
        "Penstock state KB": ours.state_bytes / 1000,
        "Spark state KB": theirs.state_bytes / 1000,
    }


def time_bar(what: str, times_faster: float, found: Contest) -> Bar:
    """At least so many times faster, which is at most that part of the time."""
    return Bar(f"{what}: time against Spark's", round(1 / times_faster, 3), found.ratio)


def bar_plot(title: str, rows: Sequence[Row], path: Path) -> None:
    with plotting.figure(path, title, width=8) as (axis,):
        names = [each["query"] for each in rows]
        for name, offset, colour in (("Penstock", -0.2, "C0"), ("Spark", 0.2, "0.6")):
            times = [each[f"{name} s"] for each in rows]
            places = [place + offset for place in range(len(rows))]
            bars = axis.barh(places, times, height=0.38, color=colour, label=name)
            if name == "Penstock":
                labels = [f"{shown(float(each['times faster']))}× as fast" for each in rows]
                axis.bar_label(bars, labels, padding=3)
        axis.set_yticks(range(len(rows)), names)
        axis.invert_yaxis()
        axis.set(xlabel="seconds in micro-batches")
        axis.legend(frameon=False)
        axis.margins(x=0.15)
