"""The columns of a relation under other names."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import BindError, Span
from penstock.language.syntax.names import Name
from penstock.plan.expressions import Column, Named
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Project


def under(node: Node, alias: str) -> Node:
    """The same columns, as those of a relation called `alias`."""
    if isinstance(node, Project):
        return replace(node, relation=alias or None)
    columns = tuple(Named(field.name, Column.of(field)) for field in node.schema)
    return Project(node, columns, alias or None)


def with_columns(node: Node, alias: str, names: tuple[Name, ...], span: Span) -> Node:
    """The columns of a query under the names that it is given: `(query) AS alias (names)`."""
    fields = node.schema.fields
    if len(fields) != len(names):
        raise BindError(
            f"{alias} names {len(names)} columns, and its query has {len(fields)}", span=span
        )
    pairs = zip(names, fields, strict=True)
    return Project(node, tuple(Named(name.text, Column.of(field)) for name, field in pairs))


def renamed(node: Node, names: tuple[str, ...]) -> Node:
    """The same columns under other names, which differ at most in case."""
    if node.schema.names == names:
        return node
    pairs = zip(names, node.schema, strict=True)
    columns = tuple(Named(name, Column.of(field)) for name, field in pairs)
    return Project(node, columns, node.schema.fields[0].relation)
