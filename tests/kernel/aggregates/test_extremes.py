"""max_by and min_by against DuckDB: the greatest pair of key and value, and the least."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("s", pa.string()),
        ("x", pa.int64()),
        ("d", pa.float64()),
        ("t", pa.int64()),
    ]
)
ROW = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([None, "", "u", "ü"]),
    st.sampled_from([None, -(2**63), -1, 0, 2]),
    st.sampled_from([None, -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    st.integers(-20, 20),
)
PAIRS = [("s", "x"), ("x", "s"), ("d", "t"), ("s", "d"), ("t", "d"), ("x", "x")]


@pytest.mark.parametrize("engine", ["reference", "local"])
@settings(max_examples=25, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=20), cut=st.sampled_from([1, 5, 100]))
def test_against_duckdb(engine: str, rows: list[tuple[Any, ...]], cut: int) -> None:
    columns = [list(each) for each in zip(*rows, strict=True)]
    table = pa.table(columns, schema=SCHEMA)
    calls = [f"{name}_by({x}, {y})" for x, y in PAIRS for name in ("min", "max")]
    db = ps.connect(engine)
    db.stream("s", table.to_batches(cut), progress=ps.progress("t", delay=100))
    query = db.sql(
        f"SELECT window_end, k, {', '.join(calls)} [RANGE 12, SLIDE 4, WA t] FROM s GROUP BY k"
    )
    assert isinstance(query, ps.Query)
    # -0.0 and 0.0 are one value here, and DuckDB orders them
    best = [
        f"({name}({{'y': {y} + 0, 'x': {x} + 0}})"
        f" FILTER (WHERE {x} IS NOT NULL AND {y} IS NOT NULL)).x"
        for x, y in PAIRS
        for name in ("min", "max")
    ]
    sql = ", ".join(each.replace("s + 0", "s") for each in best)
    with duckdb.connect() as connection:
        connection.register("s", table)
        expected = connection.sql(
            f"SELECT (w + 1) * 4 AS ends, k, {sql}"
            " FROM (SELECT unnest(range(-20, 20)) AS w) JOIN s"
            " ON (w + 1) * 4 - 12 <= t AND t < (w + 1) * 4 GROUP BY ends, k"
        ).fetchall()
    found = query.collect()
    answers = zip(*(column.to_pylist() for column in found.columns), strict=True)
    assert sorted(map(repr, answers)) == sorted(map(repr, expected))


@pytest.mark.parametrize("cut", [3_000, 700])
def test_many_rows_with_many_ties(cut: int) -> None:
    chance = random.Random(4)
    rows = [
        {"k": chance.randrange(90), "s": f"t{chance.randrange(40)}", "x": chance.randrange(6)}
        for _ in range(3_000)
    ]
    table = pa.table(
        {
            "k": pa.array([row["k"] for row in rows]),
            "s": pa.array([row["s"] for row in rows]),
            "x": pa.array([row["x"] for row in rows]),
            "d": pa.array([[0.5, -1.0, float("nan")][int(row["x"]) % 3] for row in rows]),
        }
    )
    calls = ["max_by(s, x)", "min_by(s, x)", "max_by(x, d)", "min_by(s, d)", "max(d)", "min(d)"]
    db = ps.connect("local")
    db.stream("s", table.to_batches(cut))
    query = db.sql(f"SELECT k, {', '.join(calls)} FROM s GROUP BY k EMIT CHANGES")
    assert isinstance(query, ps.Query)
    found = sorted(map(repr, query.collect().to_pylist()))
    best = {
        name: f"({name[:3]}({{'y': {y}, 'x': {x}}})).x"
        for name, x, y in [(c, *c[7:-1].split(", ")) for c in calls if "_by" in c]
    }
    with duckdb.connect() as connection:
        connection.register("s", table)
        columns = ", ".join(f'{best.get(call, call)} AS "{call}"' for call in calls)
        expected = connection.sql(f"SELECT k, {columns} FROM s GROUP BY k").to_arrow_table()
    assert found == sorted(map(repr, expected.rename_columns(query.plan.schema.names).to_pylist()))
