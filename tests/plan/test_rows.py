"""Row windows: tuples counted by arrival or by rank, in the stream or in each partition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.plan.window_kinds import Landmark, Order, RowWindow, Sliding, WindowItem

LOW, HIGH = -(2**63), 2**63 - 1
VALUE = st.integers(-5, 5) | st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH])
CODE = st.integers(0, 3) | st.sampled_from([LOW, -1, HIGH])
STREAM = st.lists(st.builds(WindowItem, VALUE, CODE), max_size=30)
EVERY_WAY = [(order, partitioned) for order in Order for partitioned in (False, True)]


def test_the_last_three_rows_every_two() -> None:
    window = RowWindow(range=3, slide=2)
    stream = [WindowItem(0)] * 6
    assert window.windows(stream) == [0, 1, 2, 3]
    assert [window.extent(w, stream) for w in range(4)] == [[0, 1], [1, 2, 3], [3, 4, 5], [5]]
    assert window.wids(3, stream) == [1, 2]
    assert window.bounds(1) == (1, 4)
    assert window.closes_at(1) == 4


def test_partitions_are_counted_on_their_own() -> None:
    """Q5-2 against Q5-3: the two differ in what the past rows are the past rows of."""
    stream = [WindowItem(0, "a"), WindowItem(0, "b"), WindowItem(0, "a"), WindowItem(0, "a")]
    partitioned = RowWindow(2, 2, partitioned=True)
    assert partitioned.windows(stream) == [(0, "a"), (0, "b"), (1, "a")]
    assert partitioned.extent((0, "a"), stream) == [0, 2]
    assert partitioned.wids(3, stream) == [(1, "a")]
    assert partitioned.bounds((1, "a")) == (2, 4)
    assert partitioned.closes_at((1, "a")) == 4
    assert RowWindow(2, 2).extent(0, stream) == [0, 1]


def test_rank_counts_in_the_order_of_the_value_ties_by_arrival() -> None:
    stream = [WindowItem(5), WindowItem(1), WindowItem(5), WindowItem(3)]
    window = RowWindow(2, 2, Order.RANK)
    assert window.row_numbers(stream) == [2, 0, 3, 1]
    assert window.extent(0, stream) == [1, 3]
    assert window.extent(1, stream) == [0, 2]


def test_all_rows_end_with_the_last_one_of_the_partition() -> None:
    stream = [WindowItem(0, "a"), WindowItem(0, "a"), WindowItem(0, "b"), WindowItem(0, "a")]
    assert RowWindow(None, 2).windows(stream) == [0, 1]
    assert RowWindow(None, 2).bounds(1) == (None, 4)
    partitioned = RowWindow(None, 1, partitioned=True)
    assert partitioned.wids(0, stream) == [(0, "a"), (1, "a"), (2, "a")]
    assert partitioned.wids(2, stream) == [(0, "b")]
    assert partitioned.extent((1, "a"), stream) == [0, 1]


def test_the_window_over_the_row_numbers() -> None:
    assert RowWindow(3, 2).over_rows == Sliding(3, 2)
    assert RowWindow(None, 2).over_rows == Landmark(2)


@pytest.mark.parametrize(("length", "slide"), [(0, 1), (-1, 1), (1, 0), (None, -1)])
def test_lengths_are_positive(length: int | None, slide: int) -> None:
    with pytest.raises(PlanError, match="greater than zero"):
        RowWindow(length, slide)


@pytest.mark.parametrize(("order", "partitioned"), EVERY_WAY)
@given(stream=STREAM)
def test_a_row_number_counts_the_tuples_before(
    order: Order, partitioned: bool, stream: list[WindowItem]
) -> None:
    def before(u: int, t: int) -> bool:
        if partitioned and stream[u].partition != stream[t].partition:
            return False
        if order is Order.ARRIVAL:
            return u < t
        return (stream[u].value, u) < (stream[t].value, t)

    arrivals = range(len(stream))
    expected = [sum(before(u, t) for u in arrivals) for t in arrivals]
    assert RowWindow(1, 1, order, partitioned).row_numbers(stream) == expected


@pytest.mark.parametrize(("order", "partitioned"), EVERY_WAY)
@given(stream=STREAM)
def test_columns_agree_with_scalars(
    order: Order, partitioned: bool, stream: list[WindowItem]
) -> None:
    window = RowWindow(1, 1, order, partitioned)
    values = np.array([item.value for item in stream], np.int64)
    codes = np.array([item.partition for item in stream], np.int64)
    numbers = window.row_numbers_of(values, codes)
    assert numbers.dtype == np.int64
    assert numbers.tolist() == window.row_numbers(stream)


def test_codes_are_needed_exactly_if_partitioned() -> None:
    values = np.array([7, 7, 7], np.int64)
    assert RowWindow(1, 1).row_numbers_of(values).tolist() == [0, 1, 2]
    for codes in (None, np.zeros(2, np.int64)):
        with pytest.raises(PlanError, match="partition of every tuple"):
            RowWindow(1, 1, partitioned=True).row_numbers_of(values, codes)


@given(stream=STREAM, later=STREAM, length=st.integers(1, 6), slide=st.integers(1, 6))
def test_later_arrivals_leave_closed_windows_alone(
    stream: list[WindowItem], later: list[WindowItem], length: int, slide: int
) -> None:
    """In arrival order, len(stream) rows promise that later row numbers are not below that."""
    window = RowWindow(length, slide)
    for w in window.windows(stream):
        if window.closes_at(w) <= len(stream):
            assert window.extent(w, stream) == window.extent(w, stream + later)


@given(stream=STREAM, later=STREAM, length=st.integers(1, 6), bound=VALUE)
def test_the_rows_below_a_value_bound_close_rank_windows(
    stream: list[WindowItem], later: list[WindowItem], length: int, bound: int
) -> None:
    window = RowWindow(length, 1, Order.RANK)
    final = sum(item.value < bound for item in stream)
    kept_promise = [item for item in later if item.value >= bound]
    for w in window.windows(stream):
        if window.closes_at(w) <= final:
            assert window.extent(w, stream) == window.extent(w, stream + kept_promise)
