"""EXPLAIN DATAFLOW: the expression of every stream in the notation of Getta and Vossough, what it
takes, and the ways to put joins together that were considered."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.types import Kind
from penstock.optimizer.dataflow.container import Container
from penstock.optimizer.dataflow.expression import DataflowExpression, timed
from penstock.optimizer.dataflow.translate import JoinPlan, translate, window_name
from penstock.optimizer.estimates.sizes import rate
from penstock.optimizer.logical.arrange_joins import candidates, chosen
from penstock.optimizer.logical.binary_joins import looks_at_names
from penstock.optimizer.settings import Settings
from penstock.physical.host import Host
from penstock.plan.algorithms import duration
from penstock.plan.join_trees.join_tree import Joined, JoinTree
from penstock.plan.joins import Join
from penstock.plan.node import Node
from penstock.plan.query import QueryPlan


def explain_dataflow(query: QueryPlan, settings: Settings) -> str:
    where = "in process" if settings.host is Host.LOCAL else "on Spark"
    by_name = _finds_by_name(query)
    found = translate(query.input, lambda join: chosen(join, settings, by_name[id(join)]))
    lines = [f"Dataflow, {where}"]
    for each in found.expressions:
        lines += [str(each), f"  {_times(each)}"]
    for plan in found.joins:
        lines += _considered(plan, settings, by_name[id(plan.join)])
    return "\n".join(lines)


def _finds_by_name(query: QueryPlan) -> dict[int, bool]:
    """Of every join, whether what stands above finds its columns by their names."""
    found: dict[int, bool] = {}

    def look(node: Node, by_name: bool) -> None:
        if isinstance(node, Join):
            found[id(node)] = by_name
        for each in node.inputs:
            look(each, looks_at_names(node, by_name))

    look(query.input, False)
    return found


def _times(expression: DataflowExpression) -> str:
    block, item = expression.time(), expression.time(item_mode=True)
    return f"T = {duration(block)} a tuple in blocks, {duration(item)} by item"


def _considered(plan: JoinPlan, settings: Settings, by_name: bool) -> Iterator[str]:
    """Every way with the time of a tuple, on average over all inputs."""
    statistics = plan.costs.statistics
    tuples = sum(each.rate for each in statistics.inputs)
    yield f"join of {', '.join(plan.names)}"
    for each in candidates(plan.join, settings, by_name):
        mark = ", chosen" if each.tree == plan.tree else ""
        yield f"  {each.tree.named(plan.names)}: {duration(each.time / tuples)} a tuple{mark}"
    for inside, readers in _containers(plan.tree):
        yield f"  {_container(plan, inside, readers)}"
    for known, word in ((True, "known"), (False, "assumed")):
        shown = [
            f"{each.name} {rate(each.rate, plan.join.attributes[number].type)}"
            for number, each in enumerate(statistics.inputs)
            if each.measured is known
        ]
        if shown:
            yield f"  {word}: {', '.join(shown)}"


def _containers(tree: JoinTree) -> Iterator[tuple[Joined, list[int]]]:
    """Everything that is kept of intermediate results, and the inputs whose tuples read it."""
    if isinstance(tree, Joined):
        for part in tree.parts:
            if isinstance(part, Joined):
                yield part, [each for each in tree.leaves if each not in part.leaves]
                yield from _containers(part)


def _container(plan: JoinPlan, tree: Joined, readers: list[int]) -> str:
    """Inequality 1 for the fastest of the streams that read it, and of those that fill it."""
    costs, inside = plan.costs, frozenset(tree.leaves)
    reader, writer = max(readers, key=costs.rate), max(inside, key=costs.rate)
    bound, recomputing = frozenset([reader]), 0.0
    for each in tree.leaves:
        recomputing += timed(costs.extension(bound, frozenset([each]), reader))
        bound |= {each}
    row = timed(costs.recording() + costs.writing(inside))
    found = Container(
        recording=timed(costs.recording()),
        filling=timed(costs.extension(frozenset([writer]), inside - {writer}, writer))
        + costs.combinations(inside, writer) * row,
        reading=timed(costs.extension(frozenset([reader]), inside, reader)),
        recomputing=recomputing,
    )
    apart = 0.0
    if plan.join.attributes[reader].type.kind is Kind.TIMESTAMP:
        apart = 1_000 / (costs.rate(reader) + costs.rate(writer))
    name = window_name([plan.names[each] for each in sorted(inside)])
    sides = f"{duration(found.waiting(apart))} against {duration(max(found.saved, 0.0))} saved"
    return f"{name} is kept: τ_wait {sides}, for a tuple of {plan.names[reader]}"
