"""Join windows: the settled readings, partner intervals, whole columns, and window by window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.plan.join_windows import BandJoin, JoinWindow, SlidingJoin, TumblingJoin, widjoin
from penstock.plan.window_kinds import IdRange

LOW, HIGH = -(2**63), 2**63 - 1
SMALL = st.integers(-25, 25)
TICK = SMALL | st.integers(LOW, LOW + 9) | st.integers(HIGH - 9, HIGH) | st.integers(LOW, HIGH)
AGE = st.integers(0, 12)
LENGTH = st.integers(1, 12)
BIG = st.integers(HIGH - 9, HIGH)
NEAR = st.tuples(TICK, st.integers(-3, 3)).map(
    lambda pair: (pair[0], min(max(pair[0] + pair[1], LOW), HIGH))
)
PAIR = NEAR | st.tuples(TICK, TICK)
# Differences of int64 reach ±(2**64 - 1): bands around there, too, and beyond.
OFFSET = TICK | st.integers(2**64 - 4, 2**64 + 4) | st.integers(-(2**64) - 4, -(2**64) + 4)


def band(ends: list[int]) -> BandJoin:
    return BandJoin(min(ends), max(ends))


TUMBLING = st.builds(TumblingJoin, LENGTH | BIG, TICK)
SLIDING = st.builds(SlidingJoin, AGE | BIG, AGE | BIG)
BAND = st.lists(OFFSET, min_size=1, max_size=2).map(band)
JOIN: st.SearchStrategy[JoinWindow] = TUMBLING | SLIDING | BAND


def test_q5_7_joins_within_five_minutes_of_the_clock() -> None:
    window = TumblingJoin(range=5)
    assert window.matches(10, 14)
    assert window.matches(14, 10)
    assert not window.matches(14, 15)
    assert window.matches(-1, -5)
    assert not window.matches(-1, 0)


def test_q5_8_bounds_the_age_of_each_side() -> None:
    """RANGE 3 on Main1, 2 on Main2: Main2 follows within 3 minutes, Main1 within 2."""
    window = SlidingJoin(left_range=3, right_range=2)
    assert [right for right in range(20) if window.matches(10, right)] == [8, 9, 10, 11, 12, 13]
    assert window.partner_bounds(10) == (8, 13)
    assert window.partner_bounds_of_right(10) == (7, 12)


def test_a_delayed_input_does_not_join_what_came_in_meanwhile() -> None:
    """The thesis' 10:03:00 and 10:10:59, in seconds."""
    assert not SlidingJoin(180, 120).matches(10 * 3600 + 180, 10 * 3600 + 659)


def test_a_join_of_age_zero_is_equality() -> None:
    window = SlidingJoin(0, 0)
    assert [right for right in range(-3, 4) if window.matches(0, right)] == [0]


def test_a_band_may_lie_on_one_side() -> None:
    window = BandJoin(low=-4, high=-2)
    assert [right for right in range(20) if window.matches(10, right)] == [6, 7, 8]
    assert [left for left in range(20) if window.matches(left, 10)] == [12, 13, 14]


def test_the_origin_moves_tumbling_windows() -> None:
    window = TumblingJoin(range=5, origin=2)
    assert window.partner_bounds(2) == (2, 6)
    assert window.partner_bounds_of_right(1) == (-3, 1)
    assert list(window.match(12)) == list(window.match_of_right(16)) == [2]


@given(SLIDING)
def test_a_sliding_join_is_a_band(window: SlidingJoin) -> None:
    assert window.band == BandJoin(low=-window.right_range, high=window.left_range)


@given(JOIN, TICK)
def test_partner_bounds_are_the_first_and_last_match(window: JoinWindow, tick: int) -> None:
    low, high = window.partner_bounds(tick)
    assert low <= high
    assert [window.matches(tick, other) for other in (low - 1, low, high, high + 1)] == [
        False,
        True,
        True,
        False,
    ]
    low, high = window.partner_bounds_of_right(tick)
    assert low <= high
    assert [window.matches(other, tick) for other in (low - 1, low, high, high + 1)] == [
        False,
        True,
        True,
        False,
    ]


@given(JOIN, SMALL)
def test_matches_have_no_gap_between_partner_bounds(window: JoinWindow, tick: int) -> None:
    low, high = window.partner_bounds(tick)
    for other in range(-30, 30):
        assert window.matches(tick, other) == (low <= other <= high)
    low, high = window.partner_bounds_of_right(tick)
    for other in range(-30, 30):
        assert window.matches(other, tick) == (low <= other <= high)


@given(JOIN, st.lists(PAIR, max_size=12))
@example(SlidingJoin(0, 0), [(3, 3), (3, 4), (4, 3)])
@example(BandJoin(-2, -1), [(3, 3), (3, 2), (3, 1), (3, 0), (LOW, HIGH)])
@example(SlidingJoin(HIGH, HIGH), [(LOW, HIGH), (HIGH, LOW), (LOW, -1), (0, HIGH), (LOW, LOW)])
@example(BandJoin(2**64 - 1, 2**64), [(LOW, HIGH), (LOW, HIGH - 1), (HIGH, LOW)])
@example(BandJoin(-(2**64), -(2**64) + 1), [(HIGH, LOW), (HIGH - 1, LOW), (LOW, HIGH)])
@example(BandJoin(2**70, 2**71), [(LOW, HIGH), (0, 0)])
@example(BandJoin(-(2**71), 2**71), [(LOW, HIGH), (HIGH, LOW), (0, 0)])
@example(TumblingJoin(1, LOW), [(LOW, HIGH), (HIGH, HIGH), (HIGH, LOW)])
@example(TumblingJoin(2, HIGH), [(LOW, HIGH), (HIGH, HIGH), (LOW, LOW + 1), (LOW, LOW)])
def test_columns_agree_with_scalars(window: JoinWindow, pairs: list[tuple[int, int]]) -> None:
    left = np.array([pair[0] for pair in pairs], np.int64)
    right = np.array([pair[1] for pair in pairs], np.int64)
    mask = window.matches_columns(left, right)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [window.matches(*pair) for pair in pairs]


@given(TUMBLING, st.lists(TICK, max_size=8))
def test_keys_of_a_tumbling_join(window: TumblingJoin, values: list[int]) -> None:
    keys = window.keys_of(np.array(values, np.int64)).tolist()
    for i, value in enumerate(values):
        for j, other in enumerate(values):
            assert (keys[i] == keys[j]) == window.matches(value, other)


def in_related_windows(left_ids: IdRange, right_ids: IdRange) -> bool:
    return any(widjoin(i, j) for i in left_ids for j in right_ids)


@given(st.builds(SlidingJoin, AGE, AGE), SMALL, SMALL)
def test_a_sliding_join_window_by_window(window: SlidingJoin, left: int, right: int) -> None:
    assert list(window.match(left)) == [left + age for age in range(window.left_range + 1)]
    assert list(window.match_of_right(right)) == [
        right + age for age in range(window.right_range + 1)
    ]
    related = in_related_windows(window.match(left), window.match_of_right(right))
    assert related == window.matches(left, right)


@given(st.builds(TumblingJoin, LENGTH, SMALL), SMALL, SMALL)
def test_a_tumbling_join_window_by_window(window: TumblingJoin, left: int, right: int) -> None:
    assert list(window.match(left)) == [(left - window.origin) // window.range]
    related = in_related_windows(window.match(left), window.match_of_right(right))
    assert related == window.matches(left, right)


@pytest.mark.parametrize("length", [0, -1])
def test_a_tumbling_range_is_positive(length: int) -> None:
    with pytest.raises(PlanError, match="greater than zero"):
        TumblingJoin(length)


def test_ages_are_not_negative_and_bands_not_empty() -> None:
    with pytest.raises(PlanError, match="left input must not be negative"):
        SlidingJoin(-1, 0)
    with pytest.raises(PlanError, match="right input must not be negative"):
        SlidingJoin(0, -1)
    with pytest.raises(PlanError, match="empty"):
        BandJoin(1, 0)


@given(JOIN, st.lists(TICK, max_size=4))
def test_partners_of_whole_columns(window: JoinWindow, ticks: list[int]) -> None:
    values = np.array(ticks, np.int64)
    for columns, bounds in (
        (window.partner_columns, window.partner_bounds),
        (window.partner_columns_of_right, window.partner_bounds_of_right),
    ):
        found = zip(*(each.tolist() for each in columns(values)), strict=True)
        for (low, high), tick in zip(found, ticks, strict=True):
            lowest, highest = bounds(tick)
            if lowest > HIGH or highest < LOW:
                assert high < low
            else:
                assert (low, high) == (max(lowest, LOW), min(highest, HIGH))
