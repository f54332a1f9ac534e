"""Plans made anew from the bottom up; what does not change stays the same object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan

N = TypeVar("N", bound=Node)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _is_node(kind: type) -> bool:
    """Node is abstract, which makes isinstance slow; this is asked of every field of a plan."""
    return issubclass(kind, Node)


def with_inputs(node: N, change: Callable[[Node], Node]) -> N:
    """The node over changed inputs."""
    changed: dict[str, Any] = {}
    for name in _names(type(node)):
        value = getattr(node, name)
        kind: Any = type(value)
        if _is_node(kind):
            found: Any = change(value)
            if found is not value:
                changed[name] = found
        elif kind is tuple and value and isinstance(value[0], Node):
            found = tuple(map(change, value))
            if any(new is not old for new, old in zip(found, value, strict=True)):
                changed[name] = found
    return replace(node, **changed) if changed else node  # type: ignore[type-var]


def bottom_up(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with everything below it changed, and then itself.  Tables that tuples are looked up
    in are left as they are: hosts have read them by then."""
    if isinstance(node, Lookup):
        below = bottom_up(node.input, change)
        return change(node if below is node.input else replace(node, input=below))
    return change(with_inputs(node, lambda each: bottom_up(each, change)))


def rewritten(query: QueryPlan, change: Callable[[Node], Node]) -> QueryPlan:
    """The query with a change made to all of its nodes, from the bottom up."""
    return with_inputs(query, lambda node: bottom_up(node, change))
