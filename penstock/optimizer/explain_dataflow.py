"""EXPLAIN DATAFLOW, with the condition on which containers of intermediate results pay: inequality
1 of Getta and Vossough, with the waiting time of equation 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.model.types import Kind
from penstock.optimizer.dataflow import (
    DataflowExpression,
    JoinPlan,
    Translated,
    operations_of,
    timed,
    translate,
    window_of,
)
from penstock.optimizer.join_order import considered
from penstock.optimizer.join_search import EXACT
from penstock.optimizer.optimize import executed_query
from penstock.optimizer.rewrite import Settings
from penstock.optimizer.sizes import rate
from penstock.plan.algorithms import duration, size_text
from penstock.plan.join_trees import Joined, JoinTree, flat, orders_of
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Host


@dataclass(frozen=True, slots=True)
class Container:
    """Container: a window w of the results of r ⋈ s that the tuples of t are joined with. All
    times are nanoseconds: `recording` a tuple in the window of its stream, `filling` the container
    with the results of a tuple, `reading` the container for a tuple of t, and `recomputing` its
    contents by reading the windows of r and s instead.

    >>> fast = Container(recording=100, filling=900, reading=300, recomputing=2000)
    >>> fast.waiting(apart=200), fast.waiting(apart=5000)
    (700, 0.0)
    >>> fast.pays(apart=200), fast.pays(apart=float("inf"))
    (True, True)
    >>> Container(recording=100, filling=900, reading=300, recomputing=250).pays(apart=5000)
    False
    """

    recording: float
    filling: float
    reading: float
    recomputing: float

    @property
    def saved(self) -> float:
        """Time saved for a tuple of t: the right side of inequality 1."""
        return self.recomputing - self.reading

    def waiting(self, apart: float) -> float:
        """Time that a tuple of t waits until one of r or s that came `apart` earlier is in the
        container (equation 2). Static streams are infinitely far apart, so there is no waiting.
        """
        return max(self.recording + self.filling - (apart + self.recording), 0.0)

    def pays(self, apart: float) -> bool:
        """Whether inequality 1 holds."""
        return self.waiting(apart) < self.saved


def slot(rate: float) -> float:
    """Δt of equation 2: average age of the last tuple of a stream when a tuple of another one
    arrives; infinite for a static stream.

    >>> slot(0.25), slot(0)
    (4.0, inf)
    """
    return 1 / rate if rate > 0 else float("inf")


# EXPLAIN DATAFLOW: the expression of every stream in the notation of Getta and Vossough, its time,
# and the join trees that were considered.

_TREES, _ORDERS = 5, 3  # numbers of those listed one by one


def explain_dataflow(query: QueryPlan, settings: Settings) -> str:
    """Explain the query in its executed form, after all rewritings."""
    where = "in process" if settings.host is Host.LOCAL else "on Spark"
    found = expressions_of(executed_query(query, settings))
    lines = [f"Dataflow, {where}"]
    for each in found.expressions:
        lines += [str(each), f"  {_times(each)}"]
    for plan in found.joins:
        lines += _considered(plan, settings)
    for node in query.walk():
        if isinstance(node, WindowAggregate) and node.choice is not None:
            lines += _windows(node)
    return "\n".join(lines)


def expressions_of(query: QueryPlan) -> Translated:
    """Dataflow expressions of a query whose join trees have been chosen."""
    return translate(query.input, lambda join: join.tree or flat(len(join.branches)))


def _windows(node: WindowAggregate) -> Iterator[str]:
    """Every algorithm with the time of a window, and its state."""
    assert node.choice is not None
    yield f"windows {node.describe_window()}"
    for each in node.choice.estimates:
        mark = f", chosen: {node.choice.reason.value}" * (each.algorithm is node.choice.algorithm)
        takes = f"{duration(each.time)} a window, {size_text(each.state)}"
        yield f"  {each.algorithm.name}: {takes}{mark}"
    for word, told in (("known", node.choice.known), ("assumed", node.choice.assumed)):
        if told:
            yield f"  {word}: {', '.join(told)}"


def _times(expression: DataflowExpression) -> str:
    block, item = expression.time(), expression.time(item_mode=True)
    return f"T = {duration(block)} a tuple in blocks, {duration(item)} by item"


def _considered(plan: JoinPlan, settings: Settings) -> Iterator[str]:
    """Every tree considered, with the time of a tuple, on average over all inputs."""
    statistics = plan.costs.statistics
    tuples = sum(each.rate for each in statistics.inputs)
    yield str(plan)
    ways = considered(plan.join, settings)
    for place, each in enumerate(ways):
        mark = ", chosen" if each.tree == plan.tree else ""
        if place < _TREES or mark or each.tree.is_flat:
            yield f"  {each.tree.named(plan.names)}: {duration(each.time / tuples)} a tuple{mark}"
    if len(ways) > _TREES:
        yield f"  {len(ways)} trees in all, up to {duration(ways[-1].time / tuples)} a tuple"
    for inside, above in _containers(plan.tree):
        yield f"  {_container(plan, inside, above)}"
    for known, word in ((True, "known"), (False, "assumed")):
        shown = [
            f"{each.name} {rate(each.rate, plan.join.attributes[number].type)}"
            for number, each in enumerate(statistics.inputs)
            if each.measured is known
        ]
        if shown:
            yield f"  {word}: {', '.join(shown)}"
    if 2 < len(plan.names) <= EXACT and not plan.join.signed:
        yield "  tuples of one stream, where no intermediate results are kept"
        for number in range(len(plan.names)):
            yield from _orders(plan, number)


def _orders(plan: JoinPlan, own: int) -> Iterator[str]:
    """The orders in which tuples of a stream may probe the others, the fastest first."""
    size, found = len(plan.names), []
    for order in orders_of(size, own):
        probes = tuple(order if n == own else next(orders_of(size, n)) for n in range(size))
        alone = replace(plan, tree=flat(size, probes))
        found.append(DataflowExpression(plan.names[own], tuple(operations_of(alone, own))))
    found.sort(key=lambda each: each.time())
    for each in found[:_ORDERS]:
        yield f"  {each}: {duration(each.time())}"
    if len(found) > _ORDERS:
        yield f"  … {len(found)} orders, up to {duration(found[-1].time())}"


def _containers(tree: JoinTree) -> Iterator[tuple[Joined, Joined]]:
    """All containers, each with the operator that reads it."""
    if isinstance(tree, Joined):
        for part in tree.parts:
            if isinstance(part, Joined):
                yield part, tree
                yield from _containers(part)


def _container(plan: JoinPlan, tree: Joined, above: Joined) -> str:
    """Inequality 1 for the fastest of the streams that read it, and of those that fill it."""
    costs, inside = plan.costs, frozenset(tree.leaves)
    readers = [each for each in above.leaves if each not in inside]
    reader, writer = max(readers, key=costs.rate), max(inside, key=costs.rate)
    bound, recomputing = frozenset([reader]), 0.0
    for each in tree.leaves:
        recomputing += timed(costs.extension(bound, frozenset([each]), reader))
        bound |= {each}
    others, of_two = inside - {writer}, len(tree.parts) == 2
    beside, outside = (
        tuple(frozenset(each.leaves) for each in parts.parts if each.leaves != part)
        for parts, part in ((tree, (writer,)), (above, tree.leaves))
    )
    own = costs.recording(frozenset([writer]), beside, writer, of_two)
    kept = costs.recording_one(inside, outside, writer, len(above.parts) == 2)
    row = timed(kept + costs.writing(inside))
    found = Container(
        recording=timed(own),
        filling=timed(costs.extension(frozenset([writer]), others, writer, of_two))
        + costs.combinations(inside, writer) * row,
        reading=timed(costs.extension(frozenset([reader]), inside, reader, len(above.parts) == 2)),
        recomputing=recomputing,
    )
    apart = 0.0
    if plan.join.attributes[reader].type.kind is Kind.TIMESTAMP:
        apart = slot(costs.rate(writer) / 1_000)
    name = window_of(plan, inside)
    sides = f"{duration(found.waiting(apart))} against {duration(max(found.saved, 0.0))} saved"
    return f"{name} is kept: τ_wait {sides}, for a tuple of {plan.names[reader]}"
