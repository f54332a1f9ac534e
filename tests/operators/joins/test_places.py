"""Key and time as one number: the order is kept, and whatever lies between bounds is found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.operators.joins.places import KeyTimePlaces
from penstock.operators.joins.sorted_run import SortedRun
from penstock.operators.joins.tuples import Tuples
from tests.operators.driving import examples

LOW, HIGH = -(2**63), 2**63 - 1
NUMBER = (
    st.integers(-5, 5)
    | st.integers(10**12, 10**12 + 5)
    | st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH, 2**61, -(2**61)])
)
TUPLES = st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=12)
WANTED = st.lists(st.tuples(NUMBER, NUMBER, NUMBER), min_size=1, max_size=8)
EXTREME = [(LOW, LOW), (HIGH, HIGH), (0, 0), (LOW, HIGH)]


def columns(rows: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


def run_of(rows: list[tuple[int, int]], like: KeyTimePlaces | None = None) -> SortedRun:
    codes, ticks = columns(rows)
    return SortedRun.of(Tuples(_numbered(len(rows)), codes, ticks), like)


def _numbered(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(np.arange(count))})


@examples
@given(rows=TUPLES)
@example(rows=EXTREME)
def test_there_and_back(rows: list[tuple[int, int]]) -> None:
    codes, ticks = columns(rows)
    places = KeyTimePlaces.of_tuples(codes, ticks)
    found = places.of(codes, ticks)
    assert (places.codes(found) == codes).all()
    assert (places.ticks(found) == ticks).all()
    assert [rows[i] for i in np.argsort(found, kind="stable")] == sorted(rows)


def check(run: SortedRun, rows: list[tuple[int, int]], wanted: list[tuple[int, int, int]]) -> None:
    assert [rows[i] for i in run.order.tolist()] == sorted(rows)
    assert (run.lowest, run.highest) == (min(t for _, t in rows), max(t for _, t in rows))
    wanted = sorted(wanted)
    codes, lows, highs = columns(wanted)
    expected = [
        sorted(i for i, (k, t) in enumerate(rows) if k == code and low <= t <= high)
        for code, low, high in wanted
    ]
    found = run.find(codes, lows, highs, LOW, HIGH)
    by_tuple: list[list[int]] = [[] for _ in wanted]
    for of, begin, count in zip(found.of, found.begins, found.counts, strict=True):
        by_tuple[of] = sorted(run.order[begin : begin + count].tolist())
    assert by_tuple == expected
    for each, partners in zip(wanted, expected, strict=True):
        begin, count = run.find_one(*each)
        assert sorted(run.order[begin : begin + count].tolist()) == partners
    if all(low <= high for _, low, high in wanted):
        near = run.find(codes, lows, highs, int(lows.min()), int(highs.max()))
        assert near.counts.tolist() == found.counts.tolist()


@examples
@given(rows=TUPLES, wanted=WANTED)
@example(rows=EXTREME, wanted=[(LOW, LOW, HIGH), (0, HIGH, LOW), (HIGH, LOW, HIGH)])
def test_partners(rows: list[tuple[int, int]], wanted: list[tuple[int, int, int]]) -> None:
    check(run_of(rows), rows, wanted)


@examples
@given(parts=st.lists(TUPLES, min_size=1, max_size=4), wanted=WANTED)
def test_partners_in_merged_runs(
    parts: list[list[tuple[int, int]]], wanted: list[tuple[int, int, int]]
) -> None:
    runs = [run_of(parts[0])]
    for part in parts[1:]:
        runs.append(run_of(part, runs[-1].places))
    check(SortedRun.merged(runs, 1), [row for part in parts for row in part], wanted)


@examples
@given(rows=TUPLES, limit=NUMBER, wanted=WANTED)
def test_what_is_left(
    rows: list[tuple[int, int]], limit: int, wanted: list[tuple[int, int, int]]
) -> None:
    run = run_of(rows)
    assert run.below(limit) == sum(t < limit for _, t in rows)
    stays = run.ticks >= limit
    if stays.any():
        left = run.only(stays)
        numbers = left.rows.column("n").to_pylist()
        check(left, [rows[number] for number in numbers], wanted)
