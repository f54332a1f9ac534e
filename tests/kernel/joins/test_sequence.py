"""The nearest candidate that fits, found in few questions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.joins import sequence
from penstock.kernel.joins.sequence import nearest_fitting


@given(
    spans=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8),
    fit=st.sets(st.tuples(st.integers(0, 7), st.integers(0, 20))),
    backward=st.booleans(),
    whole=st.booleans(),
    at_once=st.sampled_from([1, 5, 1 << 16]),
)
def test_nearest(spans: Any, fit: Any, backward: bool, whole: bool, at_once: int) -> None:
    def fits(which: Any, candidates: Any) -> Any:
        pairs = zip(which.tolist(), candidates.tolist(), strict=True)
        return np.array([pair in fit for pair in pairs], np.bool_)

    expected = []
    for number, (begin, end) in enumerate(spans):
        found = [place for place in range(begin, end) if (number, place) in fit]
        expected.append(found[-1 if backward else 0] if found else -1)
    begins, ends = np.array(spans, np.int64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "AT_ONCE", at_once)
        assert nearest_fitting(begins, ends, fits, backward, whole).tolist() == expected
