"""Numbers that differ, against Python's own dict."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.model.arrays import Ints, different, first_rows

CHANCE = np.random.default_rng(7)
WIDE = CHANCE.integers(-(2**63), 2**63 - 1, 700)
FACTOR = 0x9E3779B97F4A7C15  # the hash multiplies by it
BACK = pow(FACTOR, -1, 1 << 64)
ALIKE = np.array([low * BACK % (1 << 64) for low in range(400)], np.uint64).view(np.int64)
VALUES = {
    "few": lambda size: CHANCE.integers(-3, 4, size),
    "codes": lambda size: CHANCE.integers(0, size, size),
    "close together, far from 0": lambda size: CHANCE.integers(10**15, 10**15 + size, size),
    "many": lambda size: CHANCE.integers(-(10**9), 10**9, size),
    "any, most of them several times": lambda size: CHANCE.choice(WIDE, size),
    "the ends": lambda size: CHANCE.choice(np.array([-(2**63), 2**63 - 1, 0]), size),
    "close to the end": lambda size: CHANCE.integers(2**63 - 5, 2**63 - 1, size),
    "one hash for all": lambda size: CHANCE.choice(ALIKE, size),
    "pairs": lambda size: CHANCE.integers(0, 99, size) << 32 | CHANCE.integers(0, 99, size),
}


@pytest.mark.parametrize("size", [0, 1, 2, 64, 65, 300, 5_000])
@pytest.mark.parametrize("kind", VALUES)
def test_the_first_row_of_every_value(kind: str, size: int) -> None:
    values: Ints = VALUES[kind](max(1, size))[:size]
    given = values.copy()
    rows, numbers = first_rows(values)
    assert values[rows].tolist() == list(dict.fromkeys(values.tolist()))
    assert (values[rows][numbers] == values).all()
    assert (np.diff(rows) > 0).all()
    assert different(values).tolist() == sorted(set(values.tolist()))
    assert (values == given).all()
