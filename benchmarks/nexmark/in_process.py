"""Every query of Nexmark in process, beside DuckDB, which has the whole input at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import best_times
from benchmarks.nexmark.generator import generated
from benchmarks.nexmark.running import (
    NAMES,
    database,
    expected,
    in_duckdb,
    plain,
    text_for_duckdb,
    text_of,
)
from benchmarks.result import Result, Row
from benchmarks.throughput import answered

PENSTOCK, DUCKDB = "Penstock", "DuckDB, 1 thread"
DISORDER = 2.0  # seconds
BATCH = 1 << 16


def run(quick: bool = False) -> Result:
    count, rounds = (1_000, 1) if quick else (1_000_000, 3)
    events = generated(count, disorder=DISORDER)
    connection = in_duckdb(events)
    rows: list[Row] = []
    agreed = {PENSTOCK: 0, DUCKDB: 0}
    for name in NAMES[::5] if quick else NAMES:
        query = database(ps.connect("local"), events, DISORDER, _batches).sql(text_of(name))
        assert isinstance(query, ps.Query)
        found, right = query.collect(), expected(name, events)
        if plain(found) != plain(right):
            raise AssertionError(f"{name}: Penstock and DuckDB answer differently")
        agreed = {system: each + found.num_rows for system, each in agreed.items()}
        contenders = {
            PENSTOCK: partial(answered, query.plan),
            DUCKDB: partial(_offline, connection, name),
        }
        times = best_times(contenders, rounds)
        rows.append(
            {
                "query": name,
                "rows": found.num_rows,
                f"{PENSTOCK} (s)": times[PENSTOCK],
                f"{DUCKDB} (s)": times[DUCKDB],
                "ratio": times[PENSTOCK] / times[DUCKDB],
            }
        )
    title = f"Nexmark, {count:,} events up to {DISORDER} s out of order, one thread"
    return Result("nexmark", title, rows, agreed, [], partial(_plot, rows))


def _batches(name: str, table: pa.Table) -> object:  # noqa: ARG001
    return table.combine_chunks().to_batches(max_chunksize=BATCH)


def _offline(connection: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    return connection.sql(text_for_duckdb(name)).to_arrow_table()


def _plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Nexmark in process") as (axis,):
        names = [row["query"] for row in rows]
        for system, colour in ((PENSTOCK, "C0"), (DUCKDB, "0.6")):
            axis.plot(names, [row[f"{system} (s)"] for row in rows], "o", color=colour)
        axis.set(yscale="log", ylabel="processor time (s)")
        axis.legend([PENSTOCK, DUCKDB])
