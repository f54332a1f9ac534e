from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.types import BIGINT, STRING, Field, Schema, Type, array_of
from penstock.model.values import RowForm, to_arrow, to_python
from tests.model.strategies import all_types, values

types = all_types | st.just(array_of(BIGINT))


def of_type(sql_type: Type) -> st.SearchStrategy[Any]:
    if sql_type.is_nested:
        return st.none() | st.lists(st.none() | values(BIGINT), max_size=3).map(tuple)
    return st.none() | values(sql_type)


@st.composite
def tuples(draw: st.DrawFn) -> tuple[Schema, list[tuple[Any, ...]]]:
    found = draw(st.lists(types, min_size=1, max_size=4))
    schema = Schema(tuple(Field(f"c{place}", each) for place, each in enumerate(found)))
    rows = st.lists(st.tuples(*map(of_type, found)), min_size=1, max_size=3)
    return schema, draw(rows)


def alike(left: Any, right: Any) -> bool:
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return type(left) is type(right) and left == right and repr(left) == repr(right)


@given(tuples())
def test_values_and_columns_say_the_same(given_: tuple[Schema, list[tuple[Any, ...]]]) -> None:
    schema, rows = given_
    form = RowForm(schema)
    columns = [
        to_arrow(column, each.type)
        for column, each in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    whole = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
    plain = list(zip(*map(to_python, columns, (each.type for each in schema)), strict=True))
    for place, row in enumerate(plain):
        record = whole.slice(place, 1)
        assert all(map(alike, form.values(record), row))
        written = form.record(row)
        assert written.schema == whole.schema
        assert all(map(alike, form.values(written), row))
    joined = pa.Table.from_batches(form.records(plain))
    assert joined.schema == whole.schema
    found = [to_python(joined.column(each.name), each.type) for each in schema]
    for row, expected in zip(zip(*found, strict=True), plain, strict=True):
        assert all(map(alike, row, expected))


def test_other_names_for_the_same_columns() -> None:
    form = RowForm(Schema((Field("a", BIGINT, "s"), Field("b", STRING, "s"))))
    names = {"s.a": "x", "s.b": "y"}
    renamed = form.renamed(names)
    assert renamed.record((1, "z")).to_pylist() == [{"x": 1, "y": "z"}]
    assert form.renamed(dict(names)) is renamed


def test_results_of_another_type_are_cast() -> None:
    form = RowForm(Schema((Field("a", BIGINT), Field("b", BIGINT))))
    assert form.last_values([pa.array([7], pa.int32())]) == (7,)
