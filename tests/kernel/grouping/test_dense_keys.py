"""The table of integers that lie close together, against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.grouping.key_codes import DenseKeys
from tests.local.helpers import examples

ANCHORS = st.sampled_from([0, 5000, -(2**63), 2**63 - 1, 2**40])
OFFSETS = st.integers(-3000, 3000)
BATCH = st.lists(OFFSETS, min_size=1, max_size=20)


def inside(anchor: int, offset: int) -> int:
    return min(max(anchor + offset, -(2**63)), 2**63 - 1)


@examples
@given(ANCHORS, st.lists(BATCH, max_size=6), BATCH)
def test_finds_what_was_added(anchor: int, batches: list[list[int]], asked: list[int]) -> None:
    table = DenseKeys()
    known: dict[int, int] = {}
    for batch in batches:
        fresh = dict.fromkeys(inside(anchor, each) for each in batch)
        values = [value for value in fresh if value not in known]
        codes = range(len(known), len(known) + len(values))
        known.update(zip(values, codes, strict=True))
        if not table.add(np.array(values, np.int64), np.array(codes, np.int64)):
            assert max(known) - min(known) >= 4096
            return
    for values in ([inside(anchor, each) for each in asked], list(known)):
        if values:
            found = table.find(np.array(values, np.int64))
            expected = [known.get(value, -1) for value in values]
            assert found.tolist() == expected


def test_refuses_what_lies_too_far_apart() -> None:
    table = DenseKeys()
    assert table.add(np.array([0, 100]), np.array([0, 1]))
    assert not table.add(np.array([10**6]), np.array([2]))
    assert not DenseKeys().add(np.array([-(2**63), 2**63 - 1]), np.array([0, 1]))


def test_many_values_may_span_more() -> None:
    table = DenseKeys()
    values = np.arange(0, 700_000, 7)
    assert table.add(values, np.arange(len(values)))
    found = table.find(values[::-1].copy())
    assert found.tolist() == list(range(len(values)))[::-1]
