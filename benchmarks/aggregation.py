"""Window aggregation measured: python -m benchmarks.aggregation [part ...]

Times are processor times, which other processes on the machine disturb least; all systems run on
one thread, and each answer is checked before it counts.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter_ns, process_time

import numpy as np
import pyarrow as pa

from benchmarks.offline import DuckDB, Polars
from benchmarks.workloads import SCHEMA, A, B, S, Workload, cut, events, slices
from penstock.engine.ingest import Ingest
from penstock.engine.local import LocalRun, _items, run
from penstock.model.clock import SystemClock
from penstock.operators.operator import Item, Progress
from penstock.operators.paned import Paned
from penstock.operators.release import Results
from penstock.plan.aggregates import WindowAggregate
from penstock.plan.query import Query
from penstock.plan.stateless import Scan
from penstock.sources.rejects import RejectLog

FOLDER = Path(__file__).parent / "results"
SIZES = {"64 Ki": 1 << 16, "1 Ki": 1 << 10}
RATIOS = (1, 2, 10, 60, 600, 3600)
SLIDE = 50  # ms; the events of 500 s then span more than two windows of the largest ratio


def timed(work: Callable[[], object], runs: int) -> float:
    """The median processor time, in seconds."""
    work()
    found = []
    for _ in range(runs):
        begin = process_time()
        work()
        found.append(process_time() - begin)
    return median(found)


def answered(query: Query) -> pa.Table:
    return run(query, SystemClock()).table()


def with_ids(found: pa.Table, workload: Workload) -> pa.Table:
    """The answer of Penstock with the number of the window, as the others give it."""
    ends = found.column("window_end").cast(pa.int64()).to_numpy()
    return found.append_column("w", pa.array(ends // (workload.slide * 1_000_000) - 1))


def in_order(table: pa.Table) -> list[np.ndarray]:
    columns = [table.column(name).to_numpy() for name in ("w", "k", "n", "bytes")]
    order = np.lexsort((columns[1], columns[0]))
    return [column[order] for column in columns]


def check(found: pa.Table, expected: pa.Table, who: str) -> None:
    pairs = zip(in_order(found), in_order(expected), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs), f"{who} answers otherwise"


# --- throughput ----------------------------------------------------------------------------------


def throughput(count: int, runs: int) -> None:
    table = events(count)
    polars, duck = Polars(table), DuckDB(table)
    print(f"{count:,} events, processor seconds (median of {runs}), and times Polars")
    shown: dict[str, dict[str, float]] = {}
    for workload in (A, B):
        expected = polars.answer(workload)
        check(duck.answer(workload), expected, duck.name)
        times = {each.name: _offline(each, workload, runs) for each in (polars, duck)}
        for name, rows in SIZES.items():
            query = workload.query(cut(table, rows))
            found = answered(query)
            check(with_ids(found, workload), expected, "Penstock")
            times[f"Penstock, {name} rows"] = timed(partial(answered, query), runs)
        shown[workload.name] = times
        print(f"\n{workload.name}: {expected.num_rows:,} rows")
        base = times[polars.name]
        for name, seconds in times.items():
            rate = count / seconds / 1e6
            print(f"  {name:22} {seconds:8.3f} s {seconds / base:7.2f} x {rate:8.2f} M events/s")
    plot(shown)


def _offline(system: Polars | DuckDB, workload: Workload, runs: int) -> float:
    return timed(lambda: system.answer(workload), runs)


def plot(shown: dict[str, dict[str, float]]) -> None:
    if find_spec("matplotlib") is None:
        print("\nno plot: matplotlib is not installed")
        return
    plt = import_module("matplotlib.pyplot")
    figure, axes = plt.subplots(1, len(shown), figsize=(11, 4), layout="constrained")
    for axis, (name, times) in zip(axes, shown.items(), strict=True):
        axis.barh(list(times), list(times.values()))
        axis.set(title=name, xlabel="processor seconds")
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / "aggregation.png", dpi=150)
    print(f"\nplot: {FOLDER / 'aggregation.png'}")


# --- latency -------------------------------------------------------------------------------------


class Timing:
    """Batches that are read again for every run, and how long each took to go through."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches = batches
        self.nanoseconds: list[int] = []
        self.began = 0.0  # in processor time, when the first batch was through

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            begin = perf_counter_ns()
            yield batch
            self.nanoseconds.append(perf_counter_ns() - begin)
            if len(self.nanoseconds) == 1:
                self.began = process_time()


def single_tuples(count: int) -> tuple[Query, Timing]:
    """All groups first, then one tuple at a time."""
    whole = events(200_000 + count).combine_chunks().to_batches()[0]
    singles = [whole.slice(200_000 + i, 1) for i in range(count)]
    timing = Timing([whole.slice(0, 200_000), *singles])
    return S.query(timing), timing


def latency(count: int = 40_000) -> None:
    query, timing = single_tuples(count)
    for _ in _items(query.input, LocalRun(query, RejectLog()), SystemClock()):
        if len(timing.nanoseconds) > count:  # before the windows that are still open
            break
    mean = (process_time() - timing.began) / count * 1e6
    times = np.array(timing.nanoseconds[1:]) / 1000
    print(f"\n{S.name}: {len(times):,} of them, µs from reading one to reading the next")
    print(f"  processor, mean {mean:8.1f}")
    for share in (50, 90, 99, 99.9, 100):
        print(f"  wall clock, p{share:<5} {np.percentile(times, share):8.1f}")


# --- the ratio of RANGE to SLIDE -----------------------------------------------------------------


class Silent(Paned):
    """Computes what windows contain, and emits nothing."""

    def _release(self, window: int, results: Results) -> None:  # noqa: ARG002
        end = (window + 1) * self.per_slide
        self.contents.of(end - self.per_window, end)


def ratios(count: int, runs: int) -> None:
    batches = cut(events(count), 1 << 16)
    print(f"\n{count:,} events, SLIDE {SLIDE} ms: ns per event apart from emitting (until the end)")
    print(f"  {'RANGE / SLIDE':>14} {'count, sum':>12} {'max':>12}")
    for ratio in RATIOS:
        shown = []
        for calls in ("count(*) AS n, sum(len) AS bytes", "max(len) AS top"):
            query = Workload("", ratio * SLIDE, SLIDE, calls, unit="MILLISECONDS").query(batches)
            node = next(n for n in query.walk() if isinstance(n, WindowAggregate))
            scan = next(n for n in query.walk() if isinstance(n, Scan))
            items = list(Ingest(scan, SystemClock(), RejectLog()).items())[:-1]
            shown.append(timed(partial(_drive, node, items), runs) / count * 1e9)
        print(f"  {ratio:14,} {shown[0]:12.1f} {shown[1]:12.1f}")


def _drive(node: WindowAggregate, items: list[Item]) -> None:
    operator = Silent(node)
    for item in items:
        if isinstance(item, Progress):
            list(operator.on_progress(0, item))
        elif isinstance(item, pa.RecordBatch):
            list(operator.on_batch(0, item))


# --- memory --------------------------------------------------------------------------------------


class Fresh:
    """Events that are made anew whenever they are read, and never kept."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return slices(self.count, rows=1 << 16)


def memory_of(count: int) -> None:
    """Run workload A in this process, throw the results away, and print the highest memory."""
    query = A.query(Fresh(count))
    rows = 0
    for item in _items(query.input, LocalRun(query, RejectLog()), SystemClock()):
        rows += item.num_rows if isinstance(item, pa.RecordBatch) else 0
    print(count, rows, highest_memory())


def highest_memory() -> int:
    """Of this process, in kB.  `getrusage` would not do: its maximum outlives fork and exec, so
    that a child starts with that of its parent."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def memory() -> None:
    print("\nA: highest resident memory, events made on the fly, results thrown away")
    for count in (0, 1_000_000, 10_000_000):
        command = [sys.executable, "-m", "benchmarks.aggregation", "memory-of", "--events"]
        done = subprocess.run([*command, str(count)], capture_output=True, text=True, check=True)
        _, rows, kilobytes = map(int, done.stdout.split())
        print(f"  {count:12,} events {rows:10,} rows {kilobytes / 1024:8.0f} MB")


# --- profiles ------------------------------------------------------------------------------------


def profiles(count: int) -> None:
    table = events(count)
    queries = {f"A, {name}": A.query(cut(table, rows)) for name, rows in SIZES.items()}
    queries["S, 20,000 single tuples"] = single_tuples(20_000)[0]
    for name, query in queries.items():
        profile = cProfile.Profile()
        profile.runcall(answered, query)
        print(f"\n--- {name}")
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)


PARTS = ("throughput", "latency", "ratios", "memory")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aggregation")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}, profiles; default: all")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    for part in given.parts or PARTS:
        match part:
            case "throughput":
                throughput(given.events, given.runs)
            case "latency":
                latency()
            case "ratios":
                ratios(given.events, min(3, given.runs))
            case "memory":
                memory()
            case "memory-of":
                memory_of(given.events)
            case "profiles":
                profiles(given.events)
            case _:
                parser.error(f"there is no part {part!r}")


if __name__ == "__main__":
    assert SCHEMA.names == ["k", "len", "ts"]
    main()
