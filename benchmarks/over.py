"""OVER, top-n and each key once: events per second beside DuckDB, which has the whole input at
once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree, measured
from benchmarks.result import Bar, Result, Row, shown
from benchmarks.sessions import in_duckdb
from benchmarks.throughput import answered
from benchmarks.workloads import SCHEMA, cut, events
from penstock.plan.nodes.query import QueryPlan

PENSTOCK, DUCKDB = "Penstock, 64 Ki rows", "DuckDB, 1 thread"
BATCH = 1 << 16
LIMIT = 4.0


@dataclass(frozen=True, slots=True)
class Question:
    """The same in both dialects: there, times are microseconds."""

    name: str
    ours: str
    theirs: str


_ROWS = "OVER (PARTITION BY k ORDER BY {ts} ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"
_TOP = "row_number() OVER (PARTITION BY {key}, k ORDER BY len DESC, {ts}) <= 3"
QUESTIONS = (
    Question(
        "sum and max by RANGE of 60 s",
        "SELECT k, epoch_us(ts) AS us, sum(len) OVER w AS a, max(len) OVER w AS b FROM events"
        " WINDOW w AS (PARTITION BY k ORDER BY ts"
        " RANGE BETWEEN INTERVAL 60 SECONDS PRECEDING AND CURRENT ROW)",
        "SELECT k, us, (sum(len) OVER w)::BIGINT AS a, max(len) OVER w AS b FROM events WINDOW w AS"
        " (PARTITION BY k ORDER BY us RANGE BETWEEN 60000000 PRECEDING AND CURRENT ROW)",
    ),
    Question(
        "sum and lag by ROWS",
        f"SELECT k, epoch_us(ts) AS us, sum(len) {_ROWS.format(ts='ts, len')} AS a,"
        " lag(len) OVER (PARTITION BY k ORDER BY ts, len) AS b FROM events",
        f"SELECT k, us, (sum(len) {_ROWS.format(ts='us, len')})::BIGINT AS a,"
        " lag(len) OVER (PARTITION BY k ORDER BY us, len) AS b FROM events",
    ),
    Question(
        "running sum and number",
        "SELECT k, epoch_us(ts) AS us, sum(len) OVER w AS a, rank() OVER w AS b FROM events"
        " WINDOW w AS (PARTITION BY k ORDER BY ts)",
        "SELECT k, us, (sum(len) OVER w)::BIGINT AS a, rank() OVER w AS b FROM events"
        " WINDOW w AS (PARTITION BY k ORDER BY us)",
    ),
    Question(
        "top 3 of every minute and key",
        "SELECT k, epoch_us(ts) AS us, len AS a, 0 AS b FROM events QUALIFY "
        + _TOP.format(key="time_bucket(INTERVAL 1 MINUTE, ts)", ts="ts"),
        "SELECT k, us, len AS a, 0 AS b FROM events QUALIFY "
        + _TOP.format(key="us // 60000000", ts="us"),
    ),
    Question(
        "each key and length once",
        "SELECT k, epoch_us(ts) AS us, len AS a, 0 AS b FROM events"
        " QUALIFY row_number() OVER (PARTITION BY k, len ORDER BY ts) = 1",
        "SELECT k, us, len AS a, 0 AS b FROM events"
        " QUALIFY row_number() OVER (PARTITION BY k, len ORDER BY us) = 1",
    ),
)


def run(quick: bool = False) -> Result:
    count, rounds = (4_000, 1) if quick else (1_000_000, 3)
    table = events(count)
    batches, connection = cut(table, BATCH), in_duckdb(table)
    rows: list[Row] = []
    bars: list[Bar] = []
    agreed: dict[str, int] = {}
    for question in QUESTIONS:
        contenders = {
            DUCKDB: partial(offline, connection, question.theirs),
            PENSTOCK: partial(answered, query(batches, question.ours)),
        }
        times, found = measured(contenders, rounds)
        same = agree({name: _plain(each) for name, each in found.items()})
        agreed |= {f"{question.name}: {name}": count_ for name, count_ in same.items()}
        rows += [_row(question.name, name, seconds / count) for name, seconds in times.items()]
        bars.append(Bar(f"{question.name}, against DuckDB", LIMIT, times[PENSTOCK] / times[DUCKDB]))
    title = f"{count:,} events, one thread, best of {rounds} rounds"
    return Result("over", title, rows, agreed, bars, partial(plot, rows))


def query(batches: object, sql: str) -> QueryPlan:
    db = ps.connect()
    db.stream("events", batches, schema=SCHEMA, progress=ps.progress("ts", delay="5 seconds"))
    found = db.sql(sql)
    assert isinstance(found, ps.Query)
    return found.plan


def offline(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return connection.sql(sql).to_arrow_table()


def _plain(found: pa.Table) -> pa.Table:
    names = ("k", "us", "a", "b")
    return found.select(names).cast(pa.schema([(name, pa.int64()) for name in names]))


def _row(what: str, system: str, seconds: float) -> Row:
    return {
        "question": what,
        "system": system,
        "ns per event": seconds * 1e9,
        "million events/s": 1e-6 / seconds,
    }


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Rows beside each other, one thread") as (axis,):
        names = [f"{row['question']}: {row['system']}" for row in rows]
        colours = ["C0" if "Penstock" in name else "0.6" for name in names]
        bars = axis.barh(names, [row["ns per event"] for row in rows], color=colours)
        axis.bar_label(bars, [f"{shown(row['ns per event'])} ns" for row in rows], padding=3)
        axis.invert_yaxis()
        axis.set(xlabel="processor time per event (ns)")
        axis.margins(x=0.2)
