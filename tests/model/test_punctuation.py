"""Punctuations: what a promise completes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.punctuation import (
    BEGINNING,
    END,
    GroupPunctuation,
    JointPunctuation,
    Punctuation,
)
from penstock.model.types import INT64_MAX, INT64_MIN

TICK = st.integers(-5, 5) | st.integers(INT64_MIN, INT64_MAX)
BOUND = TICK | st.sampled_from([BEGINNING, END])


@given(BOUND, TICK)
def test_linear_completes_what_no_later_tuple_can_be_below(bound: float, end: int) -> None:
    """Everything below `end` is complete if and only if no value >= bound lies below `end`."""
    smallest_later = bound
    assert Punctuation("ts", bound).completes(end) == (not smallest_later < end)


def test_the_ends_are_beyond_every_tick() -> None:
    # a float of this size would be rounded; the comparison must not be
    assert BEGINNING < INT64_MIN < INT64_MAX < INT64_MAX + 1 < END
    assert Punctuation("ts", END).completes(INT64_MAX + 1)
    assert not Punctuation("ts", BEGINNING).completes(INT64_MIN)
    assert not Punctuation("ts", INT64_MAX).completes(INT64_MAX + 1)


def test_group_wise_bounds_differ_by_group() -> None:
    one = GroupPunctuation("ts", 5, ("a", None))
    assert one == GroupPunctuation("ts", 5, ("a", None))
    assert one != GroupPunctuation("ts", 5, ("b", None))
    assert len({one, GroupPunctuation("ts", 5, ("a", None))}) == 1


@given(BOUND, BOUND, TICK, TICK)
def test_joint_completes_a_box(one: float, two: float, end_one: int, end_two: int) -> None:
    """No later tuple lies below both bounds, so a box inside theirs is complete; any other box
    has room for a tuple that reaches one of the bounds."""
    joint = JointPunctuation(("x", "y"), (one, two))
    inside = Punctuation("x", one).completes(end_one) and Punctuation("y", two).completes(end_two)
    assert joint.completes((end_one, end_two)) == inside
