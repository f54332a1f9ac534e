"""In which order the results of a join can leave it: by the time of one input, or by the later of
both, which is when the last of the two tuples came.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.plan.expressions import Call, Column, Expression
from penstock.plan.nodes.joins import Join
from penstock.plan.properties.monotone import is_steady, rising_operands


def by_ports(node: Join, by: Expression) -> tuple[int, ...] | None:
    """The inputs by the latest of whose times results are in the order of an expression; None if
    there are none such.

    `a.t` and `date_trunc('hour', a.t)` go by the first input of `a, b`, `greatest(a.t, b.t) + 1` by
    both; `least(a.t, b.t)` by none."""
    if isinstance(by, Column):
        return (node.attributes.index(by),) if by in node.attributes else None
    if isinstance(by, Call) and by.function == "greatest":
        if not set(by.arguments) <= set(node.attributes):
            return None
        return tuple(sorted({node.attributes.index(each) for each in by.arguments}))
    operands = rising_operands(by) if is_steady(by) else ()
    return by_ports(node, operands[0]) if len(operands) == 1 else None


def latest_of(node: Join, ports: tuple[int, ...]) -> Expression:
    """What results are sorted by."""
    return _greatest([node.attributes[port] for port in ports])


def latest_of_all(node: Join) -> Expression:
    """What results of a join of several streams are sorted by that leave in the order of all of
    their times: those of the streams that were joined before count, too."""
    return _greatest(_times(node))


def _times(node: Join) -> list[Column]:
    """The time of every stream that one pipeline joins."""
    known = {each.left for each in node.also} | {each.right for each in node.also}
    found: list[Column] = []
    for branch, attribute in zip(node.branches, node.attributes, strict=True):
        before = _times(branch) if isinstance(branch, Join) and branch.hint is node.hint else []
        found += [each for each in before if each in known or each == attribute] or [attribute]
    return found


def _greatest(columns: Sequence[Column]) -> Expression:
    several = tuple(columns)
    return several[0] if len(several) == 1 else Call("greatest", several, several[0].type)
