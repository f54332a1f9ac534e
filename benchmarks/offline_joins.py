"""The joins of `joining` by single-threaded Polars and DuckDB, over the whole input at once.

Import this before anything else imports polars: its threads are counted at import.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import duckdb
import polars as pl
import pyarrow as pa

from benchmarks.joining import BAND, C, Joining

SECOND = 1_000_000


class PolarsJoins:
    """By key and then a filter; for a band, `join_where`, which sorts by time."""

    name = "Polars, 1 thread"

    def __init__(self, left: pa.RecordBatch, right: pa.RecordBatch) -> None:
        assert pl.thread_pool_size() == 1
        ticks = pl.col("ts").cast(pl.Int64)
        self._left, self._right = (
            pl.DataFrame(pa.Table.from_batches([each])).with_columns(ticks)
            for each in (left, right)
        )

    def answer(self, joining: Joining) -> pa.Table:
        left, right = self._left.lazy(), self._right.lazy()
        if joining is BAND:
            within = (pl.col("ts_r") >= pl.col("ts"), pl.col("ts_r") <= pl.col("ts") + SECOND)
            apart = (pl.col("n_r") - pl.col("n")).sum().alias("apart")
            windows = (
                left.join_where(right, *within, suffix="_r")
                .group_by((pl.col("ts") // (10 * SECOND)).alias("w"))
                .agg(pl.len().cast(pl.Int64).alias("pairs"), apart)
            )
            return windows.collect().to_arrow()
        apart = (pl.col("ts_r") - pl.col("ts")).abs()
        pairs = left.join(right, on="k", suffix="_r").filter(apart <= 5 * SECOND)
        found = pairs.select("n", pl.col("n_r").alias("m"))
        if joining is C:
            return found.collect().to_arrow()
        return left.select("n").join(found, on="n", how="left").collect().to_arrow()


class DuckDBJoins:
    name = "DuckDB, 1 thread"

    def __init__(self, left: pa.RecordBatch, right: pa.RecordBatch) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        for name, batch in (("l", left), ("r", right)):
            self._connection.register("given", pa.Table.from_batches([batch]))
            sql = f"CREATE TABLE {name} AS SELECT k, n, epoch_us(ts) AS us FROM given"
            self._connection.execute(sql)

    def answer(self, joining: Joining) -> pa.Table:
        if joining is BAND:
            sql = f"""SELECT l.us // {10 * SECOND} AS w, count(*) AS pairs,
                             sum(r.n - l.n)::BIGINT AS apart
                      FROM l JOIN r ON r.us BETWEEN l.us AND l.us + {SECOND} GROUP BY ALL"""
        else:
            kind = "" if joining is C else "LEFT"
            sql = f"""SELECT l.n, r.n AS m FROM l {kind} JOIN r ON l.k = r.k
                      AND r.us BETWEEN l.us - {5 * SECOND} AND l.us + {5 * SECOND}"""
        return self._connection.sql(sql).to_arrow_table()
