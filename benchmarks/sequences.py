"""Sequences over workload C, beside systems that have all of both streams at once.

Two streams of events with 10,000 keys, 1,000 per second of event time in each, out of order by up
to 3 s.  RECENT is what others call an as-of join; CHRONICLE has no like of it there, so it is only
compared with RECENT.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter_ns

import duckdb
import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree, measured
from benchmarks.offline import pl
from benchmarks.result import Bar, Result, Row, shown
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.local.run import LocalRun
from penstock.model.clock import SystemClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Outlet

KEYS = 10_000
PER_SECOND = 1_000
JITTER = 3_000  # ms
SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
SELECT = "SELECT a.n AS n, b.n AS m FROM SEQUENCE(a THEN b MODE {} ON a.k = b.k)"
POLARS, DUCKDB = "Polars, 1 thread", "DuckDB, 1 thread"
LARGE, SMALL = "RECENT, 64 Ki rows", "RECENT, 1 Ki rows"
CHRONICLE = "CHRONICLE, 64 Ki rows"
CONTENDERS = {
    LARGE: ("RECENT", 1 << 16),
    SMALL: ("RECENT", 1 << 10),
    CHRONICLE: ("CHRONICLE", 1 << 16),
}
LIMITS = {LARGE: 2.5, SMALL: 10.0}  # times Polars
ALONE = 250.0  # µs, for the median


def run(quick: bool = False) -> Result:
    count, rounds = (3_000, 1) if quick else (200_000, 5)
    streams = stream(count, 1), stream(count, 2)
    frames = [pl.DataFrame(pa.Table.from_batches([each])) for each in streams]
    connection = duckdb.connect(config={"threads": 1})
    for name, batch in zip("ab", streams, strict=True):
        connection.register("given", pa.Table.from_batches([batch]))
        sql = f"CREATE TABLE {name} AS SELECT k, n, epoch_us(ts) AS us FROM given"
        connection.execute(sql)
    queries = {mode: query(mode) for mode in ("RECENT", "CHRONICLE")}
    contenders = {
        POLARS: partial(by_polars, *frames),
        DUCKDB: partial(by_duckdb, connection),
        **{
            name: partial(fed_alternately, queries[mode], streams, rows)
            for name, (mode, rows) in CONTENDERS.items()
        },
    }
    times, found = measured(contenders, rounds)
    agreed = agree({name: table for name, table in found.items() if name != CHRONICLE})
    agreed[CHRONICLE] = found[CHRONICLE].num_rows
    floor = times[POLARS]
    rows: list[Row] = [
        {
            "system": name,
            "ns per event": seconds / count / 2 * 1e9,
            "times Polars": seconds / floor,
        }
        for name, seconds in times.items()
    ]
    bars = [
        Bar(f"{name}, against Polars", limit, times[name] / floor) for name, limit in LIMITS.items()
    ]
    before, alone = (1_000, 200) if quick else (20_000, 10_000)
    bars.append(Bar("RECENT, a tuple alone, median", ALONE, single(before, alone), "µs"))
    title = f"{count:,} events in each of two streams, one thread, best of {rounds} rounds"
    return Result("sequences", title, rows, agreed, bars, partial(plot, rows))


def stream(count: int, seed: int) -> pa.RecordBatch:
    """Of two events with one key and time, the one that came later is the greater."""
    generator = np.random.default_rng(seed)
    due = np.arange(count) * 1000 // PER_SECOND + generator.integers(0, JITTER + 1, count)
    columns = [
        pa.array(generator.integers(0, KEYS, count)),
        pa.array(np.arange(count)),
        pa.array(due * 1000).cast(SCHEMA.field(2).type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def query(mode: str) -> QueryPlan:
    db = ps.connect()
    for name in "ab":
        promise = ps.progress("ts", delay="3 seconds")
        db.stream(name, [SCHEMA.empty_table()], schema=SCHEMA, progress=promise)
    found = db.sql(SELECT.format(mode))
    assert isinstance(found, ps.Query)
    return found.plan


class Feeding:
    """A run whose streams are fed by hand."""

    def __init__(self, asked: QueryPlan) -> None:
        self.rows = Collected()
        plan = physical_plan(asked, Settings())
        self.run = LocalRun([plan], [Outlet(asked, self.rows)], SystemClock())

    def feed(self, port: int, batch: pa.RecordBatch) -> None:
        self.run.feed(self.run.scans[port], Chunk(batch))

    def end(self) -> pa.Table:
        for scan in self.run.scans:
            self.run.end(scan)
        return self.rows.table


def fed_alternately(asked: QueryPlan, streams: Sequence[pa.RecordBatch], rows: int) -> pa.Table:
    """Chunks of some rows of both streams in turn."""
    feeding = Feeding(asked)
    for begin in range(0, streams[0].num_rows, rows):
        for port, each in enumerate(streams):
            feeding.feed(port, each.slice(begin, rows))
    return feeding.end()


def single(before: int, alone: int) -> float:
    """Microseconds of a tuple that comes alone, behind many others: the median."""
    streams = stream(before + alone, 1), stream(before + alone, 2)
    feeding = Feeding(query("RECENT"))
    for port, each in enumerate(streams):
        feeding.feed(port, each.slice(0, before))
    times = []
    for place in range(before, before + alone):
        for port, each in enumerate(streams):
            begin = perf_counter_ns()
            feeding.feed(port, each.slice(place, 1))
            times.append(perf_counter_ns() - begin)
    return float(np.median(times)) / 1000


def by_polars(first: pl.DataFrame, second: pl.DataFrame) -> pa.Table:
    firsts = first.lazy().sort("ts", "n").rename({"n": "n_a"})
    pairs = (
        second.lazy()
        .sort("ts")
        .join_asof(firsts, on="ts", by="k", strategy="backward", check_sortedness=False)
    )
    found = pairs.filter(pl.col("n_a").is_not_null())
    return found.select(pl.col("n_a").alias("n"), pl.col("n").alias("m")).collect().to_arrow()


def by_duckdb(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    # of several with one key and time, only one can be joined
    firsts = "SELECT k, us, max(n) AS n FROM a GROUP BY k, us"
    sql = f"SELECT a.n, b.n AS m FROM b ASOF JOIN ({firsts}) a ON a.k = b.k AND b.us >= a.us"
    return connection.sql(sql).to_arrow_table()


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Pairs of 200,000 and 200,000 events by key, one thread") as (axis,):
        names = [row["system"] for row in rows]
        times = [row["ns per event"] for row in rows]
        colours = ["0.6" if "thread" in name else "C0" for name in names]
        bars = axis.barh(names, times, color=colours)
        axis.bar_label(bars, [f"{shown(row['times Polars'])}×" for row in rows], padding=3)
        axis.invert_yaxis()
        axis.set(xlabel="processor time per event (ns), and times Polars")
        axis.margins(x=0.2)
