"""Queries over queries: sub-queries, unions, named queries, DISTINCT, HAVING, WINDOW, EMIT."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, bag, database, examples, tuples

SCHEMA = "k STRING, x INT, t INT"
ORDERED = ps.progress("t", ordered=True)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]), st.none() | st.integers(-3, 3), st.integers(-12, 25)
    ),
    max_size=14,
)


def answer(sql: str, **rows: list[Row]) -> list[Row]:
    streams = {name: Stream(SCHEMA, each, ORDERED) for name, each in rows.items()}
    return tuples(ask(f"{sql} LATE AMEND", **streams).collect())


# --- aggregates of aggregates --------------------------------------------------------------------


@examples
@given(rows=ROWS)
def test_an_aggregate_of_aggregates(rows: list[Row]) -> None:
    """The most tuples that any key had in a window of 5, for each window of 20 of such ends."""
    counts = Counter((t // 5, k) for k, _, t in rows)
    expected: dict[int, list[int]] = {}
    for (w, _), n in counts.items():
        end = (w + 1) * 5
        expected.setdefault(end // 20, []).append(n)
    found = answer(
        "SELECT window_id, max(n), count(*) [RANGE 20, SLIDE 20, WA window_end] FROM "
        "(SELECT window_end, k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k) AS q",
        s=rows,
    )
    assert found == [(w, max(ns), len(ns)) for w, ns in sorted(expected.items())]


@examples
@given(rows=ROWS)
def test_groups_by_the_end_of_a_window(rows: list[Row]) -> None:
    """window_end progresses, so it can be grouped by without a window."""
    counts = Counter((t // 5, k) for k, _, t in rows)
    expected = Counter((w + 1) * 5 for w, _ in counts)
    found = answer(
        "SELECT window_end AS e, count(*) AS n FROM "
        "(SELECT window_end, k, sum(x) AS s [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k) "
        "GROUP BY window_end",
        s=rows,
    )
    assert found == sorted(expected.items())


@examples
@given(rows=ROWS)
def test_three_levels(rows: list[Row]) -> None:
    """Tumbling counts added up to larger ones are the larger counts."""
    found = answer(
        "SELECT window_start, sum(n) [RANGE 20, SLIDE 20, WA window_start] FROM "
        "(SELECT window_start, sum(n) AS n [RANGE 10, SLIDE 10, WA window_start] FROM "
        "(SELECT window_start, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s))",
        s=rows,
    )
    assert found == sorted(Counter(t // 20 * 20 for *_, t in rows).items())


def test_a_sub_query_that_computes_and_filters() -> None:
    rows = [("a", 1, 0), ("b", 2, 1), ("a", 3, 2)]
    sql = (
        "SELECT q.y, v FROM (SELECT upper(k) AS y, x * 10 AS v, t FROM s WHERE k = 'a') q "
        "WHERE v > 10"
    )
    assert answer(sql, s=rows) == [("A", 30)]


def test_an_aggregate_over_a_join() -> None:
    rows = [("a", 1, 0), ("b", 2, 1), ("a", 3, 7)]
    sql = (
        "SELECT window_id, count(*), sum(l.x * r.x) [RANGE 5, SLIDE 5, WA greatest(l.t, r.t)] "
        "FROM s l [RANGE 9, WA t], s r [RANGE 9, WA t] WHERE l.k = r.k"
    )
    assert answer(sql, s=rows) == [(0, 2, 1 + 4), (1, 3, 3 + 3 + 9)]


def test_a_join_of_aggregates() -> None:
    rows = [("a", 1, 0), ("b", 2, 1), ("a", 3, 7)]
    counts = "(SELECT window_end AS e, {} AS y [RANGE 5, SLIDE 5, WA t] FROM s)"
    sql = (
        f"SELECT n.e, n.y, m.y FROM {counts.format('count(*)')} n [RANGE 0, WA e], "
        f"{counts.format('max(x)')} m [RANGE 0, WA e]"
    )
    assert answer(sql, s=rows) == [(5, 2, 2), (10, 1, 3)]


# --- unions --------------------------------------------------------------------------------------


@examples
@given(one=ROWS, other=ROWS)
def test_a_union_of_streams_keeps_duplicates(one: list[Row], other: list[Row]) -> None:
    both = "s UNION u"
    assert bag(answer(f"SELECT * FROM {both}", s=one, u=other)) == bag([*one, *other])
    found = answer(f"SELECT window_id, count(*) [RANGE 5, SLIDE 5] FROM {both}", s=one, u=other)
    assert found == sorted(Counter(t // 5 for *_, t in [*one, *other]).items())


def test_a_union_may_be_named_and_nested() -> None:
    rows = {"s": [("a", 1, 0)], "u": [("b", 2, 1)], "v": [("c", 3, 2)]}
    assert answer("SELECT w.k FROM s UNION u UNION ALL v AS w", **rows) == [("a",), ("b",), ("c",)]
    sql = "SELECT w.k FROM s UNION (SELECT k, x + 0 AS x, t FROM u) w"
    with pytest.raises(ps.BindError):  # x + 0 is a BIGINT
        answer(sql, **rows)
    sql = "SELECT w.k FROM s UNION (SELECT k, x, t FROM u WHERE x > 5) w"
    assert answer(sql, **rows) == [("a",)]


@examples
@given(one=ROWS, other=ROWS)
def test_union_all_of_selects(one: list[Row], other: list[Row]) -> None:
    sql = "SELECT k, t FROM s WHERE t > 0 UNION ALL SELECT k, t FROM u WHERE x > 0"
    expected = [(k, t) for k, _, t in one if t > 0]
    expected += [(k, t) for k, x, t in other if x is not None and x > 0]
    assert bag(answer(sql, s=one, u=other)) == bag(expected)


def test_union_all_of_aggregates() -> None:
    sql = (
        "SELECT k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k UNION ALL "
        "SELECT 'all' AS k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s"
    )
    found = answer(sql + " WHERE TRUE", s=[("a", 1, 0), ("b", 2, 1), ("a", 3, 2)])
    assert bag(found) == bag([(0, 5, "a", 2), (0, 5, "b", 1), (0, 5, "all", 3)])


def test_union_all_right_after_from() -> None:
    rows = {"s": [("a", 1, 0)], "u": [("b", 2, 1)]}
    assert answer("SELECT k FROM s UNION ALL SELECT k FROM u", **rows) == [("a",), ("b",)]


def test_union_without_all_needs_a_column_that_progresses() -> None:
    with pytest.raises(ps.BindError, match="progress"):
        answer("SELECT k FROM s WHERE x > 0 UNION SELECT k FROM s", s=[])


# --- DISTINCT and HAVING -------------------------------------------------------------------------


@examples
@given(rows=ROWS)
def test_distinct(rows: list[Row]) -> None:
    """Without a window over all tuples, each different one where it first came."""
    assert answer("SELECT DISTINCT k, t FROM s", s=rows) == list(
        dict.fromkeys((k, t) for k, _, t in rows)
    )
    found = answer("SELECT DISTINCT window_id, k [RANGE 5, SLIDE 5, WA t] FROM s", s=rows)
    assert bag(found) == bag({(t // 5, k) for k, _, t in rows})
    found = answer("SELECT DISTINCT k, x [RANGE 8, SLIDE 4, WA t] FROM s", s=rows)
    windows = [(w, k, x) for k, x, t in rows for w in range(t // 4, (t + 8) // 4)]
    assert bag(found) == bag({((w + 1) * 4 - 8, (w + 1) * 4, k, x) for w, k, x in windows})


def test_distinct_over_aggregates() -> None:
    """Two keys with the same count in a window are one row."""
    sql = "SELECT DISTINCT window_end, count(*) [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k"
    assert answer(sql, s=[("a", 1, 0), ("b", 2, 1), ("a", 3, 7)]) == [(5, 1), (10, 1)]


def test_distinct_for_ever_is_refused() -> None:
    with pytest.raises(ps.BindError):
        answer("SELECT DISTINCT k FROM s", s=[])


@examples
@given(rows=ROWS)
def test_having(rows: list[Row]) -> None:
    """Only groups for which it is true stay: a sum over NULLs only is not greater than 0."""
    groups: dict[tuple[int, Any], list[Any]] = {}
    for k, x, t in rows:
        groups.setdefault((t // 5, k), []).append(x)
    expected = [
        (w, k, len(xs))
        for (w, k), xs in groups.items()
        if sum(x for x in xs if x is not None) > 0 and any(x is not None for x in xs) and w < 3
    ]
    sql = (
        "SELECT window_id, k, count(*) [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k "
        "HAVING sum(x) > 0 AND window_end <= 15"
    )
    assert bag(answer(sql, s=rows)) == bag(expected)


def test_having_sees_keys_and_aggregates_that_are_not_selected() -> None:
    sql = (
        "SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY upper(k) "
        "HAVING upper(k) = 'A' AND min(x) < 2"
    )
    assert answer(sql, s=[("a", 1, 0), ("b", 1, 0), ("a", 2, 5)]) == [(0, 5, 1)]


# --- named queries -------------------------------------------------------------------------------


def test_create_query() -> None:
    db = database(s=Stream(SCHEMA, [("a", 1, 0), ("b", 2, 1), ("a", 3, 7)], ORDERED))
    db.sql("""
        CREATE QUERY big AS SELECT k, x, t FROM s WHERE x > 1;
        CREATE QUERY counts AS
            SELECT window_end AS e, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM big;
    """)
    assert db.queries == ["big", "counts"]
    assert tuples(db.query("COUNTS").collect()) == [(5, 1), (10, 1)]
    total = db.sql("SELECT sum(n) AS n [RANGE 20, SLIDE 20, WA e] FROM counts")
    assert tuples(total.collect()) == [(0, 20, 2)]
    twice = db.sql("SELECT a.x, b.x FROM big a [RANGE 0, WA t], big b [RANGE 6, WA t]")
    assert bag(tuples(twice.collect())) == bag([(2, 2), (3, 3), (3, 2)])
    with pytest.raises(ps.BindError):
        db.sql("CREATE QUERY Big AS SELECT k FROM s")
    with pytest.raises(ps.BindError):
        db.sql("DROP STREAM s")
    db.sql("DROP QUERY counts; DROP QUERY big; DROP STREAM s")
    assert db.streams == db.queries == []


def test_late_belongs_to_the_outermost_query() -> None:
    db = database(s=Stream(SCHEMA, [("a", 1, 9), ("b", 2, 0)], ORDERED))
    db.sql("CREATE QUERY q AS SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s LATE AMEND")
    assert tuples(db.query("q").collect()) == [(0, 5, 1), (5, 10, 1)]
    outer = db.sql("SELECT n FROM q LATE DROP")
    assert tuples(outer.collect()) == [(1,)]
    assert outer.account.late == 1
    with pytest.raises(ps.BindError):
        db.sql("SELECT n FROM (SELECT count(*) AS n [RANGE 5, SLIDE 5] FROM s LATE DROP)")


# --- WINDOW, window columns, EMIT ----------------------------------------------------------------


@examples
@given(rows=ROWS, length=st.integers(1, 9))
def test_window_on_one_stream(rows: list[Row], length: int) -> None:
    """Every tuple has a result over the last so many ticks."""
    expected = [
        (now - length, now, sum(now - length < t <= now for *_, t in rows)) for *_, now in rows
    ]
    assert bag(answer(f"SELECT count(*) AS n FROM s WINDOW {length}", s=rows)) == bag(expected)


@examples
@given(left=ROWS, right=ROWS, length=st.integers(1, 9))
def test_window_on_a_join(left: list[Row], right: list[Row], length: int) -> None:
    """The window of every input, and of the aggregate over the greatest of the times."""
    times = [
        max(l[2], r[2])
        for l in left  # noqa: E741
        for r in right
        if abs(l[2] - r[2]) <= length and l[0] is not None and l[0] == r[0]
    ]
    expected = [(now, sum(now - length < t <= now for t in times)) for now in times]
    sql = f"SELECT window_end, count(*) FROM s, u WHERE s.k = u.k WINDOW {length}"
    assert bag(answer(sql, s=left, u=right)) == bag(expected)


def test_window_in_units_of_time() -> None:
    minute = 60_000_000
    query = ask(
        "SELECT count(*) AS n FROM s WINDOW 10 MINUTES",
        s=Stream(
            "ts TIMESTAMP", [(t * minute,) for t in (0, 9, 10)], ps.progress("ts", ordered=True)
        ),
    )
    counts = query.collect().column("n").to_pylist()
    assert counts == [1, 2, 2]  # at 10 the tuple at 0 has just left


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("RANGE 10, SLIDE 5, WA t", [(0, -5, 5), (1, 0, 10), (2, 5, 15)]),
        ("RANGE TUMBLING 5, WA t", [(0, 0, 5), (1, 5, 10)]),
        ("RANGE ALL, SLIDE 5, WA t", [(0, None, 5), (1, None, 10)]),
        ("RANGE 2 ROWS, SLIDE 2 ROWS", [(0, 0, 2)]),
        ("RANGE 3, SLIDE 1 ROW, WA t", [(4, 1, 4), (7, 4, 7)]),
        ("RANGE 5, SLIDE 5, WA t, ORIGIN 3", [(0, 3, 8)]),
    ],
)
def test_window_columns(window: str, expected: list[Row]) -> None:
    """Selected, they are all there is; not selected, start and end come first."""
    rows = [("a", 1, 4), ("a", 2, 7)]
    columns = "window_id, window_start, window_end"
    assert answer(f"SELECT {columns} [{window}] FROM s GROUP BY 'x'", s=rows) == expected
    found = answer(f"SELECT count(*) AS n [{window}] FROM s", s=rows)
    assert [row[:2] for row in found] == [row[1:] for row in expected]
    found = answer(f"SELECT window_end - 1 AS e, count(*) AS n [{window}] FROM s", s=rows)
    assert [row[0] for row in found] == [row[2] - 1 for row in expected]


def test_no_key_at_all() -> None:
    sql = "SELECT window_end [RANGE 5, SLIDE 5, WA t] FROM s HAVING count(*) > 1"
    assert answer(sql, s=[("a", 1, 0), ("a", 1, 1), ("a", 1, 6)]) == [(5,)]


@examples
@given(rows=ROWS)
def test_emit_in_order(rows: list[Row]) -> None:
    """By the first column that progresses; rows of equal values stay as they come."""
    found = answer("SELECT x, t FROM s EMIT IN ORDER", s=rows)
    assert found == sorted(((x, t) for _, x, t in rows), key=lambda row: row[1])


def test_emit_in_order_needs_progress() -> None:
    with pytest.raises(ps.PenstockError):
        answer("SELECT k FROM s EMIT IN ORDER", s=[])


def test_answers_have_the_declared_schema() -> None:
    """Of an empty stream as well."""
    for rows in ([], [("a", 1, 0)]):
        query = ask(
            "SELECT k, avg(x) AS m, window_end [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k",
            s=Stream(SCHEMA, rows, ORDERED),
        )
        assert query.collect().schema == query.schema
        assert query.schema.names == ["k", "m", "window_end"]
