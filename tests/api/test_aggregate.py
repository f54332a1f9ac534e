"""Aggregates written in Python."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps

ROWS = [{"t": 1, "x": 2.0, "k": "a"}, {"t": 2, "x": None, "k": "a"}, {"t": 13, "x": 4.0, "k": "b"}]


class SumOfSquares:
    def init(self) -> float:
        return 0.0

    def accumulate(self, state: float, *columns: pa.Array) -> float:
        (column,) = columns
        return state + (pc.sum(pc.multiply(column, column)).as_py() or 0)

    def merge(self, state: float, other: float) -> float:
        return state + other

    def finish(self, state: float) -> Any:
        return state


class Constant(SumOfSquares):
    def __init__(self, result: Any) -> None:
        self.result = result

    def accumulate(self, state: float, *columns: pa.Array) -> float:
        return state

    def finish(self, state: float) -> Any:
        return self.result


def database() -> ps.Database:
    db = ps.connect()
    db.stream("s", ROWS, progress=ps.progress("t", ordered=True))
    return db


def answers(db: ps.Database, call: str) -> list[Any]:
    query = db.sql(f"SELECT {call} AS answer [RANGE 10, SLIDE 10, WA t] FROM s")
    assert isinstance(query, ps.Query)
    return query.collect().column("answer").to_pylist()


def constant(result: Any, returns: str) -> Any:
    db = database()
    db.aggregate("f", Constant(result), returns=returns)
    return answers(db, "f(x)")[0]


def test_an_aggregate_in_a_query() -> None:
    db = database()
    db.aggregate("Squares", SumOfSquares(), returns="DOUBLE")
    assert answers(db, "squares(x)") == [4.0, 16.0]
    assert answers(db, "SQUARES(t)") == [5.0, 169.0]  # converted to the declared DOUBLE
    assert answers(db, "squares(x) + count(*)") == [6.0, 17.0]


def test_without_tuples_it_finishes_what_it_began() -> None:
    db = database()
    db.aggregate("squares", SumOfSquares(), returns="DOUBLE")
    assert answers(db, "squares(CAST(NULL AS DOUBLE))") == [0.0, 0.0]


def test_several_arguments() -> None:
    class Last(SumOfSquares):
        def accumulate(self, state: float, *columns: pa.Array) -> float:
            names, numbers = columns
            return float(len(names[0].as_py()) + numbers[-1].as_py())

    db = database()
    db.aggregate("last_of", Last(), returns="DOUBLE", arguments=("STRING", "BIGINT"))
    assert answers(db, "last_of(k, t)") == [3.0, 14.0]


@pytest.mark.parametrize(
    ("returns", "result"),
    [
        ("DOUBLE", 1.5),
        ("BIGINT", 2**40),
        ("STRING", "ü"),
        ("BOOLEAN", True),
        ("BINARY", b"\xff"),
        ("DECIMAL(5,2)", Decimal("1.50")),
        ("DOUBLE", None),
    ],
)
def test_results(returns: str, result: Any) -> None:
    assert constant(result, returns) == result


@pytest.mark.parametrize(
    ("returns", "result", "expected"),
    [
        ("TIMESTAMP", 1, datetime.datetime(1970, 1, 1, microsecond=1, tzinfo=datetime.UTC)),
        ("DATE", 1, datetime.date(1970, 1, 2)),
        ("DATE", datetime.date(1970, 1, 2), datetime.date(1970, 1, 2)),
    ],
)
def test_results_that_are_times(returns: str, result: Any, expected: Any) -> None:
    assert constant(result, returns) == expected


@pytest.mark.parametrize(
    ("returns", "result"), [("INT", 2**40), ("STRING", 5), ("DECIMAL(5,2)", Decimal("1.234"))]
)
def test_results_that_do_not_fit(returns: str, result: Any) -> None:
    with pytest.raises(ps.RunError, match="the aggregate f returned"):
        constant(result, returns)


def test_a_result_that_is_not_whole() -> None:
    with pytest.raises(ps.RunError, match="the aggregate f returned"):
        constant(1.5, "INT")


def test_without_arguments() -> None:
    db = database()
    db.aggregate("f", Constant(42.0), returns="DOUBLE", arguments=())
    assert answers(db, "f()") == [42.0, 42.0]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["init", "accumulate", "merge", "finish"])
def test_an_aggregate_that_is_not_complete(missing: str) -> None:
    methods = {"init", "accumulate", "merge", "finish"} - {missing}
    incomplete = type("Incomplete", (), dict.fromkeys(methods, lambda *_: None))()
    with pytest.raises(ps.BindError, match="is not an aggregate"):
        database().aggregate("f", incomplete, returns="DOUBLE")


@pytest.mark.parametrize("name", ["sum", "COUNT", "mean", "TopK"])
def test_names_that_are_built_in(name: str) -> None:
    with pytest.raises(ps.BindError, match=f"{name.lower()} is a built-in function"):
        database().aggregate(name, SumOfSquares(), returns="DOUBLE")


@pytest.mark.parametrize(
    ("returns", "arguments"),
    [("", ("DOUBLE",)), ("NUMBERS", ("DOUBLE",)), ("DOUBLE", ("DECIMAL(99,1)",))],
)
def test_types_that_do_not_exist(returns: str, arguments: Sequence[str]) -> None:
    db = database()
    with pytest.raises(ps.PenstockError):
        db.aggregate("f", SumOfSquares(), returns=returns, arguments=arguments)
    with pytest.raises(ps.BindError):
        answers(db, "f(x)")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("squares(k)", "argument 1 of squares is a STRING"),
        ("squares(x, x)", "squares does not take 2 arguments"),
        ("squares()", "squares does not take 0 arguments"),
        ("squares(*)", "only count takes"),
        ("square(x)", "square"),
    ],
)
def test_calls_that_do_not_fit(call: str, message: str) -> None:
    db = database()
    db.aggregate("squares", SumOfSquares(), returns="DOUBLE")
    with pytest.raises(ps.BindError, match=message):
        answers(db, call)


def test_another_database_does_not_know_it() -> None:
    database().aggregate("squares", SumOfSquares(), returns="DOUBLE")
    with pytest.raises(ps.BindError):
        answers(database(), "squares(x)")


def test_an_aggregate_that_fails_is_named() -> None:
    class Broken(SumOfSquares):
        def accumulate(self, state: float, *columns: pa.Array) -> float:
            raise KeyError("oops")

    db = database()
    db.aggregate("broken", Broken(), returns="DOUBLE")
    with pytest.raises(ps.RunError, match="the aggregate broken failed: KeyError: 'oops'"):
        answers(db, "broken(x)")
