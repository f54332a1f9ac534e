"""Joins of every kind, sub-queries and look-ups agree with SQL that DuckDB runs over the same rows.

Windows are conditions on times there.  Keys, values and times repeat, keys and values are NULL now
and then, and nothing is late.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from tests.reference.helpers import Row, Stream, Table, bag, database, tuples

SIZE = 18
SEEDS = range(3)
SCHEMA = "n INT, k STRING, x INT, t INT"


class Case(NamedTuple):
    """What Penstock is asked, and the same for DuckDB."""

    sql: str
    same: str
    tables: str = ""  # the names of those that are tables


def within(one: str, other: str, one_stays: int, other_stays: int) -> str:
    """Decision 7: the window on a stream bounds the age of that stream's tuples."""
    return f"({other}.t - {one}.t <= {one_stays} AND {one}.t - {other}.t <= {other_stays})"


AB, AC, BC = within("a", "b", 3, 2), within("a", "c", 3, 4), within("b", "c", 2, 4)
WINDOWS = "a [RANGE 3]", "b [RANGE 2]", "c [RANGE 4]"
A, B, C = WINDOWS
BAND = "b.t BETWEEN a.t - 2 AND a.t + 3"
PAIR = "a.n, a.k, b.n, b.x"


def on_windows(kind: str, on: str = "a.k = b.k", columns: str = PAIR, where: str = "") -> Case:
    sql = f"SELECT {columns} FROM {A} {kind} JOIN {B} ON {on} {where}"
    return Case(sql, f"SELECT {columns} FROM a {kind} JOIN b ON ({on}) AND {AB} {where}")


def on_band(kind: str, columns: str = PAIR, more: str = "a.k = b.k") -> Case:
    sql = f"SELECT {columns} FROM a {kind} JOIN b ON {more} AND {BAND}"
    return Case(sql, sql)


CASES = {
    # the condition of ON on one side, and WHERE above
    **{f"{kind} on windows": on_windows(kind) for kind in ("INNER", "LEFT", "RIGHT", "FULL")},
    **{f"{kind} on a band": on_band(kind) for kind in ("INNER", "LEFT", "RIGHT", "FULL")},
    **{
        f"{kind}, ON on the {side}": on_windows(kind, f"a.k = b.k AND {side}.x > 0")
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
        for side in "ab"
    },
    **{
        f"{kind} WHERE {where}": on_windows(kind, where=f"WHERE {where}")
        for kind in ("LEFT", "RIGHT", "FULL")
        for where in ("b.x > 0", "a.x > 0", "coalesce(b.n, a.n) = 3", "coalesce(b.x, 0) = 0")
    },
    "no equality": on_windows("LEFT", "a.x < b.x"),
    "a condition that is never known": on_windows("FULL", "a.k = NULL"),
    "ON TRUE": on_windows("FULL", "TRUE"),
    "an empty band": Case(
        "SELECT a.n, b.n FROM a LEFT JOIN b ON b.t BETWEEN a.t + 2 AND a.t - 2",
        "SELECT a.n, b.n FROM a LEFT JOIN b ON b.t BETWEEN a.t + 2 AND a.t - 2",
    ),
    "nothing in an empty band": Case(
        "SELECT a.n, b.n FROM a JOIN b ON a.k = b.k AND b.t > a.t AND b.t < a.t + 1",
        "SELECT a.n, b.n FROM a JOIN b ON a.k = b.k AND b.t > a.t AND b.t < a.t + 1",
    ),
    "tumbling": Case(
        "SELECT a.n, b.n FROM a [RANGE TUMBLING 5] FULL JOIN b ON a.k = b.k",
        "SELECT a.n, b.n FROM a FULL JOIN b ON a.k = b.k AND floor(a.t / 5) = floor(b.t / 5)",
    ),
    # semi and anti joins
    **{f"{kind} on windows": on_windows(kind, columns="a.n, a.k") for kind in ("SEMI", "ANTI")},
    **{f"{kind} on a band": on_band(kind, "a.n, a.k") for kind in ("SEMI", "ANTI")},
    **{
        f"{kind}, ON on the {side}": on_windows(kind, f"a.k = b.k AND {side}.x > 0", "a.n")
        for kind in ("SEMI", "ANTI")
        for side in "ab"
    },
    # chains
    "inner, then left": Case(
        f"SELECT a.n, b.n, c.n FROM {A} JOIN {B} ON a.k = b.k LEFT JOIN {C} ON b.k = c.k",
        f"""SELECT a.n, b.n, c.n FROM a JOIN b ON a.k = b.k AND {AB}
            LEFT JOIN c ON b.k = c.k AND {AC} AND {BC}""",
    ),
    "left, then left": Case(
        f"SELECT a.n, b.n, c.n FROM {A} LEFT JOIN {B} ON a.k = b.k LEFT JOIN {C} ON a.x = c.x",
        f"""SELECT a.n, b.n, c.n FROM a LEFT JOIN b ON a.k = b.k AND {AB}
            LEFT JOIN c ON a.x = c.x AND {AC}""",
    ),
    "left, then inner": Case(
        f"SELECT a.n, b.n, c.n FROM {A} LEFT JOIN {B} ON a.k = b.k JOIN {C} ON a.x = c.x",
        f"""SELECT a.n, b.n, c.n FROM a LEFT JOIN b ON a.k = b.k AND {AB}
            JOIN c ON a.x = c.x AND {AC}""",
    ),
    "right, then left": Case(
        f"SELECT a.n, b.n, c.n FROM {A} RIGHT JOIN {B} ON a.k = b.k LEFT JOIN {C} ON b.x = c.x",
        f"""SELECT a.n, b.n, c.n FROM a RIGHT JOIN b ON a.k = b.k AND {AB}
            LEFT JOIN c ON b.x = c.x AND {BC}""",
    ),
    "anti, then left": Case(
        f"SELECT a.n, c.n FROM {A} ANTI JOIN {B} ON a.k = b.k LEFT JOIN {C} ON a.x = c.x",
        f"""SELECT a.n, c.n FROM (SELECT * FROM a ANTI JOIN b ON a.k = b.k AND {AB}) AS a
            LEFT JOIN c ON a.x = c.x AND {AC}""",
    ),
    "a comma before an outer join": Case(
        f"SELECT a.n, b.n, c.n FROM {A}, {B} RIGHT JOIN {C} ON b.k = c.k WHERE a.k = c.k",
        f"""SELECT a.n, b.n, c.n FROM a, b RIGHT JOIN c ON b.k = c.k AND {BC}
            WHERE a.k = c.k AND {AC}""",
    ),
    "bands of a chain in WHERE": Case(
        """SELECT a.n, b.n, c.n FROM a JOIN b ON a.k = b.k
           LEFT JOIN c ON c.t BETWEEN b.t AND b.t + 2 WHERE b.t BETWEEN a.t - 1 AND a.t + 3""",
        """SELECT a.n, b.n, c.n FROM a JOIN b ON a.k = b.k
           LEFT JOIN c ON c.t BETWEEN b.t AND b.t + 2 WHERE b.t BETWEEN a.t - 1 AND a.t + 3""",
    ),
    "bands on either side of a pair": Case(
        """SELECT a.n, b.n, c.n, d.n FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t AND a.t + 2
           LEFT JOIN c ON c.t BETWEEN b.t AND b.t + 2
           LEFT JOIN a AS d ON d.t = a.t AND d.x = b.x""",
        """SELECT a.n, b.n, c.n, d.n FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t AND a.t + 2
           LEFT JOIN c ON c.t BETWEEN b.t AND b.t + 2
           LEFT JOIN a AS d ON d.t = a.t AND d.x = b.x""",
    ),
    "a window beside a band": Case(
        f"""SELECT a.n, b.n, c.n FROM {A} LEFT JOIN {B} ON a.k = b.k
            LEFT JOIN c ON c.t BETWEEN a.t AND a.t + 2 AND c.k = a.k""",
        f"""SELECT a.n, b.n, c.n FROM a LEFT JOIN b ON a.k = b.k AND {AB}
            LEFT JOIN c ON c.t BETWEEN a.t AND a.t + 2 AND c.k = a.k""",
    ),
    # sub-queries
    **{
        f"{word} EXISTS": Case(
            f"SELECT a.n FROM {A} WHERE {word} EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k)",
            f"SELECT a.n FROM a WHERE {word} EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND {AB})",
        )
        for word in ("", "NOT")
    },
    **{
        f"{word} EXISTS by a band": Case(
            f"SELECT n FROM a WHERE {word} EXISTS (SELECT * FROM b WHERE k = a.k AND {BAND})",
            f"SELECT n FROM a WHERE {word} EXISTS (SELECT * FROM b WHERE k = a.k AND {BAND})",
        )
        for word in ("", "NOT")
    },
    **{
        f"{word} IN": Case(
            f"SELECT n FROM {A} WHERE x {word} IN (SELECT x FROM {B})",
            f"SELECT n FROM a WHERE x {word} IN (SELECT x FROM b WHERE {AB})",
        )
        for word in ("", "NOT")
    },
    **{
        f"{word} IN with a condition": Case(
            f"SELECT n FROM {A} WHERE x + 1 {word} IN (SELECT x FROM {B} WHERE b.k = a.k)",
            f"SELECT n FROM a WHERE x + 1 {word} IN (SELECT x FROM b WHERE b.k = a.k AND {AB})",
        )
        for word in ("", "NOT")
    },
    **{
        f"{word} IN without NULLs": Case(
            f"SELECT n FROM {A} WHERE x {word} IN (SELECT x FROM {B} WHERE x IS NOT NULL)",
            f"SELECT n FROM a WHERE x {word} IN (SELECT x FROM b WHERE x IS NOT NULL AND {AB})",
        )
        for word in ("", "NOT")
    },
    "IN over the stream itself": Case(
        "SELECT n FROM a [RANGE 3] WHERE x IN (SELECT x + 1 FROM a [RANGE 2])",
        f"""SELECT n FROM a WHERE x IN
            (SELECT b.x + 1 FROM a AS b WHERE {AB})""",
    ),
    "a condition on the outer tuple": Case(
        f"SELECT n FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k AND a.x > 0)",
        f"SELECT n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND a.x > 0 AND {AB})",
    ),
    "several sub-queries": Case(
        f"""SELECT n FROM {A} WHERE x >= 0 AND EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k)
            AND (x NOT IN (SELECT x FROM {C} WHERE x IS NOT NULL) AND k IS NOT NULL)""",
        f"""SELECT n FROM a WHERE x >= 0 AND EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND {AB})
            AND (x NOT IN (SELECT x FROM c WHERE x IS NOT NULL AND {AC}) AND k IS NOT NULL)""",
    ),
    "a join in the sub-query": Case(
        f"""SELECT n FROM {A} WHERE EXISTS
            (SELECT 1 FROM {B} JOIN {C} ON b.x = c.x WHERE b.k = a.k)""",
        f"""SELECT n FROM a WHERE EXISTS
            (SELECT 1 FROM b JOIN c ON b.x = c.x WHERE b.k = a.k AND {AB} AND {AC} AND {BC})""",
    ),
    "a sub-query in a sub-query": Case(
        f"""SELECT n FROM {A} WHERE EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k AND NOT EXISTS
            (SELECT 1 FROM {C} WHERE c.x = b.x))""",
        f"""SELECT n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND {AB} AND NOT EXISTS
            (SELECT 1 FROM c WHERE c.x = b.x AND {BC}))""",
    ),
    "a sub-query over a join": Case(
        f"""SELECT a.n, b.n FROM {A} JOIN {B} ON a.k = b.k
            WHERE NOT EXISTS (SELECT 1 FROM {C} WHERE c.x = a.x)""",
        f"""SELECT a.n, b.n FROM a JOIN b ON a.k = b.k AND {AB}
            WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.x = a.x AND {AC} AND {BC})""",
    ),
}


def on_tables(sql: str, tables: str) -> Case:
    return Case(sql, sql, tables)


CASES |= {
    "a table": on_tables("SELECT a.n, b.n FROM a JOIN b ON a.k = b.k", "b"),
    "a table on the left": on_tables(
        "SELECT a.n, b.n FROM b JOIN a ON a.k = b.k AND a.x < b.x", "b"
    ),
    "a table beside which tuples stay": on_tables(
        "SELECT a.n, b.n FROM a LEFT JOIN b ON a.k = b.k AND a.x > 0 AND b.x > 0", "b"
    ),
    "the same turned round": on_tables("SELECT a.n, b.n FROM b RIGHT JOIN a ON a.x = b.x", "b"),
    "a table and no equality": on_tables("SELECT a.n, b.n FROM a LEFT JOIN b ON a.x < b.x", "b"),
    "all rows of a table": on_tables("SELECT a.n, b.n FROM a CROSS JOIN b", "b"),
    **{
        f"{kind} with a table": on_tables(f"SELECT a.n FROM a {kind} JOIN b ON a.x = b.x", "b")
        for kind in ("SEMI", "ANTI")
    },
    **{
        f"{word} IN a table": on_tables(
            f"SELECT n FROM a WHERE x {word} IN (SELECT x FROM b WHERE n < 4)", "b"
        )
        for word in ("", "NOT")
    },
    "NOT IN a table without NULLs": on_tables(
        "SELECT n FROM a WHERE x NOT IN (SELECT x - 1 FROM b WHERE x > 0 AND b.k = a.k)", "b"
    ),
    "NOT EXISTS in a table": on_tables(
        "SELECT n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.x = a.x)", "b"
    ),
    "two tables": on_tables(
        "SELECT a.n, b.n, c.n FROM c, a, b WHERE a.k = b.k AND b.x = c.x AND c.n > 3", "bc"
    ),
    "one table after the other": on_tables(
        "SELECT a.n, b.n, c.n FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.x = c.x", "bc"
    ),
    "a table in a table": on_tables("SELECT a.n, b.n FROM a LEFT JOIN b ON a.x = b.x", "ab"),
    "a part of a table": on_tables(
        "SELECT a.n, d.n FROM a JOIN (SELECT n, x + 1 AS y FROM b WHERE k = 'u') AS d ON a.x = d.y",
        "b",
    ),
    "a table between streams": Case(
        f"SELECT a.n, b.n, c.n FROM {A} JOIN {B} ON a.k = b.k JOIN c ON a.x = c.x AND b.n <> c.n",
        f"""SELECT a.n, b.n, c.n FROM a JOIN b ON a.k = b.k AND {AB}
            JOIN c ON a.x = c.x AND b.n <> c.n""",
        "c",
    ),
    "a table, then a stream": Case(
        f"SELECT a.n, b.n, c.n FROM {A} LEFT JOIN c ON a.x = c.x JOIN {B} ON b.k = c.k",
        f"SELECT a.n, b.n, c.n FROM a LEFT JOIN c ON a.x = c.x JOIN b ON b.k = c.k AND {AB}",
        "c",
    ),
    "a table in a sub-query beside a stream": Case(
        f"""SELECT n FROM {A} WHERE EXISTS
            (SELECT 1 FROM {B} JOIN c ON b.x = c.x WHERE b.k = a.k AND c.n > a.n)""",
        f"""SELECT n FROM a WHERE EXISTS
            (SELECT 1 FROM b JOIN c ON b.x = c.x WHERE b.k = a.k AND c.n > a.n AND {AB})""",
        "c",
    ),
    # the last word before
    "as of": Case(
        "SELECT a.n, b.n FROM a JOIN b AS OF a.t ON a.k = b.k",
        "SELECT a.n, b.n FROM a ASOF JOIN latest AS b ON a.k = b.k AND b.t <= a.t",
    ),
    "as of, where nothing was said": Case(
        "SELECT a.n, b.n FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.t ON a.k = b.k WHERE a.x > 0",
        "SELECT a.n, b.n FROM a ASOF LEFT JOIN latest AS b ON a.k = b.k AND b.t <= a.t "
        "WHERE a.x > 0",
    ),
    "as of, under a condition": Case(
        "SELECT a.n, b.n FROM a LEFT JOIN b AS OF a.t ON a.k = b.k AND b.x > 0",
        "SELECT a.n, b.n FROM a ASOF LEFT JOIN large AS b ON a.k = b.k AND b.t <= a.t",
    ),
    "as of a join": Case(
        f"SELECT a.n, b.n, c.n FROM {A} JOIN {B} ON a.k = b.k LEFT JOIN c AS OF b.t ON a.k = c.k",
        f"""SELECT ab.a, ab.b, c.n
            FROM (SELECT a.n AS a, b.n AS b, a.k, b.t FROM a JOIN b ON a.k = b.k AND {AB}) AS ab
            ASOF LEFT JOIN latest_c AS c ON ab.k = c.k AND c.t <= ab.t""",
    ),
}


def random_rows(seed: int) -> dict[str, list[Row]]:
    """Rows (n, k, x, t): n says which row it is."""
    rng = np.random.default_rng(seed)

    def rows() -> list[Row]:
        keys = rng.choice(["u", "v", None], SIZE).tolist()
        values = [None if each > 2 else each for each in rng.integers(-1, 4, SIZE).tolist()]
        times = rng.integers(-9, 12, SIZE).tolist()
        return list(zip(range(SIZE), keys, values, times, strict=True))

    return {name: rows() for name in "abc"}


def in_duckdb(same: str, rows: dict[str, list[Row]]) -> list[Row]:
    types = [("n", pa.int32()), ("k", pa.string()), ("x", pa.int32()), ("t", pa.int32())]
    with duckdb.connect() as connection:
        for name, each in rows.items():
            columns = zip(*each, strict=True)
            made = {name: pa.array(c, of) for c, (name, of) in zip(columns, types, strict=True)}
            connection.register(name, pa.table(made))
        # of what is said at one time, the greatest counts
        views = {"latest": "b", "latest_c": "c", "large": "b WHERE x > 0"}
        for name, of in views.items():
            connection.execute(
                f"CREATE VIEW {name} AS SELECT * FROM {of} QUALIFY "
                "row_number() OVER (PARTITION BY k, t ORDER BY n DESC) = 1"
            )
        return bag(connection.execute(same).fetchall())


def in_penstock(case: Case, rows: dict[str, list[Row]]) -> list[Row]:
    promise = ps.progress("t", ordered=True)
    given: dict[str, Any] = {
        name: Table(SCHEMA, each) if name in case.tables else Stream(SCHEMA, each, promise)
        for name, each in rows.items()
    }
    query = database(**given).sql(f"{case.sql} LATE AMEND")
    assert isinstance(query, ps.Query)
    return bag(tuples(query.collect()))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_joins_agree(name: str, seed: int) -> None:
    case, rows = CASES[name], random_rows(seed)
    assert in_penstock(case, rows) == in_duckdb(case.same, rows)


@pytest.mark.parametrize("name", CASES)
def test_some_rows_come_out(name: str) -> None:
    """What gives nothing at all agrees with everything."""
    found = [in_penstock(CASES[name], random_rows(seed)) for seed in SEEDS]
    assert any(found) or name == "nothing in an empty band"
