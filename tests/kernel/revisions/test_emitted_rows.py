"""What has been said about groups: the difference to what is to be said now, and nothing else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.revisions.emitted_rows import Emitted, Groups

VALUES = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")])
STATES = st.dictionaries(st.integers(0, 6), VALUES)


def groups(state: dict[int, float | None]) -> Groups:
    codes = sorted(state)
    values = pa.array([state[code] for code in codes], pa.float64())
    return Groups(np.array(codes, np.int64), [values])


def rows(some: Groups | None) -> Counter[tuple[int, str]]:
    """`repr` tells −0.0 from 0.0, and makes NaN equal NaN."""
    if some is None:
        return Counter()
    return Counter(zip(some.codes.tolist(), map(repr, some.columns[0].to_pylist()), strict=True))


@given(st.lists(STATES, min_size=1))
def test_what_is_left_is_what_was_said_last(states: list[dict[int, float | None]]) -> None:
    emitted, there = Emitted(), Counter[tuple[int, str]]()
    for state in states:
        taken, fresh = emitted.revise(groups(state))
        assert rows(taken) <= there, "only rows that are there are taken back"
        assert not rows(taken) & rows(fresh), "nothing is taken back and given again"
        there = there - rows(taken) + rows(fresh)
        assert there == rows(groups(state))
        emitted = Emitted.load(emitted.save())


@given(STATES, STATES, st.sets(st.integers(0, 6)))
def test_groups_that_are_not_asked_about_stay(
    before: dict[int, float | None], now: dict[int, float | None], among: set[int]
) -> None:
    emitted = Emitted()
    emitted.revise(groups(before))
    asked = {code: value for code, value in now.items() if code in among}
    taken, fresh = emitted.revise(groups(asked), np.array(sorted(among), np.int64))
    others = {code: value for code, value in before.items() if code not in among}
    left = rows(groups(before)) - rows(taken) + rows(fresh)
    assert left == rows(groups({**others, **asked}))


def test_groups_with_other_numbers_are_the_same_groups() -> None:
    emitted = Emitted()
    emitted.revise(groups({1: 5.0, 3: 7.0}))
    emitted.renumber(np.array([9, 0, 9, 1]))
    taken, fresh = emitted.revise(groups({0: 5.0, 1: 8.0}))
    assert rows(taken) == Counter({(1, "7.0"): 1})
    assert rows(fresh) == Counter({(1, "8.0"): 1})
