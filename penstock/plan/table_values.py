"""Values of queries over tables alone, rewritten as look-ups.

before: Filter s.x > (SELECT max(y) FROM t) (Scan s)
after:  SEMI Lookup ON s.x > a.y (Scan s), in the one row of a
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock.model.types import Schema
from penstock.plan.expressions import Column, TableValue
from penstock.plan.nodes.join import JoinKind, Lookup
from penstock.plan.nodes.node import Filter, Node, Scan
from penstock.plan.streams import StreamDefinition

_LEAVES = (Node, Schema, StreamDefinition)


def with_table_values(node: Node) -> Node:
    """Replace such values, in the node and all below it, by columns of look-ups."""
    changed: dict[str, Any] = {}
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changed[field.name] = with_table_values(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            changed[field.name] = tuple(map(with_table_values, value))
    own = {
        field.name: getattr(node, field.name)
        for field in fields(node)  # type: ignore[arg-type]
        if field.name not in changed
    }
    values = dict.fromkeys(each for part in own.values() for each in _values(part))
    if not values:
        return _remade(node, changed)
    own = {name: _resolved(part) for name, part in own.items()}
    tables = [_scan(each) for each in values]
    if isinstance(node, Filter):
        table: Node = tables[0]
        for other in tables[1:]:
            table = Lookup(table, other, None)
        return Lookup(changed["input"], table, own["predicate"], JoinKind.SEMI)
    first = next(iter(changed))
    before = changed[first]
    below = before[0] if isinstance(before, tuple) else before
    for each in tables:
        known = {(field.name, field.relation) for field in below.schema}
        if (each.schema.fields[0].name, each.alias) not in known:
            below = Lookup(below, each, None)
    changed[first] = (below, *before[1:]) if isinstance(before, tuple) else below
    return _remade(node, {**changed, **own})


def _scan(value: TableValue) -> Scan:
    return Scan(value.table, value.table.name, value.span)


def _remade(node: Node, changed: dict[str, Any]) -> Node:
    kept = {
        name: value
        for name, value in changed.items()
        if value is not getattr(node, name) and value != getattr(node, name)
    }
    return replace(node, **kept) if kept else node  # type: ignore[type-var]


def _values(part: Any) -> Iterator[TableValue]:
    if isinstance(part, TableValue):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from _values(each)
    elif is_dataclass(part) and not isinstance(part, _LEAVES):
        for field in fields(part):
            yield from _values(getattr(part, field.name))


def _resolved(part: Any) -> Any:
    if isinstance(part, TableValue):
        return Column.of(_scan(part).schema.fields[0], part.span)
    if isinstance(part, tuple):
        made = tuple(map(_resolved, part))
        return made if any(new is not old for new, old in zip(made, part, strict=True)) else part
    if is_dataclass(part) and not isinstance(part, (*_LEAVES, type)):
        changed = {
            field.name: new
            for field in fields(part)
            if (new := _resolved(getattr(part, field.name))) is not getattr(part, field.name)
        }
        return replace(part, **changed) if changed else part
    return part
