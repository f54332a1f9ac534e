"""`penstock.progress`: every rule and every limit, what they do to a query, and what is refused."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import penstock as ps
from penstock.sql.parser.statements import parse_script
from penstock.sql.syntax import CreateStream, ProgressClause

DAY1 = datetime.datetime(2026, 1, 1)
# Arrivals on an integer attribute: 2 is overtaken by 9.
NUMBERS = [{"t": t, "k": k} for t, k in ((1, "a"), (5, "a"), (9, "b"), (2, "a"), (21, "a"))]
COUNT = "SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s"


def stream(rows: Any, progress: Any, **arguments: Any) -> ps.Database:
    db = ps.connect(clock=ps.ManualClock(at=0))
    db.stream("s", rows, progress=progress, **arguments)
    return db


def ask(db: ps.Database, sql: str) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def late(progress: Any) -> list[int]:
    return ask(stream(NUMBERS, progress), COUNT).late.column("t").to_pylist()


@pytest.mark.parametrize(
    ("arguments", "missed"),
    [
        ({"ordered": True}, [2]),
        ({"delay": 3}, [2]),
        ({"delay": 5}, []),
        ({"delay": "4"}, [2]),
        ({"slack": 0}, [2]),
        ({"slack": 1}, [2]),
        ({"slack": 2}, []),
        ({"ordered": True, "per": "k"}, [2]),
        ({"delay": 1, "per": "k"}, []),
        ({"punctuated": ("k = 'b'", "t")}, [2]),
        ({"punctuated": ("k = 'b'", "t - 5")}, []),
        ({"punctuated": ("FALSE", "t")}, []),
        ({"punctuated": ("t = 9", "t"), "punctuated_for": ["k"]}, []),
        ({"punctuated": ("t = 5", "t"), "punctuated_for": ["k"]}, [2]),
        ({"punctuated": ("t = 5", "t"), "punctuated_for": ["k"], "delay": 7}, [2]),
        ({"punctuated": ("t = 9", "t"), "punctuated_for": ["k"], "delay": 7}, []),
    ],
    ids=str,
)
def test_which_tuple_is_late(arguments: dict[str, Any], missed: list[int]) -> None:
    assert late(ps.progress("t", **arguments)) == missed


def test_punctuations_are_not_data() -> None:
    db = stream(NUMBERS, ps.progress("t", punctuated=("k = 'b'", "t")))
    assert ask(db, "SELECT t FROM s").collect().column("t").to_pylist() == [1, 5, 2, 21]


@pytest.mark.parametrize(
    ("delay", "shown"),
    [
        ("5 seconds", "DELAY 5 SECONDS"),
        ("90 min", "DELAY 90 MINUTES"),
        ("'2' HOURS", "DELAY 2 HOURS"),
        (datetime.timedelta(milliseconds=1500), "DELAY 1500 MILLISECONDS"),
        (datetime.timedelta(0), "DELAY 0 SECONDS"),
    ],
    ids=str,
)
def test_delays_of_times(delay: Any, shown: str) -> None:
    db = stream([{"ts": DAY1}], ps.progress("ts", delay=delay))
    assert f"progress: s.ts ({shown})" in str(db.sql("EXPLAIN SELECT * FROM s"))


def test_everything_at_once_is_explained() -> None:
    limits = {"idle": "2 s", "future_limit": datetime.timedelta(hours=1)}
    db = stream([{"ts": DAY1, "k": 1}], ps.progress("ts", slack=3, per="k", **limits))
    expected = "(SLACK 3 ROWS PER k IDLE AFTER 2 SECONDS FUTURE LIMIT 1 HOUR)"
    assert expected in str(db.sql("EXPLAIN SELECT * FROM s"))


@pytest.mark.parametrize(
    ("rule", "shown"), [({}, ""), ({"delay": 5}, "DELAY 5 "), ({"slack": 2}, "SLACK 2 ROWS ")]
)
def test_punctuation_for_groups_is_explained(rule: dict[str, Any], shown: str) -> None:
    punctuated = ps.progress("t", punctuated=("k = 'b'", "t"), punctuated_for=["k"], **rule)
    expected = f"({shown}PUNCTUATED WHEN (k = 'b') BOUND t FOR k)"
    assert expected in str(stream(NUMBERS, punctuated).sql("EXPLAIN SELECT * FROM s"))


def test_the_impossible_future_is_rejected() -> None:
    rows = [{"ts": datetime.datetime(1970, 1, 1, 0, 0, second)} for second in (59, 50)]
    rows.insert(1, {"ts": datetime.datetime(1970, 1, 1, 0, 1, 1)})
    query = ask(
        stream(rows, ps.progress("ts", ordered=True, future_limit="1 minute")),
        "SELECT count(*) AS n [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] FROM s",
    )
    # had it counted, the last tuple would be late
    assert query.collect().column("n").to_pylist() == [2]
    (rejected,) = query.rejected.to_pylist()
    assert (rejected["kind"], rejected["row"], rejected["column"]) == (
        "too far in the future",
        2,
        "ts",
    )


# --- timestamps that are stamped -----------------------------------------------------------------


@pytest.mark.parametrize("timestamps", ["INTERNAL", "internal", "LATENT"])
def test_a_stamped_column_is_not_in_the_data(timestamps: str) -> None:
    db = ps.connect(clock=ps.ManualClock(at=7, step=1))
    db.stream("s", [{"a": 1}, {"a": 2}], progress=ps.progress("ts", timestamps=timestamps))
    query = ask(
        db,
        "SELECT count(*) AS n, min(ts) AS lo, max(ts) AS hi [RANGE TUMBLING 1 SECOND] FROM s",
    )
    (row,) = query.collect().drop_columns(["window_start", "window_end"]).to_pylist()
    low = datetime.datetime(1970, 1, 1, microsecond=7, tzinfo=datetime.UTC)
    assert row == {"n": 2, "lo": low, "hi": low.replace(microsecond=8)}


@pytest.mark.parametrize("schema", ["a INT, ts TIMESTAMP", "ts TIMESTAMP, a INT"])
@pytest.mark.parametrize("rows", [[{"a": 1}], [(1,)]], ids=["dicts", "tuples"])
def test_a_stamped_column_stands_where_the_schema_says(schema: str, rows: Any) -> None:
    db = stream(rows, ps.progress("ts", timestamps="INTERNAL"), schema=schema)
    query = ask(db, "SELECT * FROM s")
    assert query.schema.names == [column.split()[0] for column in schema.split(", ")]
    assert query.collect().column("a").to_pylist() == [1]


def test_a_stamped_column_need_not_be_in_the_schema() -> None:
    db = stream([{"a": 1}], ps.progress("ts", timestamps="INTERNAL"), schema="a INT")
    assert ask(db, "SELECT * FROM s").schema.names == ["a", "ts"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": "a INT, ts INT"}, "need a TIMESTAMP column"),
        ({"rows": [{"a": 1, "ts": DAY1}]}, "two columns are called ts"),
        ({"delay": "1 s"}, "always ORDERED"),
        ({"slack": 1}, "always ORDERED"),
    ],
    ids=str,
)
def test_what_cannot_be_stamped(arguments: dict[str, Any], message: str) -> None:
    rows, schema = arguments.pop("rows", [{"a": 1}]), arguments.pop("schema", None)
    with pytest.raises(ps.PenstockError, match=message):
        stream(rows, ps.progress("ts", timestamps="INTERNAL", **arguments), schema=schema)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ordered": True, "slack": 1}, "'t' says ORDERED and SLACK"),
        ({"delay": 1, "punctuated": ("t > 1", "t")}, "'t' says DELAY and PUNCTUATED"),
        ({"timestamps": "FOO"}, "'FOO' is not a kind of timestamps"),
        ({"delay": "five"}, "expected a number"),
        ({"delay": ""}, "expected a number"),
        ({"ordered": True, "per": ""}, "expected an expression"),
        ({"punctuated": ("t >", "t")}, "expected an expression"),
        ({"delay": 1, "punctuated_for": ["k"]}, "punctuated None"),
        ({"punctuated": ("t > 1", "t"), "punctuated_for": "k"}, "punctuated_for is 'k'"),
    ],
    ids=str,
)
def test_what_no_stream_can_promise(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.PenstockError, match=message):
        ps.progress("t", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "PROGRESS does not say how the stream progresses"),
        ({"delay": -1}, "DELAY is -1"),
        ({"slack": -1}, "slack is the int -1"),
        ({"slack": 1.5}, "slack is the float 1.5"),
        ({"delay": "5 seconds"}, "the column is a BIGINT"),
        ({"delay": "1.5"}, "finer than the column's type"),
        ({"ordered": True, "per": "nobody"}, "unknown column 'nobody'"),
        ({"ordered": True, "idle": "5 s"}, "IDLE AFTER compares with the clock"),
        ({"ordered": True, "future_limit": "5 s"}, "FUTURE LIMIT compares with the clock"),
        ({"punctuated": ("k", "t")}, "PUNCTUATED WHEN needs a condition"),
        ({"punctuated": ("k = 'b'", "k")}, "the bound is a STRING"),
        ({"punctuated": ("k = 'b'", "t"), "punctuated_for": ["l"]}, "unknown column 'l'"),
        ({"punctuated": ("k = 'b'", "t"), "punctuated_for": ["t"]}, "cannot tell groups apart"),
    ],
    ids=str,
)
def test_what_this_stream_cannot_promise(arguments: dict[str, Any], message: str) -> None:
    db = ps.connect()
    with pytest.raises(ps.PenstockError, match=message):
        db.stream("s", NUMBERS, progress=ps.progress("t", **arguments))
    assert db.streams == []


@pytest.mark.parametrize(
    ("rows", "attribute", "arguments", "message"),
    [
        ([{"ts": DAY1}], "ts", {"delay": 5}, "5 has no unit"),
        ([{"ts": DAY1}], "ts", {"delay": "5 rows"}, "DELAY is a length"),
        ([{"ts": DAY1}], "ts", {"delay": "1 month"}, "has no fixed length"),
        ([{"ts": DAY1}], "ts", {"ordered": True, "idle": "0 s"}, "IDLE AFTER is 0"),
        ([{"d": DAY1.date()}], "d", {"delay": "36 hours"}, "not a whole number of days"),
        ([{"f": 1.5}], "f", {"ordered": True}, "a DOUBLE column cannot progress"),
        ([{"s": "x"}], "s", {"ordered": True}, "a STRING column cannot progress"),
        ([{"tx": 1}], "t", {"ordered": True}, "unknown column 't'"),
    ],
    ids=str,
)
def test_what_this_column_cannot_promise(
    rows: Any, attribute: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ps.PenstockError, match=message):
        stream(rows, ps.progress(attribute, **arguments))


def test_names_of_columns_do_not_care_for_case() -> None:
    db = stream(NUMBERS, ps.progress("T", ordered=True, per="K"))
    assert ask(db, COUNT).account.read == 5


# --- what it looks like --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "clause"),
    [
        (ps.progress("t"), "PROGRESS ON t"),
        (ps.progress("t", ordered=True), "PROGRESS ON t ORDERED"),
        (
            ps.progress("t", delay="5 seconds", per="k", idle="2 seconds", future_limit="1 hour"),
            "PROGRESS ON t DELAY 5 SECONDS PER k IDLE AFTER 2 SECONDS FUTURE LIMIT 1 HOUR",
        ),
        (ps.progress("t", slack=3, per="upper(k)"), "PROGRESS ON t SLACK 3 ROWS PER UPPER(k)"),
        (ps.progress("t", timestamps="latent"), "PROGRESS ON t LATENT"),
        (
            ps.progress("t", punctuated=("k = 'it''s'", "t - 5")),
            "PROGRESS ON t PUNCTUATED WHEN k = 'it''s' BOUND t - 5",
        ),
        (
            ps.progress("t", delay=7, punctuated=("t = 9", "t"), punctuated_for=["k", "no name"]),
            "PROGRESS ON t DELAY 7 PUNCTUATED WHEN t = 9 BOUND t FOR k, `no name`",
        ),
        (
            ps.progress("t", delay=datetime.timedelta(seconds=90)),
            "PROGRESS ON t DELAY 90 SECONDS",
        ),
    ],
    ids=str,
)
def test_it_looks_like_the_clause(made: Any, clause: str) -> None:
    assert str(made) == clause
    assert repr(made) == f"<penstock.progress {clause}>"
    (created,) = parse_script(f"CREATE STREAM s (t INT) {clause}")
    assert isinstance(created, CreateStream)
    assert meaning(created.progress) == meaning(made.clause)


def meaning(clause: ProgressClause | None) -> list[Any]:
    """A clause without the places where it was written."""
    assert clause is not None
    named = [clause.attribute.text, *(each.text for each in clause.groups)]
    lengths = [
        None if each is None else (each.amount, each.unit)
        for each in (clause.amount, clause.idle_after, clause.future_limit)
    ]
    return [named, lengths, clause.rule, clause.timestamps, clause.when, clause.bound, clause.per]


def test_what_does_not_say_how_a_stream_progresses_is_refused() -> None:
    with pytest.raises(ps.BindError, match="progress is 't'") as caught:
        stream(NUMBERS, "t")
    assert caught.value.hint == 'ps.progress("t", delay="5 seconds"), or ordered=True'


def test_sql_says_progress_of_streams_by_name_or_of_the_only_one() -> None:
    promise = ps.progress("t", delay=20)
    text = "SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM {s}"
    for given in (promise, {"s": promise}):
        rows = ps.sql(text, s=NUMBERS, progress=given).collect().to_pylist()  # type: ignore[arg-type]
        assert [row["n"] for row in rows] == [2, 2, 1]


def test_sql_without_progress_names_what_is_missing() -> None:
    with pytest.raises(ps.BindError, match="does not progress") as caught:
        ps.sql("SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM {s}", s=NUMBERS)
    assert caught.value.hint is not None
    assert "progress=ps.progress(" in caught.value.hint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("x", "progress is 'x'"),
        ({"s": "x"}, "progress is 'x'"),
        ({"r": ps.progress("t", delay=1)}, "said of 'r'"),
    ],
)
def test_sql_refuses_what_is_no_progress(given: Any, message: str) -> None:
    with pytest.raises(ps.BindError, match=message):
        ps.sql("SELECT t FROM {s}", s=NUMBERS, progress=given)
    if given == "x":
        with pytest.raises(ps.BindError, match=message):
            ps.sql("SELECT t FROM {s}", s=NUMBERS, r=NUMBERS, progress=given)


def test_progress_of_several_streams_is_said_of_each() -> None:
    with pytest.raises(ps.BindError, match="there are 2 streams"):
        ps.sql("SELECT t FROM {s}", s=NUMBERS, r=NUMBERS, progress=ps.progress("t", delay=1))
