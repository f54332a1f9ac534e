"""Many sub-sources on whole columns against tuple by tuple: newcomers in the middle of batches,
some that are left out and come back, any cuts, saved and loaded at any time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.progress.source_progress import BLOCK, RunningBounds
from penstock.kernel.progress.sub_sources import NOTHING, lowest_over
from penstock.kernel.state import MemoryStore
from penstock.model.punctuation import Delay, Ordered, Punctuated, Rule, Slack
from tests.kernel.progress.one_by_one import OneByOne, bound_of, meaningful

RULES: list[Rule] = [Ordered(), Delay(4), Slack(0), Slack(1), Slack(3), Slack(40), Punctuated()]
FAR = 2**63 - 1


class Batch(NamedTuple):
    """Rows, and what happens after them."""

    codes: list[int]
    seed: int
    wide: bool
    leave: list[int]
    raised: int | None
    restart: bool


def batches(codes: st.SearchStrategy[int], size: int) -> st.SearchStrategy[list[Batch]]:
    return st.lists(
        st.builds(
            Batch,
            st.lists(codes, max_size=size),
            st.integers(0, 2**32 - 1),
            st.booleans(),
            st.lists(codes, max_size=3),
            st.none() | st.integers(-10, 60),
            st.booleans(),
        ),
        max_size=6,
    )


FEW = st.integers(0, 5)
SPREAD = st.integers(0, 3 * BLOCK) | st.sampled_from([63, 64, 65, 4095, 4096, 70_000])


@pytest.mark.parametrize("rule", RULES, ids=str)
@settings(deadline=None, max_examples=60)
@given(planned=batches(FEW, 40) | batches(SPREAD, 60) | batches(st.integers(0, 60), 200))
def test_as_tuple_by_tuple(rule: Rule, planned: list[Batch]) -> None:
    expected, bounds, store = OneByOne(rule), RunningBounds(rule), MemoryStore()
    moved = 0
    for batch in planned:
        random = np.random.default_rng(batch.seed)
        codes = np.array(batch.codes, np.int64)
        ticks = random.integers(0, 20, len(codes)) + moved
        if batch.wide and len(codes):
            ticks[random.integers(len(codes))] = random.choice([FAR, -FAR, NOTHING + 1])
        moved += 5
        punctuates = random.random(len(codes)) < 0.4
        punctuates &= isinstance(rule, Punctuated)
        pairs = zip(codes.tolist(), ticks.tolist(), punctuates.tolist(), strict=True)
        before = [expected.take(*each) for each in pairs]
        said = np.where(punctuates, ticks, NOTHING) if isinstance(rule, Punctuated) else None
        found = bounds.before(codes, np.where(punctuates, NOTHING, ticks), said)
        assert [bound_of(each) for each in found.tolist()] == list(map(meaningful, before))
        leave = sorted(set(batch.leave) & expected.waited_for)
        for code in leave:
            expected.leave_out(code)
        bounds.leave_out(np.array(leave, np.int64))
        if batch.raised is not None:
            expected.raise_to(batch.raised)
            bounds.raise_to(batch.raised)
        if batch.restart:
            bounds.save(store)
            bounds = RunningBounds(rule)
            bounds.load(store)
        assert bounds.low == meaningful(expected.low)
        assert bounds.known.tolist() == sorted(expected.waited_for)
        if bounds.low == expected.low:
            assert bounds.held_back_by.tolist() == expected.held_back_by


def test_only_blocks_that_were_touched_are_saved() -> None:
    bounds, store = RunningBounds(Ordered()), MemoryStore()
    codes = np.arange(10 * BLOCK)
    bounds.before(codes, codes, None)
    bounds.save(store)
    assert len(store.packed) == 11  # and the low-watermark
    store.packed.clear()
    some = np.array([3, 5 * BLOCK])
    bounds.before(some, some + 10 * BLOCK, None)
    bounds.save(store)
    assert sorted(store.packed) == ["bounds/0", "bounds/5", "low"]
    store.packed.clear()
    bounds.raise_to(BLOCK)  # for all
    bounds.save(store)
    assert sorted(store.packed) == ["low"]


RANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(-9, 9)))


@given(RANGES)
def test_the_lowest_over_ranges(ranges: list[tuple[int, int, int]]) -> None:
    begins, ends, values = np.array(ranges, np.int64).reshape(-1, 3).T
    found = lowest_over(begins, ends, values, 20)
    for place in range(20):
        inside = [value for begin, end, value in ranges if begin <= place < end]
        assert found[place] == min(inside, default=FAR)
