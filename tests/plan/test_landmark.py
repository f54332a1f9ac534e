"""Landmark windows: everything so far, from the first tuple to the highest value reached."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.plan.window_kinds import Landmark, WindowItem

LOW, HIGH = -(2**63), 2**63 - 1
TICK = st.integers(-40, 40) | st.integers(LOW, LOW + 9) | st.integers(HIGH - 9, HIGH)
LENGTH = st.integers(1, 40) | st.integers(HIGH - 9, HIGH)
SMALL = st.integers(-40, 40)
Q5_4 = Landmark(slide=60)
STREAM = [WindowItem(130), WindowItem(65), WindowItem(300)]


def test_a_result_per_minute_from_the_first_tuple_on() -> None:
    assert Q5_4.windows(STREAM) == [1, 2, 3, 4, 5]
    assert [Q5_4.extent(w, STREAM) for w in range(6)] == [
        [],
        [1],
        [0, 1],
        [0, 1],
        [0, 1],
        [0, 1, 2],
    ]


def test_a_tuple_is_in_every_window_from_its_own_on() -> None:
    assert Q5_4.wids(0, STREAM) == [2, 3, 4, 5]
    assert Q5_4.wids(2, STREAM) == [5]


def test_progress_beyond_the_last_tuple_adds_windows() -> None:
    assert Q5_4.windows(STREAM, high=420) == [1, 2, 3, 4, 5, 6, 7]
    assert Q5_4.wids(2, STREAM, high=420) == [5, 6, 7]
    assert Q5_4.windows([], high=420) == []


def test_progress_below_the_last_tuple_takes_none_away() -> None:
    assert Q5_4.windows(STREAM, high=100) == Q5_4.windows(STREAM)
    assert Q5_4.wids(0, STREAM, high=100) == Q5_4.wids(0, STREAM)


def test_bounds_have_no_start() -> None:
    assert Landmark(60, origin=7).bounds(1) == (None, 127)
    assert Landmark(60, origin=7).closes_at(1) == 127


@pytest.mark.parametrize("slide", [0, -5])
def test_the_slide_is_positive(slide: int) -> None:
    with pytest.raises(PlanError, match="SLIDE must be greater than zero"):
        Landmark(slide)


@given(st.lists(st.builds(WindowItem, SMALL), min_size=1, max_size=20), LENGTH, SMALL, SMALL)
def test_inverse_up_to_the_highest_value(
    stream: list[WindowItem], slide: int, origin: int, high: int
) -> None:
    window = Landmark(slide, origin)
    windows = window.windows(stream, high=high)
    for t in range(len(stream)):
        wids = window.wids(t, stream, high=high)
        assert wids == [w for w in windows if t in window.extent(w, stream)]
    reached = max(high, *(item.value for item in stream))
    assert window.bounds(windows[-1] - 1)[1] <= reached < window.bounds(windows[-1])[1]


@given(st.integers(-50, 50), LENGTH, TICK)
def test_no_smaller_promise_closes_a_window(w: int, slide: int, origin: int) -> None:
    window = Landmark(slide, origin)
    assert not window.contains(w, window.closes_at(w))
    assert window.contains(w, window.closes_at(w) - 1)


@given(st.lists(TICK, max_size=12), LENGTH, TICK)
@example([HIGH], 1, -1)
@example([LOW, HIGH], 2, LOW)
@example([LOW, HIGH], HIGH, HIGH)
def test_columns_agree_with_scalars(values: list[int], slide: int, origin: int) -> None:
    window = Landmark(slide, origin)
    column = np.array(values, np.int64)
    expected = [window.wids(0, [WindowItem(value)])[0] for value in values]
    if all(LOW <= w <= HIGH for w in expected):
        assert window.first_wid(column).tolist() == expected
    else:
        with pytest.raises(PlanError, match="does not fit 64 bits"):
            window.first_wid(column)
