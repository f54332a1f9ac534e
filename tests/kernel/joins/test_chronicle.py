"""CHRONICLE: how candidates are handed out, and what is kept of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.joins.sequence_modes import earliest_unused
from tests.kernel.joins.feeding_sequences import Fed


@st.composite
def askers(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Key, and from where to before where candidates are; both rise within a key."""
    found: list[tuple[int, int, int]] = []
    for key in range(draw(st.integers(0, 3))):
        ends = sorted(draw(st.lists(st.integers(0, 9), max_size=9)))
        begin = 0
        for end in ends:
            begin = draw(st.integers(begin, end))
            found.append((key, 100 * key + begin, 100 * key + end))
    return found


@given(askers=askers())
def test_every_one_takes_what_those_before_leave(askers: list[tuple[int, int, int]]) -> None:
    used: set[int] = set()
    expected = []
    for _, begin, end in askers:
        free = [place for place in range(begin, end) if place not in used]
        expected.append(free[0] if free else -1)
        used.update(free[:1])
    columns = np.array(askers, np.int64).reshape(-1, 3).T
    assert earliest_unused(*columns).tolist() == expected


def test_what_is_used_is_forgotten() -> None:
    fed = Fed("MODE CHRONICLE ON a.k = b.k")
    fed.first([(k, 0) for k in range(100)], bound=1)
    assert fed.held == 100
    fed.second([(k, 3) for k in range(60)], bound=4)
    assert fed.held == 160  # nobody knows what else comes up to 3
    fed.first([], bound=4)
    assert fed.held == 40
    assert len(fed.pairs) == 60


def test_what_is_too_old_is_forgotten() -> None:
    fed = Fed("MODE CHRONICLE WITHIN 10")
    fed.first([(0, tick) for tick in range(100)], bound=100)
    fed.second([], bound=50)
    assert fed.held == 60  # from 40 on
    fed.second([(0, 55)], bound=100)
    assert fed.pairs == [(45, 55)]
    assert fed.held == 10  # from 90 on


def test_nothing_is_kept_when_nobody_can_ask_any_more() -> None:
    fed = Fed("MODE CHRONICLE")
    fed.first([(0, tick) for tick in range(10)], bound=10)
    fed.second([(0, 3)], bound=4)
    assert fed.held == 9
    fed.second_ends()
    assert fed.held == 0
