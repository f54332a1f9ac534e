"""Sliding windows: the thesis' examples, any ratio of RANGE and SLIDE, and whole columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.model.arrays import floor_div
from penstock.plan.window_kinds import Sliding, WindowItem

LOW, HIGH = -(2**63), 2**63 - 1
# Small numbers, the ends of int64, and everything between.
TICK = st.integers(-40, 40) | st.integers(LOW, LOW + 9) | st.integers(HIGH - 9, HIGH)
TICK |= st.integers(LOW, HIGH)
LENGTH = st.integers(1, 40) | st.integers(HIGH - 9, HIGH) | st.integers(1, HIGH)
Q5_1 = Sliding(range=600, slide=60)


def test_the_tuple_at_five_seconds_of_q5_1() -> None:
    assert Q5_1.wids(0, [WindowItem(5)]) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("w", "minutes"), [(0, (-9, 1)), (8, (-1, 9)), (9, (0, 10)), (10, (1, 11)), (14, (5, 15))]
)
def test_the_windows_of_q5_1(w: int, minutes: tuple[int, int]) -> None:
    assert Q5_1.bounds(w) == (minutes[0] * 60, minutes[1] * 60)
    assert Q5_1.closes_at(w) == minutes[1] * 60


def test_window_ten_of_q5_1_holds_minutes_one_to_eleven() -> None:
    stream = [WindowItem(seconds) for seconds in (659, 60, 59, 660, 300)]
    assert Q5_1.extent(10, stream) == [0, 1, 4]


def test_a_range_that_the_slide_does_not_divide() -> None:
    window = Sliding(range=5, slide=2)
    assert [list(window.wids_of(value)) for value in range(4)] == [
        [0, 1],
        [0, 1, 2],
        [1, 2],
        [1, 2, 3],
    ]


def test_a_slide_longer_than_the_range_leaves_gaps() -> None:
    window = Sliding(range=2, slide=5)
    assert [list(window.wids_of(value)) for value in range(6)] == [[], [], [], [0], [0], []]
    assert window.windows([WindowItem(0), WindowItem(4), WindowItem(13)]) == [0, 2]


def test_windows_without_tuples_are_not_listed() -> None:
    assert Sliding(2, 1).windows([WindowItem(9), WindowItem(0)]) == [0, 1, 9, 10]


def test_ids_below_the_origin_are_negative() -> None:
    window = Sliding(range=10, slide=10, origin=100)
    assert window.wids(0, [WindowItem(99)]) == [-1]
    assert window.bounds(-1) == (90, 100)


def test_tumbling() -> None:
    assert Sliding(7, 7).is_tumbling
    assert not Sliding(7, 6).is_tumbling


@pytest.mark.parametrize(("length", "slide"), [(0, 1), (-1, 1), (1, 0), (1, -1)])
def test_lengths_are_positive(length: int, slide: int) -> None:
    with pytest.raises(PlanError, match="greater than zero"):
        Sliding(length, slide)


@given(TICK, LENGTH, LENGTH, TICK)
def test_each_end_of_wids_is_the_last_that_contains_the_value(
    value: int, length: int, slide: int, origin: int
) -> None:
    """Also at sizes where no list of ids could be compared."""
    window = Sliding(length, slide, origin)
    first, stop = window.wids_of(value).start, window.wids_of(value).stop
    assert first <= stop
    assert not window.contains(first - 1, value)
    assert not window.contains(stop, value)
    assert stop == first or (window.contains(first, value) and window.contains(stop - 1, value))


@given(st.integers(-50, 50), LENGTH, LENGTH, TICK)
def test_no_smaller_promise_closes_a_window(w: int, length: int, slide: int, origin: int) -> None:
    window = Sliding(length, slide, origin)
    assert not window.contains(w, window.closes_at(w))
    assert window.contains(w, window.closes_at(w) - 1)  # a bound of closes_at - 1 lets it come


@given(st.lists(TICK, max_size=12), LENGTH, LENGTH, TICK)
@example([LOW, -1, 0, HIGH], 1, 1, 0)
@example([LOW], HIGH, 1, LOW)  # the sum HIGH - LOW of the constants alone needs 65 bits
@example([HIGH - 1], 1, 1, 0)
@example([HIGH], 1, 1, 0)
@example([LOW], 1, 1, 1)
@example([LOW, HIGH], HIGH, HIGH, HIGH)
@example([LOW, HIGH], HIGH, 2, LOW)
def test_columns_agree_with_scalars(
    values: list[int], length: int, slide: int, origin: int
) -> None:
    window = Sliding(length, slide, origin)
    column = np.array(values, np.int64)
    expected = [window.wids_of(value) for value in values]
    if not all(LOW <= end <= HIGH for ids in expected for end in (ids.start, ids.stop)):
        with pytest.raises(PlanError, match="does not fit 64 bits"):
            window.wid_bounds(column)
        return
    first, stop = window.wid_bounds(column)
    assert first.dtype == stop.dtype == np.int64
    assert first.tolist() == [ids.start for ids in expected]
    assert stop.tolist() == [ids.stop for ids in expected]


@given(st.lists(TICK, min_size=1), st.integers(-(2**70), 2**70), LENGTH)
def test_floor_division_of_a_column(values: list[int], plus: int, by: int) -> None:
    expected = [(value + plus) // by for value in values]
    if all(LOW <= quotient <= HIGH for quotient in expected):
        assert floor_div(np.array(values, np.int64), plus, by).tolist() == expected
    else:
        with pytest.raises(PlanError, match="does not fit 64 bits"):
            floor_div(np.array(values, np.int64), plus, by)


def test_columns_are_left_as_they_are() -> None:
    column = np.array([1, 2, 3], np.int64)
    column.flags.writeable = False  # as columns that Arrow owns are
    Sliding(3, 2, 1).wid_bounds(column[::-1])
    assert column.tolist() == [1, 2, 3]


def test_a_slide_that_no_column_can_count() -> None:
    with pytest.raises(PlanError, match="does not fit 64 bits"):
        Sliding(1, 2**63).wid_bounds(np.array([0], np.int64))
