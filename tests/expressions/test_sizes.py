"""No value that SQL computes takes all memory, on any engine and whatever the function."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock as ps
from penstock.model.value_limits import set_max_value

LIMIT = 10_000
ENGINES = ("reference", "local")


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    set_max_value(LIMIT)
    yield
    set_max_value(0)


def nested(call: str, times: int, inside: str = "x") -> str:
    for _ in range(times):
        inside = call.format(inside)
    return inside


def on_top_of_each_other(column: str, times: int, first: str = "s") -> str:
    tables = ", ".join(
        f"q{n} AS (SELECT ts, {column} AS x FROM {f'q{n - 1}' if n else first})"
        for n in range(times)
    )
    return f"WITH {tables} SELECT x IS NULL AS y FROM q{times - 1}"


WINDOW = "[RANGE 10, SLIDE 10, WA ts]"
SEPARATOR = "a" * 50
WIDE = "repeat(x, 5)"
MANY = "s CROSS JOIN UNNEST(string_split(repeat('a,', 500), ',')) AS u(i)"
GROWING = {
    "replace": "SELECT " + nested("replace({}, 'a', 'aaaaaaaaaa')", 8) + " AS y FROM s",
    "replace a column": "SELECT replace(repeat(x, 200), x, repeat(x, 200)) AS y FROM s",
    "regexp_replace": "SELECT " + nested("regexp_replace({}, 'a', 'aaaaaaaaaa')", 8) + " FROM s",
    "groups": "SELECT " + nested("regexp_replace({}, '.+', '$0$0$0$0$0$0$0$0')", 8) + " FROM s",
    "||": on_top_of_each_other("x || x", 40),
    "concat": "SELECT concat(" + ", ".join(["repeat(x, 500)"] * 9) + ") AS y FROM s",
    "concat_ws": "SELECT concat_ws(repeat(x, 500), x, x, x, x, x, x, x, x) AS y FROM s",
    "repeat": "SELECT repeat(x, 1000000000000) AS y FROM s",
    "repeat a column": "SELECT repeat(x, n) AS y FROM s",
    "space": "SELECT space(n) AS y FROM s",
    "lpad": "SELECT lpad(x, 9999, 'ü') AS y FROM s",
    "overlay": "SELECT overlay(repeat(x, 1500) PLACING repeat(x, 1500) FROM 1 FOR 0) AS y FROM s",
    "translate": "SELECT translate(repeat(x, 1900), 'a', '😀') AS y FROM s",
    "upper": "SELECT upper(repeat('ŉ', 4900)) AS y, upper(repeat(x, 1900) || 'ŉ') AS z,"
    " upper(repeat('ŉ', 4900) || x) AS w FROM s",
    "to_base64": "SELECT to_base64(repeat(x, 1900)) AS y FROM s",
    "array": on_top_of_each_other("[x, x]", 25),
    "struct": on_top_of_each_other("{'a': x, 'b': x}", 8, f"(SELECT ts, {WIDE} AS x FROM s) AS a"),
    "map": on_top_of_each_other("MAP {'a': x, 'b': x}", 25),
    "array ||": on_top_of_each_other("x || x", 40, "(SELECT ts, [x] AS x FROM s) AS a"),
    "array_join": "SELECT array_join([x, x, x, x, x, x, x], repeat(x, 500)) AS y FROM s",
    "string_split": "SELECT string_split(repeat(x, 1900), 'a') AS y FROM s",
    "string_agg": f"SELECT string_agg(i, '{'a' * 50}') AS y {WINDOW} FROM {MANY}",
    "listagg": f"SELECT string_agg(i, 'aaaaaaaaaaaaaaaaaaaaaaaa' ORDER BY n) AS y {WINDOW}"
    f" FROM {MANY}",
    "array_agg": f"SELECT array_agg(i || repeat(x, 10)) AS y {WINDOW} FROM {MANY}",
    "histogram": f"SELECT histogram(repeat(x, 1990) || repeat('\"', 50)) AS y {WINDOW} FROM s",
    "row": "SELECT " + ", ".join(f"repeat(x, 1990) AS c{n}" for n in range(5)) + " FROM s",
}
STREAM = """
CREATE STREAM s (ts INT, x STRING, n BIGINT) FROM VALUES (1, 'aaaaa', 1000000000), (2, NULL, NULL)
  PROGRESS ON ts ORDERED;
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GROWING)
def test_it_is_refused(name: str, engine: str) -> None:
    db = ps.connect(engine)
    with pytest.raises(ps.RunError, match="bytes is computed") as caught:
        db.sql(STREAM + GROWING[name]).collect()
    assert "PENSTOCK_MAX_VALUE" in str(caught.value)


def test_a_type_has_so_many_parts() -> None:
    """Or else its name alone takes all memory."""
    with pytest.raises(ps.BindError, match="too many parts"):
        ps.connect().sql(STREAM + on_top_of_each_other("{'a': x, 'b': x}", 40))


def test_what_just_fits_is_the_same_on_all_engines() -> None:
    """At the limit, and a byte beyond it."""
    sql = "CREATE STREAM s (t STRING) FROM VALUES ('ä'), ('b');"
    for count, fits in ((LIMIT // 2, True), (LIMIT // 2 + 1, False)):
        for engine in ENGINES:
            query = ps.connect(engine).sql(f"{sql} SELECT repeat(t, {count}) AS t FROM s")
            assert isinstance(query, ps.Query)
            if fits:
                assert query.collect()["t"].to_pylist() == ["ä" * count, "b" * count]
            else:
                with pytest.raises(ps.RunError, match=f"{LIMIT + 2:,} bytes"):
                    query.collect()


def test_many_rows_are_computed_some_at_a_time() -> None:
    """No row is too large, but all intermediate values together are."""
    db = ps.connect()
    rows = [{"t": chr(97 + number % 26)} for number in range(1_000)]
    db.stream("s", rows, schema="t STRING")
    query = db.sql("SELECT length(repeat(t, 9000) || t) AS n, left(repeat(t, 9999), 2) AS t FROM s")
    found = query.collect()
    assert found["n"].to_pylist() == [9_001] * 1_000
    assert found["t"].to_pylist() == [2 * row["t"] for row in rows]


def test_a_column_of_a_batch_has_a_limit() -> None:
    db = ps.connect()
    db.stream("s", [{"t": "a"}] * 1_000, schema="t STRING")
    query = db.sql("SELECT repeat(t, 9999) AS t FROM s")
    with pytest.raises(ps.RunError, match="the values of one column take"):
        query.collect()
