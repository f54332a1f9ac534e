"""UNNEST of an ARRAY or MAP of the relation before it."""

from __future__ import annotations

from penstock.errors import BindError
from penstock.language.binding.scalars.expressions import ExpressionBinder
from penstock.language.binding.scalars.literals import span_of
from penstock.language.syntax.relations import UnnestedRelation
from penstock.model.schema import Field
from penstock.model.types import BIGINT, INT, Kind, Type
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.unnest import Unnest


def unnest(node: Node, relation: UnnestedRelation, binder: ExpressionBinder) -> Unnest:
    collection = binder.bind(relation.collection)
    if collection.type.kind not in (Kind.ARRAY, Kind.MAP):
        raise BindError(
            f"{relation.called} takes an ARRAY or MAP, not {collection.type.a}",
            span=span_of(relation.collection),
        )
    alias = relation.alias.text if relation.alias is not None else "unnest"
    parts, spread = _parts(collection.type, relation)
    item = "col" if relation.exploded else alias
    given = parts if spread or len(parts) > 1 else [(item, part) for _, part in parts]
    from_zero = relation.numbered and relation.exploded
    if from_zero:
        given.insert(0, ("pos", INT))
    elif relation.numbered:
        given.append(("ordinality", BIGINT))
    types = [part for _, part in given]
    names = [name.text for name in relation.columns] or [name for name, _ in given]
    if len(names) != len(types):
        raise BindError(
            f"{relation.called} has {len(types)} column{'s' * (len(types) != 1)} here",
            span=relation.columns[0].span if relation.columns else relation.span,
            expected=", ".join(map(str, types)),
        )
    fields = tuple(Field(name, each, alias) for name, each in zip(names, types, strict=True))
    numbered = relation.numbered
    return Unnest(node, collection, fields, relation.outer, numbered, spread, from_zero)


def _parts(collection: Type, relation: UnnestedRelation) -> tuple[list[tuple[str, Type]], bool]:
    """What stands in columns of their own: of rows behind UNNEST in FROM, their fields, unless one
    name is given for all of them."""
    if collection.kind is Kind.MAP:
        return list(collection.parts), False
    item, wanted = collection.item, len(relation.columns) - relation.numbered
    if item.kind is Kind.STRUCT:
        rows = relation.called == "UNNEST" and not relation.hidden and not relation.columns
        if rows or (wanted == len(item.parts) and wanted > 1):
            return list(item.parts), True
    return [("item", item)], False
