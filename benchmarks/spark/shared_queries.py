"""Many aggregate queries over one stream on Spark: what 1 to 100 cost as one job, against one.

The queries are those of `benchmarks/shared_queries.py`: the same keys; ranges, slides and filters
differ.  "apart" every query is a job of its own, as it was before they were one.  Processor times
are of the whole run: those of this process, of Spark, and of the Python workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row
from benchmarks.shared_queries import stream, text
from benchmarks.spark.contest import CORES, files, spark_session
from penstock.io.sinks.sink import Collected

LIMIT = 10.0  # times one query, for 100
CUTS = 4
COLUMNS = "k bigint, kind bigint, x bigint, t bigint"


def run(quick: bool = False) -> Result:
    table = stream(5_000 if quick else 1_000_000)
    sizes, alone, rounds = ((1, 3), (1, 3), 1) if quick else ((1, 10, 100), (1, 10), 2)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    with files(table, CUTS) as folder:
        measured(partial(answers, folder, 1, together=True))  # which warms everything up
        for name, own in (("10 filters", False), ("own filters", True)):
            for count in sizes:
                job = partial(answers, folder, count, own=own, together=True)
                apart = partial(answers, folder, count, own=own, together=False)
                times, found = {"one job": float("inf")}, {}
                for _ in range(rounds):
                    seconds, found["one job"] = measured(job)
                    times["one job"] = min(times["one job"], seconds)
                if count in alone:
                    times["apart"], found["apart"] = measured(apart)
                who = agree(found)
                agreed |= {f"{name}, {count}: {each}": size for each, size in who.items()}
                rows.append({"queries": count, "filters": name, "apart": None, **times})
    for row in rows:
        one = next(r for r in rows if r["queries"] == 1 and r["filters"] == row["filters"])
        row["times one"] = row["one job"] / one["one job"]
    most = {row["filters"]: row["times one"] for row in rows if row["queries"] == sizes[-1]}
    bars = [Bar(f"{sizes[-1]} queries, {name}", LIMIT, most[name]) for name in most]
    title = f"Aggregate queries over {table.num_rows:,} rows on Spark, in {CUTS} micro-batches"
    return Result("spark_shared_queries", title, rows, agreed, bars, partial(plot, rows))


def answers(folder: Path, count: int, own: bool = False, together: bool = True) -> pa.Table:
    """The rows of all queries, with the number of each."""
    db = ps.connect(spark_session(), buckets=CORES)
    reader = spark_session().readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    db.stream("s", reader.parquet(str(folder)), progress=ps.progress("t", delay=20))
    found = [db.sql(text(number, own)) for number in range(count)]
    queries = [query for query in found if isinstance(query, ps.Query)]
    sinks = [Collected() for _ in queries]
    if together:
        db.run(queries, sinks)
    else:
        for query, sink in zip(queries, sinks, strict=True):
            query.run(sink)
    return pa.concat_tables(
        sink.table.append_column("query", pa.array([number] * sink.table.num_rows, pa.int64()))
        for number, sink in enumerate(sinks)
    )


def measured(work: Callable[[], pa.Table]) -> tuple[float, pa.Table]:
    """Processor seconds, and what came out."""
    begin = processor_seconds()
    found = work()
    return processor_seconds() - begin, found


def processor_seconds() -> float:
    """Of this process and of all that it has started, which are Spark and its workers."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                # the name of a process may have anything in it
                said = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(said[1])
                ticks[int(entry.name)] = sum(map(int, said[11:15]))  # with children that ended
    own = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(ticks[process] for process in own if process in ticks) / os.sysconf("SC_CLK_TCK")


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Aggregate queries over one stream on Spark") as (axis,):
        for place, name in enumerate(("10 filters", "own filters")):
            own = [row for row in rows if row["filters"] == name]
            counts = [row["queries"] for row in own]
            label = f"{name}, one job"
            axis.plot(counts, [row["one job"] for row in own], f"C{place}o-", label=label)
            alone = [row for row in own if row["apart"] is not None]
            counts = [row["queries"] for row in alone]
            times = [row["apart"] for row in alone]
            axis.plot(counts, times, f"C{place}s--", label=f"{name}, apart")
        axis.set(xscale="log", yscale="log", xlabel="queries", ylabel="processor seconds")
        axis.legend(frameon=False)
