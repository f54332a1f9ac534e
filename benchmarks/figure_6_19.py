"""Figure 6-19 of the thesis: the peak of the state under skew, with the data sets of table 6-2.

Per RANGE, 1, 3, 5, 7 or 9 % of the tuples are in groups of 1 tuple, 20 % in groups of about 15, the
others in groups of about 300.  Q6-7 sums per group over tumbling windows of one source; Q6-8 counts
over sliding windows of three sources, one of which lags by 3 s and holds windows open.
Eager aggregation (WID) pays for many small groups and lazy aggregation (tuples) for large ones;
AdaptWID decides group by group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import plotting
from benchmarks.driving import aggregation, answer, drive, feed, ingested
from benchmarks.measuring import agree, measured
from benchmarks.result import Bar, Result, Row
from benchmarks.state_size import state_bytes
from penstock.kernel.operator import Item
from penstock.kernel.windows.adapt_wid import AdaptWid, Thresholds
from penstock.kernel.windows.buffering import Buffering
from penstock.kernel.windows.paned import Paned

SMALL = {"DS1": 0.01, "DS2": 0.03, "DS3": 0.05, "DS4": 0.07, "DS5": 0.09}
MEDIUM = 0.2
SCHEMA = pa.schema(
    [("link", pa.int64()), ("k", pa.int64()), ("len", pa.int64()), ("t", pa.int64())]
)
ADAPTIVE = {
    "eager": Thresholds(0, 0),
    "lazy": Thresholds(float("inf"), float("inf")),
    "AdaptWID": Thresholds(),
}
CONTENDERS = {
    **{name: partial(AdaptWid, thresholds=each) for name, each in ADAPTIVE.items()},
    "Paned-WID": Paned,
    "buffering": Buffering,
}
LIMIT = 1.15  # times the better of eager and lazy


@dataclass(frozen=True)
class Case:
    name: str
    call: str
    range: int  # ms
    slide: int
    lag: int  # ms that the control link is behind; none: no such link

    @property
    def sql(self) -> str:
        window = f"[RANGE {self.range}, SLIDE {self.slide}, WA t]"
        return f"SELECT k, {self.call} AS result {window} FROM s GROUP BY k"


CASES = (
    Case("Q6-7", "sum(len)", 1_000, 1_000, 0),
    Case("Q6-8", "count(*)", 10_000, 1_000, 3_000),
)


def run(quick: bool = False) -> Result:
    windows, per_window = (2, 600) if quick else (4, 10_000)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for case in CASES:
        for name, small in list(SMALL.items())[:: 4 if quick else 1]:
            batches = list(skewed(case, small, windows, per_window))
            node = aggregation(case.sql, batches, SCHEMA, ordered=True, per="link")
            items = list(ingested(node))
            works = {who: partial(answer, node, make, items) for who, make in CONTENDERS.items()}
            times, found = measured(works, 1)
            agreed |= {f"{case.name} {name}: {who}": n for who, n in agree(found).items()}
            row: Row = {"query": case.name, "data": name}
            row |= {f"{who} kB": peak(make(node), items) / 1e3 for who, make in CONTENDERS.items()}
            better = min(row["eager kB"], row["lazy kB"])
            row["AdaptWID / better"] = row["AdaptWID kB"] / better
            row |= {f"{who} ms": times[who] * 1e3 for who in ADAPTIVE}
            rows.append(row)
    ratios = [row["AdaptWID / better"] for row in rows]
    bars = [
        Bar("state of AdaptWID against eager and lazy, worst skew", LIMIT, max(ratios)),
        Bar("state of AdaptWID against eager and lazy, best skew", 0.99, min(ratios)),
    ]
    title = "Figure 6-19: peak of the state under skew (table 6-2), and processor time"
    return Result("figure_6_19", title, rows, agreed, bars, partial(plot, rows))


def skewed(case: Case, small: float, windows: int, per_window: int) -> Iterator[pa.RecordBatch]:
    """In order within each link, in batches of a quarter of a SLIDE of arrivals."""
    generator = np.random.default_rng(19)
    tiny, middle = int(per_window * small), int(per_window * MEDIUM)
    large = per_window - tiny - middle
    pieces = []
    for window in range(windows):
        keys = np.concatenate(
            [
                1_000_000 * (window + 1) + np.arange(tiny),  # never seen again
                100_000 + generator.integers(0, middle // 15, middle),
                generator.integers(0, large // 300, large),
            ]
        )
        times = window * case.range + generator.integers(0, case.range, per_window)
        links = generator.integers(0, 2 if case.lag else 1, per_window)
        pieces.append(np.stack([links, keys, times, times]))
    if case.lag:  # some tuples of a control link, which arrive late
        times = np.arange(0, windows * case.range, case.slide // 10)
        pieces.append(np.stack([np.full_like(times, 2), times % 7, times, times + case.lag]))
    links, keys, times, arrivals = np.concatenate(pieces, axis=1)
    order = np.argsort(arrivals, kind="stable")
    links, keys, times, arrivals = links[order], keys[order], times[order], arrivals[order]
    columns = [links, keys, generator.integers(40, 1501, len(keys)), times]
    whole = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
    cuts = np.flatnonzero(np.diff(arrivals // (case.slide // 4))) + 1
    for begin, end in zip([0, *cuts], [*cuts, len(order)], strict=True):
        yield whole.slice(begin, end - begin)


def peak(operator: AdaptWid | Paned | Buffering, items: list[Item]) -> int:
    """The most bytes that the state takes after any item."""
    if isinstance(operator, AdaptWid):
        drive(operator, items)
        return operator.state_bytes().peak
    most = 0
    for item in items:
        list(feed(operator, item))
        most = max(most, state_bytes(operator))
    return most


def plot(rows: list[Row], path: Path) -> None:
    title = "Peak of the state under skew (thesis, figure 6-19)"
    with plotting.figure(path, title, panels=2, width=12) as axes:
        for axis, case in zip(axes, CASES, strict=True):
            chosen = [row for row in rows if row["query"] == case.name]
            places = np.arange(len(chosen))
            width = 0.8 / len(CONTENDERS)
            for number, who in enumerate(CONTENDERS):
                axis.bar(
                    places + (number - (len(CONTENDERS) - 1) / 2) * width,
                    [row[f"{who} kB"] for row in chosen],
                    width,
                    color=plotting.COLOURS[who] if who != "buffering" else "0.65",
                    label="eager (WID)" if who == "eager" else who,
                )
            axis.set_xticks(places, [f"{row['data']}\n{SMALL[row['data']]:.0%}" for row in chosen])
            axis.set(
                title=f"{case.name}: {case.call}, RANGE {case.range // 1000} s, SLIDE 1 s",
                xlabel="data set, and the share of tuples in groups of one",
                ylabel="peak of the state (kB)",
            )
        axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
