"""CSV: what other readers make of it, above all of NULL and the empty text."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.text import write_csv
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    decimal_type,
)
from penstock.model.values import to_arrow
from tests.model.strategies import columns

# Arrow reads the years 0 to 9999 only, so times come from a narrower range than usual.
_YEARS = (-719_162, 2_932_896)
_TIMES = {
    DATE: st.integers(*_YEARS),
    TIMESTAMP: st.integers(_YEARS[0] * 86_400_000_000, _YEARS[1] * 86_400_000_000),
}
TYPES = [STRING, BIGINT, INT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, decimal_type(12, 4)]


def written(table: pa.Table) -> str:
    out = io.StringIO()
    write_csv(table, out)
    return out.getvalue()


def read_by_arrow(text: str, schema: pa.Schema) -> pa.Table:
    return pa.csv.read_csv(
        pa.BufferReader(text.encode()),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def test_null_is_nothing_and_empty_text_is_two_quotes() -> None:
    table = pa.table({"a": ["", None, "x"], "b": [1, None, 3]})
    assert written(table) == 'a,b\n"",1\n,\nx,3\n'


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a,b", '"a,b"'),
        ('say "x"', '"say ""x"""'),
        ("two\nlines", '"two\nlines"'),
        ("re\rturn", '"re\rturn"'),
        (" spaces ", " spaces "),
        ("semi;colon", "semi;colon"),
    ],
)
def test_quotes_where_they_are_needed(text: str, cell: str) -> None:
    assert written(pa.table({"a": [text], "b": ["-"]})) == f"a,b\n{cell},-\n"


def test_names_are_quoted_too() -> None:
    assert written(pa.table({"a,b": [1], 'c"': [2]})) == '"a,b","c"""\n1,2\n'


def test_no_rows() -> None:
    assert written(pa.table({"a": pa.array([], pa.int32())})) == "a\n"


def test_how_values_are_written() -> None:
    table = pa.table(
        {
            "t": pa.array([0], pa.timestamp("us", tz="UTC")),
            "d": pa.array([0], pa.date32()),
            "b": pa.array([b"\x00\xff"]),
            "f": [float("nan")],
            "i": pa.array([90_500_000], pa.duration("us")),
        }
    )
    assert written(table).split("\n")[1] == (
        "1970-01-01T00:00:00.000000Z,1970-01-01,00ff,nan,90500 MILLISECONDS"
    )


def _column(sql_type: Type) -> st.SearchStrategy[list[Any]]:
    narrow = _TIMES.get(sql_type)
    return columns(sql_type) if narrow is None else st.lists(st.none() | narrow, max_size=8)


@given(st.sampled_from(TYPES).flatmap(lambda each: st.tuples(st.just(each), _column(each))))
@settings(deadline=None)
def test_arrow_reads_the_same_values(typed: tuple[Type, list[Any]]) -> None:
    sql_type, values = typed
    column = to_arrow(values, sql_type)
    # the second column keeps a NULL from making its line blank
    table = pa.table({"x": column, "number": pa.array(range(len(values)), pa.int64())})
    found = read_by_arrow(written(table), table.schema)
    assert found.schema == table.schema
    assert str(found.column("x").to_pylist()) == str(pa.chunked_array([column]).to_pylist())


def test_penstock_reads_the_same_values(tmp_path: Path) -> None:
    table = pa.table({"s": ["", None, 'a"b', "x\ny,z"], "f": [0.1, None, float("inf"), -0.0]})
    (tmp_path / "x.csv").write_text(written(table), encoding="utf-8")
    query = ps.connect(base=tmp_path).sql(
        "CREATE STREAM x (s STRING, f DOUBLE) FROM FILES 'x.csv'; SELECT s, f FROM x"
    )
    assert isinstance(query, ps.Query)
    assert str(query.collect().to_pylist()) == str(table.to_pylist())


def test_penstock_reads_a_null_alone_in_its_row(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1, None, 3], pa.int64())})
    (tmp_path / "x.csv").write_text(written(table))
    query = ps.connect(base=tmp_path).sql(
        "CREATE STREAM x (x BIGINT) FROM FILES 'x.csv'; SELECT x FROM x"
    )
    assert isinstance(query, ps.Query)
    assert query.collect() == table
