"""Everything that takes signed items, against the reference engine, however tuples come."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.joins import timed_inputs
from penstock.kernel.retractions import net_groups, net_items
from tests.kernel.joins.interleaved import Given, check, planned, ran

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("v", pa.int32()), ("t", pa.int32())])
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, 0.1, 1e16, float("nan")]),
        st.sampled_from([None, 1, 2]),
        st.integers(-6, 12),
    ),
    max_size=12,
)
PROMISES: list[dict[str, Any]] = [
    {"ordered": True},
    {"delay": 3},
    {"delay": 40},
    {"delay": 2, "per": "k"},
]
PROMISE = st.sampled_from(PROMISES)
RANGE = st.sampled_from([None, 0, 2, 5])
TURNS = st.lists(st.integers(0, 2), max_size=8)
EVERY = st.sampled_from([None, 1, 3])
LATE = st.sampled_from(["LATE SIDE", "LATE AMEND", "LATE AMEND FOR 3"])
examples = settings(deadline=None, max_examples=12)

CALLS = (
    "count(*) AS c, sum(v) AS s, avg(x) AS a, min(x) AS lo, max(changed_at) AS hi, "
    "first(v) AS f, last(x) AS l, median(x) AS m, sum(v) FILTER (WHERE x > 0) AS sf"
)
WINDOWS = {
    "sliding": "[RANGE 6, SLIDE 2, WA changed_at]",
    "tumbling": "[RANGE 4, SLIDE 4, WA changed_at]",
    "with gaps": "[RANGE 2, SLIDE 5, WA changed_at]",
    "truncated": "[RANGE 6, SLIDE 3, WA CAST(changed_at * 0.5 AS INT)]",
    "landmark": "[RANGE ALL, SLIDE 3, WA changed_at]",
    "rows": "[RANGE 4 ROWS, SLIDE 2 ROWS]",
    "all rows": "[RANGE ALL, SLIDE 3 ROWS]",
    "rows of partitions": "[RANGE 3 ROWS, SLIDE 1 ROWS, PA k]",
    "rank": "[RANGE 4 ROWS, SLIDE 3 ROWS, WA rank(changed_at)]",
    "by tuple": "[RANGE 5, RATTR changed_at, SLIDE 1 ROW, SATTR row-num]",
    "by two tuples": "[RANGE 5, RATTR changed_at, SLIDE 2 ROWS, SATTR row-num]",
    "by tuple of partitions": "[RANGE 5, RATTR changed_at, SLIDE 2 ROWS, SATTR row-num, PA k]",
    "by tuple in rank": "[RANGE 5, RATTR changed_at, SLIDE 2 ROWS, SATTR rank(changed_at)]",
}
COUNTED = ("rows", "all rows", "rank", "by tuple", "by two tuples", "by tuple in rank")


def window(length: int | None) -> str:
    return "" if length is None else f"[RANGE {length}, WA t]"


def streams(rows: Any, promises: Any) -> dict[str, Given]:
    return {
        name: Given(SCHEMA, own, promise)
        for name, own, promise in zip("lro", rows, promises, strict=False)
    }


@pytest.mark.parametrize("kind", WINDOWS)
@examples
@given(
    rows=st.tuples(ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE),
    where=st.sampled_from(["", "WHERE changed_at % 3 <> 0", "WHERE v = 1"]),
    keys=st.sampled_from(["", "GROUP BY k", "GROUP BY k, x", "GROUP BY changed_at % 2"]),
    turns=TURNS,
    every=EVERY,
)
def test_windows(
    kind: str,
    rows: Any,
    promises: Any,
    ranges: Any,
    where: str,
    keys: str,
    turns: list[int],
    every: Any,
) -> None:
    relation = f"l {window(ranges[0])} EXCEPT ON (k) r {window(ranges[1])}"
    sql = f"SELECT {CALLS} {WINDOWS[kind]} FROM {relation} {where} {keys}"
    check(sql, streams(rows, promises), turns, every, in_order=kind in COUNTED)


@examples
@given(
    rows=st.tuples(ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE),
    keys=st.sampled_from(
        [
            "changed_at",
            "CAST(changed_at * 0.25 AS INT)",
            "CAST(changed_at * 0.25 AS INT), k",
            "k, CAST(changed_at * 0.1 AS INT), CAST(changed_at * 0.5 AS INT)",
        ]
    ),
    turns=TURNS,
    every=EVERY,
)
def test_groups(
    rows: Any, promises: Any, ranges: Any, keys: str, turns: list[int], every: Any
) -> None:
    relation = f"l {window(ranges[0])} EXCEPT ON (k) r {window(ranges[1])}"
    sql = f"SELECT {CALLS} FROM {relation} GROUP BY {keys}"
    check(sql, streams(rows, promises), turns, every)


@examples
@given(
    rows=st.tuples(ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE),
    select=st.sampled_from(
        [
            "SELECT DISTINCT k, changed_at FROM {}",
            "SELECT DISTINCT changed_at AS at, x, v FROM {}",
            "SELECT DISTINCT CAST(changed_at * 0.3 AS INT) AS at, k FROM {} WHERE v = 1",
            "SELECT DISTINCT changed_at FROM {}",
            "SELECT count(*) AS n [RANGE 3 ROWS, SLIDE 2 ROWS] FROM"
            " (SELECT DISTINCT k, v, changed_at FROM {})",
            "SELECT k, count(*) AS n, max(changed_at) AS at [RANGE ALL, SLIDE 4] FROM"
            " (SELECT DISTINCT k, changed_at FROM {}) GROUP BY k",
            "SELECT * FROM (SELECT DISTINCT k, changed_at AS since FROM {}) d [RANGE 3]"
            " EXCEPT ON (k) r",
        ]
    ),
    turns=TURNS,
    every=EVERY,
)
def test_distinct(
    rows: Any, promises: Any, ranges: Any, select: str, turns: list[int], every: Any
) -> None:
    relation = f"l {window(ranges[0])} EXCEPT ON (k) r {window(ranges[1])}"
    check(select.format(relation), streams(rows, promises), turns, every)


@examples
@given(
    rows=st.tuples(ROWS, ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE, RANGE),
    select=st.sampled_from(
        [
            "SELECT count(*) AS n, sum(v) AS s [RANGE 5, SLIDE 2, WA t] FROM {}",
            "SELECT count(*) AS n, max(v) AS s [RANGE ALL, SLIDE 3, WA t] FROM {}",
            "SELECT count(*) AS n [RANGE 5, RATTR t, SLIDE 1 ROW, SATTR rank(t)] FROM {}",
            "SELECT sum(v) AS n [RANGE 5, RATTR t, SLIDE 1 ROW, SATTR row-num] FROM {}",
            "SELECT CAST(t * 0.3 AS INT) AS u, count(*) AS n FROM {} GROUP BY CAST(t * 0.3 AS INT)",
            "SELECT DISTINCT v, t FROM {}",
            "SELECT v, t FROM {} WHERE v = 1",
        ]
    ),
    plain=st.booleans(),
    late=LATE,
    turns=TURNS,
    every=EVERY,
)
def test_unions(
    rows: Any,
    promises: Any,
    ranges: Any,
    select: str,
    plain: bool,
    late: str,
    turns: list[int],
    every: Any,
) -> None:
    """Items of two differences of one stream, or of a difference and plain tuples, some late."""
    one = f"(SELECT v, changed_at AS t FROM l {window(ranges[0])} EXCEPT ON (k) r)"
    other = f"(SELECT v, changed_at AS t FROM l {window(ranges[1])} EXCEPT ON (k) o)"
    other = "(SELECT v, t FROM o)" if plain else other
    sql = f"{select.format(f'({one} UNION ALL {other})')} {late}"
    check(sql, streams(rows, promises), turns, every)


@examples
@given(
    rows=st.tuples(ROWS, ROWS),
    ranges=st.tuples(RANGE, RANGE),
    select=st.sampled_from(
        [
            "SELECT k, count(*) AS n [RANGE 5, SLIDE 2, WA changed_at] FROM {} GROUP BY k",
            "SELECT k, max(v) AS n [RANGE 3 ROWS, SLIDE 1 ROWS, PA k] FROM {}",
            "SELECT DISTINCT k, v, changed_at FROM {}",
        ]
    ),
    turns=TURNS,
    every=EVERY,
)
def test_forgetting_keys_and_items_changes_nothing(
    rows: Any, ranges: Any, select: str, turns: list[int], every: Any
) -> None:
    relation = f"l {window(ranges[0])} EXCEPT ON (v) r {window(ranges[1])}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_expiry, "MANY", 1)
        patch.setattr(net_groups, "_MANY", 1)
        patch.setattr(timed_inputs, "_SMALL", 1)
        patch.setattr(net_items, "_AT_ONCE", 3)
        given_ = streams(rows, ({"delay": 2}, {"delay": 4}))
        check(select.format(relation), given_, turns, every)


@examples
@given(
    rows=st.tuples(ROWS, ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE),
    union=st.booleans(),
    turns=TURNS,
    every=EVERY,
)
def test_in_order(
    rows: Any, promises: Any, ranges: Any, union: bool, turns: list[int], every: Any
) -> None:
    """Signs go with their rows, also beside plain tuples."""
    relation = f"l {window(ranges[0])} EXCEPT ON (k) r {window(ranges[1])}"
    sql = f"SELECT changed_at AS t, k, v FROM {relation}"
    if union:
        sql = f"SELECT * FROM ({sql}) UNION ALL (SELECT t, k, v FROM o)"
    streams_ = streams(rows, promises)
    check(f"{sql} EMIT IN ORDER", streams_, turns, every)
    times = [row[0] for row in ran(planned(f"{sql} EMIT IN ORDER", streams_, 7), turns).rows]
    assert times == sorted(times)
