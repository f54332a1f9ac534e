"""When a stay is free, tick by tick."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.joins.difference import FreeTimes, Intervals, united

SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8)).map(
        lambda each: (each[0], each[1], each[1] + each[2])
    ),
    max_size=8,
)


def intervals(spans: list[Any]) -> Intervals:
    return Intervals(*np.array(spans, np.int64).reshape(-1, 3).T)


@given(spans=SPANS)
def test_the_union_holds_what_one_of_them_holds(spans: list[Any]) -> None:
    union = united(intervals(spans))
    found = list(zip(*(column.tolist() for column in union), strict=True))
    assert found == sorted(found)
    for (code, _, last), (other, since, _) in pairwise(found):
        assert code < other or last + 1 < since  # with a gap between
    for code in range(3):
        for tick in range(25):
            expected = any(own == code and a <= tick <= b for own, a, b in spans)
            assert any(own == code and a <= tick <= b for own, a, b in found) is expected


@given(stays=SPANS, others=SPANS, data=st.data())
def test_changes(stays: list[Any], others: list[Any], data: st.DataObject) -> None:
    upto = data.draw(st.integers(-1, 26))
    begins = [data.draw(st.just(since) | st.integers(since, 26)) for _, since, _ in stays]
    free = FreeTimes(united(intervals(others)))
    found = free.changes(intervals(stays), np.array(begins, np.int64), upto)
    expected = []
    for which, (code, since, last) in enumerate(stays):
        before = False
        for tick in range(-1, 27):
            is_free = since <= tick <= last and not any(
                own == code and a <= tick <= b for own, a, b in others
            )
            if is_free is not before and begins[which] <= tick <= upto:
                expected.append((which, tick, 1 if is_free else -1))
            before = is_free
    assert sorted(zip(*(each.tolist() for each in found), strict=True)) == sorted(expected)
