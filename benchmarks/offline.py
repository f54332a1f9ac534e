"""The answers of the workloads by single-threaded Polars and DuckDB, over the whole input at once.

Both aggregate by panes first and then add panes up to windows, which is the best we know to ask of
them.  Import this before anything else imports polars: its threads are counted at import.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import duckdb
import polars as pl
import pyarrow as pa

from benchmarks.workloads import Workload

SECOND = 1_000_000


class Polars:
    name = "Polars, 1 thread"

    def __init__(self, table: pa.Table) -> None:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        self.frame = frame
        assert pl.thread_pool_size() == 1

    def answer(self, workload: Workload) -> pa.Table:
        ticks = pl.col("ts").cast(pl.Int64)
        panes = (
            self.frame.lazy()
            .group_by((ticks // (workload.slide * SECOND)).alias("w"), "k")
            .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("len").sum().alias("bytes"))
        )
        if workload.range == workload.slide:
            return panes.collect().to_arrow()
        span = workload.range // workload.slide
        found = panes.collect()
        first, last = found["w"].min(), found["w"].max()
        assert isinstance(first, int)
        assert isinstance(last, int)
        windows = pl.LazyFrame({"w": pl.int_range(first, last + span, eager=True)})
        totals = [
            (pl.col(c).cum_sum() - pl.col(c).cum_sum().shift(span, fill_value=0)).over("k").alias(c)
            for c in ("n", "bytes")
        ]
        return (
            found.lazy()
            .select("k")
            .unique()
            .join(windows, how="cross")
            .join(found.lazy(), on=["w", "k"], how="left")
            .with_columns(pl.col("n", "bytes").fill_null(0))
            .sort("k", "w")
            .with_columns(totals)
            .filter(pl.col("n") > 0)
            .select("w", "k", "n", "bytes")
            .collect()
            .to_arrow()
        )


class DuckDB:
    name = "DuckDB, 1 thread"

    def __init__(self, table: pa.Table) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.register("given", table)
        # its own format, so that reading Arrow is not measured
        self.connection.execute(
            "CREATE TABLE events AS SELECT k, len, epoch_us(ts) AS us FROM given"
        )

    def answer(self, workload: Workload) -> pa.Table:
        slide = workload.slide * SECOND
        panes = f"""SELECT us // {slide} AS w, k, count(*) AS n, sum(len)::BIGINT AS bytes
                    FROM events GROUP BY ALL"""
        if workload.range == workload.slide:
            return self.connection.sql(panes).to_arrow_table()
        span = workload.range // workload.slide
        sql = f"""
            WITH panes AS MATERIALIZED ({panes}),
            grid AS (
              SELECT w, k FROM (SELECT DISTINCT k FROM panes), (
                SELECT unnest(range(min(w), max(w) + {span})) AS w FROM panes)
            ),
            windows AS (
              SELECT w, k, sum(n) OVER o AS n, sum(bytes) OVER o AS bytes
              FROM grid LEFT JOIN panes USING (w, k)
              WINDOW o AS (PARTITION BY k ORDER BY w ROWS {span - 1} PRECEDING)
            )
            SELECT w, k, n::BIGINT AS n, bytes::BIGINT AS bytes FROM windows WHERE n > 0"""
        return self.connection.sql(sql).to_arrow_table()
