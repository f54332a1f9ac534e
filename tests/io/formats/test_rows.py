"""Columns of Python objects under a declared type."""

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.io.formats.json_lines import read_lines
from penstock.io.formats.rows import fit_objects, plain_value, why_misfit
from penstock.io.sources.rejects import RejectLog
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
    Epoch,
    Field,
    Kind,
    Schema,
    Type,
    decimal_type,
)
from penstock.model.values import to_python

MONEY = decimal_type(5, 2)
SECONDS, MILLIS, NANOS = (
    Type(Kind.TIMESTAMP, epoch=each)
    for each in (Epoch.SECONDS, Epoch.MILLISECONDS, Epoch.NANOSECONDS)
)
DAYS = Type(Kind.DATE, epoch=Epoch.DAYS)
BAD = "bad"
CEST = datetime.timezone(datetime.timedelta(hours=2))
DAY = 86_400_000_000


def fitted(values: list[object], sql_type: Type) -> list[Any]:
    column, bad = fit_objects(values, sql_type)
    assert column.type == sql_type.arrow
    cells = to_python(column, sql_type)
    return [BAD if is_bad else cell for cell, is_bad in zip(cells, bad, strict=True)]


@pytest.mark.parametrize(
    ("value", "sql_type", "expected"),
    [
        (True, BOOLEAN, True),
        (np.True_, BOOLEAN, True),
        (1, BOOLEAN, BAD),
        ("true", BOOLEAN, BAD),
        (5, INT, 5),
        (np.int64(5), INT, 5),
        (2**31, INT, BAD),
        pytest.param(10**5000, BIGINT, BAD, id="huge"),
        (True, INT, BAD),
        (1.0, INT, BAD),
        (1.5, BIGINT, BAD),
        ("5", INT, BAD),
        (Decimal(5), INT, BAD),
        (1.5, DOUBLE, 1.5),
        (np.float32(0.5), DOUBLE, 0.5),
        (3, DOUBLE, 3.0),
        (2**53 + 1, DOUBLE, BAD),
        (10**400, DOUBLE, BAD),
        (True, DOUBLE, BAD),
        (Decimal("1.5"), DOUBLE, BAD),
        (Decimal("1.5"), MONEY, Decimal("1.50")),
        (7, MONEY, Decimal("7.00")),
        (Decimal("0E+99"), MONEY, Decimal("0.00")),
        (Decimal("1.505"), MONEY, BAD),
        (Decimal("NaN"), MONEY, BAD),
        (Decimal("sNaN"), MONEY, BAD),
        (Decimal("Infinity"), MONEY, BAD),
        (Decimal("1E+999999"), MONEY, BAD),
        (1000, MONEY, BAD),
        (1.5, MONEY, Decimal("1.50")),
        (14.96, MONEY, Decimal("14.96")),  # and not the binary fraction beside it
        (np.float64(14.96), MONEY, Decimal("14.96")),
        (1e-05, MONEY, BAD),
        (1e2, MONEY, Decimal("100.00")),
        (1e22, decimal_type(38, 2), Decimal("1e22")),
        (1.505, MONEY, BAD),
        (1000.0, MONEY, BAD),
        (math.nan, MONEY, BAD),
        (-math.inf, MONEY, BAD),
        (True, MONEY, BAD),
        ("1.5", MONEY, BAD),
        ("ü", STRING, "ü"),
        ("\ud800", STRING, BAD),
        (b"x", STRING, BAD),
        (5, STRING, BAD),
        (b"x", BINARY, b"x"),
        (bytearray(b"x"), BINARY, b"x"),
        (memoryview(b"x"), BINARY, b"x"),
        ("x", BINARY, BAD),
        (datetime.date(1970, 1, 2), DATE, 1),
        ("1970-01-02", DATE, 1),
        (1, DATE, BAD),
        (1, DAYS, 1),
        (2**31, DAYS, BAD),
        (np.datetime64("1970-01-02"), DATE, 1),
        (2**31, DATE, BAD),
        ("1970-01-02T00:00", DATE, BAD),
        (datetime.datetime(1970, 1, 2), DATE, BAD),
        (datetime.datetime(1970, 1, 2), TIMESTAMP, DAY),
        (datetime.datetime(1970, 1, 1, 2, tzinfo=CEST), TIMESTAMP, 0),
        (datetime.datetime(1, 1, 1, tzinfo=CEST), TIMESTAMP, -719162 * DAY - 7_200_000_000),
        (datetime.date(1970, 1, 2), TIMESTAMP, DAY),
        ("1970-01-01T02:00:00+02:00", TIMESTAMP, 0),
        (1_000, TIMESTAMP, BAD),
        (1_000, MILLIS, 1_000_000),
        (np.int64(1_000), MILLIS, 1_000_000),
        ("1000", MILLIS, 1_000_000),
        ("1970-01-02", MILLIS, DAY),
        (datetime.datetime(1970, 1, 2), MILLIS, DAY),
        (1769860800.123457, SECONDS, 1769860800123457),
        (1.7698608e9, SECONDS, 1769860800000000),
        (Decimal("-0.0000005"), SECONDS, -1),
        (-1, NANOS, -1),
        (1_999, NANOS, 1),
        (2**63 // 1000, MILLIS, 2**63 // 1000 * 1000),
        (2**63 // 1000 + 1, MILLIS, BAD),
        (2**63, TIMESTAMP, BAD),
        (math.nan, SECONDS, BAD),
        (math.inf, SECONDS, BAD),
        (1e300, SECONDS, BAD),
        (True, SECONDS, BAD),
        ("", SECONDS, BAD),
        ("1e999999999999999999999", SECONDS, BAD),
        (1.0, TIMESTAMP, BAD),
        (True, TIMESTAMP, BAD),
        ("now", TIMESTAMP, BAD),
        (pd.Timestamp(2_000), TIMESTAMP, 2),
        (pd.Timestamp(2_001), TIMESTAMP, 2),
        (pd.Timestamp("1970-01-01T02:00", tz="Europe/Berlin"), TIMESTAMP, 3_600_000_000),
        (pd.NaT, TIMESTAMP, None),
        (np.datetime64("NaT"), TIMESTAMP, None),
        (np.datetime64(3_000, "ns"), TIMESTAMP, 3),
        (np.datetime64(3_001, "ns"), TIMESTAMP, 3),
        (np.datetime64(-1, "ns"), TIMESTAMP, -1),
        (np.datetime64("1970-01-02"), TIMESTAMP, DAY),
        (None, MONEY, None),
        (datetime.timedelta(1), TIMESTAMP, BAD),
        (datetime.timedelta(1), INTERVAL, BAD),
        ([], STRING, BAD),
    ],
)
def test_values(value: object, sql_type: Type, expected: object) -> None:
    assert fitted([value], sql_type) == [expected]
    assert fitted([None, value, value], sql_type) == [None, expected, expected]


@given(st.lists(st.none() | st.floats() | st.floats(-999, 999).map(lambda v: round(v, 2))))
def test_floats_are_decimals_as_those_of_json(values: list[float | None]) -> None:
    lines = "".join(json.dumps({"x": value}) + "\n" for value in values).encode()
    rejects = RejectLog()
    schema = Schema([Field("x", MONEY)])
    rows, _ = read_lines(lines, schema, "", 0, rejects.of("s"))
    column, bad = fit_objects(values, MONEY)
    assert column.filter(pa.array(~bad)).equals(rows.column("x"))
    assert [number for number, is_bad in enumerate(bad, start=1) if is_bad] == [
        each.row for each in rejects
    ]


def test_mixed_column() -> None:
    moment = datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)
    values = ["1970-01-02", moment, DAY, None, datetime.date(1970, 1, 2), [], "x"]
    assert fitted(values, TIMESTAMP) == [DAY, DAY, BAD, None, DAY, BAD, BAD]


@pytest.mark.parametrize(
    ("value", "sql_type", "reason"),
    [
        ("12", INT, "the str '12' is not an INT"),
        (1.5, INT, "the float 1.5 is not an INT"),
        (2**31, INT, "the int 2147483648 does not fit INT"),
        pytest.param(10**5000, INT, "the int <int> does not fit INT", id="huge"),
        (True, INT, "the bool True is not an INT"),
        (5, STRING, "the int 5 is not a STRING"),
        (Decimal("1.505"), MONEY, "the Decimal 1.505 does not fit DECIMAL(5,2)"),
        (1.505, MONEY, "the float 1.505 does not fit DECIMAL(5,2)"),
        (math.nan, MONEY, "the float nan is not a DECIMAL(5,2)"),
        ("now", TIMESTAMP, "'now' is not a TIMESTAMP"),
        ([1], DATE, "the list [1] is not a DATE"),
        (
            1769860800,
            TIMESTAMP,
            "the int 1769860800 is not a TIMESTAMP: declare it TIMESTAMP EPOCH SECONDS if it counts"
            " them since 1970",
        ),
        (2**62, MILLIS, "the int 4611686018427387904 does not fit TIMESTAMP EPOCH MILLISECONDS"),
        (np.int64(2**40), INT, "the int64 1099511627776 does not fit INT"),
    ],
)
def test_reasons(value: object, sql_type: Type, reason: str) -> None:
    assert why_misfit(value, sql_type) == reason


VALUES: dict[Type, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    INT: st.integers(-(2**32), 2**32),
    BIGINT: st.integers(-(2**64), 2**64),
    DOUBLE: st.floats() | st.integers(-(2**54), 2**54),
    STRING: st.text(),
    BINARY: st.binary(),
    DATE: st.dates() | st.integers(-(2**32), 2**32),
    TIMESTAMP: st.datetimes(timezones=st.none() | st.timezones()) | st.integers(-(2**64), 2**64),
    MONEY: (
        st.decimals(allow_nan=False)
        | st.integers()
        | st.floats()
        | st.floats(-999, 999).map(lambda value: round(value, 2))
    ),
}


@settings(deadline=None)
@given(
    st.sampled_from(list(VALUES)).flatmap(
        lambda t: st.tuples(st.just(t), st.lists(st.none() | VALUES[t], max_size=6))
    )
)
def test_columns_and_cells_agree(case: tuple[Type, list[Any]]) -> None:
    sql_type, values = case
    column, bad = fit_objects(values, sql_type)
    for cell, is_bad, value in zip(to_python(column, sql_type), bad, values, strict=True):
        alone = plain_value(value, sql_type)
        if is_bad:
            assert value is not None
            assert cell is None
            assert alone is not None
        elif isinstance(cell, float) and math.isnan(cell):
            assert math.isnan(alone)
        else:
            assert cell == alone
