"""Signs of the items of a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.model.batch import SIGN, has_sign, positive, signs, with_signs

PLAIN = pa.record_batch({"x": [1, 2, 3]})


def test_without_a_sign_all_are_positive() -> None:
    assert not has_sign(PLAIN)
    assert signs(PLAIN).tolist() == [1, 1, 1]
    assert positive(PLAIN) is PLAIN


@given(st.lists(st.sampled_from([-1, 1]), max_size=9))
def test_signs_there_and_back_again(given_signs: list[int]) -> None:
    numbers = pa.array(range(len(given_signs)), pa.int64())
    signed = with_signs(pa.record_batch({"x": numbers}), np.array(given_signs, np.int8))
    assert has_sign(signed)
    assert signed.schema.field(SIGN).type == pa.int8()
    assert signs(signed).tolist() == given_signs
    assert signs(signed).dtype == np.int8
    kept = positive(signed)
    assert kept.schema.names == ["x"]
    assert kept.column("x").to_pylist() == [i for i, sign in enumerate(given_signs) if sign > 0]


def test_new_signs_replace_the_old_ones() -> None:
    once = with_signs(PLAIN, np.array([1, 1, -1], np.int8))
    twice = with_signs(once, np.array([-1, 1, 1], np.int8))
    assert twice.schema.names == ["x", SIGN]
    assert signs(twice).tolist() == [-1, 1, 1]
    assert signs(once).tolist() == [1, 1, -1]


@pytest.mark.parametrize("wrong", [[1, 1], [1, 1, 1, 1], []])
def test_as_many_signs_as_items(wrong: list[int]) -> None:
    with pytest.raises(PlanError, match=f"{len(wrong)} signs for 3 items"):
        with_signs(PLAIN, np.array(wrong, np.int8))


@pytest.mark.parametrize("wrong", [0, 2, -2])
def test_a_sign_is_one_of_two(wrong: int) -> None:
    with pytest.raises(PlanError, match=r"\+1 or -1"):
        with_signs(PLAIN, np.array([1, wrong, -1], np.int8))
