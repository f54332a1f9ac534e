"""What OVER says, in texts that stay the same when a column is called something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.plan.expressions import Column, Expression
from penstock.plan.identity.expression_texts import aggregate_text, expression_text
from penstock.plan.nodes.over_calls import FramedAggregate, Neighbour, OverCall, ValueAt
from penstock.plan.nodes.rows_over import RowsOver


def over_lines(node: RowsOver, columns: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The calls, and lines about them: columns are called by where they come from."""

    def text(expression: Expression) -> str:
        return expression_text(expression, columns)

    calls = [_call_text(each.call, columns) for each in node.calls]
    lines = [f"by {text(each)} {each.type}" for each in node.partition]
    for key in node.order:
        named = replace(key, expression=Column(text(key.expression), key.expression.type))
        lines.append(f"ordered by {named} {key.expression.type}")
    if node.ties:
        lines.append("then by " + ", ".join(map(text, node.ties)))
    lines += [f"{call} {each.call.type}" for call, each in zip(calls, node.calls, strict=True)]
    if node.most is not None:
        lines.append(f"up to {node.most[1]} by {calls[node.most[0]]}")
    if node.skip:
        lines.append(f"above {node.skip}")
    return ([] if node.bare else calls), lines


def _call_text(call: OverCall, columns: Mapping[str, str]) -> str:
    def named(expression: Expression) -> Column:
        return Column(expression_text(expression, columns), expression.type)

    match call:
        case Neighbour():
            default = None if call.default is None else named(call.default)
            return str(replace(call, value=named(call.value), default=default))
        case ValueAt():
            return str(replace(call, value=named(call.value)))
        case FramedAggregate():
            return f"{aggregate_text(call.call, columns)} {call.frame}"
    return str(call)
