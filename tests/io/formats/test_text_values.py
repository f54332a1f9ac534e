"""Columns of text: the rules for every type, and Arrow's way against the way cell by cell."""

import datetime
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SourceError
from penstock.io.formats.text_values import (
    parse_cell,
    parse_cells,
    parse_column,
    parse_whole,
    why_bad,
)
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

DAY = 86_400_000_000
BAD = "bad"


def one(text: str, sql_type: Type) -> Any:
    column, bad = parse_column(pa.array([text]), sql_type)
    assert column.type == sql_type.arrow
    assert not (bad[0] and column[0].is_valid)
    return BAD if bad[0] else to_python(column, sql_type)[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(text, True) for text in ("true", "TRUE", "t", "T", "1", "yes", "Yes", " true ")],
        *[(text, False) for text in ("false", "False", "f", "0", "no", "NO", "\tno")],
        *[(text, BAD) for text in ("", "y", "n", "on", "2", "truee", "01")],
    ],
)
def test_boolean(text: str, value: object) -> None:
    assert one(text, BOOLEAN) is value or one(text, BOOLEAN) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("  42\t", 42),
        ("007", 7),
        ("0" * 5000 + "7", 7),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("2147483648", BAD),
        ("9" * 5000, BAD),
        ("", BAD),
        (" ", BAD),
        ("-", BAD),
        ("1 2", BAD),
        ("1.0", BAD),
        ("1e3", BAD),
        ("0x1F", BAD),
        ("1_000", BAD),
        ("٣", BAD),
        ("--1", BAD),
    ],
)
def test_int(text: str, value: object) -> None:
    assert one(text, INT) == value


def test_bigint_range() -> None:
    assert one(str(2**63 - 1), BIGINT) == 2**63 - 1
    assert one(str(-(2**63)), BIGINT) == -(2**63)
    assert one(str(2**63), BIGINT) == BAD


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5),
        ("-1.5e-3", -0.0015),
        ("+2", 2.0),
        (".5", 0.5),
        ("5.", 5.0),
        (" 1 ", 1.0),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("+INF", math.inf),
        ("1e", BAD),
        ("0x1p3", BAD),
        ("1_0", BAD),
        ("nan(1)", BAD),
        ("infin", BAD),
        ("", BAD),
    ],
)
def test_double(text: str, value: object) -> None:
    assert one(text, DOUBLE) == value


def test_double_nan() -> None:
    assert math.isnan(one("NaN", DOUBLE))
    assert math.isnan(one(" -nan", DOUBLE))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", Decimal("1.50")),
        ("-123.45", Decimal("-123.45")),
        ("+1", Decimal("1.00")),
        (" 1.500000 ", Decimal("1.50")),
        ("1e2", Decimal("100.00")),
        ("0e99", Decimal("0.00")),
        ("0." + "0" * 60, Decimal("0.00")),
        ("1.234", BAD),
        ("1000", BAD),
        ("1e-3", BAD),
        ("1e99999999999999999999", BAD),
        ("1e-99999999999999999999", BAD),
        ("9" * 500, BAD),
        ("nan", BAD),
        ("inf", BAD),
        ("1,5", BAD),
        ("", BAD),
    ],
)
def test_decimal(text: str, value: object) -> None:
    assert one(text, decimal_type(5, 2)) == value


def test_decimal_that_arrow_would_wrap_around() -> None:
    assert one("9" * 38, decimal_type(38, 0)) == Decimal("9" * 38)
    assert one("9" * 39, decimal_type(38, 0)) == BAD
    assert one("11", decimal_type(38, 38)) == BAD
    assert one("3378566", decimal_type(38, 34)) == BAD


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-02", 1),
        (" 1970-01-02 ", 1),
        ("0001-01-01", -719162),
        ("9999-12-31", 2932896),
        ("2024-02-29", 19782),
        ("2023-02-29", BAD),
        ("0000-01-01", BAD),
        ("2024-13-01", BAD),
        ("2024-1-1", BAD),
        ("20240101", BAD),
        ("2024-01-01T00:00", BAD),
        ("01.02.2024", BAD),
        ("", BAD),
    ],
)
def test_date(text: str, value: object) -> None:
    assert one(text, DATE) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-02", DAY),
        ("1970-01-01T00:00:01", 1_000_000),
        ("1970-01-01 00:00:01", 1_000_000),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T01:00:01+01:00", 1_000_000),
        ("1970-01-01T01:00:01+0100", 1_000_000),
        ("1970-01-01T01:00:01+01", 1_000_000),
        ("1969-12-31T22:30:00-01:30", 0),
        ("1970-01-01T00:00:00.5", 500_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:01", 60_000_000),
        (" 1970-01-01T00:00:00 ", 0),
        ("0001-01-01T00:00:00+01:00", -719162 * DAY - 3_600_000_000),
        ("0000-12-31", BAD),
        ("1970-01-01T00:00:00.1234567", 123456),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1970-01-01T24:00:00", BAD),
        ("1970-01-01T00:60:00", BAD),
        ("1970-01-01T00:00:60", BAD),
        ("1970-01-01T00:00:00+24:00", BAD),
        ("1970-01-01T00:00:00+00:60", BAD),
        ("1970-01-01T00:00:00 +01:00", BAD),
        ("1970-01-01Z", BAD),
        ("1970-02-30T00:00:00", BAD),
        ("1700000000", BAD),
        ("yesterday", BAD),
        ("", BAD),
    ],
)
def test_timestamp(text: str, value: object) -> None:
    assert one(text, TIMESTAMP) == value


def test_timestamps_mixed_in_one_column() -> None:
    texts = ["1970-01-02", None, "1970-01-01T00:00:01Z", "1970-01-01 02:00:00+02:00", "x"]
    column, bad = parse_column(pa.array(texts), TIMESTAMP)
    assert to_python(column, TIMESTAMP) == [DAY, None, 1_000_000, 0, None]
    assert bad.tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", b""),
        ("0x", b""),
        ("00fF", b"\x00\xff"),
        ("0X0a", b"\x0a"),
        (" ab ", b"\xab"),
        ("abc", BAD),
        ("ab cd", BAD),
        ("zz", BAD),
        ("\\xab", BAD),
    ],
)
def test_binary(text: str, value: object) -> None:
    assert one(text, BINARY) == value


def test_string_as_is() -> None:
    texts = pa.array(["", " a ", None, "0x", "\0"])
    column, bad = parse_column(texts, STRING)
    assert column.equals(texts)
    assert not bad.any()


def test_empty_and_null_columns() -> None:
    for sql_type in (*TEXTS, STRING, BINARY):
        for texts in (pa.array([], pa.string()), pa.array([None, None], pa.string())):
            column, bad = parse_column(texts, sql_type)
            assert column.type == sql_type.arrow
            assert column.null_count == len(texts) == len(bad)
            assert not bad.any()


def test_stream_cannot_carry_intervals() -> None:
    with pytest.raises(SourceError, match="a stream cannot carry INTERVAL"):
        parse_column(pa.array(["1"]), INTERVAL)


def test_reasons() -> None:
    assert why_bad("abc", INT) == "'abc' is not an INT"
    assert why_bad("99999999999", INT) == "'99999999999' does not fit INT"
    assert why_bad("1.5", BIGINT) == "'1.5' is not a BIGINT"
    assert why_bad("1.234", decimal_type(4, 2)) == "'1.234' does not fit DECIMAL(4,2)"
    assert why_bad("x", decimal_type(4, 2)) == "'x' is not a DECIMAL(4,2)"
    assert why_bad("2023-02-29", DATE) == "'2023-02-29' is not a DATE"


def written(alphabet: str, *, most: int = 12) -> st.SearchStrategy[str]:
    return st.text(alphabet, max_size=most)


INTEGERS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.integers(-(2**31) - 2, 2**31 + 2).map(str),
    st.from_regex(re.compile(r"[ ]?[+-]?[0-9]{1,22}[ ]?", re.ASCII), fullmatch=True),
    written("0123456789+-xXaF. "),
)
DOUBLES = st.one_of(
    st.floats().map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.17e}".format),
    st.integers(-(10**400), 10**400).map(str),
    st.sampled_from(["nan", "NAN", "-inf", "Infinity", "nan()", "nan(0)", "1e400", "-1e-400"]),
    written("0123456789+-.eEinfa ", most=8),
)
DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"[+-]?[0-9]{1,45}(\.[0-9]{0,45})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.from_regex(r"-?[0-9]{1,6}(\.[0-9]{0,4})?", fullmatch=True),
    written("0123456789+-.eE ", most=8),
)
DATES = st.one_of(
    st.dates().map(str),
    st.from_regex(r"[0-2]0[0-9]{2}-[01][0-9]-[0-3][0-9]", fullmatch=True),
    written("0123456789-T ", most=10),
)
ZONES = st.one_of(
    st.sampled_from(["", "", "Z", "z", " Z", "+1", "+00:60"]),
    st.from_regex(r"[+-][0-2][0-9](:?[0-6][0-9])?", fullmatch=True),
)
TIMESTAMPS = st.one_of(
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.tuples(st.datetimes(), ZONES).map(lambda pair: pair[0].isoformat(" ") + pair[1]),
    st.tuples(
        st.from_regex(
            r"[0-2]0[0-9]{2}-[01][0-9]-[0-3][0-9]"
            r"([T ][0-2][0-9](:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,7})?)?)?)?",
            fullmatch=True,
        ),
        ZONES,
    ).map("".join),
    DATES,
)
TEXTS: dict[Type, st.SearchStrategy[str]] = {
    BOOLEAN: st.one_of(
        st.sampled_from(["true", "FALSE", "t", "f", "1", "0", "yes", "No"]),
        written("truefalsyn10 "),
    ),
    INT: INTEGERS,
    BIGINT: INTEGERS,
    DOUBLE: DOUBLES,
    decimal_type(5, 2): DECIMALS,
    decimal_type(18, 6): DECIMALS,
    decimal_type(38, 0): DECIMALS,
    decimal_type(38, 20): DECIMALS,
    decimal_type(38, 38): DECIMALS,
    DATE: DATES,
    TIMESTAMP: TIMESTAMPS,
}
CASES = st.sampled_from(list(TEXTS)).flatmap(
    lambda sql_type: st.tuples(
        st.just(sql_type), st.lists(st.one_of(st.none(), TEXTS[sql_type], st.text(max_size=5)))
    )
)


@settings(deadline=None)
@given(CASES)
def test_arrow_and_cells_agree(case: tuple[Type, list[str | None]]) -> None:
    sql_type, texts = case
    column = pa.array(texts, pa.string())
    slow, bad = parse_cells(column, sql_type)
    slow.validate(full=True)
    whole = parse_whole(column, sql_type)
    if whole is not None:
        assert not bad.any()
        assert plain(whole, sql_type) == plain(slow, sql_type)
    for position, text in enumerate(texts):  # and so for every cell alone
        alone = parse_whole(column[position : position + 1], sql_type)
        if alone is not None:
            assert not bad[position]
            assert plain(alone, sql_type) == plain(slow[position : position + 1], sql_type)
        if text is None:
            assert not bad[position]


def plain(column: pa.Array, sql_type: Type) -> str:
    return str(to_python(column, sql_type)).replace("-nan", "nan")


@settings(deadline=None)
@given(TEXTS[BIGINT])
def test_integers_as_python_reads_them(text: str) -> None:
    try:
        value: int | None = int(text)
    except ValueError:
        value = None
    if value is None or not -(2**63) <= value < 2**63 or "_" in text or not text.isascii():
        assert parse_cell(text, BIGINT) is None
    else:
        assert parse_cell(text, BIGINT) == value


@settings(deadline=None)
@given(TEXTS[DOUBLE])
def test_doubles_as_python_reads_them(text: str) -> None:
    try:
        assert repr(parse_cell(text, DOUBLE)) == repr(float(text))
    except ValueError:
        assert parse_cell(text, DOUBLE) is None


@settings(deadline=None)
@given(DECIMALS, st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))))
def test_decimals_are_exact_or_bad(text: str, shape: tuple[int, int]) -> None:
    precision, scale = shape
    sql_type = decimal_type(precision, scale)
    found = one(text, sql_type)
    try:
        value = Decimal(text.strip())
    except ArithmeticError:
        assert found == BAD
        return
    digits = value.as_tuple().digits
    exponent = int(value.as_tuple().exponent)
    number = int("".join(map(str, digits))) * 10 ** max(0, exponent + scale)
    lost = 10 ** max(0, -exponent - scale)
    fits = number % lost == 0 and number // lost < 10**precision
    assert (found == value) if fits else (found == BAD)


@settings(deadline=None)
@given(st.datetimes(timezones=st.just(datetime.UTC) | st.timezones()))
def test_timestamps_as_python_writes_them(moment: datetime.datetime) -> None:
    offset = moment.utcoffset()
    assert offset is not None
    if offset % datetime.timedelta(minutes=1):
        return  # seconds in a zone: local mean time, which the rules leave out
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    micros = (moment - epoch) // datetime.timedelta(microseconds=1)
    assert one(moment.isoformat(), TIMESTAMP) == micros
    assert one(moment.isoformat(" "), TIMESTAMP) == micros


@settings(deadline=None)
@given(st.binary())
def test_binary_as_hex(data: bytes) -> None:
    assert one(data.hex(), BINARY) == data
    assert one("0x" + data.hex().upper(), BINARY) == data
