"""Sequences and differences over times anywhere in 64 bits: nothing wraps around."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.model.types import INT64_MAX, INT64_MIN
from tests.kernel.joins.interleaved import Given, check, keeping

SCHEMA = pa.schema([("k", pa.int32()), ("t", pa.int64())])
TIMES = [INT64_MIN, INT64_MIN + 1, INT64_MIN + 5, -1, 0, 3, INT64_MAX - 6, INT64_MAX - 1, INT64_MAX]
ROWS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(TIMES)), max_size=10)
PROMISE = st.sampled_from([{"ordered": True}, {"delay": 2**62}])
LENGTH = st.sampled_from([None, 0, 4, 2**62, INT64_MAX])
examples = settings(deadline=None, max_examples=25)


@pytest.mark.parametrize("mode", ["RECENT", "CHRONICLE"])
@examples
@given(
    rows=st.tuples(ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE),
    within=LENGTH,
    on=st.sampled_from(["", "ON a.k = b.k", "ON a.k < b.k"]),
    keeps=st.booleans(),
    turns=st.lists(st.integers(0, 1), max_size=6),
)
def test_sequences(
    mode: str, rows: Any, promises: Any, within: Any, on: str, keeps: bool, turns: list[int]
) -> None:
    clauses = f"MODE {mode} {on}" + (f" WITHIN {within}" if within is not None else "")
    streams = {
        name: Given(SCHEMA, own, promise)
        for name, own, promise in zip("ab", rows, promises, strict=True)
    }
    change = keeping(keeps and within is not None, keeps)
    check(f"SELECT * FROM SEQUENCE(a THEN b {clauses})", streams, turns, 3, change)


@examples
@example(  # the last tick of all is not the end
    rows=([(0, -1), (0, -1), (0, -1)], []),
    promises=({"ordered": True}, {"ordered": True}),
    ranges=(INT64_MAX, None),
    turns=[1],
)
@given(
    rows=st.tuples(ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE),
    ranges=st.tuples(LENGTH, LENGTH),
    turns=st.lists(st.integers(0, 1), max_size=6),
)
def test_differences(rows: Any, promises: Any, ranges: Any, turns: list[int]) -> None:
    windows = ["" if each is None else f"[RANGE {each}, WA t]" for each in ranges]
    streams = {
        name: Given(SCHEMA, own, promise)
        for name, own, promise in zip("lr", rows, promises, strict=True)
    }
    sql = f"SELECT * FROM l {windows[0]} EXCEPT ON (k) r {windows[1]}"
    check(sql, streams, turns, 3)
