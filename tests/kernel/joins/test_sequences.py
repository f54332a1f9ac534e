"""RECENT and CHRONICLE against the reference engine, however tuples come."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import RunError
from penstock.kernel.joins import sequence, timed_inputs
from tests.kernel.joins.interleaved import Given, check, keeping, planned, ran

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("v", pa.int32()), ("t", pa.int32())])
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, 1.0, float("nan")]),
        st.sampled_from([None, 1, 2, 3]),
        st.integers(-6, 12),
    ),
    max_size=16,
)
PROMISES: list[dict[str, Any]] = [
    {"ordered": True},
    {"delay": 3},
    {"delay": 40},
    {"slack": 2},
    {"delay": 2, "per": "k"},
]
PROMISE = st.sampled_from(PROMISES)
TURNS = st.lists(st.integers(0, 1), max_size=8)
EVERY = st.sampled_from([None, 1, 3])
examples = settings(deadline=None, max_examples=40)
MODES = pytest.mark.parametrize("mode", ["RECENT", "CHRONICLE"])
ON = [
    "",
    "ON a.k = b.k",
    "ON a.x = b.x",
    "ON a.k = b.k AND a.x = b.x",
    "ON a.k = b.k AND a.v < b.v",
    "ON a.v <> b.v",
    "ON a.k = b.k AND a.v > 1 AND b.v > 1",
    "ON a.v + b.v > 3 AND 2147483647 - a.v > 2147483645 AND a.k = b.k",
    "ON a.v > 1 AND b.x = 1",
    "ON 1 > 2",
]


@MODES
@examples
@given(
    first=ROWS,
    second=ROWS,
    promises=st.tuples(PROMISE, PROMISE),
    on=st.sampled_from(ON),
    within=st.none() | st.sampled_from([0, 2, 5, 1000]),
    keeps=st.tuples(st.booleans(), st.booleans()),
    late=st.sampled_from(["", "LATE SIDE", "LATE AMEND", "LATE AMEND FOR 3"]),
    turns=TURNS,
    every=EVERY,
)
def test_against_the_reference(
    mode: str,
    first: list[Any],
    second: list[Any],
    promises: tuple[Any, Any],
    on: str,
    within: int | None,
    keeps: tuple[bool, bool],
    late: str,
    turns: list[int],
    every: int | None,
) -> None:
    clauses = f"MODE {mode} {on}" + (f" WITHIN {within}" if within is not None else "")
    sql = f"SELECT * FROM SEQUENCE(a THEN b {clauses}) {late}"
    streams = {"a": Given(SCHEMA, first, promises[0]), "b": Given(SCHEMA, second, promises[1])}
    change = keeping(keeps[0] and within is not None, keeps[1])
    check(sql, streams, turns, every, change)


@MODES
@examples
@given(
    first=ROWS,
    second=ROWS,
    promises=st.tuples(PROMISE, PROMISE),
    on=st.sampled_from(ON),
    within=st.none() | st.sampled_from([0, 2, 5]),
    keeps=st.tuples(st.booleans(), st.booleans()),
    turns=TURNS,
    every=EVERY,
)
def test_rows_can_be_counted(
    mode: str,
    first: list[Any],
    second: list[Any],
    promises: tuple[Any, Any],
    on: str,
    within: int | None,
    keeps: tuple[bool, bool],
    turns: list[int],
    every: int | None,
) -> None:
    """A window over rows gets them in one order, whatever came first."""
    clauses = f"MODE {mode} {on}" + (f" WITHIN {within}" if within is not None else "")
    calls = "count(a.t) AS n, first(a.v) AS f, last(b.v) AS l, sum(a.v) AS s"
    sql = f"SELECT {calls} [RANGE 3 ROWS, SLIDE 2 ROWS] FROM SEQUENCE(a THEN b {clauses})"
    streams = {"a": Given(SCHEMA, first, promises[0]), "b": Given(SCHEMA, second, promises[1])}
    change = keeping(keeps[0] and within is not None, keeps[1])
    check(sql, streams, turns, every, change, in_order=True)


@MODES
@settings(deadline=None, max_examples=20)
@given(first=ROWS, second=ROWS, turns=TURNS, every=EVERY, within=st.none() | st.just(3))
def test_forgetting_keys_and_tuples_changes_nothing(
    mode: str,
    first: list[Any],
    second: list[Any],
    turns: list[int],
    every: int | None,
    within: int | None,
) -> None:
    clauses = f"MODE {mode} ON a.v = b.v" + (f" WITHIN {within}" if within is not None else "")
    streams = {"a": Given(SCHEMA, first, {"delay": 2}), "b": Given(SCHEMA, second, {"delay": 4})}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "_MANY", 1)
        patch.setattr(timed_inputs, "_SMALL", 1)
        patch.setattr(timed_inputs, "_PART", 0)  # never in one piece for the sake of taking some
        check(f"SELECT * FROM SEQUENCE(a THEN b {clauses})", streams, turns, every)


@MODES
def test_conditions_that_fail_are_asked_of_candidates_alone(mode: str) -> None:
    """The sum has no value for the pair of key 'b'."""
    on = "a.k = b.k AND a.v + b.v + 9223372036854775800 > 0"
    sql = f"SELECT * FROM SEQUENCE(a THEN b MODE {mode} ON {on})"
    first = Given(SCHEMA, [("a", None, 1, 1), ("b", None, 9, 2)], {"ordered": True})
    second = Given(SCHEMA, [("a", None, 1, 5)], {"ordered": True})
    (pair,) = ran(planned(sql, {"a": first, "b": second}, 7)).rows
    assert (pair[3], pair[-1]) == (1, 5)
    fails = Given(SCHEMA, [*second.rows, ("b", None, 9, 6)], {"ordered": True})
    with pytest.raises(RunError, match="too large"):
        ran(planned(sql, {"a": first, "b": fails}, 7))
