"""Types: what Arrow's are here, what two have in common, and values there and back again."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.model.durations import format_timestamp
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INT64_MAX,
    INT64_MIN,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    array_of,
    as_decimal,
    common_type,
    decimal_type,
    from_arrow,
    map_of,
    struct_of,
)
from penstock.model.values import to_arrow, to_python
from tests.model.strategies import all_types, typed_columns

FROM_ARROW = [
    (pa.null(), STRING),
    (pa.bool_(), BOOLEAN),
    *((arrow, INT) for arrow in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())),
    *((arrow, BIGINT) for arrow in (pa.uint32(), pa.int64())),
    (pa.uint64(), decimal_type(20, 0)),
    *((arrow, DOUBLE) for arrow in (pa.float16(), pa.float32(), pa.float64())),
    *((arrow, STRING) for arrow in (pa.string(), pa.large_string(), pa.string_view())),
    *((arrow, BINARY) for arrow in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(16), BINARY),
    *((arrow, DATE) for arrow in (pa.date32(), pa.date64())),
    *((pa.timestamp(unit), TIMESTAMP) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("ns", tz="Europe/Berlin"), TIMESTAMP),
    *((pa.duration(unit), INTERVAL) for unit in ("s", "ms", "us", "ns")),
    (pa.decimal32(9, 2), decimal_type(9, 2)),
    (pa.decimal64(18, 3), decimal_type(18, 3)),
    (pa.decimal128(38, 10), decimal_type(38, 10)),
    (pa.decimal256(38, 38), decimal_type(38, 38)),
    (pa.decimal256(39, 0), None),
    (pa.decimal128(5, -2), None),
    (pa.dictionary(pa.int8(), pa.string()), STRING),
    (pa.dictionary(pa.int32(), pa.list_(pa.int8())), array_of(INT)),
    (pa.time32("s"), None),
    (pa.time64("us"), None),
    (pa.month_day_nano_interval(), None),
    (pa.list_(pa.int8()), array_of(INT)),
    (pa.large_list(pa.int8()), array_of(INT)),
    (pa.list_(pa.int8(), 2), array_of(INT)),
    (pa.list_(pa.time32("s")), None),
    (pa.struct([("a", pa.int8())]), struct_of([("a", INT)])),
    (pa.struct([]), None),
    (pa.map_(pa.string(), pa.int8()), map_of(STRING, INT)),
    (pa.map_(pa.float64(), pa.int8()), None),
    (pa.run_end_encoded(pa.int32(), pa.int8()), None),
]


@pytest.mark.parametrize(("arrow", "expected"), FROM_ARROW, ids=lambda each: str(each))
def test_from_arrow(arrow: pa.DataType, expected: Type | None) -> None:
    assert from_arrow(arrow) == expected


@pytest.mark.parametrize(
    ("values", "arrow"),
    [
        ([-128, 127], pa.int8()),
        ([0, 2**16 - 1], pa.uint16()),
        ([0, 2**32 - 1], pa.uint32()),
        ([INT64_MIN, INT64_MAX], pa.int64()),
        ([0, 2**64 - 1], pa.uint64()),
        ([1.5, -2.0], pa.float16()),
        ([b"ab"], pa.binary(2)),
        (["x", None], pa.string_view()),
        ([Decimal("-99999.99")], pa.decimal32(7, 2)),
    ],
    ids=str,
)
def test_the_type_holds_every_value_of_the_arrow_type(values: list[Any], arrow: Any) -> None:
    found = from_arrow(arrow)
    assert found is not None
    assert to_python(pa.array(values, arrow), found) == values


@given(all_types)
def test_every_type_is_its_arrow_type(sql_type: Type) -> None:
    expected = STRING if sql_type == NULL else sql_type
    assert from_arrow(sql_type.arrow) == expected


@given(typed_columns)
@settings(deadline=None)
def test_values_there_and_back_again(typed: tuple[Type, list[Any]]) -> None:
    sql_type, values = typed
    column = to_arrow(values, sql_type)
    column.validate(full=True)
    assert column.type == sql_type.arrow
    # NaN is not equal to itself, and -0.0 is equal to 0.0; their texts tell
    assert list(map(repr, to_python(column, sql_type))) == list(map(repr, values))
    chunked = pa.chunked_array([column[:1], column[1:]], column.type)
    assert list(map(repr, to_python(chunked, sql_type))) == list(map(repr, values))


def test_times_are_integers_whatever_their_unit_and_zone() -> None:
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1)
    for arrow in (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ms", tz="Asia/Tokyo")):
        assert to_python(pa.array([moment, None], arrow), TIMESTAMP) == [1_000_000, None]
    assert to_python(pa.array([datetime.date(1970, 1, 2)], pa.date64()), DATE) == [1]
    assert to_python(pa.array([2], pa.duration("ms")), INTERVAL) == [2_000]


def test_a_timestamp_finer_than_microseconds_is_not_rounded() -> None:
    with pytest.raises(pa.ArrowInvalid):
        to_python(pa.array([1], pa.timestamp("ns")), TIMESTAMP)


# --- what two types have in common ---------------------------------------------------------------


@given(all_types, all_types)
def test_common_type_is_symmetric(left: Type, right: Type) -> None:
    assert common_type(left, right) == common_type(right, left)


@given(all_types)
def test_a_type_has_itself_in_common_with_itself_and_null(sql_type: Type) -> None:
    assert common_type(sql_type, sql_type) == sql_type
    assert common_type(sql_type, NULL) == sql_type


@given(all_types, all_types)
def test_a_common_decimal_has_room_for_both(left: Type, right: Type) -> None:
    common = common_type(left, right)
    if common is None or common.kind is not Kind.DECIMAL:
        return
    for each in map(as_decimal, (left, right)):
        if each.kind is Kind.NULL:
            continue
        assert common.scale >= each.scale
        # 38 digits are all there are, so whole digits may be lost at the top only
        whole = common.precision - common.scale
        assert whole >= each.precision - each.scale or common.precision == 38


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (INT, BIGINT, BIGINT),
        (INT, DOUBLE, DOUBLE),
        (decimal_type(38, 0), DOUBLE, DOUBLE),
        (BIGINT, decimal_type(5, 2), decimal_type(21, 2)),
        (decimal_type(5, 2), decimal_type(4, 3), decimal_type(6, 3)),
        (DATE, TIMESTAMP, TIMESTAMP),
        (STRING, INT, None),
        (BOOLEAN, INT, None),
        (DATE, BIGINT, None),
        (TIMESTAMP, INTERVAL, None),
        (STRING, BINARY, None),
    ],
    ids=str,
)
def test_common_type(left: Type, right: Type, expected: Type | None) -> None:
    assert common_type(left, right) == expected


# --- the types themselves ------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1), (-1, 0)])
def test_decimals_that_do_not_exist(precision: int, scale: int) -> None:
    with pytest.raises(PlanError, match="DECIMAL"):
        decimal_type(precision, scale)


def test_names() -> None:
    assert [str(each) for each in (INT, decimal_type(9, 2), NULL)] == [
        "INT",
        "DECIMAL(9,2)",
        "NULL",
    ]


def test_numbers_and_integers() -> None:
    numbers = {INT, BIGINT, DOUBLE, decimal_type(3, 1)}
    others = {NULL, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, INTERVAL}
    assert all(each.is_number for each in numbers)
    assert not any(each.is_number or each.is_integer for each in others)
    assert {each for each in numbers if each.is_integer} == {INT, BIGINT}


# --- timestamps as text --------------------------------------------------------------------------


@given(st.datetimes())
def test_format_timestamp_is_iso_8601(moment: datetime.datetime) -> None:
    since = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert format_timestamp(since) == moment.isoformat(timespec="microseconds") + "Z"


def test_format_timestamp_beyond_the_year_9999() -> None:
    assert format_timestamp(253_402_300_800_000_000) == "10000-01-01T00:00:00.000000Z"
    assert format_timestamp(INT64_MAX) == "294247-01-10T04:00:54.775807Z"
    assert format_timestamp(INT64_MIN + 1) == "-290308-12-21T19:59:05.224193Z"


def test_format_timestamp_of_the_lowest_int64() -> None:
    # which NumPy takes for NaT
    assert format_timestamp(INT64_MIN) == "-290308-12-21T19:59:05.224192Z"
