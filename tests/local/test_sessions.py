"""Sessions against SQL that DuckDB runs over the whole input, on every engine in process."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

ROW = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([None, -3, 0, 5]), st.integers(-30, 30)
)
# Row by row: a tuple begins a session if it is not before the end of the one before it.
ORACLE = """
WITH RECURSIVE
numbered AS (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY t) AS n FROM s),
followed AS (
  SELECT k, v, t, n, t AS start FROM numbered WHERE n = 1
  UNION ALL
  SELECT b.k, b.v, b.t, b.n,
         CASE WHEN b.t < least(a.t + {gap}, a.start + {longest}) THEN a.start ELSE b.t END
  FROM followed a JOIN numbered b ON b.n = a.n + 1 AND {same}
)
SELECT {shown} AS k, start, least(max(t) + {gap}, start + {longest}) AS ends, count(*) AS n,
       count(v) AS known, sum(v) AS total, min(v) AS low, max(v) AS high
FROM followed GROUP BY {grouping}
"""


def in_duckdb(table: pa.Table, gap: int, longest: int | None, grouped: bool) -> set[Any]:
    sql = ORACLE.format(
        keys="k" if grouped else "1",
        same="b.k IS NOT DISTINCT FROM a.k" if grouped else "true",
        shown="k" if grouped else "0",
        grouping="k, start" if grouped else "start",
        gap=gap,
        longest=1_000_000_000 if longest is None else longest,
    )
    with duckdb.connect() as connection:
        connection.register("s", table)
        return set(connection.sql(sql).fetchall())


def in_penstock(
    engine: str, batches: list[pa.RecordBatch], gap: int, longest: int | None, grouped: bool
) -> set[Any]:
    most = "" if longest is None else f"MAX {longest}, "
    db = ps.connect(engine)
    db.stream("s", batches, progress=ps.progress("t", delay=100))
    query = db.sql(
        f"SELECT {'k' if grouped else '0 AS k'}, window_start, window_end, count(*) AS n,"
        f" count(v) AS known, sum(v) AS total, min(v) AS low, max(v) AS high"
        f" [SESSION GAP {gap}, {most}WA t] FROM s {'GROUP BY k' if grouped else ''}"
    )
    assert isinstance(query, ps.Query)
    found = query.collect()
    return set(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("engine", ["reference", "local"])
@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=25),
    gap=st.integers(1, 8),
    longest=st.none() | st.integers(1, 20),
    grouped=st.booleans(),
    cut=st.sampled_from([1, 4, 100]),
)
def test_against_duckdb(
    engine: str,
    rows: list[tuple[Any, ...]],
    gap: int,
    longest: int | None,
    grouped: bool,
    cut: int,
) -> None:
    columns = dict(zip(("k", "v", "t"), zip(*rows, strict=True), strict=True))
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.int64())])
    table = pa.table({name: list(each) for name, each in columns.items()}, schema)
    found = in_penstock(engine, table.to_batches(cut), gap, longest, grouped)
    assert found == in_duckdb(table, gap, longest, grouped)


@pytest.mark.parametrize("longest", [None, 300])
def test_many_tuples(longest: int | None) -> None:
    random = np.random.default_rng(3)
    size = 20_000
    table = pa.table(
        {
            "k": pa.array([f"k{each}" for each in random.integers(0, 300, size)]),
            "v": pa.array(random.integers(-9, 9, size)),
            "t": pa.array(np.arange(size) // 2 + random.integers(0, 100, size)),
        }
    )
    found = in_penstock("local", table.to_batches(3_000), 60, longest, True)
    assert len(found) > 1_000
    assert found == in_duckdb(table, 60, longest, True)
