"""VALUES in FROM: a table for one query, whose types follow from its rows."""

from __future__ import annotations

from zlib import crc32

from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.definitions.written_rows import bind_values
from penstock.language.binding.scalars.expressions import ExpressionBinder
from penstock.language.binding.scope import Scope
from penstock.language.syntax.relations import WrittenRelation
from penstock.model.schema import Field, Schema
from penstock.model.types import NULL, STRING, Kind, Type, common_type
from penstock.plan.catalog import Catalog
from penstock.plan.streams import StreamDefinition


def written_table(relation: WrittenRelation, catalog: Catalog) -> StreamDefinition:
    """Called by what is in it, so that tables with different rows are different tables."""
    types = _types(relation, catalog)
    schema = Schema(
        tuple(Field(name, each) for name, each in zip(_names(relation), types, strict=True))
    )
    source = bind_values(relation.values, schema)
    name = f"VALUES {crc32(repr((schema, source.rows)).encode()):08x}"
    return StreamDefinition(name, schema, None, source, is_table=True, written=True)


def _names(relation: WrittenRelation) -> list[str]:
    """Those behind the alias; col1, col2 and so on as in Spark."""
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
    """What all values of a column can be brought to; texts where all are NULL."""
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
