"""Queries that have no stream in common, on a live engine with one thread and with several.

Each reads large batches of a stream of its own.  Python itself runs one thread at a time, so only
what Arrow and NumPy do beside it can be gained; and nothing of an answer may change.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row
from benchmarks.workloads import A, events

LIMIT = 1.15  # times as long as with one thread
STREAMS = 4
SQL = A.sql.replace("events", "s{0}")


def run(quick: bool = False) -> Result:
    rows, rounds = (20_000, 1) if quick else (1_000_000, 3)
    batches = events(rows).combine_chunks().to_batches(max_chunksize=65_536)
    taken: dict[int, list[tuple[float, float]]] = {1: [], 2: [], STREAMS: []}
    answers: dict[str, pa.Table] = {}
    for _ in range(rounds):
        for threads, found in taken.items():
            wall, processor, answers[f"{threads} threads"] = answered(batches, threads)
            found.append((wall, processor))
    best = {threads: min(found) for threads, found in taken.items()}
    one = best[1][0]
    table = [
        {"threads": threads, "s": wall, "processor s": used, "times one thread": wall / one}
        for threads, (wall, used) in best.items()
    ]
    bars = [
        Bar(f"{each['threads']} threads against one", LIMIT, float(each["times one thread"]))
        for each in table[1:]
    ]
    title = f"{STREAMS} queries on streams of {rows:,} rows, best of {rounds} rounds"
    return Result("live_threads", title, table, agree(answers), bars, partial(plot, table))


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, f"{STREAMS} queries on streams of their own") as (axis,):
        names = [str(row["threads"]) for row in rows]
        axis.bar(names, [row["s"] for row in rows])
        axis.set(xlabel="threads", ylabel="time (s)")


def answered(batches: list[pa.RecordBatch], threads: int) -> tuple[float, float, pa.Table]:
    """Seconds, seconds of the processor, and the rows of all queries."""
    db = ps.connect()
    answers: list[list[pa.RecordBatch]] = [[] for _ in range(STREAMS)]
    for number in range(STREAMS):
        db.stream(f"s{number}", batches, progress=ps.progress("ts", delay="5 seconds"))
    live = db.live(threads=threads)
    wall, processor = perf_counter(), process_time()
    for number, found in enumerate(answers):
        live.sql(SQL.format(number), found.append)
    live.wait()
    taken = perf_counter() - wall, process_time() - processor
    live.stop()
    return *taken, pa.concat_tables([pa.Table.from_batches(found) for found in answers])
