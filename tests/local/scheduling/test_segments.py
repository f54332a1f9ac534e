"""Segments of a path: the lower envelope of its progress chart."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.local.scheduling.components import segments

COSTS = st.lists(st.tuples(st.floats(0.1, 100), st.floats(0, 3)), min_size=1, max_size=8)


def test_operators_that_make_rows_fewer_equally_fast_are_one_segment() -> None:
    (only,) = segments([(1, 0.5), (1, 0.0)])
    assert (only.begin, only.end, only.slope) == (0, 2, pytest.approx(1 / 1.5))


def test_a_slow_operator_goes_along_with_the_filter_behind_it() -> None:
    found = segments([(1, 1), (10, 1), (1, 0.1), (100, 1)])
    assert [(each.begin, each.end) for each in found] == [(0, 3), (3, 4)]


@given(COSTS)
def test_segments_cover_the_path_and_never_become_steeper(path: list[tuple[float, float]]) -> None:
    found = segments(path)
    assert [each.begin for each in found] == [0, *(each.end for each in found[:-1])]
    assert found[-1].end == len(path)
    slopes = [each.slope for each in found]
    assert all(a >= b - 1e-9 * abs(a) for a, b in pairwise(slopes))
