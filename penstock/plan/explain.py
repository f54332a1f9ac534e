"""EXPLAIN: the tree of a plan with the schema, window, category and progress of every node."""

from __future__ import annotations

from penstock.plan.nodes.node import Node


def explain(node: Node) -> str:
    return "\n".join(_lines(node))


def _lines(node: Node) -> list[str]:
    title, *details = node.details()
    lines = [title]
    inputs = node.inputs
    rail = "│  " if inputs else "   "
    schema = str(node.schema)
    progress = ", ".join(map(str, node.progress)) or "none"
    for detail in [*details, f"schema: {schema}", f"progress: {progress}"]:
        lines.append(rail + detail)
    if node.signed:
        lines.append(rail + "items: positive and negative")
    for position, child in enumerate(inputs):
        last = position == len(inputs) - 1
        first_line, *others = _lines(child)
        lines.append(("└─ " if last else "├─ ") + first_line)
        lines += [("   " if last else "│  ") + line for line in others]
    return lines
