"""Types and their plain values for property tests, out to the ends of every range."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    EXACT,
    INT,
    INT64_MAX,
    INT64_MIN,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal_type,
)

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (INT64_MIN, INT64_MAX)
_RANGES = {
    Kind.INT: _INT32,
    Kind.BIGINT: _INT64,
    Kind.DATE: _INT32,
    Kind.TIMESTAMP: _INT64,
    Kind.INTERVAL: _INT64,
}

decimal_types = st.integers(1, 38).flatmap(
    lambda precision: st.builds(decimal_type, st.just(precision), st.integers(0, precision))
)
plain_types = st.sampled_from(
    [BOOLEAN, INT, BIGINT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, INTERVAL]
)
all_types = plain_types | decimal_types | st.just(NULL)


def values(sql_type: Type) -> st.SearchStrategy[Any]:
    """Plain values of a type, without NULL."""
    match sql_type.kind:
        case Kind.NULL:
            return st.none()
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.DOUBLE:
            return st.floats()
        case Kind.STRING:
            return st.text()
        case Kind.BINARY:
            return st.binary()
        case Kind.DECIMAL:
            digits = 10**sql_type.precision - 1
            whole = st.integers(-digits, digits) | st.sampled_from([-digits, digits])
            return whole.map(lambda n: EXACT.scaleb(Decimal(n), -sql_type.scale))
    low, high = _RANGES[sql_type.kind]
    return st.integers(low, high) | st.sampled_from([low, low + 1, high])


def columns(sql_type: Type) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values(sql_type), max_size=8)


typed_columns = all_types.flatmap(lambda each: st.tuples(st.just(each), columns(each)))
