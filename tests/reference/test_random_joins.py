"""Chains of joins with conditions anywhere, made at random, agree with DuckDB.

A window says how long tuples stay.  So whoever joins has to fit all relations before it whose
tuples are there in any case; those that may lack have no say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import Row, Stream, Table, bag, database, tuples

SCHEMA = "n INT, k STRING, x INT, t INT"
STAYS = {"a": 3, "b": 2, "c": 4}
KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
OVER_TABLES = ("JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN")
ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from(["u", "v", None]),
        st.sampled_from([None, -1, 0, 1]),
        st.integers(0, 12),
    ),
    max_size=7,
)


class Made(NamedTuple):
    """A query, the same for DuckDB, and which of a, b and c is a table."""

    sql: str
    same: str
    table: str | None


@st.composite
def conditions(draw: st.DrawFn, names: list[str]) -> str:
    """On some of the relations, on several or on one alone."""
    found = []
    for _ in range(draw(st.integers(0, 2))):
        one, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        found.append(
            draw(
                st.sampled_from(
                    [
                        f"{one}.k = {other}.k",
                        f"{one}.x <= {other}.x",
                        f"{one}.x > 0",
                        f"{one}.k IS NULL",
                        f"coalesce({one}.x, 0) = coalesce({other}.x, 0)",
                        f"({one}.n > 4 OR {other}.k = 'u')",
                    ]
                )
            )
        )
    return " AND ".join(found)


@st.composite
def queries(draw: st.DrawFn) -> Made:
    table = draw(st.sampled_from([None, None, "b", "c"]))
    visible, there = ["a"], ["a"]
    parts, same = ["a [RANGE 3]"], ["a"]
    for name in ("b", "c"):
        kind = draw(st.sampled_from(OVER_TABLES if name == table else KINDS))
        if not there:
            break
        on = draw(conditions([*visible, name])) or "TRUE"
        fits = "TRUE"
        if name != table:
            fits = " AND ".join(
                f"({name}.t - {one}.t <= {STAYS[one]} AND {one}.t - {name}.t <= {STAYS[name]})"
                for one in there
            )
        window = "" if name == table else f" [RANGE {STAYS[name]}]"
        parts.append(f"{kind} {name}{window} ON {on}")
        if kind in ("SEMI JOIN", "ANTI JOIN"):
            # DuckDB forgets which relation a column is of, so the question is asked in WHERE
            word = "" if kind == "SEMI JOIN" else "NOT "
            chosen = ", ".join(f"{one}.{c} AS {one}_{c}" for one in visible for c in "nkxt")
            inside = f"SELECT {chosen} FROM {' '.join(same)} WHERE {word}EXISTS "
            inside += f"(SELECT 1 FROM {name} WHERE {on} AND {fits})"
            same = [_unpacked(inside, visible)]
        else:
            same.append(f"{kind} {name} ON {on} AND {fits}")
            visible.append(name)
            if name != table:
                there = {"JOIN": [*there, name], "RIGHT JOIN": [name], "FULL JOIN": []}.get(
                    kind, there
                )
    columns = ", ".join(f"{name}.n AS {name}" for name in visible)
    where = draw(conditions(visible))
    where = f" WHERE {where}" if where else ""
    windowed = sum("[RANGE" in part for part in parts) > 1
    if not windowed:
        parts[0] = "a"
    return Made(
        f"SELECT {columns} FROM {' '.join(parts)}{where}",
        f"SELECT {columns} FROM {' '.join(same)}{where}",
        table,
    )


def _unpacked(inside: str, visible: list[str]) -> str:
    """A sub-query that has the same relations again, as structures."""
    structs = ", ".join(
        f"{{'n': {one}_n, 'k': {one}_k, 'x': {one}_x, 't': {one}_t}} AS {one}" for one in visible
    )
    return f"(SELECT {structs} FROM ({inside}))"


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for name in "abc":
            made.execute(f"CREATE TABLE {name} ({SCHEMA})")
        yield made


@settings(deadline=None, max_examples=150)
@given(made=queries(), a=ROWS, b=ROWS, c=ROWS)
def test_chains_agree(
    connection: duckdb.DuckDBPyConnection, made: Made, a: list[Row], b: list[Row], c: list[Row]
) -> None:
    promise = ps.progress("t", ordered=True)
    given_: dict[str, Any] = {}
    for name, rows in (("a", a), ("b", b), ("c", c)):
        connection.execute(f"DELETE FROM {name}")
        for row in rows:
            connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", list(row))
        is_table = name == made.table
        given_[name] = Table(SCHEMA, rows) if is_table else Stream(SCHEMA, rows, promise)
    query = database(**given_).sql(f"{made.sql} LATE AMEND")
    assert isinstance(query, ps.Query)
    expected = connection.execute(made.same).fetchall()
    assert bag(tuples(query.collect())) == bag(expected), made.same
