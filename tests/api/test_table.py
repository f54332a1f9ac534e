"""Tables from Python and SQL: what they are made of, where they may stand, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps

ROWS = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
EXPECTED = [{"n": 7, "v": 1}, {"n": 8, "v": None}]


@pytest.fixture(params=["local", "reference"])
def db(request: pytest.FixtureRequest) -> ps.Database:
    made = ps.connect(request.param)
    made.stream("s", [("a", 7), ("c", 8)], schema="k STRING, n INT")
    return made


def answer(db: ps.Database, sql: str) -> list[dict[str, Any]]:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    rows: list[dict[str, Any]] = query.collect().to_pylist()
    return rows


def looked_up(db: ps.Database) -> list[dict[str, Any]]:
    return answer(db, "SELECT n, v FROM s LEFT JOIN r ON s.k = r.k")


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        pa.Table.from_pylist(ROWS),
        pa.Table.from_pylist(ROWS).to_batches(),
        pa.Table.from_pylist(ROWS).to_reader(),
        iter(ROWS),
        (row for row in ROWS),
        lambda: iter(ROWS),
    ],
    ids=["dicts", "table", "batches", "reader", "iterator", "generator", "function"],
)
def test_what_tables_are_made_of(db: ps.Database, data: Any) -> None:
    """Each can be read by several runs; fixtures run twice, so what is read once is copied."""
    if isinstance(data, Iterator | pa.RecordBatchReader):
        data = iter(ROWS) if isinstance(data, Iterator) else pa.Table.from_pylist(ROWS).to_reader()
    db.table("r", data)
    assert looked_up(db) == EXPECTED
    assert looked_up(db) == EXPECTED


def test_frames(db: ps.Database) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    db.table("r", pandas.DataFrame(ROWS))
    assert looked_up(db) == EXPECTED
    db.sql("DROP TABLE r")
    db.table("r", polars.DataFrame(ROWS))
    assert looked_up(db) == EXPECTED


def test_tuples_with_a_schema(db: ps.Database) -> None:
    db.table("r", [("a", 1)], schema={"k": "STRING", "v": "INT"})
    assert looked_up(db) == EXPECTED


def test_an_empty_table(db: ps.Database) -> None:
    db.table("r", [], schema="k STRING, v INT")
    assert looked_up(db) == [{"n": 7, "v": None}, {"n": 8, "v": None}]


def test_create_table(db: ps.Database, tmp_path: Path) -> None:
    db.base = tmp_path
    (tmp_path / "r.csv").write_text("k,v\na,1\n")
    db.sql("CREATE TABLE r (k STRING, v INT) FROM FILES 'r.csv'")
    assert looked_up(db) == EXPECTED
    db.sql("DROP TABLE r; CREATE TABLE R (k STRING, v INT) FROM VALUES ('a', 1), ('b', 2)")
    assert looked_up(db) == EXPECTED


def test_a_table_alone_is_a_stream_that_ends(db: ps.Database) -> None:
    db.table("r", ROWS)
    query = db.sql("SELECT v + 1 AS w FROM r WHERE k = 'a'")
    assert isinstance(query, ps.Query)
    assert query.collect().to_pylist() == [{"w": 2}]
    assert query.account.read == 2


def test_names() -> None:
    db = ps.connect()
    db.stream("s", [{"k": "a"}])
    db.table("r", ROWS)
    db.sql("CREATE QUERY q AS SELECT s.k FROM s JOIN r ON s.k = r.k")
    assert (db.streams, db.tables, db.queries) == (["s"], ["r"], ["q"])
    for sql, message, hint in (
        ("DROP TABLE r", "table r is read by q", "DROP QUERY q first"),
        ("DROP STREAM r", "there is no stream called 'r'", "DROP TABLE r"),
        ("DROP TABLE s", "there is no table called 's'", "DROP STREAM s"),
        ("CREATE TABLE s (k INT)", "'s' exists already", "DROP it first, or take another name"),
    ):
        with pytest.raises(ps.BindError) as caught:
            db.sql(sql)
        assert (caught.value.message, caught.value.hint) == (message, hint)
    with pytest.raises(ps.BindError, match="'r' is a table"):
        db.query("r")
    db.sql("DROP QUERY q; DROP TABLE r; DROP TABLE IF EXISTS r")
    assert db.tables == []


def test_what_goes_on_is_no_table() -> None:
    async def rows() -> Any:
        yield {"k": "a"}

    db = ps.connect()
    for data in (rows, SimpleNamespace(isStreaming=True)):
        with pytest.raises(ps.BindError, match="a table is complete"):
            db.table("r", data, schema="k STRING")


def test_explain_shows_the_table() -> None:
    db = ps.connect()
    db.stream("s", [{"k": "a"}])
    db.table("r", ROWS)
    query = db.sql("SELECT s.k, v FROM s LEFT JOIN r ON s.k = r.k AND r.v > 1")
    assert isinstance(query, ps.Query)
    logical, physical = query.explain(), query.explain(physical=True)
    assert "LEFT Lookup ON (s.k = r.k)\n" in logical
    assert "│  table: Filter (r.v > 1)\n      │  table: Scan r, source: MEMORY (list)\n" in logical
    assert physical.splitlines()[1:] == [
        "Project s.k AS k, r.v AS v",
        "└─ Lookup: LEFT Lookup ON (s.k = r.k)",
        "   │  table: Filter (r.v > 1)",
        "   │  table: Scan r, source: MEMORY (list)",
        "   └─ Read s",
    ]
