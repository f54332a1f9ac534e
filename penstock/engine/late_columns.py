"""Which columns late tuples would have, if there were any."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.model.names import late_names
from penstock.model.schema import Schema
from penstock.model.types import BIGINT, BOOLEAN, Type
from penstock.plan.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.node import Node
from penstock.plan.query import Query


def late_columns(query: Query) -> pa.Schema:
    """Those of the first operator, from the sources on, that can find a tuple late."""
    found = late_schemas(query)
    return found[0] if found else pa.schema([])


def late_schemas(query: Query) -> list[pa.Schema]:
    """The columns of late tuples of all operators that can find some, from the sources on."""
    found = list(_finding_late(query.input))
    if not found and query.in_order:
        found = [(query.schema, query.progress[0].field.type, BIGINT)]
    amends = query.amend_for is not None
    return [_with_late_columns(*each, amends) for each in found]


def _with_late_columns(schema: Schema, bound: Type, ids: Type, amends: bool) -> pa.Schema:
    names = schema.names
    unique = len(set(names)) == len(names)
    types = [each.type.arrow for each in schema]
    added = [bound.arrow, ids.arrow, ids.arrow, *([BOOLEAN.arrow] if amends else [])]
    own = [each.name if unique else each.qualified for each in schema]
    late = late_names(each.qualified for each in schema)[: len(added)]
    return pa.schema(list(zip([*own, *late], [*types, *added], strict=True)))


def _finding_late(node: Node) -> Iterator[tuple[Schema, Type, Type]]:
    """Results are never late, so only the first stateful operator on each way."""
    below = [found for each in node.inputs for found in _finding_late(each)]
    if below:
        yield from below
        return
    match node:
        case WindowAggregate():
            id_type = node.schema.fields[0].type
            attribute = node.attribute
            bound_type = attribute.type if attribute is not None else id_type
            yield node.input.schema, bound_type, id_type
        case GroupAggregate() | Distinct() if node.progress:
            for each in node.progress:
                yield node.input.schema, each.field.type, BIGINT
