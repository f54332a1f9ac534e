"""Streams made in Python: whatever holds rows, with the schema it brings or is given."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock as ps

UTC = datetime.UTC
ROWS = [{"k": "a", "v": 1}, {"k": None, "v": 2}]
TABLE = pa.table({"k": ["a", None], "v": [1, 2]})


def rows(db: ps.Database, sql: str = "SELECT * FROM s") -> list[dict[str, Any]]:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.collect().to_pylist()


def stream(source: object, **arguments: Any) -> ps.Database:
    db = ps.connect()
    db.stream("s", source, **arguments)
    return db


@pytest.mark.parametrize(
    "make",
    [
        lambda: ROWS,
        lambda: tuple(ROWS),
        lambda: iter(ROWS),
        lambda: (row for row in ROWS),
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_batches(max_chunksize=1),
        lambda: iter(TABLE.to_batches(max_chunksize=1)),
        lambda: TABLE.to_reader(max_chunksize=1),
        lambda: pd.DataFrame({"k": ["a", None], "v": [1, 2]}),
        lambda: pl.DataFrame({"k": ["a", None], "v": [1, 2]}),
        lambda: pl.LazyFrame({"k": ["a", None], "v": [1, 2]}),
    ],
    ids=[
        *("list", "tuple", "iterator", "generator", "table", "batch", "batches", "batch iterator"),
        *("reader", "pandas", "polars", "lazy"),
    ],
)
def test_whatever_holds_rows(make: Callable[[], object]) -> None:
    db = stream(make())
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    assert query.schema == pa.schema([("k", pa.string()), ("v", pa.int64())])
    assert rows(db) == ROWS


def test_a_generator_is_read_once_and_no_further_than_needed() -> None:
    taken = []

    def generate() -> Iterator[dict[str, int]]:
        for number in range(3):
            taken.append(number)
            yield {"n": number}

    db = stream(generate(), schema="n INT")
    assert taken == []
    assert rows(db) == [{"n": 0}, {"n": 1}, {"n": 2}]
    with pytest.raises(ps.SourceError, match="stream s has been read already"):
        rows(db)
    assert taken == [0, 1, 2]
    db = stream(generate, schema="n INT")  # the function can be called as often as needed
    assert rows(db) == rows(db) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_generator_that_fails() -> None:
    def generate() -> Iterator[dict[str, int]]:
        yield {"n": 1}
        raise OSError("the cable is out")

    db = stream(generate(), schema="n INT")
    for _ in range(2):  # the second time it must not look as if the data had ended
        with pytest.raises(ps.SourceError, match=r"after item 1: OSError: the cable is out"):
            rows(db)


@pytest.mark.parametrize(
    "schema",
    [
        "k STRING, v INT",
        {"k": "STRING", "v": "INT"},
        [("k", "STRING"), ("v", "INT")],
        pa.schema([("k", pa.large_string()), ("v", pa.int16())]),
    ],
    ids=["text", "mapping", "pairs", "arrow"],
)
def test_tuples_with_a_schema(schema: Any) -> None:
    db = stream([("a", 1), [None, 2]], schema=schema)
    assert rows(db) == ROWS
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    assert query.schema == pa.schema([("k", pa.string()), ("v", pa.int32())])


def test_a_schema_chooses_columns_of_dicts_and_tables() -> None:
    for source in (ROWS, TABLE):
        assert rows(stream(source, schema="v BIGINT")) == [{"v": 1}, {"v": 2}]


def test_every_kind_of_value() -> None:
    row = {
        "b": True,
        "i": 7,
        "f": 0.5,
        "s": "ü",
        "x": b"\x00\xff",
        "d": datetime.date(2026, 1, 31),
        "t": datetime.datetime(2026, 1, 31, 12, tzinfo=UTC),
        "n": Decimal("1.50"),
        "z": None,
    }
    assert rows(stream([row])) == [row]
    db = stream([row])
    assert (
        str(db.sql("EXPLAIN SELECT * FROM s"))
        .splitlines()[1]
        .endswith(
            "b BOOLEAN, i BIGINT, f DOUBLE, s STRING, x BINARY, d DATE, t TIMESTAMP,"
            " n DECIMAL(18,2), z STRING"
        )
    )


def test_times_without_a_zone_are_utc_and_others_are_converted() -> None:
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    given = [
        {"t": datetime.datetime(2026, 1, 31, 12)},
        {"t": datetime.datetime(2026, 1, 31, 13, tzinfo=berlin)},
        {"t": pd.Timestamp("2026-01-31 12:00")},
        {"t": np.datetime64("2026-01-31T12:00")},
    ]
    assert rows(stream(given)) == [{"t": datetime.datetime(2026, 1, 31, 12, tzinfo=UTC)}] * 4


NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=UTC)
MICROSECONDS = int(NOON.timestamp()) * 1_000_000


@pytest.mark.parametrize(
    "column",
    [
        pa.array([NOON], pa.timestamp("s", "UTC")),
        pa.array([NOON], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ms")),
        pa.array([NOON], pa.timestamp("us", "UTC")).dictionary_encode(),
    ],
    ids=str,
)
def test_a_declared_timestamp_in_frames(column: pa.Array) -> None:
    table = pa.table({"t": column, "other": [[1]]})
    frames: list[Any] = [table, table.to_reader(), iter(table.to_batches()), lambda: table]
    for data in (*frames, table.drop(["other"]).to_pandas(), pl.from_arrow(table)):
        progress = ps.progress("t", ordered=True)
        assert rows(stream(data, schema="t TIMESTAMP", progress=progress)) == [{"t": NOON}]


@pytest.mark.parametrize(
    "given",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.isoformat(),
        np.datetime64(MICROSECONDS, "us"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_declared_timestamp_in_rows(given: Any) -> None:
    for data in ([{"t": given}], [(given,)]):
        progress = ps.progress("t", ordered=True)
        assert rows(stream(data, schema="t TIMESTAMP", progress=progress)) == [{"t": NOON}]


@pytest.mark.parametrize("values", [[MICROSECONDS], ["2026-01-31"], [1.5], [True]], ids=str)
def test_a_declared_timestamp_that_a_frame_does_not_hold(values: list[Any]) -> None:
    for data in (pa.table({"t": values}), pd.DataFrame({"t": values}), pl.DataFrame({"t": values})):
        with pytest.raises(ps.SourceError, match="column t is declared TIMESTAMP, but") as caught:
            stream(data, schema="t TIMESTAMP")
        numbers = values[0] == 1.5 or values == [MICROSECONDS]
        assert ("t TIMESTAMP EPOCH" if numbers else "cast the column") in str(caught.value)


def test_no_rows() -> None:
    assert rows(stream([], schema="a INT")) == []
    assert rows(stream(TABLE.slice(0, 0))) == []
    assert rows(stream(pd.DataFrame({"a": pd.Series([], dtype="int64")}))) == []
    with pytest.raises(ps.SourceError, match="no rows to take a schema from"):
        stream([])


def test_rows_that_do_not_fit_are_kept_aside() -> None:
    db = stream([{"a": 1}, (2,), 3, [4, 5], {"a": "x"}, {}], schema="a INT")
    query = db.sql("SELECT a FROM s")
    assert isinstance(query, ps.Query)
    assert query.collect().to_pylist() == [{"a": 1}, {"a": 2}, {"a": None}]
    assert [(each["row"], each["column"]) for each in query.rejected.to_pylist()] == [
        (3, None),
        (4, None),
        (5, "a"),
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"a": [1]}, "a dict is not a table"),
        ("abc", "'abc' is a text, and a text is not a table"),
        (b"abc", "a bytes is not a table"),
        (3, "a int is not a table"),
        (None, "there is no data for the stream"),
        ([(1, 2)], "rows of class tuple do not name their columns"),
        ([{"a": {1}}], "a stream cannot carry set values"),
        ([{"a": 1}, {"a": "x"}], "column a mixes BIGINT and STRING"),
        ([{1: 2}], "the key 1 is not a string"),
        ([{}], "the data has no columns"),
        (pa.table({"a": pa.array([[1]], pa.list_(pa.time32("s")))}), "a stream cannot carry"),
        (pa.table({"a": pa.array([1], pa.duration("s"))}), "a stream cannot carry duration"),
        (pa.table([[1], [2]], ["a", "a"]), "are called a"),
        (pd.DataFrame({"a": [1, "x"]}), "cannot be converted to Arrow"),
        (pd.Series([1, 2]), "do not name their columns"),
    ],
    ids=lambda each: str(type(each).__name__) if not isinstance(each, str) else each[:30],
)
def test_what_is_no_stream(source: object, message: str) -> None:
    with pytest.raises(ps.PenstockError, match=message):
        stream(source)


def test_batches_mixed_with_something_else() -> None:
    db = stream([*TABLE.to_batches(), 1])
    with pytest.raises(ps.SourceError, match="item 2 of the batches is a int"):
        rows(db)


def test_columns_that_are_not_there_or_cannot_fit() -> None:
    with pytest.raises(ps.SourceError, match="there is no column w"):
        stream(TABLE, schema="w INT")
    with pytest.raises(ps.SourceError, match="column k is declared INT, but holds string"):
        stream(TABLE, schema="k INT")


@pytest.mark.parametrize(
    "schema",
    [
        *("", "a", "a INT b", "a INT; b INT", "a INT, a INT", "a INT, A INT", "a FOO[]", "a FOO"),
        *({}, [], {"a": ""}, {"a": "FOO"}, {"a": "INT, b INT"}, {"a": "INT b"}),
        pa.schema([("a", pa.list_(pa.time32("s")))]),
        pa.schema([("a", pa.duration("us"))]),
        pa.schema([("a", pa.int8()), ("A", pa.int8())]),
    ],
    ids=str,
)
def test_schemas_that_are_none(schema: Any) -> None:
    with pytest.raises(ps.PenstockError):
        stream([(1,)], schema=schema)


def test_a_name_that_is_taken() -> None:
    db = stream(ROWS)
    with pytest.raises(ps.BindError, match="'S' exists already"):
        db.stream("S", ROWS)
    db.sql("CREATE QUERY q AS SELECT v FROM s")
    with pytest.raises(ps.BindError, match="'q' exists already"):
        db.stream("q", ROWS)
    assert rows(db) == ROWS


def test_names_that_need_quotes() -> None:
    db = ps.connect()
    db.stream("my stream", [{"a b": 1, "select": 2}])
    assert rows(db, "SELECT `select`, `a b` FROM `my stream`") == [{"select": 2, "a b": 1}]
