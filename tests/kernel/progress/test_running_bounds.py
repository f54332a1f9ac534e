"""The promise on whole columns against the promise tuple by tuple."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.progress.source_progress import RunningBounds
from penstock.kernel.progress.sub_sources import NOTHING
from penstock.kernel.state import MemoryStore
from penstock.model.punctuation import (
    BEGINNING,
    Bound,
    Delay,
    Ordered,
    Punctuated,
    Rule,
    RunningBound,
    Slack,
)
from penstock.reference.scan import LowWatermark
from tests.local.helpers import examples

RULES: list[Rule] = [
    Ordered(),
    Delay(0),
    Delay(4),
    Delay(2**62),
    Slack(0),
    Slack(1),
    Slack(3),
    Slack(100),
    Punctuated(),
]
KEYS = ["a", "b", "c"]


class Arrival(NamedTuple):
    """A tuple of a sub-source, or a punctuation from it."""

    key: str
    tick: int
    punctuates: bool


TICK = st.integers(-20, 20) | st.sampled_from([-(2**63) + 1, 2**63 - 1, -(2**62)])
ARRIVALS = st.lists(st.builds(Arrival, st.sampled_from(KEYS), TICK, st.booleans()), max_size=30)
CUTS = st.lists(st.integers(1, 9), max_size=10)


def one_by_one(
    rule: Rule, arrivals: list[Arrival], known: list[Hashable] | None
) -> tuple[list[Bound], list[Bound]]:
    """The bound before each arrival and the low-watermark after it."""
    low = LowWatermark(known)
    bounds: dict[Hashable, RunningBound] = {}
    before, lows = [], []
    for key, tick, punctuates in arrivals:
        if key not in bounds:
            bounds[key] = RunningBound(rule, low.add(key))
        if punctuates:
            before.append(bounds[key].bound)
            bounds[key].raise_to(tick)
        else:
            before.append(bounds[key].observe(tick))
        lows.append(low.advance(key, bounds[key].bound))
    return before, lows


def by_batches(
    rule: Rule, arrivals: list[Arrival], cuts: list[int], known: list[Hashable] | None
) -> tuple[list[Bound], list[tuple[int, Bound]]]:
    """The bound before each arrival, and after which of them which low-watermark was seen."""
    running = RunningBounds(rule)
    running.let_in(np.arange(len(known or [])))
    before: list[Bound] = []
    lows: list[tuple[int, Bound]] = []
    begin = 0
    for size in [*cuts, max(1, len(arrivals))]:
        part = arrivals[begin : begin + size]
        if not part:
            break
        begin += size
        codes = np.array([KEYS.index(each.key) for each in part], np.int64)
        ticks = np.array([NOTHING if each.punctuates else each.tick for each in part], np.int64)
        said = None
        if isinstance(rule, Punctuated):
            said = np.array([e.tick if e.punctuates else NOTHING for e in part], np.int64)
        found = running.before(codes, ticks, said)
        before += [BEGINNING if bound == NOTHING else bound for bound in found.tolist()]
        lows.append((len(before) - 1, running.low))
    return before, lows


def meaningful(bound: Bound) -> Bound:
    """A bound below all ticks is as good as none."""
    return BEGINNING if bound <= NOTHING else bound


@pytest.mark.parametrize("known", [None, KEYS], ids=["newcomers", "known"])
@pytest.mark.parametrize("rule", RULES, ids=str)
@examples
@given(arrivals=ARRIVALS, cuts=CUTS, single=st.booleans())
def test_as_tuple_by_tuple(
    rule: Rule, known: list[Hashable] | None, arrivals: list[Arrival], cuts: list[int], single: bool
) -> None:
    if not isinstance(rule, Punctuated):
        arrivals = [each._replace(punctuates=False) for each in arrivals]
    if single:
        arrivals = [each._replace(key="a") for each in arrivals]
    before, lows = one_by_one(rule, arrivals, known)
    found, found_lows = by_batches(rule, arrivals, cuts, known)
    assert found == list(map(meaningful, before))
    assert found_lows == [(number, meaningful(lows[number])) for number, _ in found_lows]


@pytest.mark.parametrize("rule", RULES, ids=str)
@examples
@given(st.lists(st.lists(TICK, min_size=1, max_size=5), max_size=6))
def test_whether_all_keep_the_promise(rule: Rule, batches: list[list[int]]) -> None:
    """Where it is known from the extremes alone, the bounds before each tuple say the same."""
    quick, slow = RunningBounds(rule), RunningBounds(rule)
    quick.let_in(np.array([0]))
    slow.let_in(np.array([0]))
    for batch in batches:
        ticks, codes = np.array(batch, np.int64), np.zeros(len(batch), np.int64)
        said = np.full(len(batch), NOTHING) if isinstance(rule, Punctuated) else None
        before = slow.before(codes, ticks, said)
        if quick.kept_by(0, min(batch), max(batch)):
            assert (ticks >= before).all()
        else:
            assert quick.before_of(0, ticks, said).tolist() == before.tolist()
        assert quick.low == slow.low


def test_tuples_in_order_keep_the_promise() -> None:
    running = RunningBounds(Delay(5))
    running.let_in(np.array([0]))
    assert running.kept_by(0, 10, 15)
    assert running.low == 10
    assert not running.kept_by(0, 9, 12)
    assert running.kept_by(1, 20, 22)  # a newcomer joins at 10
    assert running.low == 10
    assert not running.kept_by(2, 9, 12)
    assert running.known.tolist() == [0, 1, 2]


def test_a_newcomer_joins_in_the_middle_of_a_batch() -> None:
    running = RunningBounds(Ordered())
    before = running.before(np.array([0, 0, 1, 0, 1]), np.array([3, 7, 5, 9, 8]), None)
    assert before.tolist() == [NOTHING, 3, 7, 7, 7]
    assert running.low == 8


def test_a_sub_source_that_is_left_out_does_not_hold_the_others_back() -> None:
    running = RunningBounds(Delay(1))
    running.let_in(np.array([0, 1]))
    running.before(np.zeros(1, np.int64), np.array([10]), None)
    assert running.low == BEGINNING
    running.leave_out(np.array([1]))
    assert running.low == 9


def test_no_rows() -> None:
    nothing = np.zeros(0, np.int64)
    for rule in RULES:
        said = nothing if isinstance(rule, Punctuated) else None
        running = RunningBounds(rule)
        assert running.before(nothing, nothing, said).tolist() == []
        assert running.low == BEGINNING


SLACKS = [Slack(0), Slack(1), Slack(3), Slack(100)]


@given(
    st.sampled_from(SLACKS),
    st.sampled_from(SLACKS),
    st.lists(st.tuples(st.sampled_from(KEYS), TICK), max_size=20),
    st.lists(st.tuples(st.sampled_from(KEYS), TICK), max_size=20),
)
@examples
def test_another_slack_after_a_restart(
    one: Slack, other: Slack, first: list[tuple[str, int]], then: list[tuple[str, int]]
) -> None:
    """What is held back at the restart is released as the new rule has it; bounds stay."""
    own = {key: RunningBound(one) for key in KEYS}
    for key, tick in first:
        own[key].observe(tick)
    for key, held in own.items():
        recent, own[key] = held._recent, RunningBound(other, held.bound)
        for tick in recent:
            own[key].observe(tick)
    bounds = RunningBounds(one)
    bounds.let_in(np.arange(len(KEYS)))
    _take(bounds, first)
    store = MemoryStore()
    bounds.save(store)
    loaded = RunningBounds(other)
    loaded.load(store)
    assert loaded.low == max(bounds.low, min(each.bound for each in own.values()))
    expected = [own[key].observe(tick) for key, tick in then]
    found = _take(loaded, then)
    assert [BEGINNING if each == NOTHING else each for each in found] == expected
    assert loaded.low == min(each.bound for each in own.values())


def _take(bounds: RunningBounds, arrivals: list[tuple[str, int]]) -> list[int]:
    codes = np.array([KEYS.index(key) for key, _ in arrivals], np.int64)
    ticks = np.array([tick for _, tick in arrivals], np.int64)
    return bounds.before(codes, ticks, None).tolist() if arrivals else []
