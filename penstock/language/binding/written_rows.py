"""Rows that are written out in a statement: constants that become values of the columns.

There may be very many, so a column is read at once, as a column of a file is.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.literals import constant, literal_as, text_of
from penstock.language.syntax import ValuesSyntax
from penstock.model.plain_values import to_python
from penstock.model.schema import Schema
from penstock.model.types import Kind, Type
from penstock.plan.expressions import Literal
from penstock.sources.fitting.text import parse_column
from penstock.sources.values import ValuesSource


def bind_values(syntax: ValuesSyntax, schema: Schema) -> ValuesSource:
    rows = []
    for row, span in zip(syntax.rows, syntax.spans, strict=True):
        if len(row) != len(schema):
            raise BindError(
                f"the row has {len(row)} values",
                span=span,
                expected=f"{len(schema)}: {schema}",
            )
        rows.append([written(value, field.type) for value, field in zip(row, schema, strict=True)])
    types = [field.type for field in schema]
    columns = [_column([row[place] for row in rows], each) for place, each in enumerate(types)]
    whole = [column for column in columns if column is not None]
    if len(whole) == len(columns):
        return ValuesSource(tuple(zip(*whole, strict=True)))
    # row by row, for the first mistake that there is
    return ValuesSource(tuple(tuple(map(literal_as, row, types)) for row in rows))


def written(syntax: exp.Expr, wanted: Type) -> Literal:
    """A constant, or for an ARRAY several: `ARRAY[1, 2]`."""
    if wanted.kind is not Kind.ARRAY or not isinstance(syntax, exp.Array):
        return constant(syntax)
    items = [written(each, wanted.item) for each in syntax.expressions]
    return Literal(tuple(literal_as(each, wanted.item) for each in items), wanted)


def _column(literals: list[Literal], wanted: Type) -> list[Any] | None:
    """The values of a column; None if one of them does not fit."""
    if wanted.is_nested:
        try:
            return [literal_as(each, wanted) for each in literals]
        except BindError:
            return None
    if wanted.kind in (Kind.STRING, Kind.INTERVAL):
        texts: list[str | None] = [None] * len(literals)
    else:
        texts = [None if each.value is None else text_of(each, wanted) for each in literals]
    column, bad = parse_column(pa.array(texts, pa.string()), wanted)
    if bad.any():
        return None
    try:
        return [
            literal_as(literal, wanted) if text is None else value
            for literal, text, value in zip(literals, texts, to_python(column, wanted), strict=True)
        ]
    except BindError:
        return None
