"""Sessions per key beside Spark's own `session_window`, in one micro-batch and in several.

Of a micro-batch of a million events, the greater part of Penstock's time is what Spark takes to
begin and to commit any stateful step; what sessions take is seen where there are more.

Whether a row exactly a gap after another belongs to the same session is not compared: the gap is
one that no two events are apart by.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.measuring import agree
from benchmarks.result import Result, Row
from benchmarks.spark.comparing import bar_plot, row, time_bar
from benchmarks.spark.contest import (
    PENSTOCK,
    QUICK,
    SPARK,
    Contest,
    Outcome,
    closed,
    files,
    penstock_query,
    source,
)
from benchmarks.spark.contest import run as run_query
from benchmarks.workloads import events

GAP = 3_000_500  # microseconds; events come at whole milliseconds
SQL = f"""SELECT k, count(*) AS n, sum(len) AS bytes [SESSION GAP {GAP} MICROSECONDS, WA ts]
          FROM events GROUP BY k"""


def run(quick: bool = False) -> Result:
    few, many, rounds = (QUICK, 2 * QUICK, 1) if quick else (1_000_000, 4_000_000, 3)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    found: list[Contest] = []
    for count, cuts in ((few, 1), (many, 1), (few, 5)):
        what = f"{count:,} events in {cuts} micro-batch{'es' if cuts > 1 else ''}"
        found.append(contest(events(count), cuts, rounds))
        rows.append(row(what, count, found[-1]))
        agreed |= {f"{what}: {name}": size for name, size in found[-1].agreed.items()}
    bars = [time_bar(f"sessions of {many:,} events in one micro-batch", 2, found[1])]
    title = f"Sessions with a gap of {GAP / 1e6} s"
    return Result("spark_sessions", title, rows, agreed, bars, partial(bar_plot, "Sessions", rows))


def contest(table: pa.Table, cuts: int, rounds: int) -> Contest:
    with files(table, cuts) as folder:
        makes: dict[str, Callable[[], DataFrame]] = {
            PENSTOCK: lambda: penstock_query(SQL, folder).dataframe(),
            SPARK: lambda: native(folder),
        }
        answers = {name: run_query(make, keep_rows=True).rows for name, make in makes.items()}
        agreed = agree(closed({name: rows for name, rows in answers.items() if rows is not None}))
        best: dict[str, Outcome] = {}
        for _ in range(rounds):
            for name, make in makes.items():
                made = run_query(make)
                if name not in best or made.seconds < best[name].seconds:
                    best[name] = made
    return Contest(best[PENSTOCK], best[SPARK], agreed)


def native(folder: Path) -> DataFrame:
    calls = [F.expr("count(*) AS n"), F.expr("sum(len) AS bytes")]
    session = F.session_window("ts", f"{GAP} microseconds")
    grouped = source(folder).withWatermark("ts", "5 seconds").groupBy(session, "k").agg(*calls)
    ends = [F.col("session_window.start"), F.col("session_window.end")]
    return grouped.select(*ends, "k", "n", "bytes").toDF(
        "window_start", "window_end", "k", "n", "bytes"
    )
