"""VALUES: constants that are written out, in statements and in FROM, as rows of typed columns.

There may be very many, so a column is converted at once, as a column of a file is."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pyarrow as pa
from sqlglot import exp

from penstock.errors import BindError
from penstock.io.formats.text_values import parse_column
from penstock.io.sources.memory import ValuesSource
from penstock.model.types import NULL, STRING, Field, Kind, Schema, Type, common_type
from penstock.model.values import to_python
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Literal
from penstock.plan.streams import StreamDefinition
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.literals import constant, literal_as, span_of, text_of
from penstock.sql.binder.scope import Scope
from penstock.sql.syntax import ValuesSyntax, WrittenRelation


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
    """Bind a constant, or a nested one: `ARRAY[1, 2]`, `{'x': 1}`, `ROW(1, 2)`, `MAP['k', 1]`."""
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
    """Order fields by name, as JSON has them; a missing one is NULL."""
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
    """Convert the values of a column at once; None if one of them does not fit."""
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


# VALUES in FROM: a table for one query, whose types follow from its rows.


def written_table(relation: WrittenRelation, catalog: Catalog) -> StreamDefinition:
    """Make a table of VALUES. Its name follows from its rows, so that tables with different rows
    are different."""
    types = _types(relation, catalog)
    schema = Schema(
        tuple(Field(name, each) for name, each in zip(_names(relation), types, strict=True))
    )
    source = bind_values(relation.values, schema)
    name = f"VALUES {crc32(repr((schema, source.rows)).encode()):08x}"
    return StreamDefinition(name, schema, None, source, is_table=True, written=True)


def _names(relation: WrittenRelation) -> list[str]:
    """Names of the columns: those behind the alias, or col1, col2 and so on as in Spark."""
    width = len(relation.values.rows[0])
    if relation.columns and len(relation.columns) != width:
        raise BindError(
            f"VALUES has {width} columns, and {len(relation.columns)} are named",
            span=relation.span,
        )
    names = [each.text for each in relation.columns]
    for place, name in enumerate(names):
        if name.casefold() in {each.casefold() for each in names[:place]}:
            raise BindError(f"two columns are called {name!r}", span=relation.columns[place].span)
    return names or [f"col{place + 1}" for place in range(width)]


def _types(relation: WrittenRelation, catalog: Catalog) -> list[Type]:
    """Common type of all values of each column; STRING where all are NULL."""
    binder = ExpressionBinder(Scope(Schema(())), catalog, "VALUES")
    rows = relation.values.rows
    types = [NULL] * len(rows[0])
    for row, span in zip(rows, relation.values.spans, strict=True):
        if len(row) != len(types):
            raise BindError(
                f"the row has {len(row)} value{'s' * (len(row) != 1)}",
                span=span,
                expected=f"{len(types)}, as the first",
            )
        for place, value in enumerate(row):
            if value.find(exp.Column, exp.Subquery) is not None:
                raise BindError("only constants can stand in VALUES", span=span)
            own = binder.bind(value).type
            both = common_type(types[place], own)
            if both is None:
                raise BindError(
                    f"column {place + 1} is {types[place].a} in one row and {own.a} in another",
                    span=span,
                    expected="values of one type",
                )
            types[place] = both
    return [STRING if each.kind is Kind.NULL else each for each in types]
