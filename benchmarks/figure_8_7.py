"""Figure 8-7 of the thesis: the highest rate at which two-level aggregation drops no tuple, Q8-1.

When a window ends, an engine that needs order (IOP) has to empty its low-level table before it may
go on, and tuples that come meanwhile wait in a ring buffer, or are dropped if that is full.  Where
order is not needed (OOP), old partial results leave when their places are needed (lazy), or one by
one besides (slow).  The time of every step of the low level is measured; how fast tuples may come
so that never more than the buffer wait follows from these times.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from time import thread_time_ns

import numpy as np
import pyarrow as pa

from benchmarks import plotting
from benchmarks.driving import aggregation, drive, ingested
from benchmarks.measuring import agree
from benchmarks.result import Result, Row
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item
from penstock.kernel.windows.two_level import LazyFlush, PartialRows, SlowFlush, TwoLevel

SQL = "SELECT k, count(*) AS n [RANGE 60000, SLIDE 60000, WA ts] FROM s GROUP BY k"
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
FLUSHES = {"IOP": LazyFlush(0), "OOP": LazyFlush(2), "OOP (sf)": SlowFlush(2, every=160)}
TABLES = {"1/2": 0.5, "1": 1.0, "2": 2.0}  # slots for a group
GROUPS = (4_096, 16_384, 65_536)
STEP = 1_024  # tuples
BUFFER = 4 * STEP
WINDOWS, TUPLES = 5, 200_000  # of each


def run(quick: bool = False) -> Result:
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    tuples = 3_000 if quick else TUPLES
    for groups in (64,) if quick else GROUPS:
        items = _items(groups, tuples)
        answers: dict[str, pa.Table] = {}
        for size, factor in TABLES.items():
            row: Row = {"groups": groups, "slots for a group": size}
            for name, flush in FLUSHES.items():
                low = _Timed(int(groups * factor), flush, items)
                answers[f"{groups}, {name}-{size}"] = low.answer
                row[f"{name} (1,000/s)"] = sustained(low.steps) / 1_000
                row[f"{name} longest step (ms)"] = max(low.steps) / 1e6
            rows.append(row)
        agreed |= agree(answers)
    title = "Figure 8-7: the highest rate without a dropped tuple, two-level count (Q8-1)"
    drawn = partial(_plot, rows)
    return Result("figure_8_7", title, rows, agreed, plot=drawn)


class _Timed(TwoLevel):
    """How long the low level has taken for every batch, in nanoseconds; the high level runs
    elsewhere, as in the thesis."""

    def __init__(self, slots: int, flush: LazyFlush, items: list[Item]) -> None:
        super().__init__(aggregation(SQL, [], SCHEMA), slots, flush)
        self._took = 0
        self.steps: list[int] = []
        found = []
        for item in items:
            self._took = 0
            found += drive(self, [item])
            if isinstance(item, Batch):
                self.steps.append(self._took)
            else:  # what progress asks for is done before the next batch
                self.steps[-1] += self._took
        self.answer = pa.Table.from_batches(found)

    def _merge(self, flushed: Iterable[PartialRows]) -> None:
        begun = thread_time_ns()
        rows = list(flushed)
        self._took += thread_time_ns() - begun
        super()._merge(rows)


def sustained(steps: list[int], buffer: int = BUFFER, step: int = STEP) -> float:
    """Tuples a second that may come, so that at most a buffer of them waits.

    If each of four steps takes a second, and one may wait, they may come as fast as they are done;
    if all of them may, at any rate.

    >>> [round(sustained([10**9] * 4, buffer=waiting, step=1), 2) for waiting in (1, 4)]
    [1.0, 1000000000.0]
    """
    low, high = 0.0, 1e9
    for _ in range(60):
        rate = (low + high) / 2
        if _most_waiting(steps, step / rate * 1e9) * step <= buffer:
            low = rate
        else:
            high = rate
    return low


def _most_waiting(steps: list[int], between: float) -> int:
    """Steps that have come and are not done, at most, if one comes every so many nanoseconds."""
    came = between * np.arange(1, len(steps) + 1)
    # a step begins when it has come and the one before it is done
    done = np.cumsum(steps) + np.maximum.accumulate(came - np.cumsum(steps) + steps)
    return int(np.max(np.arange(1, len(steps) + 1) - np.searchsorted(done, came, side="right")))


def _items(groups: int, tuples: int) -> list[Item]:
    generator = np.random.default_rng(87)
    count = WINDOWS * tuples
    keys = generator.integers(0, groups, count)
    stamps = np.arange(count) * 60_000 // tuples
    table = pa.table({"k": keys, "ts": stamps}, schema=SCHEMA)
    return list(ingested(aggregation(SQL, table.to_batches(STEP), SCHEMA)))


def _plot(rows: list[Row], path: Path) -> None:
    title = "Rates of two-level aggregation (thesis, figure 8-7)"
    with plotting.figure(path, title, panels=len(TABLES), sharey=True) as axes:
        for axis, size in zip(axes, TABLES, strict=True):
            some = [row for row in rows if row["slots for a group"] == size]
            for name, marker in zip(FLUSHES, "Dos", strict=True):
                rates = [row[f"{name} (1,000/s)"] for row in some]
                axis.plot([row["groups"] for row in some], rates, marker=marker, label=name)
            axis.set(xscale="log", yscale="log", xlabel="groups", title=f"{size} slots a group")
        axes[0].set_ylabel("1,000 tuples a second")
        axes[0].legend()
