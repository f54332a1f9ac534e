"""`ps.progress` on an expression: a further column, bound when the stream is named; rows for which
it has no value are rejected."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from tests.local.helpers import recut

ROWS = [
    {"k": "a", "payload": '{"ts": "2026-01-01 00:00:05"}'},
    {"k": "b", "payload": '{"ts": "no time"}'},
    {"k": "c", "payload": '{"at": 3}'},
    {"k": "d", "payload": None},
    {"k": "e", "payload": '{"ts": "2026-01-01 00:00:50"}'},
]
TIME = "CAST(payload ->> 'ts' AS TIMESTAMP)"
COUNTS = "SELECT window_end, count(*) AS n [RANGE TUMBLING 1 MINUTE, WA {}] FROM s"


def database(engine: str, rows: Any = ROWS, **progress: Any) -> ps.Database:
    db = ps.connect(engine, strict=False)
    promise = ps.progress(progress.pop("on", TIME), **{"ordered": True, **progress})
    db.stream("s", rows, schema="k STRING, payload STRING", progress=promise)
    return db


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize("cut", [None, 1])
def test_rows_without_a_value_are_rejected(engine: str, cut: int | None) -> None:
    db = database(engine)
    recut(db, cut)
    query = db.sql(COUNTS.format("event_time"))
    assert isinstance(query, ps.Query)
    assert [row["n"] for row in query.collect().to_pylist()] == [2]
    assert (query.account.read, query.account.rejected) == (5, 3)
    rejected = query.rejected.to_pylist()
    assert [row["row"] for row in rejected] == [2, 3, 4]
    assert {row["column"] for row in rejected} == {"event_time"}
    assert "has no value" in rejected[0]["reason"]


def test_values_are_called_as_one_likes() -> None:
    query = database("local", name="ts").sql("SELECT k, ts FROM s WHERE k = 'a'")
    assert isinstance(query, ps.Query)
    assert query.collect().column_names == ["k", "ts"]


def test_a_column_that_could_be_an_expression() -> None:
    db = ps.connect()
    rows = [{"a-b": 3, "a": 9, "b": 1}]
    db.stream("s", rows, progress=ps.progress("a-b", ordered=True))
    assert "progress: s.a-b (ORDERED)" in str(db.sql("SELECT * FROM s").explain())


@pytest.mark.parametrize(
    ("progress", "message"),
    [
        ({"on": "payload || '!'"}, "STRING"),
        ({"on": "upper(nothing)"}, "unknown column 'nothing'"),
        ({"on": TIME, "name": "payload"}, "there is a column payload already"),
        ({"on": "payload", "name": "ts"}, "'payload' is a column, and keeps its name"),
        ({"on": "CAST(payload AS", "name": "ts"}, "expected"),
        ({"on": "DATE '2026-01-01' + INTERVAL 1 DAY"}, "has to look at a column"),
        (
            {"on": TIME, "name": "ts", "ordered": False, "timestamps": "INTERNAL"},
            "stamped, and not computed",
        ),
    ],
)
def test_mistakes_are_refused_when_the_stream_is_named(
    progress: dict[str, Any], message: str
) -> None:
    with pytest.raises(ps.PenstockError, match=message):
        database("local", **progress)
