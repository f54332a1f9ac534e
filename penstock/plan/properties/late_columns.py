"""Which columns late tuples would have, if there were any."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.model.names import late_names
from penstock.model.schema import Schema
from penstock.model.types import BIGINT, BOOLEAN, Type
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.over import Over
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.sequence import Sequence
from penstock.plan.nodes.stateless import Filter, Project, Scan, Stamp, Union
from penstock.plan.nodes.unnest import Unnest


def late_columns(query: QueryPlan) -> pa.Schema:
    """Those of the first operator, from the sources on, that can find a tuple late."""
    found = late_schemas(query)
    return found[0] if found else pa.schema([])


def late_schemas(query: QueryPlan) -> list[pa.Schema]:
    """The columns of late tuples of all operators that can find some, from the sources on."""
    amends = query.amend_for is not None
    return [_with_late_columns(*each, amends) for each in _all_finding_late(query)]


def late_layouts(query: QueryPlan) -> dict[tuple[str, ...], pa.Schema]:
    """By the names that the columns of late tuples have inside: what they are outside."""
    amends = query.amend_for is not None
    found: dict[tuple[str, ...], pa.Schema] = {}
    for schema, bound, ids in _all_finding_late(query):
        outside = _with_late_columns(schema, bound, ids, amends)
        inside = schema.arrow.names
        added = late_names(inside)[: len(outside) - len(inside)]
        found.setdefault((*inside, *added), outside)
    return found


def plain_names(query: QueryPlan) -> dict[tuple[str, ...], list[str]]:
    """By the names that columns have inside, which may begin with that of a relation: what they are
    called outside, where they can be told apart without it."""
    schemas = [schema for schema, _, _ in _all_finding_late(query)]
    return {tuple(schema.arrow.names): _plain(schema) for schema in schemas}


def _plain(schema: Schema) -> list[str]:
    names = schema.names
    return list(names) if len(set(names)) == len(names) else schema.arrow.names


def _with_late_columns(schema: Schema, bound: Type, ids: Type, amends: bool) -> pa.Schema:
    types = [each.type.arrow for each in schema]
    added = [bound.arrow, ids.arrow, ids.arrow, *([BOOLEAN.arrow] if amends else [])]
    late = late_names(schema.arrow.names)[: len(added)]
    return pa.schema(list(zip([*_plain(schema), *late], [*types, *added], strict=True)))


def _all_finding_late(query: QueryPlan) -> list[tuple[Schema, Type, Type]]:
    found = list(_finding_late(query.input))
    if query.in_order and has_tuples(query.input):
        found.append((query.schema, query.progress[0].field.type, BIGINT))
    return found


def has_tuples(node: Node) -> bool:
    """Whether tuples of a stream come out of it, not only results, which are never late."""
    if isinstance(node, Filter | Project | Stamp | Union | Lookup | Unnest):
        return any(has_tuples(each) for each in node.inputs)
    return isinstance(node, Scan)


def _finding_late(node: Node) -> Iterator[tuple[Schema, Type, Type]]:
    """Results are never late, so only what tuples come to."""
    if isinstance(node, Join | Difference | Sequence):
        attributes = tuple((each,) for each in node.attributes)
        times = node.times if isinstance(node, Join) else attributes
        for given, own in zip(node.inputs, times, strict=True):
            yield from _finding_late(given)
            if has_tuples(given):
                yield from ((given.schema, each.type, BIGINT) for each in own)
        return
    for given in node.inputs:
        yield from _finding_late(given)
    if not any(map(has_tuples, node.inputs)):
        return
    match node:
        case WindowAggregate():
            id_type = node.schema.fields[0].type
            attribute = node.attribute
            bound_type = attribute.type if attribute is not None else id_type
            yield node.input.schema, bound_type, id_type
        case DistinctOn():
            yield node.input.schema, node.attribute.type, BIGINT
        case Over():
            for time in node.times:
                yield node.input.schema, time.type, BIGINT
        case GroupAggregate() | Distinct() if node.progress:
            for each in node.progress:
                yield node.input.schema, each.field.type, BIGINT
