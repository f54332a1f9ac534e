"""Brackets that close: what is found for all items at once is what a stack finds one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.retractions.lineage import segments, stacked, taken_back


@given(items=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, -1])), max_size=40))
def test_like_a_stack(items: list[tuple[int, int]]) -> None:
    stacks: dict[int, list[int]] = {}
    expected = []
    for place, (kind, sign) in enumerate(items):
        stack = stacks.setdefault(kind, [])
        expected.append(stack.pop() if sign < 0 and stack else -1)
        if sign > 0:
            stack.append(place)
    kinds, signs = np.array(items, np.int64).reshape(-1, 2).T
    assert taken_back(kinds, signs.astype(np.int8)).tolist() == expected


@given(rows=st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=1))
def test_segments_are_the_same_for_the_same_rows(rows: list[tuple[int, ...]]) -> None:
    numbers = segments(list(np.array(rows, np.int64).T)).tolist()
    assert len(set(numbers)) == len(set(rows))
    assert len(set(zip(numbers, rows, strict=True))) == len(set(rows))


def test_lineages_of_different_widths() -> None:
    one, two = np.array([[1], [2]]), np.array([[1, 5]])
    assert stacked([one, two, one]).tolist() == [[1, -2], [2, -2], [1, 5], [1, -2], [2, -2]]
