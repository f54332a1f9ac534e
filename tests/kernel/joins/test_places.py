"""Key and time as one number: the order is kept, and whatever lies between bounds is found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.kernel.joins.sorted_run import KeyTimePlaces, SortedRun, Tuples
from tests.kernel.driving import examples

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
    found = run.find(run.places.wanted(codes, lows, highs, LOW, HIGH))
    by_tuple: list[list[int]] = [[] for _ in wanted]
    for of, begin, count in zip(found.of, found.begins, found.counts, strict=True):
        by_tuple[of] = sorted(run.order[begin : begin + count].tolist())
    assert by_tuple == expected
    for each, partners in zip(wanted, expected, strict=True):
        one = run.places.wanted_one(*each)
        begin, count = run.find_one(one) if one is not None else (0, 0)
        assert sorted(run.order[begin : begin + count].tolist()) == partners
    if all(low <= high for _, low, high in wanted):
        near = run.find(run.places.wanted(codes, lows, highs, int(lows.min()), int(highs.max())))
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


@pytest.mark.parametrize(("keys", "times"), [(9, 50), (30_000, 10**7), (2**40, 10**9)])
def test_many_tuples(keys: int, times: int) -> None:
    """They are sorted, and looked for, in other ways than few."""
    generator = np.random.default_rng(keys)
    count = 4_200
    codes = generator.integers(-keys, keys, count)
    ticks = generator.integers(-times, times, count)
    run = SortedRun.of(Tuples(_numbered(count), codes, ticks))
    in_order = np.lexsort((ticks, codes))
    assert (codes[run.order] == codes[in_order]).all()
    assert (ticks[run.order] == ticks[in_order]).all()
    lows, highs = run.ticks - times // 4, run.ticks + times // 3
    wanted = run.places.wanted(run.codes, lows, highs, int(lows.min()), int(highs.max()))
    found = run.find(wanted)
    counts = np.zeros(count, np.int64)
    counts[found.of] = found.counts
    some = np.arange(0, count, 40)
    equal = run.codes[some, np.newaxis] == codes
    near = (ticks >= lows[some, np.newaxis]) & (ticks <= highs[some, np.newaxis])
    assert (counts[some] == (equal & near).sum(axis=1)).all()


def test_places_are_shared_while_tuples_have_room_in_them() -> None:
    first = run_of([(3, 1_000), (9, 5_000)])
    later = run_of([(10, 10**9), (0, 10)], first.places)
    assert later.places is first.places
    far = run_of([(2**50, 0)], first.places)
    assert far.places is not first.places
    rows = [(3, 1_000), (9, 5_000), (2**50, 0)]
    check(SortedRun.merged([first, far], 1), rows, [(3, 0, 2_000), (2**50, -1, 1)])
