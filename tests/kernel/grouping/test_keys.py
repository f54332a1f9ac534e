"""Group keys and their codes: stable across batches, equal as SQL means it, however batches are
cut."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.grouping.key_codes import DenseKeys
from penstock.kernel.grouping.keys import BitCodes, KeyCodes, codes_of
from penstock.model.ordering import canonical
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Type,
    decimal_type,
)
from penstock.model.values import to_arrow, to_python
from tests.local.helpers import examples

VALUES: dict[Type, list[Any]] = {
    BOOLEAN: [True, False, None],
    INT: [0, -1, 2**31 - 1, None],
    BIGINT: [0, -1, 2**63 - 1, -(2**63), None],
    DOUBLE: [0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, -math.inf, 5e-324, None],
    decimal_type(10, 2): [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), None],
    STRING: ["", "a", "é", "NaN", None],
    BINARY: [b"", b"a", b"\x00", None],
    DATE: [0, -1, 20_000, None],
    TIMESTAMP: [0, -1, 2**60, None],
    INTERVAL: [0, 10**9, None],
}
TYPES = st.sampled_from(list(VALUES))


def same(one: Any, other: Any) -> bool:
    return canonical(one) == canonical(other)


@st.composite
def columns(draw: st.DrawFn, count: int) -> tuple[list[Type], list[tuple[Any, ...]]]:
    types = [draw(TYPES) for _ in range(count)]
    row = st.tuples(*(st.sampled_from(VALUES[each]) for each in types))
    return types, draw(st.lists(row, max_size=90))


def encoded(known: KeyCodes, types: list[Type], rows: list[tuple[Any, ...]], cut: int) -> list[int]:
    found: list[int] = []
    for begin in range(0, len(rows), cut):
        part = rows[begin : begin + cut]
        arrays = [to_arrow([row[i] for row in part], each) for i, each in enumerate(types)]
        codes = known.encode(arrays, len(part))
        assert codes.dtype == np.int64
        found += codes.tolist()
    return found


@examples
@given(st.integers(1, 3).flatmap(columns), st.sampled_from([1, 7, 32, 33, 100]))
def test_codes_are_equal_where_keys_are(
    given_columns: tuple[list[Type], list[tuple[Any, ...]]], cut: int
) -> None:
    types, rows = given_columns
    known = KeyCodes(types)
    codes = encoded(known, types, rows, cut)
    keys: dict[Any, int] = {}
    for row, code in zip(rows, codes, strict=True):
        assert keys.setdefault(tuple(map(canonical, row)), code) == code
    assert sorted(keys.values()) == list(range(len(keys)))  # each its own, none left out
    assert len(known) == len(keys)
    taken = [
        to_python(column, each)
        for column, each in zip(known.take(np.array(codes, np.int64)), types, strict=True)
    ]
    for row, shown in zip(rows, zip(*taken, strict=True), strict=True):
        assert all(map(same, row, shown))


@examples
@given(st.integers(1, 2).flatmap(columns))
def test_a_second_time_the_codes_are_the_same(
    given_columns: tuple[list[Type], list[tuple[Any, ...]]],
) -> None:
    types, rows = given_columns
    known = KeyCodes(types)
    first = encoded(known, types, rows, 100)
    for cut in (1, 7, 40):
        assert encoded(known, types, rows, cut) == first
    assert len(known) == len(set(first))


def test_codes_are_given_in_the_order_of_first_sight() -> None:
    known = codes_of(STRING)
    assert known.encode(pa.array(["b", "a", "b", None])).tolist() == [0, 1, 0, 2]
    assert known.encode(pa.array([None, "c", "a"] * 20)).tolist() == [2, 3, 1] * 20
    assert known.take(np.array([3, 2, 1, 0])).to_pylist() == ["c", None, "a", "b"]
    assert known.encode(pa.array(["d"])).tolist() == [4]
    assert known.take(np.array([4])).to_pylist() == ["d"]


INTEGERS = st.integers(-50, 50) | st.integers(0, 10**5) | st.none()


@examples
@given(
    st.sampled_from([INT, BIGINT]),
    st.lists(st.tuples(st.lists(INTEGERS, max_size=9), st.sampled_from([1, 40])), max_size=9),
)
def test_integers_by_a_table_and_without(
    sql_type: Type, batches: list[tuple[list[int | None], int]]
) -> None:
    """Close together and not, with NULLs and without, in small batches and in large ones."""
    known = codes_of(sql_type)
    seen: dict[int | None, int] = {}
    for values, copies in batches:
        expected = [seen.setdefault(value, len(seen)) for value in values]
        found = known.encode(to_arrow(values * copies, sql_type))
        assert found.tolist() == expected * copies
    assert known.take(np.arange(len(seen))).to_pylist() == list(seen)


@pytest.mark.parametrize("step", [1, 10**12])
def test_many_known_keys_and_a_batch_that_is_small_beside_them(step: int) -> None:
    known = codes_of(STRING if step > 1 else BIGINT)
    values: list[Any] = [str(i * step) if step > 1 else i for i in range(1000)]
    assert known.encode(pa.array(values)).tolist() == list(range(1000))
    fresh = "new" if step > 1 else -1
    some = [values[7], fresh, values[999]] * 20
    assert known.encode(pa.array(some)).tolist() == [7, 1000, 999] * 20
    assert known.take(np.array([1000, 7])).to_pylist() == [fresh, values[7]]


@pytest.mark.parametrize("copies", [1, 50])
def test_nan_and_minus_zero(copies: int) -> None:
    known = codes_of(DOUBLE)
    values = [0.0, -0.0, math.nan, -math.nan, None, math.inf] * copies
    assert known.encode(pa.array(values)).tolist() == [0, 0, 1, 1, 2, 3] * copies
    zero = known.take(np.array([0])).to_pylist()[0]
    assert math.copysign(1, zero) == 1


def test_nan_of_another_batch_is_the_same_key() -> None:
    known = codes_of(DOUBLE)
    known.encode(pa.array([math.nan] * 40))
    known.encode(pa.array([math.nan]))
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    known.encode(pa.array(bits))
    assert len(known) == 1


def test_minus_zero_first_is_shown_as_zero() -> None:
    known = KeyCodes([DOUBLE])
    known.encode([pa.array([-0.0])], 1)
    assert math.copysign(1, known.take(np.array([0]))[0].to_pylist()[0]) == 1


def test_without_columns_there_is_one_group() -> None:
    known = KeyCodes([])
    assert len(known) == 1
    assert known.encode([], 3).tolist() == [0, 0, 0]
    assert known.take(np.array([0, 0])) == []


def test_null_in_one_of_several_columns() -> None:
    known = KeyCodes([STRING, INT])
    rows = [("a", None), (None, None), ("a", 1), (None, 1), ("a", None)]
    assert encoded(known, [STRING, INT], rows, 5) == [0, 1, 2, 3, 0]
    many = encoded(known, [STRING, INT], rows * 20, 100)
    assert many == [0, 1, 2, 3, 0] * 20
    assert [column.to_pylist() for column in known.take(np.array([1, 2]))] == [
        [None, "a"],
        [None, 1],
    ]


def test_slices_and_dictionaries_of_many_values() -> None:
    """Codes do not run over where the product of the columns' sizes is large."""
    known = KeyCodes([BIGINT] * 5)
    generator = np.random.default_rng(3)
    data = [generator.integers(0, 20_000, 20_000) for _ in range(5)]
    arrays = [pa.array(np.concatenate([[9], column])).slice(1) for column in data]
    codes = known.encode(arrays, 20_000)
    distinct = set(zip(*data, strict=True))
    assert len(set(codes.tolist())) == len(distinct) == len(known)
    assert [c.to_pylist() for c in known.take(codes)] == [column.tolist() for column in data]


def test_many_values_in_many_columns() -> None:
    """Five columns of 2**16 values each: the first column counts multiples of 2**64."""
    known = KeyCodes([BIGINT] * 5)
    known.encode([pa.array(np.arange(1 << 16))] * 5, 1 << 16)
    zeros = pa.array(np.zeros(40, np.int64))
    codes = known.encode([pa.array(np.arange(40)), *[zeros] * 4], 40)
    assert len(set(codes.tolist())) == 40


def test_integers_that_come_far_apart_may_turn_out_to_be_close_together() -> None:
    """Of 10,000 neighbours few come first, in no order; all have one code, which never changes."""
    keys = codes_of(BIGINT)
    values = np.random.default_rng(1).permutation(10_000)
    known: dict[int, int] = {}
    for size in (200, 1_000, 5_000, 10_000):
        codes = keys.encode(pa.array(values[:size])).tolist()
        found = dict(zip(values[:size].tolist(), codes, strict=True))
        assert found.items() >= known.items()
        assert sorted(found.values()) == list(range(size))
        known = found
    assert isinstance(keys, BitCodes)
    assert isinstance(keys._numbers._table, DenseKeys)
