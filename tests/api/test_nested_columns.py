"""Streams with ARRAYs, STRUCTs and MAPs, from everything that has them, to files and back."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as ps

TYPE = pa.struct([("x", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
MOMENT = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
TABLE = pa.table(
    {
        "a": pa.array([[1, None], [], None], pa.list_(pa.int64())),
        "s": pa.array([{"x": 1, "at": MOMENT}, None, {"x": None, "at": None}], TYPE),
        "t": [1, 2, 3],
    }
)
MAPS = pa.table({"m": pa.array([[("k", 1.5)], [], None], pa.map_(pa.string(), pa.float64()))})
SCHEMA = "a ARRAY<BIGINT>, s STRUCT<x BIGINT, at TIMESTAMP>, t BIGINT"


def rows(db: ps.Database, sql: str = "SELECT * FROM s") -> list[dict[str, Any]]:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.collect().to_pylist()


@pytest.fixture(params=["reference", "local"])
def db(request: pytest.FixtureRequest) -> ps.Database:
    return ps.connect(request.param)


@pytest.mark.parametrize("engine", ["reference", "local"])
@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_pylist(),
        pl.from_arrow(TABLE),
        TABLE.cast(pa.schema([("a", pa.large_list(pa.int32())), ("s", TYPE), ("t", pa.int8())])),
    ],
    ids=["arrow", "rows", "polars", "other"],
)
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_streams_of_data(engine: str, data: Any, schema: str | None) -> None:
    db = ps.connect(engine)
    if schema is None and not isinstance(data, list):
        db.stream("s", data)
    else:
        db.stream("s", data, schema=SCHEMA)
    assert rows(db) == TABLE.to_pylist()
    assert rows(db, "SELECT s.x AS x, a[1] AS a FROM s") == [
        {"x": 1, "a": 1},
        {"x": None, "a": None},
        {"x": None, "a": None},
    ]


def test_pandas(db: ps.Database) -> None:
    frame = pd.DataFrame({"a": [[1, 2], None], "t": [1, 2]})
    db.stream("s", frame)
    assert rows(db, "SELECT a[2] AS b FROM s") == [{"b": 2}, {"b": None}]


def test_types_of_rows(db: ps.Database) -> None:
    db.stream("s", [{"v": []}, {"v": [{"a": 1}]}, {"v": [{"b": "x", "a": 2.5}, None]}])
    query = db.sql("SELECT v FROM s")
    assert isinstance(query, ps.Query)
    assert str(query.plan.schema) == "v ARRAY<STRUCT<a DOUBLE, b STRING>>"
    assert rows(db)[2] == {"v": [{"a": 2.5, "b": "x"}, None]}


def test_rows_that_do_not_fit_are_rejected(db: ps.Database) -> None:
    bad = [{"a": [1, "x"]}, {"a": 7}, {"a": [2]}, {"a": {"k": 1}}]
    db.stream("s", bad, schema="a ARRAY<INT>")
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    assert query.collect().to_pylist() == [{"a": [2]}]
    assert query.rejected.num_rows == 3


LINES = [
    {"a": [1, None], "s": {"x": 1, "at": "2026-01-31T00:00:00Z"}, "m": {"k": 1.5}, "t": 1},
    {"a": [], "s": None, "m": {}, "t": 2, "more": [1]},
    {"t": 3, "s": {"other": 1}},
]


@pytest.mark.parametrize("bad", [{"a": "x"}, {"a": [1.5]}, {"s": []}, {"m": {"k": "x"}}, {"m": 1}])
def test_json_lines(db: ps.Database, tmp_path: Path, bad: dict[str, Any]) -> None:
    lines = [*LINES[:1], {"t": 9, **bad}, *LINES[1:]]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    db.sql(f"CREATE STREAM s ({SCHEMA}, m MAP<STRING, DOUBLE>) FROM FILES '{tmp_path}/s.jsonl'")
    query = db.sql("SELECT a, s, m, t FROM s")
    assert isinstance(query, ps.Query)
    expected = [
        {**row, "m": m} for row, m in zip(TABLE.to_pylist(), [[("k", 1.5)], [], None], strict=True)
    ]
    expected[2]["a"] = None
    assert query.collect().to_pylist() == expected
    assert query.rejected.num_rows == 1


def test_plain_json_at_once(db: ps.Database, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"a": [{"x": 1, "y": "z"}, {"x": 2}]}\n{"a": null}\n')
    db.sql(f"CREATE STREAM s (a ARRAY<STRUCT<x INT, y STRING>>) FROM FILES '{tmp_path}/s.jsonl'")
    assert rows(db, "SELECT a[1].y AS y, a[2].x AS x FROM s") == [
        {"y": "z", "x": 2},
        {"y": None, "x": None},
    ]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_written_and_read_again(db: ps.Database, tmp_path: Path, ending: str) -> None:
    db.stream("s", TABLE)
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    query.run(tmp_path / f"out.{ending}")
    db.sql(f"CREATE STREAM again ({SCHEMA}) FROM FILES '{tmp_path}/out.{ending}'")
    assert rows(db, "SELECT * FROM again") == TABLE.to_pylist()


def test_csv_has_no_place_for_them(db: ps.Database, tmp_path: Path) -> None:
    db.stream("s", TABLE)
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    with pytest.raises(ps.SinkError, match="CSV"):
        query.run(tmp_path / "out.csv")
    (tmp_path / "in.csv").write_text("a\n[1]\n")
    db.sql(f"CREATE STREAM c (a ARRAY<INT>) FROM FILES '{tmp_path}/in.csv'")
    with pytest.raises(ps.SourceError, match="a CSV file has no place for a, an ARRAY<INT>"):
        rows(db, "SELECT a FROM c")


def test_maps(db: ps.Database) -> None:
    db.stream("s", MAPS)
    assert rows(db, "SELECT m['k'] AS v, m FROM s") == [
        {"v": 1.5, "m": [("k", 1.5)]},
        {"v": None, "m": []},
        {"v": None, "m": None},
    ]


REFUSED = [
    ("SELECT a = a FROM s", "ARRAY<BIGINT> cannot be compared"),
    ("SELECT s.nope FROM s", "there is no field 'nope'"),
    ("SELECT a[0] FROM s", "the first element of an ARRAY is at 1"),
    ("SELECT t[1] FROM s", "a BIGINT has no elements"),
    ("SELECT count(*) [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY a", "cannot be told apart"),
    ("SELECT DISTINCT t, a FROM s", "cannot be told apart by a"),
    ("SELECT max(a) [RANGE 9, SLIDE 9, WA t] FROM s", "argument 1 of max is an ARRAY"),
    ("SELECT u FROM s CROSS JOIN UNNEST(t) AS u", "UNNEST takes an ARRAY or MAP"),
    ("SELECT u FROM s CROSS JOIN UNNEST(a) AS u(x, y)", "UNNEST has 1 column"),
    ("SELECT u FROM s RIGHT JOIN UNNEST(a) AS u ON TRUE", "cannot stand in a RIGHT JOIN"),
    ("SELECT l.t FROM s AS l JOIN s AS r ON l.a = r.a", "cannot be compared"),
]


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_what_is_refused(db: ps.Database, sql: str, message: str) -> None:
    db.stream("s", TABLE, progress=ps.progress("t", delay=1))
    with pytest.raises(ps.PenstockError) as caught:
        rows(db, sql)
    assert message in str(caught.value)
    assert caught.value.span is not None


def test_checkpoint_keeps_them(tmp_path: Path) -> None:
    """Tuples that wait for partners are on disk between two runs."""
    file = tmp_path / "s.jsonl"

    def run() -> list[Any]:
        db = ps.connect()
        db.sql(
            f"CREATE STREAM s (k INT, a ARRAY<STRUCT<x INT>>, t INT) FROM FILES '{file}'"
            " PROGRESS ON t DELAY 5"
        )
        query = db.sql(
            "SELECT l.a, r.a AS b FROM s AS l JOIN s AS r ON l.k = r.k AND r.t = l.t + 1"
        )
        assert isinstance(query, ps.Query)
        found: list[Any] = []
        query.run(lambda batch: found.extend(batch.to_pylist()), checkpoint=tmp_path / "kept")
        return found

    file.write_text('{"k": 1, "a": [{"x": 7}, null], "t": 1}\n')
    assert run() == []
    with file.open("a") as more:
        more.write('{"k": 1, "a": [], "t": 2}\n')
    assert run() == [{"a": [{"x": 7}, None], "b": []}]
