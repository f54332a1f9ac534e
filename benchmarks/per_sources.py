"""PER: what a row costs by how many sub-sources are known, and what a newcomer among them costs.

Both hosts are measured where promises are made: in process that is the scan; on Spark the scan
in a task, what it reports, and the register of a bucket that finds the bounds of the rows by it.
The rows are in order in every sub-source but for some that are late, and both find the same.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row
from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import Chunk
from penstock.kernel.batch import Batch
from penstock.kernel.progress.ingest import Ingest
from penstock.kernel.progress.sub_sources import SubSources
from penstock.kernel.state import MemoryStore
from penstock.model.clock import ManualClock
from penstock.plan.nodes.node import Scan
from penstock.spark.stateful.registers import SourceRegister
from penstock.spark.tasks.messages import TaskBounds

KNOWN = (10, 100, 1_000, 10_000, 100_000)
DELAY = 1_000
TOGETHER = 1_000  # newcomers in one batch
Ints = npt.NDArray[np.int64]


class Host(Protocol):
    def take(self, batch: pa.RecordBatch) -> Ints:
        """The bounds that rows broke; the lowest number for all others."""
        ...

    def save(self, store: MemoryStore) -> None: ...


def run(quick: bool = False) -> Result:
    size, known, rounds = (2_000, KNOWN[:2], 1) if quick else (1 << 16, KNOWN, 5)
    hosts: dict[str, Callable[[Scan], Host]] = {"in process": InProcess, "on Spark": OnSpark}
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for count in known:
        found = {}
        for name, host in hosts.items():
            row, found[name] = measured(host(scan()), count, size, rounds)
            rows.append({"host": name, "known": count, **row})
        agreed |= {f"{count:,}: {who}": late for who, late in agree(found).items()}
    bars = [bar for name in hosts for bar in bars_of(name, rows, known)]
    title = f"PER: batches of {size:,} rows spread over all sub-sources, which are texts"
    return Result("per_sources", title, rows, agreed, bars, partial(plot, rows))


def bars_of(host: str, rows: list[Row], known: tuple[int, ...]) -> list[Bar]:
    own = {row["known"]: row for row in rows if row["host"] == host}
    few, many = own[known[0]], own[known[-1]]
    name = f"{host}, {known[-1]:,} sub-sources"
    return [
        Bar(f"{name}: a row against one of {known[0]}", 3, many["ns a row"] / few["ns a row"]),
        Bar(f"{name}: a newcomer among {TOGETHER:,}", 10, many["µs a newcomer"], "µs"),
    ]


def scan() -> Scan:
    db = ps.connect("reference")
    promise = ps.progress("t", delay=DELAY, per="source")
    db.stream("s", [], schema="source STRING, t BIGINT", progress=promise)
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    return next(node for node in query.plan.walk() if isinstance(node, Scan))


def measured(host: Host, known: int, size: int, rounds: int) -> tuple[Row, pa.Table]:
    """What it costs on a host, and the tuples that were late there."""
    host.take(batch(np.arange(known), np.zeros(known, np.int64)))
    late = []
    times = []
    for number in range(rounds):
        given = spread(known, size, number)
        seconds, bounds = timed(partial(host.take, given))
        times.append(seconds)
        late.append(late_tuples(given, bounds))
    store = MemoryStore()
    host.save(store)
    host.take(spread(known, size, rounds).slice(0, 1))
    store.packed.clear()
    host.save(store)
    saved = sum(map(len, store.packed.values()))
    newcomers = []
    for number in range(rounds):
        codes = known + number * TOGETHER + np.arange(TOGETHER)
        given = batch(codes, np.full(TOGETHER, (rounds + 2) * size))
        newcomers.append(timed(partial(host.take, given))[0])
    first = known + rounds * TOGETHER
    joining = [alone(host, first + number, (rounds + 3) * size) for number in range(rounds * 40)]
    speaking = [alone(host, first + number, (rounds + 4) * size) for number in range(rounds * 40)]
    row = {
        "ns a row": min(times) / size * 1e9,
        "µs a newcomer": min(newcomers) / TOGETHER * 1e6,
        "µs more for one alone": float(np.median(joining) - np.median(speaking)) * 1e6,
        "bytes saved after one row": saved,
    }
    return row, pa.concat_tables(late)


def alone(host: Host, code: int, time: int) -> float:
    """Seconds for a tuple in a batch of its own."""
    given = batch(np.array([code]), np.array([time]))
    begin = process_time()
    host.take(given)
    return process_time() - begin


def timed(work: Callable[[], Ints]) -> tuple[float, Ints]:
    gc.collect()
    begin = process_time()
    found = work()
    return process_time() - begin, found


def spread(known: int, size: int, number: int) -> pa.RecordBatch:
    """Rows in about the order of their times; one in a hundred comes much too late."""
    random = np.random.default_rng(number)
    times = (number + 1) * size + np.arange(size) + random.integers(0, DELAY // 2, size)
    times[random.random(size) < 0.01] -= 10 * DELAY
    return batch(random.integers(0, known, size), times)


def batch(codes: Ints, times: Ints) -> pa.RecordBatch:
    names = pa.array([f"device-{code:07}" for code in codes.tolist()])
    return pa.RecordBatch.from_arrays([names, pa.array(times)], ["source", "t"])


def late_tuples(given: pa.RecordBatch, bounds: Ints) -> pa.Table:
    late = np.asarray(given.column("t")) < bounds
    table = pa.Table.from_batches([given]).append_column("bound", pa.array(bounds))
    return table.filter(pa.array(late))


class InProcess:
    def __init__(self, node: Scan) -> None:
        self._ingest = Ingest(node, ManualClock(), RejectLog())

    def take(self, batch: pa.RecordBatch) -> Ints:
        items = list(self._ingest.on_chunk(Chunk(batch)))
        return broken(items[0])

    def save(self, store: MemoryStore) -> None:
        self._ingest.save(store)


class OnSpark:
    """What a task and one bucket do about promises."""

    def __init__(self, node: Scan) -> None:
        assert node.stream.progress is not None
        self._node, self._progress = node, node.stream.progress
        self._sub_sources = SubSources(node.stream, self._progress)  # which a worker keeps
        self._register = SourceRegister(self._progress, "s.t", [], ManualClock())

    def take(self, batch: pa.RecordBatch) -> Ints:
        bounds = TaskBounds(self._progress.policy.rule)
        ingest = Ingest(self._node, ManualClock(), RejectLog(), bounds, self._sub_sources)
        items = list(ingest.on_chunk(Chunk(batch)))
        reports = bounds.reports(ingest.sub_source_names(bounds.codes))
        starts = self._register.join(reports)
        places = np.full(batch.num_rows, bounds.place) if bounds.places is None else bounds.places
        before = starts.of_rows(places, bounds.numbers)
        self._register.advance(starts, reports, ingest.high)
        return np.maximum(before, broken(items[0]))

    def save(self, store: MemoryStore) -> None:
        self._register.save(store)


def broken(item: object) -> Ints:
    assert isinstance(item, Batch)
    lowest = np.iinfo(np.int64).min
    if item.broken is None:
        return np.full(item.num_rows, lowest)
    found: Ints = np.asarray(item.broken["s.t"].fill_null(lowest))
    return found


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "PER: rows and newcomers by known sub-sources", 2) as axes:
        for axis, what in zip(axes, ("ns a row", "µs a newcomer"), strict=True):
            for colour, host in (("C2", "in process"), ("C0", "on Spark")):
                own = [row for row in rows if row["host"] == host]
                known = [row["known"] for row in own]
                costs = [row[what] for row in own]
                axis.plot(known, costs, color=colour, marker="o", label=host)
            axis.set(xscale="log", xlabel="sub-sources that are known", ylabel=what)
            axis.set_ylim(bottom=0)
        axes[0].legend()
