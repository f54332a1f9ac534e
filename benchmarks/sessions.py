"""Sessions per key: events per second beside DuckDB, which has the whole input at once, and what
an event costs while few or many sessions are open.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree, best_times, measured
from benchmarks.result import Bar, Result, Row, shown
from benchmarks.throughput import answered
from benchmarks.workloads import PER_SECOND, SCHEMA, cut, events
from penstock.plan.nodes.query import QueryPlan

LARGE, SMALL = "Penstock, 64 Ki rows", "Penstock, 1 Ki rows"
BATCHES = {LARGE: 1 << 16, SMALL: 1 << 10}
DUCKDB = "DuckDB, 1 thread"
GAP = 3  # seconds; most keys have several sessions
OPEN = (100, 100_000)
LIMIT_OFFLINE, LIMIT_OPEN = 4.0, 3.0


def run(quick: bool = False) -> Result:
    count, rounds = (4_000, 1) if quick else (1_000_000, 3)
    table = events(count)
    queries = {name: query(cut(table, size), f"{GAP} SECONDS") for name, size in BATCHES.items()}
    contenders = {
        DUCKDB: partial(offline, in_duckdb(table)),
        **{name: partial(answered, plan) for name, plan in queries.items()},
    }
    times, found = measured(contenders, rounds)
    agreed = agree({name: _plain(table) for name, table in found.items()})
    rows: list[Row] = [
        _row(f"GAP {GAP} s, 1,000 keys", name, seconds / count) for name, seconds in times.items()
    ]
    ratio = times[LARGE] / times[DUCKDB]
    bars = [Bar("sessions in batches of 64 Ki, against DuckDB", LIMIT_OFFLINE, ratio)]
    for name, size in BATCHES.items():
        plans = {opened: query(cut(_keyed(count, opened), size), "1 DAY") for opened in OPEN}
        each = best_times({str(n): partial(answered, plan) for n, plan in plans.items()}, rounds)
        few, many = (each[str(opened)] / count for opened in OPEN)
        rows += [_row(f"{n:,} open", name, each[str(n)] / count) for n in OPEN]
        what = f"{OPEN[1]:,} open sessions against {OPEN[0]}, {name}"
        bars.append(Bar(what, LIMIT_OPEN, many / few))
    title = f"{count:,} events, one thread, best of {rounds} rounds"
    return Result("sessions", title, rows, agreed, bars, partial(plot, rows))


def query(batches: object, gap: str) -> QueryPlan:
    db = ps.connect()
    db.stream("events", batches, schema=SCHEMA, progress=ps.progress("ts", delay="5 seconds"))
    found = db.sql(
        f"SELECT k, count(*) AS n, sum(len) AS bytes [SESSION GAP {gap}, WA ts] FROM events"
        " GROUP BY k"
    )
    assert isinstance(found, ps.Query)
    return found.plan


def in_duckdb(table: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    connection.register("given", table)
    connection.execute("CREATE TABLE events AS SELECT k, len, epoch_us(ts) AS us FROM given")
    return connection


def offline(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """A session begins where the time since the row before is long enough."""
    gap = GAP * 1_000_000
    return connection.sql(
        f"""SELECT min(us) AS start, k, count(*) AS n, sum(len)::BIGINT AS bytes FROM (
              SELECT *, sum(begins) OVER (PARTITION BY k ORDER BY us ROWS UNBOUNDED PRECEDING) AS s
              FROM (SELECT *, CASE WHEN us - lag(us) OVER (PARTITION BY k ORDER BY us) < {gap}
                                   THEN 0 ELSE 1 END AS begins FROM events))
            GROUP BY k, s"""
    ).to_arrow_table()


def _plain(found: pa.Table) -> pa.Table:
    if "start" not in found.column_names:
        found = found.append_column("start", found.column("window_start").cast(pa.int64()))
    names = ("start", "k", "n", "bytes")
    return found.select(names).cast(pa.schema([(name, pa.int64()) for name in names]))


def _keyed(count: int, keys: int) -> pa.Table:
    """Events of so many keys, each of which comes again before its session is over."""
    numbers = np.arange(count)
    generator = np.random.default_rng(7)
    stamps = numbers * 1_000_000 // PER_SECOND + generator.integers(0, 3_000_000, count)
    columns = [pa.array(numbers % keys), pa.array(generator.integers(40, 1501, count))]
    return pa.table([*columns, pa.array(stamps).cast(SCHEMA.field(2).type)], schema=SCHEMA)


def _row(what: str, system: str, seconds: float) -> Row:
    return {
        "sessions": what,
        "system": system,
        "ns per event": seconds * 1e9,
        "million events/s": 1e-6 / seconds,
    }


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Count and sum per session, one thread") as (axis,):
        names = [f"{row['sessions']}: {row['system']}" for row in rows]
        colours = ["C0" if "Penstock" in name else "0.6" for name in names]
        bars = axis.barh(names, [row["ns per event"] for row in rows], color=colours)
        axis.bar_label(bars, [f"{shown(row['ns per event'])} ns" for row in rows], padding=3)
        axis.invert_yaxis()
        axis.set(xlabel="processor time per event (ns)")
        axis.margins(x=0.2)
