"""The catalogue of scalar functions: the reference engine knows them all, by all their names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expressions.evaluation import evaluator
from penstock.functions.aggregate_functions import AGGREGATES
from penstock.functions.aggregate_functions import ALIASES as AGGREGATE_ALIASES
from penstock.functions.scalar_functions import ALIASES, SCALARS, scalar
from penstock.functions.signatures import Family
from penstock.model.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, Field, Schema, Type
from penstock.plan.expressions import Call, Column, Expression, Literal
from tests.functions.helpers import answer
from tests.model.strategies import decimal_types, values

SAMPLES = {
    Family.ALIKE: "x",
    Family.NUMBER: "x",
    Family.DOUBLE: "f",
    Family.INTEGER: "x",
    Family.STRING: "s",
    Family.BOOLEAN: "b",
    Family.TIME: "t",
    Family.TIMESTAMP: "t",
    Family.INTERVAL: "INTERVAL 5 MINUTES",
    Family.ANY: "x",
    Family.ARRAY: "ARRAY[x]",
    Family.MAP: "MAP['k',x]",
    Family.COLLECTION: "ARRAY[x]",
    Family.TEXTS: "ARRAY[s]",
}
CONSTANTS = {  # what they are given beside a column
    "regexp_like": ["s", "'B'", "'i'"],
    "regexp_extract": ["s", "'(b)c'", "1", "'s'"],
    "regexp_replace": ["s", "'b'", "'$0$0'", "'g'"],
    "regexp_count": ["s", "'[a-c]'", "'m'"],
    "split_index": ["s", "'b'", "1"],
    "json_get": ["'[7]'", "'$[0]'"],
    "json_text": ["'[7]'", "'$[0]'"],
    "json_value": ["'[7]'", "'$[0]'"],
    "json_query": ["'[7]'", "'$'"],
    "at_time_zone": ["t", "'Asia/Tokyo'"],
    "date_format": ["t", "'yyyy'"],
    "to_timestamp": ["'2026'", "'yyyy'"],
    "try_to_timestamp": ["'2026'", "'yyyy'"],
    # widths and origins of buckets
    "time_bucket": ["INTERVAL 5 MINUTES", "t", "TIMESTAMP '2026-01-01'"],
    "number_bucket": ["5", "x", "1"],
}
UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month")
UNITS += ("quarter", "year")
# The functions that have something to say about NULL.
ABOUT_NULL = {"coalesce", "greatest", "least", "nullif", "if"}


def call(name: str, canonical: str | None = None) -> str:
    """A call with as many arguments as the function takes."""
    function = SCALARS[canonical or name]
    arguments = [SAMPLES[family] for family in function.signature.families]
    if function.name in ("date_trunc", "date_part"):
        arguments[0] = "'hour'"
    arguments = CONSTANTS.get(function.name, arguments)
    return f"{name}({', '.join(arguments)})"


@pytest.mark.parametrize("name", SCALARS)
def test_every_function_is_implemented(name: str) -> None:
    expected_null = name == "nullif"  # of x and x
    assert (answer(call(name)) is None) == expected_null


@pytest.mark.parametrize("name", sorted(set(SCALARS) - ABOUT_NULL))
def test_null_in_null_out(name: str) -> None:
    families = SCALARS[name].signature.families
    for position in range(len(families)):
        if position == 0 and name in ("date_trunc", "date_part"):
            continue  # a unit is a constant
        if position != 1 and name == "time_bucket":
            continue
        before, _, inside = call(name).partition("(")
        arguments = inside.removesuffix(")").split(", ")
        arguments[position] = "NULL"
        assert answer(f"{before}({', '.join(arguments)})") is None


# EXTRACT and POSITION have a syntax of their own.
SPECIAL = {"extract": "EXTRACT(hour FROM t)", "position": "POSITION('b' IN s)"}
MEANING = {"extract": "date_part('hour', t)", "position": "strpos(s, 'b')"}


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_are_other_names_of_functions(alias: str) -> None:
    assert ALIASES[alias] in SCALARS
    assert alias not in SCALARS
    assert scalar(alias.upper()) is SCALARS[ALIASES[alias]]
    other_name = SPECIAL.get(alias, call(alias, ALIASES[alias]))
    assert answer(other_name) == answer(MEANING.get(alias, call(ALIASES[alias])))


def test_no_name_means_two_things() -> None:
    scalars = set(SCALARS) | set(ALIASES)
    assert not scalars & (set(AGGREGATES) | set(AGGREGATE_ALIASES))
    assert scalar("nobody") is None


@pytest.mark.parametrize("name", SCALARS)
def test_names_are_lower_case_and_said_what_for(name: str) -> None:
    assert name == SCALARS[name].name == name.lower()
    assert SCALARS[name].about


# --- progress passes through functions that never go down ----------------------------------------

# The lowest and the highest second and millisecond that a TIMESTAMP holds.
_LIMITS = {"timestamp_seconds": 9_223_372_036_854, "timestamp_millis": 9_223_372_036_854_775}
_EARLIEST = {TIMESTAMP: -(2**63) + 366 * 86_400_000_000, DATE: -(2**31) + 366}
TIMES = st.sampled_from([TIMESTAMP, DATE])
NUMBERS = st.sampled_from([INT, BIGINT]) | decimal_types


@st.composite
def rising_arguments(draw: st.DrawFn, name: str) -> tuple[Type, Any, Any]:
    family = SCALARS[name].signature.families[-1]
    types = {
        Family.TIME: TIMES,
        Family.NUMBER: NUMBERS | st.just(DOUBLE),
        Family.INTEGER: st.just(BIGINT),
        Family.TIMESTAMP: st.just(TIMESTAMP),
    }
    sql_type = draw(types[family])
    value = values(sql_type)
    if sql_type == DOUBLE:
        value = st.floats(allow_nan=False)
    if name in _LIMITS:
        value = st.integers(-_LIMITS[name], _LIMITS[name])
    if family is Family.TIME:  # a year's room for date_trunc
        value = value.map(lambda time: max(time, _EARLIEST[sql_type]))
    low, high = sorted([draw(value), draw(value)])
    return sql_type, low, high


@pytest.mark.parametrize("name", [name for name, each in SCALARS.items() if each.monotone])
@given(data=st.data())
@settings(deadline=None)
def test_functions_that_pass_progress_on_never_go_down(name: str, data: st.DataObject) -> None:
    sql_type, low, high = data.draw(rising_arguments(name))
    column = Column("x", sql_type)
    arguments: tuple[Expression, ...] = (column,)
    if name == "date_trunc":
        arguments = (Literal(data.draw(st.sampled_from(UNITS)), STRING), column)
    result = SCALARS[name].returns(tuple(each.type for each in arguments))
    evaluate = evaluator(Call(name, arguments, result), Schema((Field("x", sql_type),)))
    assert evaluate((low,)) <= evaluate((high,))


def test_functions_that_go_down_do_not_pass_progress_on() -> None:
    down = ["abs", "hour", "isodow", "dayofyear", "week", "date_part", "length", "power"]
    assert not any(SCALARS[name].monotone for name in down)
