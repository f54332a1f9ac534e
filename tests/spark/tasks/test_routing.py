"""Which buckets tuples go to: pairs that are close in time meet in exactly one of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.arrays import Ints
from penstock.model.types import BIGINT, DOUBLE, INT64_MAX, INT64_MIN, STRING, Field, Schema
from penstock.optimizer.distribution import _of_band
from penstock.plan.expressions import Column
from penstock.plan.join_windows import BandJoin
from penstock.plan.physical import TimeSlices
from penstock.spark.tasks.buckets import Router
from penstock.spark.tasks.paths import SliceRouter

T = Column("t", BIGINT)
SCHEMA = Schema((Field("t", BIGINT),))
TICKS = st.lists(
    st.one_of(
        st.integers(-60, 60),
        st.integers(INT64_MIN, INT64_MIN + 40),
        st.integers(INT64_MAX - 40, INT64_MAX),
    ),
    max_size=12,
)


def routed(slices: TimeSlices, ticks: list[int], buckets: int) -> list[tuple[int, int, bool]]:
    """Which tuple comes to which bucket, and whether as a copy."""
    rows = pa.record_batch({"t": pa.array(ticks, pa.int64())})
    routes = SliceRouter(slices, SCHEMA, buckets).routes(rows)
    return [(row, bucket, copies) for bucket, own, copies in routes for row in own.tolist()]


@given(
    left=TICKS,
    right=TICKS,
    band=st.tuples(st.integers(-30, 30), st.integers(0, 25)),
    buckets=st.integers(1, 4),
    left_once=st.booleans(),
)
def test_a_pair_meets_once(
    left: list[int], right: list[int], band: tuple[int, int], buckets: int, left_once: bool
) -> None:
    window = BandJoin(band[0], band[0] + band[1])
    slices = _of_band(T, T, window, left_once)
    assert slices is not None
    found = [routed(s, ticks, buckets) for s, ticks in zip(slices, (left, right), strict=True)]
    for tuples, ticks in zip(found, (left, right), strict=True):
        # each comes to every bucket at most once, and one of them counts it
        assert len({(row, bucket) for row, bucket, _ in tuples}) == len(tuples)
        assert Counter(row for row, _, copy in tuples if not copy) == Counter(range(len(ticks)))
    once = found[0 if left_once else 1]
    assert not any(copy for *_, copy in once)
    meetings = Counter(
        (i, j) for i, bucket, _ in found[0] for j, other, _ in found[1] if bucket == other
    )
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            assert meetings[i, j] <= 1
            if window.matches(one, other):
                assert meetings[i, j] == 1


def test_a_band_that_reaches_too_far_has_no_slices() -> None:
    assert _of_band(T, T, BandJoin(0, 1 << 61), left_once=True) is None


@pytest.mark.parametrize("buckets", [2, 7])
def test_keys_that_are_equal_go_to_one_bucket(buckets: int) -> None:
    """Whichever input they come from, in whichever order the others are seen."""
    left = [0.0, 1.5, float("nan"), None, -2.0, 1e300]
    schema = Schema((Field("f", DOUBLE, "a"), Field("k", STRING, "a")))

    def of(values: list[float | None]) -> Ints:
        keys = [Column("f", DOUBLE, "a"), Column("k", STRING, "a")]
        rows = pa.record_batch(
            [pa.array(values, pa.float64()), pa.array(["x"] * len(values))], schema.arrow.names
        )
        return Router(keys, schema, buckets).buckets(rows)

    expected = dict(zip(map(str, left), of(left).tolist(), strict=True))
    mirrored = [1e300, None, -0.0, float("nan"), -2.0, 1.5] * 20  # as many as are looked up at once
    names = [str(value + 0.0) if value is not None else "None" for value in mirrored]
    assert of(mirrored).tolist() == [expected[name] for name in names]
    assert len(np.unique(of(left))) > 1
