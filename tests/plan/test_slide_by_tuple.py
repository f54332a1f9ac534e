"""Slide-by-tuple windows: who opens one, what it reaches back to, and ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.plan.window_kinds import Order, SlideByTuple, WindowItem

LOW, HIGH = -(2**63), 2**63 - 1
TICK = st.integers(-8, 8) | st.integers(LOW, LOW + 9) | st.integers(HIGH - 9, HIGH)
LENGTH = st.integers(1, 12) | st.integers(HIGH - 9, HIGH)
EVERY = st.integers(1, 6)
STREAM = st.lists(st.builds(WindowItem, TICK, st.integers(0, 2)), max_size=20)
WINDOW = st.builds(SlideByTuple, LENGTH, EVERY, st.sampled_from(Order), st.booleans())


def test_each_tuple_opens_a_window_that_ends_at_it() -> None:
    """Q5-5, in minutes."""
    window = SlideByTuple(range=5)
    stream = [WindowItem(10), WindowItem(12), WindowItem(15), WindowItem(11)]
    assert window.windows(stream) == [10, 11, 12, 15]
    assert window.extent(15, stream) == [1, 2, 3]  # not 10: it is 5 back
    assert window.extent(12, stream) == [0, 1, 3]
    assert window.wids(0, stream) == [10, 11, 12]
    assert window.bounds(15) == (10, 15)
    assert window.closes_at(15) == 16


def test_ties_are_in_the_window_of_each_other() -> None:
    stream = [WindowItem(4), WindowItem(4), WindowItem(3)]
    window = SlideByTuple(range=1)
    assert window.openers(stream) == [0, 1, 2]
    assert window.windows(stream) == [3, 4]
    assert window.extent(4, stream) == [0, 1]


def test_every_nth_tuple_counts_from_zero() -> None:
    stream = [WindowItem(value) for value in (9, 8, 7, 6, 5)]
    assert SlideByTuple(2, every=2).openers(stream) == [0, 2, 4]
    assert SlideByTuple(2, every=2).windows(stream) == [5, 7, 9]
    assert SlideByTuple(2, every=3).wids(1, stream) == [9]


def test_every_nth_tuple_by_rank() -> None:
    """Q5-6 counts in the order of the attribute, whatever order the tuples arrive in."""
    stream = [WindowItem(value) for value in (9, 8, 7, 6)]
    assert SlideByTuple(2, 3, Order.ARRIVAL).openers(stream) == [0, 3]
    assert SlideByTuple(2, 3, Order.RANK).openers(stream) == [0, 3]
    assert SlideByTuple(2, 2, Order.RANK).windows(stream) == [6, 8]
    assert SlideByTuple(2, 2, Order.ARRIVAL).windows(stream) == [7, 9]


def test_partitions_open_and_fill_their_own_windows() -> None:
    stream = [
        WindowItem(1, "a"),
        WindowItem(2, "b"),
        WindowItem(3, "a"),
        WindowItem(3, "b"),
        WindowItem(3, "a"),
    ]
    window = SlideByTuple(range=5, every=2, partitioned=True)
    assert window.openers(stream) == [0, 1, 4]
    assert window.windows(stream) == [(1, "a"), (2, "b"), (3, "a")]
    assert window.extent((3, "a"), stream) == [0, 2, 4]
    assert window.wids(1, stream) == [(2, "b")]
    assert window.bounds((3, "a")) == (-2, 3)
    assert window.closes_at((3, "a")) == 4


@pytest.mark.parametrize(("length", "every"), [(0, 1), (-1, 1), (1, 0), (1, -1)])
def test_lengths_are_positive(length: int, every: int) -> None:
    with pytest.raises(PlanError, match="greater than zero"):
        SlideByTuple(length, every)


@given(WINDOW, STREAM)
def test_an_opener_is_in_the_window_that_it_opens(
    window: SlideByTuple, stream: list[WindowItem]
) -> None:
    opened = set()
    for t in window.openers(stream):
        w = (stream[t].value, stream[t].partition) if window.partitioned else stream[t].value
        assert w in window.wids(t, stream)
        assert t in window.extent(w, stream)
        opened.add(w)
    assert opened == set(window.windows(stream))


@given(WINDOW, STREAM)
def test_no_smaller_promise_closes_a_window(window: SlideByTuple, stream: list[WindowItem]) -> None:
    for w in window.windows(stream):
        inside = [stream[t].value for t in window.extent(w, stream)]
        assert max(inside) == window.closes_at(w) - 1


@given(WINDOW, STREAM)
def test_openers_of_columns_agree_with_scalars(
    window: SlideByTuple, stream: list[WindowItem]
) -> None:
    values = np.array([item.value for item in stream], np.int64)
    codes = np.array([item.partition for item in stream], np.int64)
    mask = window.openers_of(values, codes)
    assert mask.dtype == np.bool_
    assert np.flatnonzero(mask).tolist() == window.openers(stream)


@given(st.lists(TICK, max_size=20), LENGTH)
@example([LOW, HIGH - 1], 1)
@example([HIGH], 1)
def test_wid_bounds_of_columns_agree_with_scalars(values: list[int], length: int) -> None:
    window = SlideByTuple(length)
    column = np.array(values, np.int64)
    if any(value + length > HIGH for value in values):
        with pytest.raises(PlanError, match="does not fit 64 bits"):
            window.wid_bounds(column)
        return
    first, stop = window.wid_bounds(column)
    assert [*zip(first.tolist(), stop.tolist(), strict=True)] == [(v, v + length) for v in values]
    stream = [WindowItem(value) for value in values]
    for t in range(len(values)):
        assert window.wids(t, stream) == sorted({v for v in values if first[t] <= v < stop[t]})
