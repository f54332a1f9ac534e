"""What it costs that everything is measured all the time: rows, times and latencies around every
operator, against an engine that calls its operators and counts only the rows that it needs itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from benchmarks import plotting
from benchmarks.measuring import Work, agree, measured
from benchmarks.result import Bar, Result, Row
from benchmarks.throughput import answered
from benchmarks.workloads import A, S, Workload, cut, events
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, Measured, Progress
from penstock.local.graph import operator_node
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Latencies

LIMIT = 1.05  # times the engine that measures nothing
MEASURED, UNMEASURED = "measured", "not measured"


class Unmeasured(Measured):
    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        self.flow.rows_in += batch.num_rows  # the scheduler asks for it
        return self.operator.on_batch(port, batch)

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        return self.operator.on_progress(port, progress)

    def on_time(self, now: int) -> list[Item]:
        return self.operator.on_time(now)


@contextmanager
def nothing_measured() -> Iterator[None]:
    with (
        patch.object(operator_node, "Measured", Unmeasured),
        patch.object(Latencies, "add", lambda *_: None),
    ):
        yield


def run(quick: bool = False) -> Result:
    count, few, rounds = (4_000, 300, 1) if quick else (1_000_000, 20_000, 7)
    workloads: dict[str, tuple[int, Callable[[], QueryPlan]]] = {
        f"{A.name}, 64 Ki rows": (count, partial(_cut, A, count, 1 << 16)),
        f"{A.name}, 1 Ki rows": (count, partial(_cut, A, count, 1 << 10)),
        f"{S.name}, one by one": (few, partial(_cut, S, few, 1)),
    }
    rows: list[Row] = []
    bars: list[Bar] = []
    agreed: dict[str, int] = {}
    for name, (tuples, made) in workloads.items():
        query = made()
        contenders: dict[str, Work] = {
            MEASURED: partial(answered, query),
            UNMEASURED: partial(_without, query),
        }
        times, answers = measured(contenders, rounds)
        agreed |= {f"{name}: {who}": found for who, found in agree(answers).items()}
        ratio = times[MEASURED] / times[UNMEASURED]
        each = {f"{who}, ns a tuple": time / tuples * 1e9 for who, time in times.items()}
        rows.append({"workload": name, **each, "times": ratio})
        bars.append(Bar(f"{name}: measured, against not measured", LIMIT, ratio))
    title = f"What measuring costs, best of {rounds} rounds"
    return Result("measuring_costs", title, rows, agreed, bars, partial(plot, rows))


def _cut(workload: Workload, count: int, rows: int) -> QueryPlan:
    return workload.query(cut(events(count), rows))


def _without(query: QueryPlan) -> pa.Table:
    with nothing_measured():
        return answered(query)


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "What measuring costs") as (axis,):
        axis.barh([row["workload"] for row in rows], [row["times"] for row in rows])
        axis.axvline(LIMIT, color="0.5", linestyle="--")
        axis.invert_yaxis()
        axis.set(xlabel="processor time, times that of an engine that measures nothing")
