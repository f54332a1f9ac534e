"""Joins against loops over all combinations, from decisions 7 and 8.  Nothing is late here."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, bag, examples, tuples

SCHEMA = "n INT, k STRING, t INT"
SECOND = 1_000_000


@st.composite
def numbered(draw: st.DrawFn) -> list[Row]:
    """Rows (n, k, t): n says which row it is, k may be NULL, equal times are common."""
    keys = st.sampled_from(["a", "b", None])
    found = draw(st.lists(st.tuples(keys, st.integers(-12, 15)), max_size=10))
    return [(n, k, t) for n, (k, t) in enumerate(found)]


ROWS = numbered()


def answer(sql: str, **rows: list[Row]) -> list[Row]:
    promise = ps.progress("t", ordered=True)
    streams = {name: Stream(SCHEMA, each, promise) for name, each in rows.items()}
    return bag(tuples(ask(f"{sql} LATE AMEND", **streams).collect()))


def same(left: Any, right: Any) -> bool:
    """`=` of SQL: NULL is equal to nothing, not even to NULL."""
    return left is not None and right is not None and left == right


def in_windows(left: int, right: int, left_range: int, right_range: int) -> bool:
    """Decision 7: the window on a stream bounds the age of that stream's tuples."""
    return right - left <= left_range and left - right <= right_range


@examples
@given(left=ROWS, right=ROWS, length=st.integers(1, 6), on=st.booleans())
def test_tumbling(left: list[Row], right: list[Row], length: int, on: bool) -> None:
    expected = [
        (one, other)
        for (one, a, s), (other, b, t) in product(left, right)
        if s // length == t // length and (not on or same(a, b))
    ]
    condition = "WHERE l.k = r.k" if on else ""
    sql = f"SELECT l.n, r.n FROM l [RANGE TUMBLING {length}, WA t], r {condition}"
    assert answer(sql, l=left, r=right) == bag(expected)


@examples
@given(
    left=ROWS,
    right=ROWS,
    left_range=st.integers(0, 7),
    right_range=st.integers(0, 7),
    on=st.booleans(),
)
def test_sliding(
    left: list[Row], right: list[Row], left_range: int, right_range: int, on: bool
) -> None:
    expected = [
        (one, other)
        for (one, a, s), (other, b, t) in product(left, right)
        if in_windows(s, t, left_range, right_range) and (not on or same(a, b))
    ]
    condition = "WHERE l.k = r.k" if on else ""
    windows = f"l [RANGE {left_range}, WA t], r [RANGE {right_range}, WA t]"
    assert answer(f"SELECT l.n, r.n FROM {windows} {condition}", l=left, r=right) == bag(expected)


@examples
@given(a=ROWS, b=ROWS, c=ROWS, ranges=st.tuples(*[st.integers(0, 6)] * 3))
def test_three_way(a: list[Row], b: list[Row], c: list[Row], ranges: tuple[int, int, int]) -> None:
    """Times fit pairwise; the conditions may be on any of the three."""
    expected = []
    for rows in product(a, b, c):
        times = [t for _, _, t in rows]
        close = all(
            in_windows(times[i], times[j], ranges[i], ranges[j])
            for i, j in ((0, 1), (0, 2), (1, 2))
        )
        if close and same(rows[0][1], rows[1][1]) and rows[2][0] <= rows[0][0]:
            expected.append(tuple(n for n, _, _ in rows))
    windows = ", ".join(f"{x} [RANGE {r}, WA t]" for x, r in zip("abc", ranges, strict=True))
    sql = f"SELECT a.n, b.n, c.n FROM {windows} WHERE a.k = b.k AND c.n <= a.n"
    assert answer(sql, a=a, b=b, c=c) == bag(expected)


@examples
@given(a=ROWS, b=ROWS, c=ROWS, length=st.integers(1, 6))
def test_three_way_tumbling(a: list[Row], b: list[Row], c: list[Row], length: int) -> None:
    expected = [
        tuple(n for n, _, _ in rows)
        for rows in product(a, b, c)
        if len({t // length for _, _, t in rows}) == 1
    ]
    sql = f"SELECT a.n, b.n, c.n FROM a [RANGE TUMBLING {length}, WA t], b, c"
    assert answer(sql, a=a, b=b, c=c) == bag(expected)


@examples
@given(left=ROWS, right=ROWS, low=st.integers(-4, 4), width=st.integers(0, 5))
def test_band(left: list[Row], right: list[Row], low: int, width: int) -> None:
    """No windows: the condition itself bounds how far apart the times are."""
    high = low + width
    expected = [
        (one, other)
        for (one, a, s), (other, b, t) in product(left, right)
        if s + low <= t <= s + high and same(a, b)
    ]
    between = f"r.t BETWEEN l.t + {low} AND l.t + {high}".replace("+ -", "- ")
    assert answer(
        f"SELECT l.n, r.n FROM l JOIN r ON l.k = r.k AND {between}", l=left, r=right
    ) == bag(expected)
    compared = f"l.t <= r.t - {low} AND r.t < l.t + {high + 1}".replace("- -", "+ ")
    assert answer(
        f"SELECT l.n, r.n FROM l, r WHERE l.k = r.k AND {compared.replace('+ -', '- ')}",
        l=left,
        r=right,
    ) == bag(expected)


@examples
@given(a=ROWS, b=ROWS, c=ROWS)
def test_bands_in_a_chain(a: list[Row], b: list[Row], c: list[Row]) -> None:
    """a and c are held together only through b."""
    expected = [
        (x[0], y[0], z[0])
        for x, y, z in product(a, b, c)
        if 0 <= y[2] - x[2] <= 2 and z[2] == y[2] + 1
    ]
    sql = "SELECT a.n, b.n, c.n FROM a, b, c WHERE b.t BETWEEN a.t AND a.t + 2 AND c.t = b.t + 1"
    assert answer(sql, a=a, b=b, c=c) == bag(expected)


@examples
@given(rows=ROWS, length=st.integers(0, 6))
def test_self_join(rows: list[Row], length: int) -> None:
    expected = [
        (one, other)
        for (one, a, s), (other, b, t) in product(rows, rows)
        if in_windows(s, t, length, 0) and same(a, b) and one != other
    ]
    sql = (
        f"SELECT x.n, y.n FROM s AS x [RANGE {length}, WA t], s AS y [RANGE 0, WA t] "
        "WHERE x.k = y.k AND x.n <> y.n"
    )
    assert answer(sql, s=rows) == bag(expected)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("l.k = r.k", [(0, 0)]),
        ("l.k <> r.k", []),
        ("l.k IS NOT DISTINCT FROM r.k", [(0, 0), (1, 1)]),
        ("l.k = r.k OR l.n = r.n", [(0, 0), (1, 1)]),
        ("NOT l.k = r.k", []),
    ],
)
def test_null_keys(condition: str, expected: list[Row]) -> None:
    rows = [(0, "a", 0), (1, None, 0)]
    sql = f"SELECT l.n, r.n FROM l [RANGE 1, WA t], r [RANGE 1, WA t] WHERE {condition}"
    assert answer(sql, l=rows, r=rows) == bag(expected)


def test_conditions_on_one_side_filter_it() -> None:
    left = [(0, "a", 0), (1, "b", 0)]
    sql = "SELECT l.n, r.n FROM l [RANGE 1, WA t], r [RANGE 1, WA t] WHERE l.k = 'b' AND r.n < 1"
    assert answer(sql, l=left, r=left) == [(1, 0)]


def test_ranges_of_time_before_1970() -> None:
    """Q5-8 of the thesis: Main2 may follow Main1 within 3 minutes, Main1 follow Main2 within 2."""
    minute = 60 * SECOND
    main1 = [(n, t * minute - 7 * minute) for n, t in enumerate([0, 10])]
    main2 = [(n, t * minute - 7 * minute) for n, t in enumerate([3, 4, 8, 7])]
    promise = ps.progress("ts", delay="1 hour")
    query = ask(
        "SELECT a.n, b.n FROM main1 a [RANGE 3 MINUTES, WA ts], main2 b [RANGE 2 MINUTES, WA ts]",
        main1=Stream("n INT, ts TIMESTAMP", main1, promise),
        main2=Stream("n INT, ts TIMESTAMP", main2, promise),
    )
    assert tuples(query.collect()) == [(0, 0), (1, 2)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.n FROM a, b WHERE a.k = b.k",
        "SELECT a.n FROM a, b WHERE a.t < b.t",
        "SELECT a.n FROM a [RANGE 1, WA t], b WHERE a.k = b.k",
        "SELECT a.n FROM a, b, c WHERE a.t = b.t",
    ],
)
def test_a_join_for_ever_is_refused(sql: str) -> None:
    promise = ps.progress("t", ordered=True)
    with pytest.raises(ps.BindError):
        ask(sql, **{name: Stream(SCHEMA, [], promise) for name in "abc"})
