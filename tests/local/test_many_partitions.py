"""Row windows of many new partitions: each costs the same, however many there are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from tests.counting import calls_of


def calls(partitions: int, window: str) -> int:
    keys = np.arange(2 * partitions) % partitions
    db = ps.connect("local")
    rows = pa.table({"k": keys, "x": keys % 7, "t": np.arange(len(keys))})
    db.stream("s", rows, progress=ps.progress("t", delay=3))
    query = db.sql(f"SELECT k, sum(x) AS n [{window}, PA k] FROM s")
    assert isinstance(query, ps.Query)
    return calls_of(query.collect)


@pytest.mark.parametrize(
    "window",
    [
        "RANGE 4 ROWS, SLIDE 2 ROWS",
        "RANGE 2000 ROWS, SLIDE 1000 ROWS",
        "RANGE ALL, SLIDE 2 ROWS",
        "RANGE 9, SLIDE 1 ROWS, WA t",
        "RANGE 9, SLIDE 2 ROWS, WA t",
    ],
)
def test_partitions_cost_the_same_each(window: str) -> None:
    calls(10, window)  # whatever is made once
    few, many = calls(100, window), calls(800, window)
    assert many < 10 * few
