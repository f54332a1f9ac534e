"""ARRAYs, STRUCTs and MAPs: whole columns as the reference has them row by row."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expressions.compiler import compile_expression
from penstock.expressions.evaluation import evaluator
from penstock.kernel.grouping.keys import sorted_places
from penstock.model.ordering import exact_key
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    array_of,
    from_arrow,
    map_of,
    struct_of,
)
from penstock.model.values import to_arrow, to_python
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal

STRUCT = struct_of([("x", BIGINT), ("y", array_of(STRING)), ("when", TIMESTAMP)])
MAP = map_of(STRING, BIGINT)
SCHEMA = Schema(
    (
        Field("a", array_of(BIGINT)),
        Field("t", array_of(STRING)),
        Field("s", STRUCT),
        Field("m", MAP),
        Field("i", BIGINT),
        Field("k", STRING),
        Field("d", array_of(struct_of([("day", DATE), ("f", DOUBLE)]))),
        Field("f", array_of(DOUBLE)),
    )
)
a, t, s, m, i, k, d, f = (Column.of(field) for field in SCHEMA)


def _call(name: str, result: Type, *arguments: Expression) -> Call:
    return Call(name, arguments, result)


EXPRESSIONS = [
    _call("element", BIGINT, a, i),
    _call("element", BIGINT, a, Literal(-2, BIGINT)),
    _call("element", d.type.item, d, Literal(1, BIGINT)),
    _call("map_value", BIGINT, m, Literal("k", STRING)),
    _call("map_value", BIGINT, m, k),
    _call("struct_field", array_of(STRING), s, Literal(1, BIGINT)),
    _call("struct_field", TIMESTAMP, s, Literal(2, BIGINT)),
    _call("cardinality", BIGINT, a),
    _call("cardinality", BIGINT, m),
    _call("array_contains", BOOLEAN, a, i),
    _call("array_contains", BOOLEAN, t, Literal("k", STRING)),
    _call("array_contains", BOOLEAN, Literal((1, None, 2), a.type), i),
    _call("array_concat", a.type, a, Literal((7, None), a.type), a),
    _call("array_concat", t.type, t, t),
    _call("array_reverse", a.type, a),
    _call("array_reverse", d.type, d),
    _call("array_slice", a.type, a, Literal(2, BIGINT), Literal(3, BIGINT)),
    _call("array_slice", t.type, t, Literal(-2, BIGINT), Literal(-1, BIGINT)),
    _call("array_slice", a.type, a, Literal(0, BIGINT), Literal(2**40, BIGINT)),
    _call("array_slice", a.type, a, i, Literal(2, BIGINT)),
    _call("array_distinct", a.type, a),
    _call("array_distinct", t.type, t),
    _call("array_distinct", f.type, f),
    _call("array_max", BIGINT, a),
    _call("array_min", STRING, t),
    _call("array_max", DOUBLE, f),
    _call("array_min", DOUBLE, f),
    _call("array_position", BIGINT, a, i),
    _call("array_position", BIGINT, t, k),
    _call("array_position", BIGINT, f, Literal(0.0, DOUBLE)),
    _call("map_keys", array_of(STRING), m),
    _call("map_values", array_of(BIGINT), m),
    _call("string_split", array_of(STRING), k, Literal("k", STRING)),
    _call("string_split", array_of(STRING), k, k),
    _call("array_join", STRING, t, Literal(",", STRING)),
    _call("array_join", STRING, t, k),
    _call("array", array_of(BIGINT), i, Literal(None, BIGINT), i),
    _call("array", array_of(a.type), a, a),
    _call("map", MAP, Literal("p", STRING), i, Literal("q", STRING), Literal(None, BIGINT)),
    _call("coalesce", a.type, a, Literal((9,), a.type)),
    _call("is_null", BOOLEAN, s),
    Cast(a, array_of(STRING)),
    Cast(a, array_of(DOUBLE)),
    Cast(d, STRING),
    Cast(m, STRING),
]

numbers = st.none() | st.integers(-3, 3)
doubles = st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan])
texts = st.none() | st.sampled_from(["k", "", "akbk", "é"])
ROWS = st.lists(
    st.tuples(
        st.none() | st.lists(numbers, max_size=4).map(tuple),
        st.none() | st.lists(texts, max_size=3).map(tuple),
        st.none() | st.tuples(numbers, st.none() | st.just(("p", None)), numbers),
        st.none() | st.lists(st.tuples(st.sampled_from("kl"), numbers), max_size=3).map(tuple),
        numbers,
        texts,
        st.none() | st.lists(st.tuples(numbers, st.floats()), max_size=2).map(tuple),
        st.none() | st.lists(st.none() | doubles, max_size=4).map(tuple),
    ),
    max_size=8,
)


def _batch(rows: list[tuple[Any, ...]], before: int) -> pa.RecordBatch:
    """With rows before it that are cut away."""
    padded = rows[:1] * before + rows
    columns = [to_arrow([row[n] for row in padded], each.type) for n, each in enumerate(SCHEMA)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow).slice(before if rows else 0)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
@given(rows=ROWS, before=st.integers(0, 2))
@settings(deadline=None, max_examples=40)
def test_columns_are_what_rows_are(
    expression: Expression, rows: list[tuple[Any, ...]], before: int
) -> None:
    value_of = evaluator(expression, SCHEMA)
    column = compile_expression(expression, SCHEMA)(_batch(rows, before))
    column.validate(full=True)
    assert column.type == expression.type.arrow
    assert repr(to_python(column, expression.type)) == repr([value_of(row) for row in rows])


@given(rows=ROWS)
@settings(deadline=None, max_examples=60)
def test_values_come_back_as_they_are(rows: list[tuple[Any, ...]]) -> None:
    batch = _batch(rows, 0)
    for number, field in enumerate(SCHEMA):
        column = batch.column(number)
        assert from_arrow(column.type) == field.type
        assert repr(to_python(column, field.type)) == repr([row[number] for row in rows])


@given(rows=ROWS)
@settings(deadline=None, max_examples=60)
def test_there_is_one_order(rows: list[tuple[Any, ...]]) -> None:
    batch = _batch(rows, 0)
    for number in (0, 2, 6):
        places = sorted_places([batch.column(number)]).tolist()
        keys = [exact_key(row[number]) for row in rows]
        assert [keys[place] for place in places] == sorted(keys)
