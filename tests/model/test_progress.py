"""Progress: the running bound against definitions that look at all tuples at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.model.punctuation import (
    BEGINNING,
    END,
    Bound,
    Delay,
    Ordered,
    ProgressPolicy,
    Punctuated,
    Rule,
    RunningBound,
    Slack,
    TimestampKind,
)

VALUES = st.lists(st.integers(-20, 20), max_size=30)
LENGTH = st.integers(0, 8)


def highest(values: list[int]) -> Bound:
    return max(values, default=BEGINNING)


def bounds(rule: Rule, values: list[int], start: Bound = BEGINNING) -> list[Bound]:
    """The bound before every tuple, and the one after the last."""
    running = RunningBound(rule, start)
    return [*(running.observe(value) for value in values), running.bound]


@given(VALUES)
def test_ordered_is_the_highest_so_far(values: list[int]) -> None:
    expected = [highest(values[:i]) for i in range(len(values) + 1)]
    assert bounds(Ordered(), values) == expected


@given(VALUES, LENGTH)
def test_delay_is_the_highest_so_far_minus_it(values: list[int], delay: int) -> None:
    expected = [highest(values[:i]) - delay for i in range(len(values) + 1)]
    assert bounds(Delay(delay), values) == expected


@given(VALUES, LENGTH)
def test_slack_is_the_highest_without_the_last_rows(values: list[int], rows: int) -> None:
    expected = [highest(values[: max(0, i - rows)]) for i in range(len(values) + 1)]
    assert bounds(Slack(rows), values) == expected


@given(VALUES)
def test_delay_and_slack_of_nothing_are_ordered(values: list[int]) -> None:
    assert bounds(Delay(0), values) == bounds(Slack(0), values) == bounds(Ordered(), values)


# A tuple (with its value), or a punctuation (with its bound).
ITEM = st.tuples(st.sampled_from(["tuple", "punctuation"]), st.integers(-20, 20))


@given(st.lists(ITEM))
def test_punctuated_is_the_highest_punctuation(items: list[tuple[str, int]]) -> None:
    running = RunningBound(Punctuated())
    for i, (kind, value) in enumerate(items):
        before = highest([bound for kind, bound in items[:i] if kind == "punctuation"])
        if kind == "tuple":
            assert running.observe(value) == before
        else:
            running.raise_to(value)
        assert running.bound >= before


@given(VALUES, st.integers(-20, 20), LENGTH)
def test_a_newcomer_starts_where_it_joined(values: list[int], start: int, delay: int) -> None:
    expected = [max(start, bound) for bound in bounds(Delay(delay), values)]
    assert bounds(Delay(delay), values, start) == expected


@given(VALUES, st.sampled_from([Ordered(), Delay(3), Slack(2), Punctuated()]))
def test_a_promise_from_elsewhere_is_kept(values: list[int], rule: Rule) -> None:
    running = RunningBound(rule)
    running.raise_to(5)
    running.raise_to(4)
    for value in values:
        assert running.observe(value) >= 5
    running.raise_to(END)
    assert running.observe(0) == END


@given(VALUES, LENGTH, st.integers(0, 50))
def test_enabling_timestamp(values: list[int], delay: int, elapsed: int) -> None:
    running = RunningBound(Delay(delay))
    for value in values:
        running.observe(value)
    assert running.enabling_timestamp(elapsed) == highest(values) + elapsed - delay


def test_enabling_timestamp_without_a_delay() -> None:
    running = RunningBound(Ordered())
    assert running.enabling_timestamp(100) == BEGINNING  # silent from the start: who knows
    running.observe(7)
    assert running.enabling_timestamp(3) == 10
    assert running.bound == 7  # it is an offer, not yet a promise
    running.raise_to(50)
    assert running.enabling_timestamp(3) == 10  # counted from what was seen, not from a promise


@pytest.mark.parametrize("rule", [Delay, Slack])
def test_lengths_are_not_negative(rule: type) -> None:
    with pytest.raises(PlanError, match="must not be negative"):
        rule(-1)
    assert rule(0) == rule(0)


@pytest.mark.parametrize("timestamps", [TimestampKind.INTERNAL, TimestampKind.LATENT])
@pytest.mark.parametrize("rule", [Delay(1), Slack(1), Punctuated()], ids=repr)
def test_stamped_timestamps_are_ordered(timestamps: TimestampKind, rule: Rule) -> None:
    with pytest.raises(PlanError, match=f"{timestamps.value} timestamps are always ORDERED"):
        ProgressPolicy(rule, timestamps)
    assert ProgressPolicy(Ordered(), timestamps).timestamps is timestamps


@pytest.mark.parametrize("length", [0, -1])
@pytest.mark.parametrize(
    ("argument", "words"), [("idle_after", "IDLE AFTER"), ("future_limit", "FUTURE LIMIT")]
)
def test_limits_are_longer_than_zero(argument: str, words: str, length: int) -> None:
    limits: dict[str, Any] = {argument: length}
    with pytest.raises(PlanError, match=f"{words} must be longer than zero"):
        ProgressPolicy(Ordered(), **limits)
