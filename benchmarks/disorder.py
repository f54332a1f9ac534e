"""Streams that come out of order, and what an algorithm makes of them: how wrong, and how late.

Tuples have a time of arrival besides their timestamp.  They are fed in the batches that arrive
within a short while, each followed by the punctuation that a source could make there: nothing below
the least timestamp still to come.  The latency of a result is the time of arrival of the batch that
released it, less the end of its window: a property of the data, not of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import plotting
from benchmarks.driving import ALGORITHMS, Make, aggregation, feed
from benchmarks.measuring import agree
from benchmarks.result import Row
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.windows.buffering import Buffering
from penstock.model.arrays import Ints
from penstock.model.punctuation import END
from penstock.plan.nodes.aggregation import WindowAggregate

Error = Callable[[list[float], list[float]], float]  # of what was found and what is true, in %
SCHEMA = pa.schema([("v", pa.int64()), ("t", pa.int64())])
PUNCTUATION = "punctuation"


@dataclass(frozen=True)
class Arrivals:
    """Times in ms, in the order of arrival."""

    arrival: Ints
    stamp: Ints
    every: int  # ms of arrivals in a batch

    @cached_property
    def batches(self) -> list[tuple[int, pa.RecordBatch, int]]:
        """When, what, and the least timestamp still to come."""
        values = np.random.default_rng(7).integers(40, 1501, len(self.stamp))
        ahead = np.append(np.minimum.accumulate(self.stamp[::-1])[::-1], END)
        cuts = np.flatnonzero(np.diff(self.arrival // self.every)) + 1
        found = []
        for begin, end in zip([0, *cuts], [*cuts, len(self.stamp)], strict=True):
            columns = [pa.array(values[begin:end]), pa.array(self.stamp[begin:end])]
            batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
            found.append((int(self.arrival[end - 1]), batch, ahead[end]))
        return found


@dataclass(frozen=True)
class Outcome:
    results: dict[int, float]  # by the end of the window
    latency: float  # s, the mean


def outcome(make: Make, node: WindowAggregate, arrivals: Arrivals) -> Outcome:
    """Windows that only the end of the stream closes are left out: nobody waits for those."""
    operator = make(node)
    name = node.input.schema.arrow.names[1]
    batches, waits = [], []
    for when, batch, ahead in arrivals.batches:
        named = pa.RecordBatch.from_arrays(batch.columns, schema=node.input.schema.arrow)
        outs = list(feed(operator, Batch(named)))
        if ahead != END:
            outs += feed(operator, Progress({name: int(ahead)}))
        for out in outs:
            if isinstance(out, Batch):
                batches.append(out.rows)
                waits.append(when - out.rows.column("window_end").to_numpy())
    table = pa.Table.from_batches(batches, node.schema.arrow)
    results = dict(zip(table.column(2).to_pylist(), table.column(3).to_pylist(), strict=True))
    return Outcome(results, float(np.concatenate(waits).mean()) / 1000)


def compared(
    sql: str, arrivals: Arrivals, slacks: Sequence[int], error: Error
) -> tuple[list[Row], dict[str, int]]:
    """Punctuation with every algorithm, and buffering with every slack (in ms)."""
    node = aggregation(sql, [batch for _, batch, _ in arrivals.batches], SCHEMA)
    exact = {name: outcome(make, node, arrivals) for name, make in ALGORITHMS.items()}
    agreed = agree({name: _table(found) for name, found in exact.items()})
    true = exact["WID"].results
    rows = [_row(PUNCTUATION, None, exact["WID"], true, error)]
    for consistent in (True, False):
        for slack in slacks:
            make = partial(Buffering, slack=slack, consistent=consistent)
            kind = "consistent slack" if consistent else "generous slack"
            rows.append(_row(kind, slack, outcome(make, node, arrivals), true, error))
    return rows, agreed


def _table(found: Outcome) -> pa.Table:
    return pa.table({"end": list(found.results), "result": list(found.results.values())})


def _row(
    kind: str, slack: int | None, found: Outcome, true: Mapping[int, float], error: Error
) -> Row:
    both = sorted(found.results.keys() & true.keys())
    return {
        "kind": kind,
        "slack (s)": "" if slack is None else slack / 1000,
        "error (%)": error([found.results[end] for end in both], [true[end] for end in both]),
        "latency (s)": found.latency,
    }


def plot(rows: list[Row], title: str, error: str, path: Path) -> None:
    """Latency against error: low and left is good."""
    with plotting.figure(path, title) as (axis,):
        for kind, colour, marker in (
            ("consistent slack", "C3", "D"),
            ("generous slack", "C4", "v"),
        ):
            chosen = [row for row in rows if row["kind"] == kind]
            errors = [row["error (%)"] for row in chosen]
            waits = [row["latency (s)"] for row in chosen]
            axis.plot(errors, waits, color=colour, marker=marker, label=f"buffering, {kind}")
            if kind == "consistent slack":
                for row in chosen:
                    where = (row["error (%)"], row["latency (s)"])
                    text = f"{row['slack (s)']:g} s"
                    axis.annotate(text, where, (6, 4), textcoords="offset points", fontsize=8)
        exact = next(row for row in rows if row["kind"] == PUNCTUATION)
        axis.plot(
            [exact["error (%)"]],
            [exact["latency (s)"]],
            color="C0",
            marker="*",
            markersize=14,
            linestyle="none",
            label="punctuation: WID, Paned-WID, AdaptWID, buffering",
        )
        axis.margins(x=0.08)
        axis.set(xlabel=error, ylabel="mean latency of results (s)")
        axis.legend()
