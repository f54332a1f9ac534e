"""Streams that are empty, have one row, or have keys and times that are all the same or missing."""

from __future__ import annotations

import math
from typing import Any

import pytest

import penstock as ps

WINDOWS = {
    "tumbling": "[RANGE TUMBLING 10, WA t]",
    "sliding": "[RANGE 20, SLIDE 10, WA t]",
    "landmark": "[RANGE ALL, SLIDE 10, WA t]",
    "rows": "[RANGE 2 ROWS, SLIDE 2 ROWS, WA row-num]",
    "rank": "[RANGE 2 ROWS, SLIDE 2 ROWS, WA rank(t)]",
    "by tuple": "[RANGE 10, RATTR t, SLIDE 1 ROW, SATTR row-num]",
}


def counts(rows: list[Any], window: str, key: str | None = None) -> list[tuple[Any, ...]]:
    """Keys (if any) and counts of all windows, in the order of the answer."""
    db = ps.connect()
    db.stream("s", rows, schema="t INT, k DOUBLE", progress=ps.progress("t", ordered=True))
    columns = f"{key}, " if key else ""
    group = f" GROUP BY {key}" if key else ""
    query = db.sql(f"SELECT {columns}count(*) AS n {window} FROM s{group}")
    assert isinstance(query, ps.Query)
    assert query.account.late == 0
    table = query.collect().drop_columns(["window_start", "window_end"])
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_no_rows_no_windows(window: str) -> None:
    assert counts([], window) == []


@pytest.mark.parametrize(
    ("kind", "windows"),
    [("tumbling", 1), ("sliding", 2), ("landmark", 1), ("rows", 1), ("rank", 1), ("by tuple", 1)],
)
def test_one_row(kind: str, windows: int) -> None:
    assert counts([(5, 1.0)], WINDOWS[kind]) == [(1,)] * windows


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tumbling", [3]),
        ("sliding", [3, 3]),
        ("landmark", [3]),
        ("rows", [2, 1]),
        ("rank", [2, 1]),
        ("by tuple", [3, 3, 3]),
    ],
)
def test_rows_of_one_time(kind: str, expected: list[int]) -> None:
    assert counts([(5, None)] * 3, WINDOWS[kind]) == [(n,) for n in expected]


def test_missing_keys_are_one_group_and_so_is_nan() -> None:
    keys = [None, math.nan, -0.0, None, 0.0, -math.nan, math.inf]
    found = counts([(5, key) for key in keys], WINDOWS["tumbling"], "k")
    assert sorted((str(key), n) for key, n in found) == [
        ("0.0", 2),
        ("None", 2),
        ("inf", 1),
        ("nan", 2),
    ]


@pytest.mark.parametrize("times", [[-(2**31), 2**31 - 1], [2**31 - 1]], ids=["both", "last"])
def test_the_ends_of_the_range(times: list[int]) -> None:
    """Windows at the ends of a INT reach beyond it."""
    found = counts([(t, None) for t in times], WINDOWS["tumbling"])
    assert found == [(1,)] * len(times)
