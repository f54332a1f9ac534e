"""`:name` in SQL: values that are handed in beside the text, and never become text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from tests.waiting import LONGEST

ROWS = [{"k": "a", "t": 1}, {"k": "it's", "t": 3}, {"k": "a", "t": 12}]


def database() -> ps.Database:
    db = ps.connect()
    db.stream("s", ROWS, progress=ps.progress("t", delay=20))
    return db


def rows(db: ps.Database, text: str, **parameters: Any) -> list[dict[str, Any]]:
    query = db.sql(text, **parameters)
    assert isinstance(query, ps.Query)
    return query.collect().to_pylist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (-7, -7),
        (-(2**63), -(2**63)),
        (2**40, 2**40),
        (0.1, 0.1),
        (-0.0, 0.0),
        (1e300, 1e300),
        (float("inf"), float("inf")),
        (Decimal("-12.50"), Decimal("-12.50")),
        ("' OR 1 = 1 --", "' OR 1 = 1 --"),
        (":x", ":x"),
        (b"\x00\xff", b"\x00\xff"),
        (dt.date(2026, 1, 31), dt.date(2026, 1, 31)),
        (np.int64(5), 5),
        (np.float64(0.5), 0.5),
        (pa.scalar("q"), "q"),
    ],
)
def test_a_value_comes_as_it_is(value: Any, expected: Any) -> None:
    found = rows(database(), "SELECT :x AS x FROM s WHERE t = 1", x=value)
    assert found == [{"x": expected}]


def test_times_and_lengths_of_time() -> None:
    text = "SELECT :at + :later AS t FROM s WHERE t = 1"
    at = dt.datetime(2026, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    [row] = rows(database(), text, at=at, later=dt.timedelta(minutes=5))
    assert row["t"] == dt.datetime(2026, 1, 1, 0, 5, tzinfo=dt.UTC)


def test_values_in_every_clause() -> None:
    text = """
        CREATE VIEW v AS SELECT * FROM s WHERE k <> :other;
        SELECT k, count(*) + :more AS n [RANGE :length, SLIDE :length, WA t] FROM v
        GROUP BY k HAVING n > :least
    """
    found = rows(database(), text, other="it's", more=1, length=10, least=1)
    assert [(row["k"], row["n"], row["window_end"]) for row in found] == [
        ("a", 2, 10),
        ("a", 2, 20),
    ]


@pytest.mark.parametrize("length", ["1 minute", dt.timedelta(minutes=1)])
def test_lengths_of_windows(length: Any) -> None:
    db = ps.connect()
    data = [{"ts": dt.datetime(2026, 1, 1, 0, minute)} for minute in (1, 1, 5)]
    db.stream("s", data, progress=ps.progress("ts", ordered=True))
    found = rows(db, "SELECT count(*) AS n [RANGE :d, SLIDE :d, WA ts] FROM s", d=length)
    assert [row["n"] for row in found] == [2, 1]
    found = rows(db, "SELECT count(*) AS n [RANGE :d MINUTES, SLIDE 1 MINUTE, WA ts] FROM s", d=1)
    assert [row["n"] for row in found] == [2, 1]


def test_sql_tells_values_from_streams() -> None:
    query = ps.sql("SELECT t FROM {s} WHERE t > :least", s=ROWS, least=2)
    assert [row["t"] for row in query] == [3, 12]


def test_live_queries_have_parameters_too() -> None:
    with database().live() as live:
        query = live.sql("SELECT t FROM s WHERE k = :k", k="it's")
        assert isinstance(query, ps.LiveQuery)
        assert query.wait(timeout=LONGEST)
        assert [row["t"] for row in query] == [3]


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("SELECT :x FROM s", {"y": 1}, "no value is given for the parameter 'x'"),
        ("SELECT t FROM s", {"x": 1}, "the parameter 'x' does not occur"),
        ("SELECT ':x' AS t FROM s", {"x": 1}, "the parameter 'x' does not occur"),
        ("SELECT :x FROM s", {"x": [1]}, "the parameter 'x' is"),
        ("SELECT count(*) [RANGE :x, SLIDE 1, WA t] FROM s", {"x": True}, "is not a length"),
        ("SELECT count(*) [RANGE :x, SLIDE 1, WA t] FROM s", {"x": "long"}, "not a length of time"),
    ],
)
def test_what_is_refused(text: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.PenstockError, match=message):
        database().sql(text, **parameters)
