"""Rows that are written out in a statement: constants that become values of the columns.

There may be very many, so a column is read at once, as a column of a file is.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.scalars.literals import constant, literal_as, span_of, text_of
from penstock.language.syntax.relations import ValuesSyntax
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
                f"the row has {len(row)} value{'s' * (len(row) != 1)}",
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
    """A constant, or several of them: `ARRAY[1, 2]`, `{'x': 1}`, `ROW(1, 2)`, `MAP['k', 1]`."""
    called = str(syntax.name).lower() if isinstance(syntax, exp.Anonymous) else ""
    given = syntax.expressions
    match wanted.kind:
        case Kind.ARRAY if isinstance(syntax, exp.Array) or called == "array":
            return Literal(tuple(_value(each, wanted.item) for each in given), wanted)
        case Kind.MAP if called == "map" and len(given) % 2 == 0:
            types = [part for _, part in wanted.parts]
            pairs = zip(given[::2], given[1::2], strict=True)
            made = tuple(tuple(map(_value, pair, types)) for pair in pairs)
            if any(key is None for key, _ in made):
                raise BindError("NULL cannot be the key of a MAP", span=span_of(syntax))
            return Literal(made, wanted)
        case Kind.STRUCT if isinstance(syntax, exp.Struct):
            return Literal(_fields(syntax, wanted), wanted)
        case Kind.STRUCT if called in ("row", "struct"):
            if len(given) != len(wanted.parts):
                raise BindError(
                    f"the {called.upper()} has {len(given)} value{'s' * (len(given) != 1)}",
                    span=span_of(syntax),
                    expected=f"{len(wanted.parts)}: {wanted}",
                )
            types = [part for _, part in wanted.parts]
            return Literal(tuple(map(_value, given, types)), wanted)
    return constant(syntax)


def _value(syntax: exp.Expr, wanted: Type) -> Any:
    return literal_as(written(syntax, wanted), wanted)


def _fields(syntax: exp.Struct, wanted: Type) -> tuple[Any, ...]:
    """By their names, as JSON has them; one that is missing is NULL."""
    given = {str(pair.this.name).casefold(): pair.expression for pair in syntax.expressions}
    unknown = set(given) - {name.casefold() for name, _ in wanted.parts}
    if unknown:
        raise BindError(
            f"there is no field {min(unknown)!r}", span=span_of(syntax), expected=str(wanted)
        )
    return tuple(
        _value(given[name.casefold()], part) if name.casefold() in given else None
        for name, part in wanted.parts
    )


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
