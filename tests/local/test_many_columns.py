"""What a run costs grows with the number of columns, and not with its square."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from tests.counting import calls_of

ROWS = 60
WINDOW = "[RANGE 10, SLIDE 5, WA t]"


def asked(columns: int, queries: Callable[[int], str]) -> ps.Query:
    chance = np.random.default_rng(columns)
    wide = {f"c{number}": chance.integers(0, 9, ROWS) for number in range(columns)}
    db = ps.connect("local")
    db.stream("s", pa.table({**wide, "t": np.arange(ROWS)}), progress=ps.progress("t", delay=3))
    query = db.sql(queries(columns))
    assert isinstance(query, ps.Query)
    return query


def each(columns: int, form: str) -> str:
    return ", ".join(form.format(number) for number in range(columns))


@pytest.mark.parametrize(
    "queries",
    [
        lambda n: "SELECT * FROM s",
        lambda n: "SELECT * FROM s UNION ALL SELECT * FROM s EMIT IN ORDER",
        lambda n: f"SELECT {each(n, 'c{0} + 1 AS d{0}')} FROM s WHERE c1 > 3",
        lambda n: f"SELECT DISTINCT {each(n, 'c{0}')}, t FROM s",
        lambda n: f"SELECT {each(n, 'sum(c{0}) AS d{0}')} {WINDOW} FROM s",
        lambda n: f"SELECT {each(n, 'max(c{0}) AS d{0}')} {WINDOW} FROM s LATE AMEND FOR 10",
        lambda n: f"SELECT count(*) AS n {WINDOW} FROM s GROUP BY {each(n, 'c{0}')} LATE SIDE",
        lambda n: f"SELECT t, {each(n, 'sum(c{0}) AS d{0}')} FROM s GROUP BY t",
        lambda n: f"SELECT {each(n, 'sum(c{0}) AS d{0}')} [RANGE 9, SLIDE 2 ROWS, WA t] FROM s",
        lambda n: f"SELECT {each(n, 'min(c{0}) AS d{0}')} [RANGE 9 ROWS, SLIDE 2 ROWS] FROM s",
    ],
    ids=[
        *("all", "united", "computed", "distinct", "sums", "revised", "keys", "groups"),
        *("slide_by_tuple", "rows"),
    ],
)
def test_columns_cost_the_same_each(queries: Callable[[int], str]) -> None:
    asked(10, queries).collect()  # whatever is made once
    few, many = (calls_of(asked(n, queries).collect) for n in (100, 400))
    assert many < 5 * few


def test_four_thousand() -> None:
    count = 4_000
    query = asked(count, lambda n: f"SELECT {each(n, 'sum(c{0}) AS d{0}')} {WINDOW} FROM s")
    rows = query.collect()
    assert rows.num_columns == count + 2
    given = asked(count, lambda _: "SELECT * FROM s WHERE t >= 30 AND t < 40").collect()
    (row,) = (each for each in rows.to_pylist() if each["window_end"] == 40)
    for number in (0, 1, count - 1):
        assert row[f"d{number}"] == sum(given[f"c{number}"].to_pylist())
