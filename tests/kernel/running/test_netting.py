"""Rows that cancel each other, against counting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.running.running_rows import left_over

ITEM = st.tuples(
    st.sampled_from([1, 2, None]),
    st.sampled_from([0.0, -0.0, float("nan"), None]),
    st.sampled_from(["a", "b", None]),
    st.sampled_from([[1], [2], None]),
    st.sampled_from([1, -1]),
)
TYPES = [pa.int64(), pa.float64(), pa.string(), pa.list_(pa.int64())]


def key(row: tuple[Any, ...]) -> str:
    return repr(row)


@settings(max_examples=100, deadline=None)
@given(items=st.lists(ITEM, min_size=1, max_size=30), which=st.sets(st.integers(0, 3), min_size=1))
def test_what_is_left(items: list[tuple[Any, ...]], which: set[int]) -> None:
    chosen = sorted(which)
    rows = [tuple(item[place] for place in chosen) for item in items]
    signs = np.array([item[-1] for item in items], np.int8)
    columns = [pa.array([row[n] for row in rows], TYPES[place]) for n, place in enumerate(chosen)]
    left = left_over(columns, signs)
    net: Counter[str] = Counter()
    for row, sign in zip(rows, signs.tolist(), strict=True):
        net[key(row)] += sign
    found = Counter((key(rows[place]), int(signs[place])) for place in left)
    assert found == Counter({(row, 1 if n > 0 else -1): abs(n) for row, n in net.items() if n})
    assert left.tolist() == sorted(left.tolist())
    for place in left:  # of rows alike the last ones stay
        after = [n for n in range(place + 1, len(rows)) if key(rows[n]) == key(rows[place])]
        assert all(n in left for n in after if signs[n] == signs[place])
