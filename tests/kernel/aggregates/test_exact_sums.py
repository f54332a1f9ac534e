"""Exact sums against fractions: in any order, however sums are joined and taken back."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.aggregates.exact_sums import ExactSums, divide, roots
from tests.local.helpers import examples

GROUPS = 3
EXTREME = [0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308, 1e16, 1.0]
DOUBLE = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(EXTREME)
INTEGER = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 2**32])
WIDE = st.integers(-(2**127), 2**127 - 1)
CODE = st.integers(0, GROUPS - 1)


def rows(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(st.tuples(CODE, values), max_size=30)


def codes_of(given_rows: list) -> np.ndarray:
    return np.array([code for code, _ in given_rows], np.int64)


def values_of(given_rows: list, dtype: type) -> np.ndarray:
    return np.array([value for _, value in given_rows], dtype)


def summed(given_rows: list) -> ExactSums:
    sums = ExactSums(GROUPS)
    sums.add(codes_of(given_rows), values_of(given_rows, np.float64))
    return sums


def exactly(sums: ExactSums) -> list[Fraction]:
    integers, exponent = sums.integers(np.arange(GROUPS))
    return [Fraction(int(value)) * Fraction(2) ** exponent for value in integers]


def model(given_rows: list) -> list[Fraction]:
    totals = [Fraction(0)] * GROUPS
    for code, value in given_rows:
        totals[code] += Fraction(value)
    return totals


def as_double(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


@examples
@given(rows(DOUBLE))
def test_doubles(given_rows: list) -> None:
    sums = summed(given_rows)
    assert exactly(sums) == model(given_rows)
    rounded = sums.rounded(np.arange(GROUPS)).tolist()
    assert rounded == [as_double(exact) for exact in model(given_rows)]


@examples
@given(rows(INTEGER))
def test_integers(given_rows: list) -> None:
    sums = ExactSums(GROUPS)
    sums.add_integers(codes_of(given_rows), values_of(given_rows, np.int64))
    assert exactly(sums) == model(given_rows)
    fast = sums.int64s(np.arange(GROUPS))
    assert fast is None or fast.tolist() == model(given_rows)


@examples
@given(rows(WIDE))
def test_integers_of_128_bits(given_rows: list) -> None:
    low = np.array([value & (2**64 - 1) for _, value in given_rows], np.uint64)
    high = np.array([value >> 64 for _, value in given_rows], np.int64)
    sums = ExactSums(GROUPS)
    sums.add_wide(codes_of(given_rows), low, high)
    assert exactly(sums) == model(given_rows)


@examples
@given(rows(DOUBLE))
def test_squares(given_rows: list) -> None:
    sums = ExactSums(GROUPS)
    sums.add_squares(codes_of(given_rows), values_of(given_rows, np.float64))
    assert exactly(sums) == model([(code, Fraction(value) ** 2) for code, value in given_rows])


@examples
@given(st.lists(st.tuples(st.booleans(), rows(DOUBLE)), max_size=8), st.randoms())
def test_merging_and_taking_back_in_any_order(pieces: list, random) -> None:
    """What is taken back need not have been merged before: there is only one sum in the end."""
    random.shuffle(pieces)
    total = ExactSums(GROUPS)
    expected = [Fraction(0)] * GROUPS
    for merges, piece in pieces:
        (total.merge if merges else total.subtract)(summed(piece))
        sign = 1 if merges else -1
        expected = [a + sign * b for a, b in zip(expected, model(piece), strict=True)]
        assert exactly(total) == expected


@examples
@given(rows(DOUBLE), st.permutations(range(12)))
def test_rows_in_any_order_give_the_same_bits(given_rows: list, order: list[int]) -> None:
    given_rows = given_rows[: len(order)]
    permuted = [given_rows[i] for i in order if i < len(given_rows)]
    everything = np.arange(GROUPS)
    one, other = (summed(each).rounded(everything) for each in (given_rows, permuted))
    assert one.tobytes() == other.tobytes()


def test_a_window_that_slides_over_a_large_value_and_back() -> None:
    """With doubles, the small values would be lost while 1e16 is in the window."""
    values = [0.1, 0.25, 3.0, 1e16, 1.0, -7.5, 1e-3, 1e308, 5e-324, 2.0, -1e308, 0.1, 0.2, 0.3]
    panes = [summed([(0, value)]) for value in values]
    window, length = ExactSums(GROUPS), 3
    for end, pane in enumerate(panes):
        window.merge(pane)
        if end >= length:
            window.subtract(panes[end - length])
        exact = sum(map(Fraction, values[max(0, end - length + 1) : end + 1]), Fraction(0))
        assert exactly(window)[0] == exact
        assert window.rounded(np.array([0]))[0] == float(exact)


def test_the_sum_of_large_values_is_infinite_only_in_the_end() -> None:
    sums = summed([(0, 1.7e308)] * 4)
    assert sums.rounded(np.array([0]))[0] == float("inf")
    sums.subtract(summed([(0, 1.7e308)] * 3))
    assert sums.rounded(np.array([0]))[0] == 1.7e308
    sums.subtract(summed([(0, 1.7e308)] * 4))
    assert sums.rounded(np.array([0]))[0] == float("-inf")


@pytest.mark.parametrize("sign", [1, -1])
def test_limbs_carry_before_they_overflow(sign: int) -> None:
    """Merging a sum into itself doubles it: a hundred times, far beyond 64 bits."""
    total = ExactSums(1)
    total.add_integers(np.zeros(3, np.int64), np.array([sign, 2 * sign, 2**40 * sign]))
    for _ in range(100):
        same = ExactSums(1)
        same.merge(total)
        total.merge(same)
    integers, exponent = total.integers(np.array([0]))
    assert int(integers[0]) << exponent == sign * (2**40 + 3) * 2**100
    assert total.int64s(np.array([0])) is None


def test_many_merges_and_subtractions_keep_one_limb() -> None:
    """The bound on limbs only ever rises, until a look at them says that they are small."""
    total, pane = ExactSums(1), ExactSums(1)
    pane.add_integers(np.zeros(1, np.int64), np.array([2**31]))
    pane._bound = 1 << 60
    for _ in range(50):
        total.merge(pane)
        total.subtract(pane)
    assert total.int64s(np.array([0])).tolist() == [0]


def test_many_rows_in_one_batch() -> None:
    generator = np.random.default_rng(7)
    codes = generator.integers(0, 5, 20_000)
    values = generator.normal(size=20_000) * 10.0 ** generator.integers(-300, 300, 20_000)
    sums = ExactSums(5)
    sums.add(codes, values)
    for group in range(5):
        exact = sum(map(Fraction, values[codes == group].tolist()), Fraction(0))
        assert sums.rounded(np.array([group]))[0] == float(exact)


def test_growing_keeps_what_there_is() -> None:
    sums = summed([(0, 0.5), (2, 1e300)])
    sums.grow(100)
    sums.add(np.array([99, 2]), np.array([2.0, 1e-300]))
    assert sums.rounded(np.array([0, 1, 2, 99])).tolist() == [0.5, 0.0, 1e300, 2.0]
    assert sums.size >= 100


def test_a_merged_sum_may_have_room_for_fewer_groups() -> None:
    narrow, wide = ExactSums(1), ExactSums(4)
    narrow.add(np.array([0]), np.array([0.5]))
    wide.add(np.array([0, 3]), np.array([1.0, 2.0]))
    wide.merge(narrow)
    assert wide.rounded(np.arange(4)).tolist() == [1.5, 0.0, 0.0, 2.0]


def test_over_nothing() -> None:
    sums = ExactSums(2)
    sums.add(np.zeros(0, np.int64), np.zeros(0))
    sums.merge(ExactSums(2))
    sums.subtract(ExactSums(2))
    assert sums.rounded(np.array([0, 1])).tolist() == [0.0, 0.0]
    assert sums.int64s(np.array([0, 1])).tolist() == [0, 0]


@pytest.mark.parametrize("exponent", [-1100, -1, 0, 3])
def test_divide_rounds_once(exponent: int) -> None:
    dividends = np.array([1, -7, 10**30, 0], dtype=object)
    divisors = np.array([3, 2, 7, 5], dtype=object)
    expected = [
        float(Fraction(int(a)) * Fraction(2) ** exponent / int(b))
        for a, b in zip(dividends, divisors, strict=True)
    ]
    assert divide(dividends, exponent, divisors).tolist() == expected


@examples
@given(st.integers(0, 2**200), st.integers(-2200, 200), st.integers(1, 2**80))
def test_roots_are_rounded_once(dividend: int, exponent: int, divisor: int) -> None:
    """No double is nearer: the root lies between the middles to both neighbours."""
    (root,) = roots(np.array([dividend], object), exponent, np.array([divisor], object)).tolist()
    exact = Fraction(dividend) * Fraction(2) ** exponent / divisor
    below, above = math.nextafter(root, -math.inf), math.nextafter(root, math.inf)
    assert max(Fraction(0), Fraction(root) + Fraction(below)) ** 2 <= 4 * exact
    assert 4 * exact <= (Fraction(root) + Fraction(above)) ** 2


def test_roots_of_squares_and_of_nothing() -> None:
    squares = np.array([0, 1, 9, 2**200], object)
    assert roots(squares, 0, np.array([1, 4, 1, 1], object)).tolist() == [0.0, 0.5, 3.0, 2.0**100]
    assert roots(np.array([1], object), 2048, np.array([1], object)).tolist() == [math.inf]
