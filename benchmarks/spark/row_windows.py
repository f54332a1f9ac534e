"""Queries that Spark cannot run: windows over numbers of rows, checked by the local engine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Result, Row, shown
from benchmarks.spark.contest import files, penstock_query
from benchmarks.spark.contest import run as run_query
from benchmarks.workloads import events

CUTS = 5
CALLS = "count(*) AS n, sum(len) AS bytes"
QUERIES = {
    "the last 1,000 rows, every 100": (
        f"SELECT {CALLS} [RANGE 1000 ROWS, SLIDE 100 ROWS, WA row-num] FROM events"
    ),
    "the last 100 rows of a key, every 10": (
        f"SELECT {CALLS} [RANGE 100 ROWS, SLIDE 10 ROWS, WA row-num, PA k] FROM events"
    ),
}


def run(quick: bool = False) -> Result:
    count, rounds = (4_000, 1) if quick else (1_000_000, 2)
    table = events(count)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    # a file is one row group: rows are numbered as they come, so one task has to read them
    with files(table, CUTS, row_group=count) as folder:
        for what, sql in QUERIES.items():
            answers = {"Penstock on Spark": on_spark(sql, folder), "local": locally(sql, table)}
            agreed |= {f"{what}: {name}": size for name, size in agree(answers).items()}
            make = penstock_query(sql, folder).dataframe
            seconds = min(run_query(make).seconds for _ in range(rounds))
            rows.append({"query": what, "seconds": seconds, "rows/s": count / seconds})
    title = f"{count:,} rows in {CUTS} micro-batches; Spark has no windows over rows"
    return Result("row_windows", title, rows, agreed, plot=partial(plot, rows))


def on_spark(sql: str, folder: Path) -> pa.Table:
    """With `start`, so that the last windows close, too."""
    batches: list[pa.RecordBatch] = []
    penstock_query(sql, folder).start(batches.append).wait()
    return pa.Table.from_batches(batches)


def locally(sql: str, table: pa.Table) -> pa.Table:
    db = ps.connect("local")
    db.stream("events", table, progress=ps.progress("ts", delay="5 seconds"))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.collect()


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Row windows on Spark", width=8) as (axis,):
        bars = axis.barh([row["query"] for row in rows], [row["rows/s"] for row in rows])
        axis.bar_label(bars, [shown(row["rows/s"]) for row in rows], padding=3)
        axis.set(xlabel="rows per second")
        axis.margins(x=0.15)
