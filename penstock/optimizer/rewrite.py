"""Settings of the optimizer, and helpers that rewrite plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypeVar

from penstock.errors import PlanError
from penstock.kernel.joins.ordered_joins import ALPHA
from penstock.plan.nodes.join import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Host

STATE_BUDGET = 1_000_000_000
BROADCAST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the optimizer.

    `state_budget` is the limit in bytes on the state of a window aggregation, and `host` executes
    the plan. On Spark, tables of at most `broadcast_rows` rows are broadcast; larger ones are
    split by their keys. `alpha` is the load from which on an Adaptive join joins tuples ahead of
    their turn: then results come α / (1 + α) sooner. `as_begun` is set for a resumed run: rules
    that chose by the data known at its start choose the same.
    """

    state_budget: int = STATE_BUDGET
    host: Host = Host.LOCAL
    broadcast_rows: int = BROADCAST_ROWS
    alpha: float = ALPHA
    as_begun: bool = False

    def __post_init__(self) -> None:
        if self.broadcast_rows < 0:
            raise PlanError(f"tables of {self.broadcast_rows} rows", expected="0 or more")
        if self.state_budget < 0:
            raise PlanError(f"a budget of {self.state_budget} bytes", expected="0 or more")
        if not 0 <= self.alpha < 1:
            raise PlanError(f"an α of {self.alpha}", expected="from 0 to below 1")


# Rewriting of plans from the bottom up; unchanged parts stay the same objects.

N = TypeVar("N", bound=Node)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _is_node(kind: type) -> bool:
    """Cached `issubclass`: Node is abstract, which makes isinstance slow, and this is asked for
    every field of a plan.
    """
    return issubclass(kind, Node)


def with_inputs(node: N, change: Callable[[Node], Node]) -> N:
    """Rewrite the inputs of a node."""
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
    """Rewrite everything below a node, and then the node itself. Tables of look-ups are left
    unchanged: hosts have read them already.
    """
    if isinstance(node, Lookup):
        below = bottom_up(node.input, change)
        return change(node if below is node.input else replace(node, input=below))
    return change(with_inputs(node, lambda each: bottom_up(each, change)))


def rewritten(query: QueryPlan, change: Callable[[Node], Node]) -> QueryPlan:
    """Rewrite all nodes of a query, from the bottom up."""
    return with_inputs(query, lambda node: bottom_up(node, change))
