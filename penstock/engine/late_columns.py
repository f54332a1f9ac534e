"""Which columns late tuples would have, if there were any."""

from __future__ import annotations

import pyarrow as pa

from penstock.model.schema import Schema
from penstock.model.types import BIGINT, BOOLEAN, Type
from penstock.plan.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.node import Node
from penstock.plan.query import Query


def late_columns(query: Query) -> pa.Schema:
    """Those of the first operator, from the sources on, that can find a tuple late."""
    found = _first(query.input)
    if found is None and query.in_order:
        found = query.schema, query.progress[0].field.type, BIGINT
    if found is None:
        return pa.schema([])
    schema, bound_type, id_type = found
    names = schema.names
    unique = len(set(names)) == len(names)
    fields = [(each.name if unique else each.qualified, each.type.arrow) for each in schema]
    fields += [("late_bound", bound_type.arrow)]
    fields += [(name, id_type.arrow) for name in ("missed_first", "missed_last")]
    if query.amend_for is not None:
        fields.append(("amended", BOOLEAN.arrow))
    return pa.schema(fields)


def _first(node: Node) -> tuple[Schema, Type, Type] | None:
    for each in node.inputs:
        found = _first(each)
        if found is not None:
            return found
    match node:
        case WindowAggregate():
            id_type = node.schema.fields[0].type
            attribute = node.attribute
            return node.input.schema, attribute.type if attribute is not None else id_type, id_type
        case GroupAggregate() | Distinct() if node.progress:
            return node.input.schema, node.progress[0].field.type, BIGINT
    return None
