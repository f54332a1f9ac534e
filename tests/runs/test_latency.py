"""Histograms of times: what they tell is near what a sorted list would."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.runs.answer import Latencies

times = st.lists(st.integers(0, 2**50), min_size=1, max_size=50)


@given(times, st.floats(0.01, 1.0))
def test_quantiles_are_near_those_of_a_sorted_list(taken: list[int], share: float) -> None:
    found = Latencies()
    for each in taken:
        found.add(each, 1)
    exact = float(np.quantile(taken, share, method="inverted_cdf"))
    told = found.quantile(share)
    assert told is not None
    nanoseconds = told * 1000
    if exact >= 2**45:  # the last bucket has no end
        assert nanoseconds > 2**44
    else:
        assert abs(nanoseconds - exact) <= max(0.07 * exact, 1100)


@given(times, times)
def test_many_results_at_once_count_like_one_by_one(first: list[int], second: list[int]) -> None:
    together, alone = Latencies(), Latencies()
    for taken, results in zip(first, second, strict=False):
        together.add(taken, results % 5)
        for _ in range(results % 5):
            alone.add(taken, 1)
    assert together.counts == alone.counts
    assert together.results == alone.results
    assert together.total == alone.total


def test_nothing_is_told_of_nothing() -> None:
    assert Latencies().quantile(0.5) is None
    assert str(Latencies().summary()) == "no results yet"
