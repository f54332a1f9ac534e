"""Scalar functions of the user's, on Arrow columns and by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps

ROWS = [{"s": "abca", "x": 3}, {"s": None, "x": 4}, {"s": "", "x": None}]


@pytest.fixture(params=["reference", "local"])
def db(request: pytest.FixtureRequest) -> ps.Database:
    made = ps.connect(request.param)
    made.stream("s", ROWS)
    return made


def answers(db: ps.Database, expression: str) -> list[Any]:
    query = db.sql(f"SELECT {expression} AS a FROM s")
    assert isinstance(query, ps.Query)
    return query.collect()["a"].to_pylist()


def test_by_row(db: ps.Database) -> None:
    db.function("count_char", str.count, args=["STRING", "STRING"], returns="INT", by_row=True)
    assert answers(db, "COUNT_CHAR(s, 'a')") == [2, None, 0]
    assert answers(db, "count_char('banana', 'a')") == [3, 3, 3]
    assert answers(db, "count_char(s, NULL)") == [None, None, None]


@pytest.mark.parametrize(
    "double",
    [
        lambda x: pc.multiply(x, 2),
        lambda x: x.to_numpy(zero_copy_only=False) * 2,
        lambda x: [2 * each for each in x.to_pylist()],
        lambda x: pa.chunked_array([pc.multiply(x, 2).cast(pa.float64())]),
    ],
)
def test_on_columns(db: ps.Database, double: Callable[[pa.Array], Any]) -> None:
    db.function("double", double, args=["BIGINT"], returns="BIGINT")
    assert answers(db, "double(x) + 1") == [7, 9, None]
    assert answers(db, "double(7)") == [14, 14, 14]


def test_nulls_if_asked_for(db: ps.Database) -> None:
    db.function("known", pc.is_valid, returns="BOOLEAN", nulls=True)
    assert answers(db, "known(s)") == [True, False, True]
    assert answers(db, "known(NULL)") == [False] * 3
    db.function("none", lambda: None, args=[], returns="STRING", by_row=True)
    assert answers(db, "none()") == [None] * 3


def test_in_every_clause(db: ps.Database) -> None:
    db.function("parity", lambda x: pc.bit_wise_and(x, 1), args=["BIGINT"], returns="BIGINT")
    rows = [{"x": each, "t": each} for each in (1, 2, 4, 6, 3, 5)]
    db.stream("numbers", rows, progress=ps.progress("t", delay=9))
    query = db.sql(
        "SELECT parity(x) AS p, count(*) FILTER (WHERE parity(x) = 1) AS odd, max(parity(x)) AS m"
        " [RANGE 10, SLIDE 10, WA t] FROM numbers WHERE parity(x) >= 0 GROUP BY parity(x)"
        " HAVING parity(count(*)) = 1"
    )
    assert isinstance(query, ps.Query)
    rows = query.collect().sort_by("p").to_pylist()
    assert [(row["p"], row["odd"], row["m"]) for row in rows] == [(0, 0, 0), (1, 3, 1)]


def test_case_asks_only_where_it_must(db: ps.Database) -> None:
    def above_zero(value: int) -> int:
        if value == 4:
            raise ValueError("four")
        return value

    db.function("above_zero", above_zero, args=["BIGINT"], returns="BIGINT", by_row=True)
    assert answers(db, "CASE WHEN x = 4 THEN 0 ELSE above_zero(x) END") == [3, 0, None]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: 1 // 0, "the function f failed: ZeroDivisionError"),
        (lambda x: "text", "the function f gave str and no column, not a BIGINT"),
        (lambda x: ["text"] * len(x), "the function f gave values such as 'text', not a BIGINT"),
        (lambda x: np.array([]), "gave 0 values for"),
    ],
)
def test_errors_point_at_the_call(
    db: ps.Database, function: Callable[[Any], Any], message: str
) -> None:
    db.function("f", function, args=["BIGINT"], returns="BIGINT")
    with pytest.raises(ps.RunError) as caught:
        answers(db, "1 + f(x)")
    assert message in str(caught.value)
    assert "SELECT 1 + f(x)" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("f(s)", "argument 1 of f is a STRING"),
        ("f()", "f does not take 0 arguments"),
        ("f(DISTINCT x)", "f is not an aggregate"),
        ("g(x)", "there is no function called 'g'"),
    ],
)
def test_calls_that_do_not_fit(db: ps.Database, call: str, message: str) -> None:
    db.function("f", abs, args=["BIGINT"], returns="BIGINT", by_row=True)
    with pytest.raises(ps.BindError) as caught:
        answers(db, call)
    assert message in str(caught.value)


def test_names_are_taken_once(db: ps.Database) -> None:
    db.function("f", abs, returns="BIGINT")
    for name in ("F", "upper", "sum", "to_char"):
        with pytest.raises(ps.BindError):
            db.function(name, abs, returns="BIGINT")
    with pytest.raises(ps.BindError, match="is not the name of a function"):
        db.function("f(x)", abs, returns="BIGINT")
    with pytest.raises(ps.BindError, match="a list of types"):
        db.function("g", abs, args="BIGINT", returns="BIGINT")
    with pytest.raises(ps.BindError, match="is not a function"):
        db.function("g", 3, returns="BIGINT")  # type: ignore[arg-type]
