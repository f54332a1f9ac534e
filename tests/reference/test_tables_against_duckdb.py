"""Whatever is asked of tables alone has the answer that DuckDB gives: generated queries over small
tables, on both engines in this process, and joined with a stream.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

KEYS = st.sampled_from(["p", "q", "r", None])
NUMBERS = st.one_of(st.none(), st.integers(-2, 4))
ROWS = st.lists(st.tuples(KEYS, NUMBERS, NUMBERS), max_size=6)
Rows = list[tuple[Any, ...]]


@st.composite
def comparisons(draw: st.DrawFn, of: str) -> str:
    column = draw(st.sampled_from([f"{of}.x", f"{of}.y"]))
    symbol = draw(st.sampled_from(["=", "<", ">=", "<>"]))
    return f"{column} {symbol} {draw(st.one_of(st.integers(-1, 3), values()))}"


@st.composite
def values(draw: st.DrawFn) -> str:
    """A query that stands for a value; an aggregate has one row, and so has the first of several.

    A table may be empty, and a group may not be there: then it is NULL."""
    call = draw(st.sampled_from(["max(x)", "min(y)", "count(*)", "count(x)", "sum(y)"]))
    table = draw(st.sampled_from(["t", "u"]))
    where = draw(st.sampled_from(["", " WHERE k = 'p'", " WHERE x > 2 AND y > 2"]))
    if draw(st.booleans()):
        return f"(SELECT {call} FROM {table}{where})"
    order = "ORDER BY x NULLS LAST, y NULLS LAST, k NULLS LAST LIMIT 1"
    return f"(SELECT x FROM {table}{where} {order})"


@st.composite
def sets_of_values(draw: st.DrawFn) -> str:
    """A query for IN, with one column of numbers."""
    table = draw(st.sampled_from(["t", "u"]))
    return draw(
        st.sampled_from(
            [
                f"SELECT x FROM {table}",
                f"SELECT DISTINCT y FROM {table}",
                f"SELECT max(x) FROM {table} GROUP BY k HAVING count(*) > 1",
                f"SELECT x FROM {table} WHERE x IS NOT NULL ORDER BY x DESC NULLS LAST LIMIT 2",
                f"SELECT x FROM {table} EXCEPT SELECT y FROM u",
                "SELECT x FROM t UNION SELECT y FROM u",
            ]
        )
    )


@st.composite
def conditions(draw: st.DrawFn, of: str) -> str:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return ""
    if kind == 1:
        negated = draw(st.sampled_from(["", "NOT "]))
        return f" WHERE {of}.x {negated}IN ({draw(sets_of_values())})"
    if kind == 2:
        negated = draw(st.sampled_from(["", "NOT "]))
        group = draw(st.sampled_from(["", " GROUP BY k"]))
        where = draw(st.sampled_from([" WHERE x > 2", ""]))
        return f" WHERE {negated}EXISTS (SELECT max(y) FROM u{where}{group})"
    found = [draw(comparisons(of)) for _ in range(draw(st.integers(1, 2)))]
    return f" WHERE {draw(st.sampled_from([' AND ', ' OR '])).join(found)}"


@st.composite
def relations(draw: st.DrawFn, depth: int) -> str:
    """What stands in FROM, with the columns k, x and y, called a."""
    if depth and draw(st.booleans()):
        return f"({draw(blocks(depth - 1))}) AS a (k, x, y)"
    return f"{draw(st.sampled_from('tu'))} AS a"


@st.composite
def blocks(draw: st.DrawFn, depth: int = 2) -> str:
    """A query with three columns: a text and two numbers."""
    made = draw(st.integers(0, 5))
    of = draw(relations(depth))
    where = draw(conditions("a"))
    if made == 0:
        return f"SELECT a.k, a.x, a.y FROM {of}{where}"
    if made == 1:
        call = draw(st.sampled_from(["count(*)", "sum(a.x)", "count(DISTINCT a.y)"]))
        having = draw(st.sampled_from(["", " HAVING count(*) > 1", f" HAVING min(a.x) < {VALUE}"]))
        key = draw(st.sampled_from(["a.k", "a.k, a.x", "ROLLUP(a.k)"]))
        return f"SELECT a.k, {call} AS x, max(a.y) AS y FROM {of}{where} GROUP BY {key}{having}"
    if made == 2:
        kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
        on = draw(st.sampled_from(["a.k = b.k", "a.x = b.x AND b.y > 0", "a.x < b.y"]))
        other = f"({draw(blocks(depth - 1))}) AS b (k, x, y)" if depth else "u AS b"
        return f"SELECT a.k, b.x, a.y FROM {of} {kind} {other} ON {on}"
    if made == 3:
        word = draw(st.sampled_from(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]))
        other = draw(relations(depth))
        left = f"SELECT a.k, a.x, a.y FROM {of}{where}"
        return f"{left} {word} SELECT a.k, a.y, a.x FROM {other}"
    if made == 4:
        order = "ORDER BY a.x NULLS LAST, a.y NULLS FIRST, a.k NULLS LAST"
        call = draw(
            st.sampled_from(
                [
                    f"row_number() OVER (PARTITION BY a.k {order})",
                    f"count(a.x) OVER (PARTITION BY a.k {order} ROWS UNBOUNDED PRECEDING)",
                    f"lag(a.y) OVER ({order})",
                ]
            )
        )
        return f"SELECT a.k, {call} AS x, a.y FROM {of}{where}"
    distinct = draw(st.sampled_from(["", "DISTINCT "]))
    columns = f"a.k, a.x, {draw(values())} AS y"
    return f"SELECT {distinct}{columns} FROM {of}{where}"


VALUE = "(SELECT max(y) FROM u)"


@st.composite
def queries(draw: st.DrawFn) -> str:
    inside = draw(blocks())
    descending = draw(st.sampled_from(["", " DESC"]))
    nulls = draw(st.sampled_from(["FIRST", "LAST"]))
    order = f"ORDER BY 2{descending} NULLS {nulls}, 1 NULLS LAST, 3 NULLS FIRST"
    limit = draw(st.sampled_from(["", " LIMIT 3", " LIMIT 2 OFFSET 1"]))
    return f"SELECT q.k, q.x, q.y FROM ({inside}) AS q (k, x, y) {order}{limit}"


def table(rows: Rows) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.string(), pa.int32(), pa.int32())
    arrays = [pa.array(list(each), kind) for each, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, ["k", "x", "y"])


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(int(each) if isinstance(each, Decimal) else each for each in row)


def by_duckdb(sql: str, tables: dict[str, pa.Table]) -> Rows:
    with duckdb.connect() as connection:
        for name, each in tables.items():
            connection.register(name, each)
        return [plain(row) for row in connection.execute(sql).fetchall()]


def by_penstock(engine: str, sql: str, tables: dict[str, pa.Table]) -> Rows:
    db = ps.connect(engine)
    for name, each in tables.items():
        if name == "s":
            db.stream(name, each, progress=ps.progress("ts", ordered=True))
        else:
            db.table(name, each)
    return [plain(tuple(row.values())) for row in db.sql(sql).collect().to_pylist()]


@pytest.mark.parametrize("engine", ["local", "reference"])
@settings(max_examples=60)
@given(sql=queries(), t=ROWS, u=ROWS)
def test_a_query_over_tables(engine: str, sql: str, t: Rows, u: Rows) -> None:
    tables = {"t": table(t), "u": table(u)}
    assert by_penstock(engine, sql, tables) == by_duckdb(sql, tables)


@settings(max_examples=25)
@given(inside=blocks(), t=ROWS, u=ROWS)
def test_a_stream_is_looked_up_in_it(inside: str, t: Rows, u: Rows) -> None:
    stream = table([("p", 1, 0), ("q", None, 2), (None, 2, 1), ("p", 3, 2)])
    tables = {"t": table(t), "u": table(u), "s": stream.append_column("ts", [[1, 2, 3, 4]])}
    sql = f"""SELECT s.ts, s.k, q.x, q.y FROM s LEFT JOIN ({inside}) AS q (k, x, y)
      ON s.k = q.k WHERE s.x > {VALUE} OR s.y < 2"""
    expected = Counter(by_duckdb(sql, tables))
    for engine in ("local", "reference"):
        assert Counter(by_penstock(engine, sql, tables)) == expected
