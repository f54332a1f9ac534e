"""Session windows: where they begin and end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.plan.window_kinds import Session, WindowItem

STREAM = st.lists(st.builds(WindowItem, st.integers(-30, 30)), max_size=25)


@given(stream=STREAM, gap=st.integers(1, 9))
def test_neighbours_in_a_session_are_near_and_sessions_are_not(
    stream: list[WindowItem], gap: int
) -> None:
    window = Session(gap)
    extents = [
        sorted(stream[t].value for t in window.extent(w, stream)) for w in window.windows(stream)
    ]
    for values in extents:
        assert all(later - earlier < gap for earlier, later in pairwise(values))
    for before, after in pairwise(extents):
        assert after[0] - before[-1] >= gap


@given(stream=STREAM, gap=st.integers(1, 9), longest=st.integers(1, 20))
def test_sessions_do_not_overlap_and_are_not_too_long(
    stream: list[WindowItem], gap: int, longest: int
) -> None:
    window = Session(gap, longest)
    bounds = [window.bounds(w, stream) for w in window.windows(stream)]
    assert all(end - start <= longest for start, end in bounds)
    assert all(end <= start for (_, end), (start, _) in pairwise(bounds))


@given(stream=STREAM, gap=st.integers(1, 9))
def test_a_max_that_no_session_reaches_changes_nothing(stream: list[WindowItem], gap: int) -> None:
    assert Session(gap, 100).sessions(stream) == Session(gap).sessions(stream)


def test_lengths_are_positive() -> None:
    with pytest.raises(PlanError, match="GAP must be greater than zero"):
        Session(0)
    with pytest.raises(PlanError, match="MAX must be greater than zero"):
        Session(1, 0)
