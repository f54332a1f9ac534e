"""EXPLAIN: the tree of a plan with the schema, window, category and progress of every node; and
EXPLAIN PHYSICAL, the operators that run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from penstock.plan.algorithms import Consistency
from penstock.plan.nodes.join import Lookup, table_lines
from penstock.plan.nodes.node import Node, Scan
from penstock.plan.physical import Host, OperatorKind, Ordering, PhysicalNode, PhysicalPlan, Port
from penstock.plan.properties import scans_of


def explain(node: Node) -> str:
    return "\n".join(_logical_lines(node))


def _logical_lines(node: Node) -> list[str]:
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
        first_line, *others = _logical_lines(child)
        lines.append(("└─ " if last else "├─ ") + first_line)
        lines += [("   " if last else "│  ") + line for line in others]
    return lines


# EXPLAIN PHYSICAL: the operators that run, their partitioning, and what is required of them.


def explain_physical(
    plan: PhysicalPlan, more: Callable[[PhysicalNode], Iterable[str]] = lambda _: ()
) -> str:
    """Format a physical plan; `more` gives further lines for a node."""
    where = "in process" if plan.host is Host.LOCAL else "on Spark"
    title = f"Physical plan, {where}"
    if plan.simplified:
        title += f", simplified by {', '.join(plan.simplified)}"
    if plan.one_by_one:
        title += ", tuple by tuple"
    return "\n".join([title, *_physical_lines(plan.root, plan, more)])


def _physical_lines(
    node: PhysicalNode, plan: PhysicalPlan, more: Callable[[PhysicalNode], Iterable[str]]
) -> list[str]:
    lines = [_title(node)]
    rail = "│  " if node.ports else "   "
    lines += [rail + each for each in (*_details(node, plan), *more(node))]
    for number, port in enumerate(node.ports):
        last = number == len(node.ports) - 1
        first_line, *others = _physical_lines(port.input, plan, more)
        lines.append(("└─ " if last else "├─ ") + first_line)
        lines += [("   " if last else "│  ") + line for line in others]
    return lines


def _title(node: PhysicalNode) -> str:
    """The operator, and its task in the words of the logical plan."""
    name = str(node.operator.value)
    if isinstance(node.logical, Scan):
        return f"{name} {node.logical.stream.name}"
    if node.operator is OperatorKind.ORDER:
        return name
    title, *_ = node.logical.details()
    return title if title.startswith(name) else f"{name}: {title}"


def _details(node: PhysicalNode, plan: PhysicalPlan) -> Iterator[str]:
    for number, port in enumerate(node.ports):
        if port.keys is not None:
            which = f"port {number}: " if len(node.ports) > 1 else ""
            yield which + _partitioning(port)
    if isinstance(node.logical, Lookup):
        yield from _table(node.logical, plan)
    if node.asked is not None and node.stateful:
        yield f"asked: {node.asked}"
    if node.sorting is not None:
        apart = plan.host is Host.SPARK and any(port.keys or port.slices for port in node.ports)
        yield f"order: {node.sorting}{', in each bucket' * apart}"
    elif node.ordering is not Ordering.ANY:
        yield f"order: {node.ordering.value}"
    if node.consistency is not None:
        yield _consistency_line(node.consistency)
    if node.punctuated:
        yield "groups that are punctuated leave ahead of the others"
    if node.whole_windows:
        yield "groups of a window leave together, because they are counted"
    if node.stateful and node.logical in plan.shared:
        yield "computed once for all who ask for it"
    if node.join_choice is not None:
        yield from node.join_choice.lines()
    yield from node.notes


def _consistency_line(consistency: Consistency) -> str:
    """Line about the consistency of results, where tuples are processed in parallel."""
    side_by_side = "tuples look for others side by side"
    if consistency.at_most is None:
        return side_by_side
    return f"{side_by_side}, and results leave in their order ({consistency})"


def _table(lookup: Lookup, plan: PhysicalPlan) -> Iterator[str]:
    """Lines for the table of a look-up. Plans executed on Spark have scans without sources, so
    these are taken from the query.
    """
    streams = {scan.stream.name: scan.stream for scan in scans_of(plan.query.input)}
    for each in lookup.table.walk():
        if isinstance(each, Scan):
            each = replace(each, stream=streams[each.stream.name])
        yield from (f"table: {line}" for line in table_lines(each))


def _partitioning(port: Port) -> str:
    if port.slices is not None:
        return f"tuples meet in {port.slices}"
    keys = ", ".join(map(str, port.keys or ()))
    where = f"tuples meet by {keys}" if keys else "all tuples meet in one place"
    return where + (", folded into panes before" if port.pre_aggregated else "")
