"""Plans made anew from the bottom up; what does not change stays the same object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

from penstock.plan.node import Node

N = TypeVar("N", bound=Node)


def with_inputs(node: N, change: Callable[[Node], Node]) -> N:
    """The node over changed inputs."""
    changed: dict[str, Any] = {}
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if isinstance(value, Node):
            found: Any = change(value)
            if found is not value:
                changed[field.name] = found
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            found = tuple(map(change, value))
            if any(new is not old for new, old in zip(found, value, strict=True)):
                changed[field.name] = found
    return replace(node, **changed) if changed else node  # type: ignore[type-var]
