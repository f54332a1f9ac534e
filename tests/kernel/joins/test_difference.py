"""EXCEPT ON against the reference engine, however tuples come; and what is kept of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.joins import difference, timed_inputs
from tests.kernel.joins.feeding_sequences import FedDifference
from tests.kernel.joins.interleaved import Given, check

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("v", pa.int32()), ("t", pa.int32())])
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, float("nan")]),
        st.sampled_from([1, 2]),
        st.integers(-6, 12),
    ),
    max_size=12,
)
PROMISES: list[dict[str, Any]] = [
    {"ordered": True},
    {"delay": 3},
    {"delay": 40},
    {"slack": 2},
    {"delay": 2, "per": "k"},
]
PROMISE = st.sampled_from(PROMISES)
RANGE = st.sampled_from([None, 0, 2, 5])
TURNS = st.lists(st.integers(0, 2), max_size=8)
EVERY = st.sampled_from([None, 1, 3])
examples = settings(deadline=None, max_examples=40)


def window(length: int | None, attribute: str = "t") -> str:
    return "" if length is None else f"[RANGE {length}, WA {attribute}]"


def streams(rows: Any, promises: Any) -> dict[str, Given]:
    return {
        name: Given(SCHEMA, own, promise)
        for name, own, promise in zip("lro", rows, promises, strict=False)
    }


@examples
@given(
    rows=st.tuples(ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE),
    on=st.sampled_from(["k", "x", "k, x"]),
    late=st.sampled_from(["", "LATE SIDE", "LATE AMEND", "LATE AMEND FOR 3"]),
    turns=TURNS,
    every=EVERY,
)
def test_against_the_reference(
    rows: Any, promises: Any, ranges: Any, on: str, late: str, turns: list[int], every: Any
) -> None:
    sql = f"SELECT * FROM l {window(ranges[0])} EXCEPT ON ({on}) r {window(ranges[1])} {late}"
    check(sql, streams(rows, promises), turns, every)


@examples
@given(
    rows=st.tuples(ROWS, ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE, RANGE, RANGE),
    left=st.booleans(),
    where=st.sampled_from(["", "WHERE changed_at % 3 <> 0"]),
    late=st.sampled_from(["", "LATE AMEND"]),
    turns=TURNS,
    every=EVERY,
)
def test_a_difference_within_another(
    rows: Any,
    promises: Any,
    ranges: Any,
    left: bool,
    where: str,
    late: str,
    turns: list[int],
    every: Any,
) -> None:
    inner = f"l {window(ranges[0])} EXCEPT ON (k) r {window(ranges[1])}"
    columns = "k, x, v, changed_at AS since"
    inner = f"(SELECT {columns} FROM {inner} {where}) d {window(ranges[2], 'since')}"
    outer = f"o {window(ranges[3])}"
    one, other = (inner, outer) if left else (outer, inner)
    check(
        f"SELECT * FROM {one} EXCEPT ON (k) {other} {late}", streams(rows, promises), turns, every
    )


@examples
@given(
    rows=st.tuples(ROWS, ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE, RANGE),
    turns=TURNS,
    every=EVERY,
)
def test_a_union_of_items_and_plain_tuples(
    rows: Any, promises: Any, ranges: Any, turns: list[int], every: Any
) -> None:
    """Plain tuples may be late, and are never taken back."""
    items = f"(SELECT k, changed_at AS t FROM l {window(ranges[0])} EXCEPT ON (k) r)"
    plain = "(SELECT k, t FROM o)"
    sql = (
        f"SELECT * FROM o {window(ranges[1])} EXCEPT ON (k)"
        f" ({items} UNION ALL {plain}) u {window(ranges[2])} LATE SIDE"
    )
    check(sql, streams(rows, promises), turns, every)


@settings(deadline=None, max_examples=20)
@given(rows=st.tuples(ROWS, ROWS), ranges=st.tuples(RANGE, RANGE), turns=TURNS, every=EVERY)
def test_forgetting_keys_and_tuples_changes_nothing(
    rows: Any, ranges: Any, turns: list[int], every: Any
) -> None:
    sql = f"SELECT * FROM l {window(ranges[0])} EXCEPT ON (k, v) r {window(ranges[1])}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difference, "_MANY", 1)
        patch.setattr(timed_inputs, "_SMALL", 1)
        check(sql, streams(rows, ({"delay": 2}, {"delay": 4})), turns, every)


def test_items_are_final_when_the_right_input_has_passed_them() -> None:
    fed = FedDifference("l [RANGE 10] EXCEPT ON (k) r [RANGE 3]")
    fed.left([(0, 1)], bound=2)
    assert fed.items == []
    fed.right([(0, 5)], bound=5)
    assert fed.items == [(1, 1)]  # at 5 it may be hidden by others, too
    fed.right([], bound=9)
    assert fed.items == [(1, 1), (5, -1)]
    fed.right([], bound=10)
    assert fed.items[2:] == [(9, 1)]
    fed.left([(0, 3)], bound=4)  # another one, in time for its own input
    assert fed.items[3:] == [(3, 1), (5, -1), (9, 1)]


def test_tuples_are_kept_for_as_long_as_their_windows() -> None:
    fed = FedDifference("l [RANGE 10] EXCEPT ON (k) r [RANGE 3]")
    fed.left([(n, n) for n in range(100)], bound=100)
    fed.right([(n, n) for n in range(0, 100, 2)], bound=50)
    # left tuples from 39 on, which leave at 50; right ones from 46 on, after which they are back
    assert fed.held == 61 + 27


def test_who_is_hidden_for_ever_is_forgotten() -> None:
    fed = FedDifference("l EXCEPT ON (k) r")
    fed.left([(n % 10, n) for n in range(100)], bound=100)
    fed.right([(n % 5, n) for n in range(50)], bound=60)
    # those of the other keys and those from 60 on, and a right tuple for each of these keys
    assert fed.held == 70 + 5
    fed.left([(3, 200), (7, 200)], bound=300)
    fed.right([], bound=300)
    assert fed.held == 51 + 5
    assert fed.items[-1] == (200, 1)
