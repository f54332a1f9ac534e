"""Keys that decide the next, seldom or always: codes are those of first sight."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernel.grouping.keys import KeyCodes
from penstock.model.types import BIGINT, STRING, TIMESTAMP


@pytest.mark.parametrize("odd", [0.0, 0.001, 0.5])
@pytest.mark.parametrize("nulls", [False, True])
def test_codes_and_keys(odd: float, nulls: bool) -> None:
    chance = np.random.default_rng(2)
    keys = KeyCodes([STRING, BIGINT, TIMESTAMP])
    known: dict[tuple[object, ...], int] = {}
    for size in [5, 400, 3_000, 3, 3_000, 40_000, 40_000, 40_000, 40_000, 1, 3_000]:
        ids = chance.integers(0, 900, size)
        others = np.where(chance.random(size) < odd, chance.integers(0, 9, size), ids * 7)
        names = [f"name {each}" for each in (others % 400).tolist()]
        columns = [
            pa.array(names),
            pa.array(ids),
            pa.array(others, pa.timestamp("us", "UTC"), mask=others % 5 == 0 if nulls else None),
        ]
        codes = keys.encode(columns, size).tolist()
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        for row in rows:
            known.setdefault(row, len(known))
        assert [len(keys)] == [len(known)]
        assert [rows[n] for n in range(size)] == list(
            zip(*(each.to_pylist() for each in keys.take(np.array(codes))), strict=True)
        )
        assert len(set(zip(rows, codes, strict=True))) == len(set(rows))


def test_no_rows_among_many_keys() -> None:
    keys = KeyCodes([BIGINT])
    keys.encode([pa.array(range(100_000))], 100_000)
    nothing = pa.array([], pa.int64())
    assert keys.encode([nothing], 0).tolist() == []
    assert keys.encode([pa.array([7, None])], 2).tolist() == [7, 100_000]
