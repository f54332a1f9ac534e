"""Arrow columns under a declared type: which types may, which values do, and nothing changes."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.io.formats.arrow import castable, fit_column
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
from penstock.model.values import to_python

MONEY = decimal_type(5, 2)


@pytest.mark.parametrize(
    ("arrow", "sql_type"),
    [
        (pa.bool_(), BOOLEAN),
        (pa.int8(), INT),
        (pa.uint64(), INT),
        (pa.int64(), BIGINT),
        (pa.int64(), DOUBLE),
        (pa.float16(), DOUBLE),
        (pa.float32(), DOUBLE),
        (pa.int32(), MONEY),
        (pa.decimal32(5, 1), MONEY),
        (pa.decimal256(38, 2), MONEY),
        (pa.string_view(), STRING),
        (pa.large_string(), STRING),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.binary(3), BINARY),
        (pa.binary_view(), BINARY),
        (pa.large_binary(), BINARY),
        (pa.date64(), DATE),
        (pa.date32(), TIMESTAMP),
        (pa.timestamp("s"), TIMESTAMP),
        (pa.timestamp("ns", "Asia/Tokyo"), TIMESTAMP),
        *[(pa.null(), each) for each in (INT, MONEY, STRING, TIMESTAMP)],
    ],
)
def test_types_that_may_fit(arrow: pa.DataType, sql_type: Type) -> None:
    assert castable(arrow, sql_type)
    column, bad = fit_column(pa.nulls(2, arrow), sql_type)
    assert column.type == sql_type.arrow
    assert column.null_count == 2
    assert not bad.any()


@pytest.mark.parametrize(
    ("arrow", "sql_type"),
    [
        (pa.string(), INT),
        (pa.float64(), INT),
        (pa.float64(), MONEY),
        (pa.bool_(), INT),
        (pa.int8(), BOOLEAN),
        (pa.int64(), STRING),
        (pa.int64(), TIMESTAMP),
        (pa.string(), TIMESTAMP),
        (pa.timestamp("us"), DATE),
        (pa.string(), BINARY),
        (pa.binary(), STRING),
        (pa.decimal128(5, 2), DOUBLE),
        (pa.decimal256(39, 2), MONEY),
        (pa.duration("us"), INTERVAL),
        (pa.list_(pa.int8()), STRING),
    ],
)
def test_types_that_never_fit(arrow: pa.DataType, sql_type: Type) -> None:
    assert not castable(arrow, sql_type)


@pytest.mark.parametrize(
    ("array", "sql_type", "expected", "bad"),
    [
        (pa.array([1, 2**31, None, -(2**31) - 1]), INT, [1, None, None, None], [1, 3]),
        (pa.array([2**63 - 1, 2**63], pa.uint64()), BIGINT, [2**63 - 1, None], [1]),
        (pa.array([2**53, 2**53 + 1]), DOUBLE, [2.0**53, None], [1]),
        (pa.array([999, 1000]), MONEY, [Decimal("999.00"), None], [1]),
        (
            pa.array([Decimal("1.500"), Decimal("1.505"), Decimal("1000.000")]),
            MONEY,
            [Decimal("1.50"), None, None],
            [1, 2],
        ),
        (pa.array([5, 11]), decimal_type(38, 38), [None, None], [0, 1]),
        (
            pa.array([Decimal("88866226275092.8")]),
            decimal_type(38, 34),
            [None],
            [0],
        ),
        (pa.array([1000, 1], pa.timestamp("ns", "Asia/Tokyo")), TIMESTAMP, [1, 0], []),
        (pa.array([-1, None], pa.timestamp("ns")), TIMESTAMP, [-1, None], []),
        (pa.array([1, 2**60], pa.timestamp("s")), TIMESTAMP, [1_000_000, None], [1]),
        (pa.array([86_400_000, 5]).cast(pa.date64()), DATE, [1, None], [1]),
        (
            pa.array([1, 2**31 - 1], pa.int32()).cast(pa.date32()),
            TIMESTAMP,
            [86400 * 10**6, None],
            [1],
        ),
        (pa.array([7, 2**40, 7]).dictionary_encode(), INT, [7, None, 7], [1]),
    ],
)
def test_values(array: pa.Array, sql_type: Type, expected: list[Any], bad: list[int]) -> None:
    column, mask = fit_column(array, sql_type)
    assert to_python(column, sql_type) == expected
    assert mask.nonzero()[0].tolist() == bad


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-(2**33), 2**33), max_size=50))
def test_halving_finds_exactly_the_bad(values: list[int | None]) -> None:
    column, bad = fit_column(pa.array(values, pa.int64()), INT)
    fits = [value is None or -(2**31) <= value < 2**31 for value in values]
    assert bad.tolist() == [not fit for fit in fits]
    assert column.to_pylist() == [v if fit else None for v, fit in zip(values, fits, strict=True)]


SHAPES = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))


@settings(deadline=None)
@given(SHAPES, SHAPES, st.data())
def test_decimals_never_change(
    found: tuple[int, int], declared: tuple[int, int], data: st.DataObject
) -> None:
    limit = 10 ** found[0] - 1
    numbers = data.draw(st.lists(st.integers(-limit, limit), min_size=1, max_size=4))
    values = [Decimal(f"{number}e-{found[1]}") for number in numbers]
    column, bad = fit_column(pa.array(values, pa.decimal128(*found)), decimal_type(*declared))
    column.validate(full=True)
    for number, value, cell, is_bad in zip(numbers, values, column.to_pylist(), bad, strict=True):
        scaled, rest = divmod(abs(number) * 10 ** declared[1], 10 ** found[1])
        fits = rest == 0 and scaled < 10 ** declared[0]
        assert is_bad == (not fits)
        assert cell == (value if fits else None)
