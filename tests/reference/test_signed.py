"""Signed items that go on into a difference, a join, DISTINCT or a union, instant by instant."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, tuples

SCHEMA = "n INT, k INT, t INT"
INSTANTS = range(-8, 40)
examples = settings(deadline=None, max_examples=40)


@st.composite
def numbered(draw: st.DrawFn) -> list[Row]:
    found = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(-6, 10)), max_size=7))
    return [(n, k, t) for n, (k, t) in enumerate(found)]


ROWS = numbered()
RANGE = st.none() | st.integers(0, 6)


def items(sql: str, **streams: list[Row]) -> list[Row]:
    promise = ps.progress("t", ordered=True)
    given_ = {name: Stream(SCHEMA, rows, promise) for name, rows in streams.items()}
    return tuples(ask(f"{sql} LATE AMEND", **given_).collect())


def window(length: int | None, attribute: str = "t") -> str:
    return "" if length is None else f"[RANGE {length}, WA {attribute}]"


def stays(found: list[Row]) -> list[tuple[Row, int, int | None]]:
    """Items as values, since when, until before when: of one tuple they come in turns."""
    open_: dict[Any, int] = {}
    stayed = []
    for *values, at, sign in found:
        if sign > 0:
            assert tuple(values) not in open_
            open_[tuple(values)] = at
        else:
            stayed.append((tuple(values), open_.pop(tuple(values)), at))
    return [*stayed, *((values, at, None) for values, at in open_.items())]


def there(stay: tuple[Row, int, int | None], now: int, length: int | None) -> bool:
    """In its window: it has come, has not been taken back, and is not too old."""
    _, since, until = stay
    return (
        since <= now
        and (until is None or now < until)
        and (length is None or now - since <= length)
    )


def net(found: list[Row], now: int) -> Counter[Row]:
    """What items of (values…, changed_at, sign) add up to."""
    counted: Counter[Row] = Counter()
    for *values, at, sign in found:
        if at <= now:
            counted[tuple(values)] += sign
    return counted


@examples
@given(left=ROWS, right=ROWS, other=ROWS, ranges=st.tuples(RANGE, RANGE, RANGE, RANGE))
def test_a_difference_on_the_left_of_another(
    left: list[Row], right: list[Row], other: list[Row], ranges: tuple[Any, ...]
) -> None:
    inner = f"l {window(ranges[0])} EXCEPT ON (k) r {window(ranges[1])}"
    below = items(f"SELECT n, k, changed_at FROM {inner}", l=left, r=right)
    sub = f"(SELECT n, k, changed_at AS since FROM {inner}) d {window(ranges[2], 'since')}"
    found = items(
        f"SELECT n, k, changed_at FROM {sub} EXCEPT ON (k) o {window(ranges[3])}",
        l=left,
        r=right,
        o=other,
    )
    assert [at for *_, at, _ in found] == sorted(at for *_, at, _ in found)
    for now in INSTANTS:
        blocked = {
            k for _, k, t in other if t <= now and (ranges[3] is None or now - t <= ranges[3])
        }
        expected = Counter(
            stay[0]
            for stay in stays(below)
            if there(stay, now, ranges[2]) and stay[0][1] not in blocked
        )
        assert net(found, now) == expected, now


@examples
@given(left=ROWS, right=ROWS, other=ROWS, ranges=st.tuples(RANGE, RANGE, RANGE, RANGE))
def test_a_difference_on_the_right_of_another(
    left: list[Row], right: list[Row], other: list[Row], ranges: tuple[Any, ...]
) -> None:
    inner = f"r {window(ranges[0])} EXCEPT ON (k) o {window(ranges[1])}"
    below = items(f"SELECT n, k, changed_at FROM {inner}", r=right, o=other)
    sub = f"(SELECT n, k, changed_at AS since FROM {inner}) d {window(ranges[2], 'since')}"
    found = items(
        f"SELECT n, k, changed_at FROM l {window(ranges[3])} EXCEPT ON (k) {sub}",
        l=left,
        r=right,
        o=other,
    )
    for now in INSTANTS:
        blocked = {stay[0][1] for stay in stays(below) if there(stay, now, ranges[2])}
        expected = Counter(
            (n, k)
            for n, k, t in left
            if t <= now and (ranges[3] is None or now - t <= ranges[3]) and k not in blocked
        )
        assert net(found, now) == expected, now


@examples
@given(left=ROWS, right=ROWS, ranges=st.tuples(RANGE, RANGE))
def test_a_distinct_row_is_there_while_a_tuple_is(
    left: list[Row], right: list[Row], ranges: tuple[Any, Any]
) -> None:
    inner = f"l {window(ranges[0])} EXCEPT ON (k) r {window(ranges[1])}"
    below = items(f"SELECT n, k, changed_at FROM {inner}", l=left, r=right)
    found = items(f"SELECT DISTINCT k, changed_at FROM {inner}", l=left, r=right)
    for now in INSTANTS:
        expected = Counter({(stay[0][1],) for stay in stays(below) if there(stay, now, None)})
        assert net(found, now) == expected, now
    for key in {k for k, _, _ in found}:
        mine = [(at, sign) for k, at, sign in found if k == key]
        assert [sign for _, sign in mine] == [(-1) ** turn for turn in range(len(mine))]
        assert all(one < other for (one, _), (other, _) in pairwise(mine))


@examples
@given(left=ROWS, right=ROWS, other=ROWS, ranges=st.tuples(RANGE, RANGE))
def test_what_is_joined_adds_up_to_the_pairs_that_are_there(
    left: list[Row], right: list[Row], other: list[Row], ranges: tuple[Any, Any]
) -> None:
    """The sign of a pair is the product of signs: where windows keep nothing apart, the sum over
    all pairs up to an instant is what is there of both."""
    inner = f"l {window(ranges[0])} EXCEPT ON (k) r {window(ranges[1])}"
    below = items(f"SELECT n, k, changed_at FROM {inner}", l=left, r=right)
    sub = f"(SELECT n, k, changed_at FROM {inner}) d [RANGE 1000, WA changed_at]"
    pairs = items(
        f"SELECT d.n, o.n AS m, greatest(changed_at, o.t) AS at FROM {sub}, o [RANGE 1000, WA t]"
        " WHERE d.k = o.k",
        l=left,
        r=right,
        o=other,
    )
    for now in INSTANTS:
        expected = Counter(
            (stay[0][0], m)
            for stay in stays(below)
            for m, k, t in other
            if there(stay, now, None) and t <= now and stay[0][1] == k
        )
        assert +net(pairs, now) == expected, now
        assert -net(pairs, now) == Counter()


def test_aggregates_over_joined_differences() -> None:
    """Both tuples are there from 3 to 5; the pair that both leave with comes at the same time as
    the one that the second leaves with, and adds nothing."""
    rows = {"l": [(0, 0, 1)], "r": [(0, 0, 5)], "o": [(0, 0, 3)], "p": [(0, 0, 7)]}
    sub = "(SELECT k, changed_at FROM {} EXCEPT ON (k) {}) {} [RANGE 100, WA changed_at]"
    query = (
        "SELECT window_end, count(*) AS n [RANGE ALL, SLIDE 2, WA at] FROM ("
        "SELECT d.k, greatest(d.changed_at, e.changed_at) AS at FROM "
        f"{sub.format('l', 'r', 'd')}, {sub.format('o', 'p', 'e')} WHERE d.k = e.k)"
    )
    assert [row[:2] for row in items(query, **rows)] == [(4, 1)]


@pytest.mark.parametrize("first", "ro")
def test_branches_of_a_union_do_not_take_back_each_other(first: str) -> None:
    """Both have the same left tuple: without r it comes at 0 and stays, without o it leaves at 5
    and is back at 7."""
    branches = {
        "r": "(SELECT k, changed_at FROM l EXCEPT ON (k) r)",
        "o": "(SELECT k, changed_at FROM l EXCEPT ON (k) o [RANGE 1, WA t])",
    }
    one, other = branches.pop(first), branches.popitem()[1]
    found = items(
        "SELECT window_end, count(*) AS n, min(changed_at) AS a, max(changed_at) AS b"
        f" [RANGE ALL, SLIDE 10, WA changed_at] FROM {one} UNION ALL {other}",
        l=[(0, 1, 0)],
        r=[],
        o=[(0, 1, 5)],
    )
    assert [row[:4] for row in found] == [(10, 2, 0, 7)]
