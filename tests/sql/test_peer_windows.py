"""Windows as peers write them: they begin at multiples of the slide."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

TIMES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-30, 30)), max_size=12)
LENGTHS = st.integers(1, 9)


def answered(rows: list[tuple[str, int]], sql: str, engine: str) -> Counter[tuple[Any, ...]]:
    db = ps.connect(engine)
    data = [{"k": k, "t": t} for k, t in rows]
    db.stream("s", data, schema="k STRING, t INT", progress=ps.progress("t", delay=100))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return Counter(tuple(row.values()) for row in query.collect().to_pylist())


def windows_of(t: int, slide: int, length: int, offset: int = 0) -> list[tuple[int, int]]:
    """By definition: all that begin at a multiple of the slide and hold the time."""
    starts = range(t - length - slide, t + 1)
    return [(s, s + length) for s in starts if (s - offset) % slide == 0 and s <= t < s + length]


@pytest.mark.parametrize("engine", ["reference", "local"])
@settings(max_examples=20)
@given(rows=TIMES, slide=LENGTHS, length=LENGTHS, offset=st.integers(-4, 4))
def test_hop(
    engine: str, rows: list[tuple[str, int]], slide: int, length: int, offset: int
) -> None:
    expected = Counter((*window, k) for k, t in rows for window in windows_of(t, slide, length))
    counted = Counter((*key, n) for key, n in expected.items())
    call = f"HOP(t, {slide}, {length})"
    old = f"SELECT HOP_START(t, 1, 1), HOP_END(t, 1, 1) AS e, k, count(*) FROM s GROUP BY {call}, k"
    assert answered(rows, old, engine) == counted
    relation = f"TABLE(HOP(TABLE s, DESCRIPTOR(t), {slide}, {length}))"
    new = f"SELECT window_start, window_end, k, count(*) FROM {relation} GROUP BY 1, 2, 3"
    grouped = new.replace("1, 2, 3", "window_start, window_end, k")
    assert answered(rows, grouped, engine) == counted
    single = f"SELECT window_start, window_end, k FROM {relation}"
    assert answered(rows, single, engine) == expected
    moved = Counter((*w, k) for k, t in rows for w in windows_of(t, slide, length, offset))
    spark = f"GROUP BY window(t, {length}, {slide}, {offset % slide}), k"
    starts = f"SELECT window.start, window.end, k, count(*) FROM s {spark}"
    assert answered(rows, starts, engine) == Counter((*key, n) for key, n in moved.items())


@settings(max_examples=20)
@given(rows=TIMES, slide=LENGTHS, length=LENGTHS)
def test_a_window_of_ours_as_a_relation(
    rows: list[tuple[str, int]], slide: int, length: int
) -> None:
    window = f"[RANGE {length}, SLIDE {slide}, WA t]"
    ours = f"SELECT k, count(*) AS n {window} FROM s GROUP BY k"
    relation = f"SELECT window_start, window_end, k, count(*) AS n FROM WINDOWED(s {window})"
    by = "GROUP BY window_start, window_end, k"
    expected = answered(rows, ours, "local")
    assert answered(rows, f"{relation} {by}", "local") == expected
    multiplied = f"{relation} WHERE window_end > -1000 {by}"  # which is asked of single tuples
    assert answered(rows, multiplied, "local") == expected


@settings(max_examples=20)
@given(rows=TIMES, step=st.integers(1, 4), steps=st.integers(1, 5))
def test_cumulate(rows: list[tuple[str, int]], step: int, steps: int) -> None:
    length = step * steps
    expected: Counter[tuple[Any, ...]] = Counter()
    for k, t in rows:
        start = t // length * length
        ends = [start + step * n for n in range(1, steps + 1)]
        expected.update((start, end, k) for end in ends if t < end)
    relation = f"CUMULATE(s, t, {step}, {length})"
    assert (
        answered(rows, f"SELECT window_start, window_end, k FROM {relation}", "local") == expected
    )


@settings(max_examples=20)
@given(rows=TIMES, width=LENGTHS, origin=st.integers(-20, 20))
def test_groups_by_buckets(rows: list[tuple[str, int]], width: int, origin: int) -> None:
    expected = Counter(t - (t - origin) % width for _, t in rows)
    sql = f"SELECT time_bucket({width}, t, {origin}) AS b, count(*) AS n FROM s GROUP BY b"
    assert answered(rows, sql, "local") == Counter(expected.items())


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT count(*) FROM s GROUP BY HOP(t, 10)", "HOP does not take 1 length"),
        ("SELECT count(*) FROM s GROUP BY TUMBLE(t, 1), HOP(t, 1, 1)", "two windows"),
        ("SELECT count(*) [RANGE 1, SLIDE 1] FROM s GROUP BY TUMBLE(t, 1)", "two windows"),
        ("SELECT count(*) FROM s GROUP BY TUMBLE(t, t)", "is a constant"),
        ("SELECT count(*) FROM s GROUP BY TUMBLE(k, 1)", "does not progress"),
        ("SELECT * FROM HOP(s, t, 1, 101)", "in 101 windows"),
        ("SELECT * FROM CUMULATE(s, t, 2, 5)", "not a multiple"),
        ("SELECT * FROM CUMULATE(s, t, 5)", "CUMULATE takes a step"),
        ("SELECT * FROM WINDOWED(s)", "WINDOWED takes"),
        ("SELECT * FROM WINDOWED(s [RANGE ALL, SLIDE 1, WA t])", "windows over values"),
        ("SELECT time_bucket(0, t) FROM s", "the width of time_bucket is 0"),
        ("SELECT time_bucket(t, t) FROM s", "are constants"),
    ],
)
def test_what_is_refused(sql: str, message: str) -> None:
    with pytest.raises(ps.PenstockError, match=message):
        answered([("a", 1)], sql, "local")


@pytest.mark.parametrize("engine", ["reference", "local"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT window.end FROM s GROUP BY window(t, 10)",
        "SELECT window_end FROM s GROUP BY TUMBLE(t, 10)",
        "SELECT window_end FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 10))"
        " GROUP BY window_start, window_end",
    ],
)
def test_windows_that_have_tuples(sql: str, engine: str) -> None:
    rows = [("a", 1), ("b", 2), ("a", 38)]
    assert answered(rows, sql, engine) == Counter([(10,), (40,)])
