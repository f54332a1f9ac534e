"""In which order the results of a join can leave it: by the time of one input, or by the later of
both, which is when the last of the two tuples came.
"""

from __future__ import annotations

from penstock.plan.expressions import Call, Column, Expression
from penstock.plan.nodes.joins import Join
from penstock.plan.properties.monotone import rising_operands


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
    operands = rising_operands(by)
    return by_ports(node, operands[0]) if len(operands) == 1 else None


def latest_of(node: Join, ports: tuple[int, ...]) -> Expression:
    """What results are sorted by."""
    columns = tuple(node.attributes[port] for port in ports)
    return columns[0] if len(columns) == 1 else Call("greatest", columns, columns[0].type)
