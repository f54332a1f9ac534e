"""Orders of whole numbers, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.model.arrays import Ints, stable_order, stable_order_by

CHANCE = np.random.default_rng(5)
WIDE = CHANCE.integers(-(2**63), 2**63 - 1, 700)
SIZES = [0, 1, 2, 255, 256, 257, 300, 5_000]
VALUES = {
    "few": lambda size: CHANCE.integers(-3, 4, size),
    "two halves": lambda size: CHANCE.integers(-(2**16), 2**16, size),
    "as far apart as halves go": lambda size: CHANCE.choice(np.array([-7, 2**32 - 8, 5]), size),
    "one farther": lambda size: CHANCE.choice(np.array([-7, 2**32 - 7, 5]), size),
    "many": lambda size: CHANCE.integers(-(10**9), 10**9, size),
    "any, most of them several times": lambda size: CHANCE.choice(WIDE, size),
    "the ends": lambda size: CHANCE.choice(np.array([-(2**63), 2**63 - 1, 0]), size),
    "close to the end": lambda size: CHANCE.integers(2**63 - 5, 2**63 - 1, size),
    "sorted": lambda size: np.sort(CHANCE.integers(0, 50, size)),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", VALUES)
def test_equal_ones_stay_as_they_are(kind: str, size: int) -> None:
    values: Ints = VALUES[kind](size)
    given = values.copy()
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()
    assert (values == given).all()


@pytest.mark.parametrize("size", [0, 256, 300, 2_000])
@pytest.mark.parametrize("first", VALUES)
@pytest.mark.parametrize("second", VALUES)
def test_by_several(first: str, second: str, size: int) -> None:
    keys = [VALUES[kind](size) for kind in (first, second, "any, most of them several times")]
    for some in (keys[:1], keys[:2], keys):
        assert stable_order_by(*some).tolist() == np.lexsort(some[::-1]).tolist()


def test_other_types() -> None:
    doubles = CHANCE.choice(np.array([0.5, -1.0, np.nan]), 400)
    assert stable_order(doubles).tolist() == np.argsort(doubles, kind="stable").tolist()
    keys = (CHANCE.integers(0, 3, 400), doubles)
    assert stable_order_by(*keys).tolist() == np.lexsort(keys[::-1]).tolist()
