"""The order of key and time, and bisection in it, for ticks anywhere in 64 bits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.joins.timed_inputs import KeyedTimes, earlier
from penstock.model.types import INT64_MAX, INT64_MIN

TICK = st.integers(-3, 5) | st.sampled_from([INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX])
PAIRS = st.lists(st.tuples(st.integers(0, 4), TICK), max_size=20)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    codes, ticks = np.array(pairs, np.int64).reshape(-1, 2).T
    return codes, ticks


@given(pairs=PAIRS, asked=PAIRS, data=st.data())
def test_order_and_bisection(
    pairs: list[tuple[int, int]], asked: list[tuple[int, int]], data: st.DataObject
) -> None:
    ranks = np.array(data.draw(st.permutations(range(len(pairs)))), np.int64)
    times = KeyedTimes(*columns(pairs), lambda which: ranks[which])
    expected = sorted(range(len(pairs)), key=lambda n: (pairs[n], ranks[n]))
    assert times.order.tolist() == expected
    in_order = sorted(pairs)
    codes, ticks = columns(asked)
    assert times.upto(codes, ticks).tolist() == [
        sum(pair <= (code, tick) for pair in in_order) for code, tick in asked
    ]
    assert times.since(codes, ticks).tolist() == [
        sum(pair < (code, tick) for pair in in_order) for code, tick in asked
    ]
    assert times.since(codes, None).tolist() == [
        sum(code < own for code, _ in in_order) for own, _ in asked
    ]


@given(ticks=st.lists(st.integers(INT64_MIN, INT64_MAX)), length=st.integers(0, 2**65))
def test_earlier_never_leaves_64_bits(ticks: list[int], length: int) -> None:
    found = earlier(np.array(ticks, np.int64), length)
    assert found.tolist() == [max(INT64_MIN, tick - length) for tick in ticks]
