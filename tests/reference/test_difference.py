"""EXCEPT ON, checked instant by instant: what the items so far add up to is the difference now."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, examples, tuples

SCHEMA = "n INT, k STRING, j INT, t INT"


@st.composite
def numbered(draw: st.DrawFn) -> list[Row]:
    """Rows (n, k, j, t), keys may be NULL."""
    keys = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1, None]))
    found = draw(st.lists(st.tuples(keys, st.integers(-6, 10)), max_size=9))
    return [(n, k, j, t) for n, ((k, j), t) in enumerate(found)]


ROWS = numbered()
RANGE = st.none() | st.integers(0, 6)


def difference(
    left: list[Row], right: list[Row], ranges: tuple[Any, Any], on: str = "k"
) -> list[Row]:
    """The items as (n, changed_at, sign)."""
    windows = ["" if r is None else f"[RANGE {r}, WA t]" for r in ranges]
    promise = ps.progress("t", ordered=True)
    query = ask(
        f"SELECT n, changed_at FROM l {windows[0]} EXCEPT ON ({on}) r {windows[1]} LATE AMEND",
        l=Stream(SCHEMA, left, promise),
        r=Stream(SCHEMA, right, promise),
    )
    table = query.collect()
    assert table.column_names == ["n", "changed_at", "_sign"]
    return tuples(table)


def stays(row: Row, now: int, length: int | None) -> bool:
    """In its window: it has come, and its age does not exceed the window."""
    return row[-1] <= now and (length is None or now - row[-1] <= length)


@examples
@given(left=ROWS, right=ROWS, ranges=st.tuples(RANGE, RANGE), both=st.booleans())
def test_every_instant(
    left: list[Row], right: list[Row], ranges: tuple[Any, Any], both: bool
) -> None:
    """NULL keys equal each other here: the difference compares as GROUP BY does."""
    items = difference(left, right, ranges, "k, j" if both else "k")
    width = 3 if both else 2
    for now in range(-8, 30):
        expected = Counter(
            row[0]
            for row in left
            if stays(row, now, ranges[0])
            and not any(
                stays(other, now, ranges[1]) and other[1:width] == row[1:width] for other in right
            )
        )
        net: Counter[int] = Counter()
        for n, changed_at, sign in items:
            if changed_at <= now:
                net[n] += sign
        assert net == expected, now


@examples
@given(left=ROWS, right=ROWS, ranges=st.tuples(RANGE, RANGE))
def test_items_come_and_go_in_turns(
    left: list[Row], right: list[Row], ranges: tuple[Any, Any]
) -> None:
    """In the order they come out, every left tuple is +, −, +, … at ever later times: nothing is
    taken back before it was there, and nothing comes only to go at the same instant."""
    items = difference(left, right, ranges)
    assert [at for _, at, _ in items] == sorted(at for _, at, _ in items)
    for n, *_ in left:
        mine = [(at, sign) for number, at, sign in items if number == n]
        assert [sign for _, sign in mine] == [(-1) ** turn for turn in range(len(mine))]
        assert all(one < other for (one, _), (other, _) in pairwise(mine))


@examples
@given(left=ROWS, right=ROWS)
def test_without_windows_the_net_is_the_anti_join(left: list[Row], right: list[Row]) -> None:
    net: Counter[int] = Counter()
    for n, _, sign in difference(left, right, (None, None)):
        net[n] += sign
    keys = {row[1] for row in right}
    assert +net == Counter(row[0] for row in left if row[1] not in keys)


@pytest.mark.parametrize(
    ("right", "ranges", "expected"),
    [
        # alone: it enters, and leaves when it is older than its window
        ([], (4, 2), [(0, 0, 1), (0, 5, -1)]),
        ([], (None, 2), [(0, 0, 1)]),
        # a match while it is there: out at 2, back at 5, when the match is older than 2
        ([("a", 2)], (9, 2), [(0, 0, 1), (0, 2, -1), (0, 5, 1), (0, 10, -1)]),
        # decision 9: the first match leaves at 5, but the second one is there until 6
        ([("a", 2), ("a", 3)], (9, 2), [(0, 0, 1), (0, 2, -1), (0, 6, 1), (0, 10, -1)]),
        ([("a", 2), ("a", 2)], (9, 2), [(0, 0, 1), (0, 2, -1), (0, 5, 1), (0, 10, -1)]),
        # one leaves at the instant the next comes: no gap, no items
        ([("a", 2), ("a", 5)], (9, 2), [(0, 0, 1), (0, 2, -1), (0, 8, 1), (0, 10, -1)]),
        # a match at the same instant, and one from before
        ([("a", 0)], (3, 1), [(0, 2, 1), (0, 4, -1)]),
        ([("a", -1)], (3, 1), [(0, 1, 1), (0, 4, -1)]),
        ([("a", -1)], (3, None), []),
        ([("a", 0)], (1, 5), []),
        # other keys do not matter
        ([("b", 1), (None, 1)], (2, 9), [(0, 0, 1), (0, 3, -1)]),
    ],
)
def test_examples(right: list[Row], ranges: tuple[Any, Any], expected: list[Row]) -> None:
    rows = [(n, k, 1, t) for n, (k, t) in enumerate(right)]
    assert difference([(0, "a", 1, 0)], rows, ranges) == expected


def test_null_keys_are_equal() -> None:
    left = [(0, None, 1, 0), (1, "a", 1, 0)]
    assert difference(left, [(0, None, 1, 0)], (None, None)) == [(1, 0, 1)]


# --- aggregates over a difference: of the items in a window, those not taken back there -----------


def aggregate(call: str, window: str, relation: str, left: list[Row], right: list[Row]) -> Any:
    query = ask(
        f"SELECT window_end, {call} AS y [{window}, WA changed_at] FROM {relation}",
        l=Stream("k BIGINT, t INT", left, ps.progress("t", ordered=True)),
        r=Stream("k BIGINT, t INT", right, ps.progress("t", ordered=True)),
    )
    table = query.collect()
    return list(zip(*(table.column(c).to_pylist() for c in ("window_end", "y")), strict=True))


PLAIN = "l EXCEPT ON (k) r"
AGAIN = "l EXCEPT ON (k) r [RANGE 3, WA t]"  # back at 9 after a match at 5
DISTINCT = "(SELECT DISTINCT k, t FROM l) EXCEPT ON (k) r"
UNITED = "((SELECT k, t FROM l) UNION ALL (SELECT k + 10 AS k, t FROM l)) EXCEPT ON (k) r"


@pytest.mark.parametrize(
    ("call", "window", "relation", "left", "expected"),
    [
        ("count(*)", "RANGE ALL, SLIDE 5", PLAIN, [(1, 0), (2, 1)], [(5, 2), (10, 1)]),
        ("sum(k)", "RANGE ALL, SLIDE 5", PLAIN, [(1, 0), (2, 1)], [(5, 3), (10, 2)]),
        ("count(*)", "RANGE 5, SLIDE 5", PLAIN, [(1, 0), (2, 1)], [(5, 2)]),
        ("count(*)", "RANGE ALL, SLIDE 5", AGAIN, [(1, 0), (2, 1)], [(5, 2), (10, 2)]),
        # of +, − and + again, the last is left
        ("max(changed_at)", "RANGE ALL, SLIDE 10", AGAIN, [(1, 0)], [(10, 9)]),
        # a − that comes before a + does not take it back
        ("count(*)", "RANGE 5, SLIDE 5", AGAIN, [(1, 0)], [(5, 1), (10, 1)]),
        ("sum(k)", "RANGE ALL, SLIDE 10", DISTINCT, [(1, 0), (2, 0)], [(10, 2)]),
        ("sum(k)", "RANGE ALL, SLIDE 10", UNITED, [(1, 0)], [(10, 11)]),
    ],
)
def test_aggregates(
    call: str, window: str, relation: str, left: list[Row], expected: list[Row]
) -> None:
    assert aggregate(call, window, relation, left, [(1, 5)]) == expected


def test_groups_by_the_time_of_the_change() -> None:
    """The group of 0 is complete before the tuple leaves at 2."""
    promise = ps.progress("t", ordered=True)
    query = ask(
        "SELECT changed_at, count(*) AS n FROM l EXCEPT ON (k) r GROUP BY changed_at",
        l=Stream("k INT, t INT", [(1, 0)], promise),
        r=Stream("k INT, t INT", [(1, 2)], promise),
    )
    assert [row[:2] for row in tuples(query.collect())] == [(0, 1)]
