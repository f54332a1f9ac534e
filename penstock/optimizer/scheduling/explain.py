"""EXPLAIN CONFLICTS: what the dataflow expressions of a query get in each other's way with when
they run at the same time, and what takes it away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from penstock.optimizer.dataflow.translate import translate
from penstock.optimizer.logical.arrange_joins import chosen, margin_of
from penstock.optimizer.scheduling.conflicts import Conflicts, Removal, shown_matrix
from penstock.optimizer.scheduling.order_invariance import order_matters
from penstock.optimizer.scheduling.scheduling_graph import SchedulingGraph
from penstock.optimizer.settings import Settings
from penstock.plan.consistency import Consistency
from penstock.plan.join_trees.join_tree import Joined, flat
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan

STEPS: tuple[tuple[Removal, ...], ...] = (
    (),
    (Removal.TIMESTAMPS,),
    (Removal.TIMESTAMPS, Removal.CONTAINERS),
    (Removal.TIMESTAMPS, Removal.CONTAINERS, Removal.ORDER),
)
_RAISED = (Removal.TIMESTAMPS, Removal.RAISED, Removal.ORDER)  # containers are kept


def explain_conflicts(query: QueryPlan, settings: Settings) -> str:
    return "\n".join(_lines(query, settings))


def conflicts_of(
    node: Node, settings: Settings, containers: bool = True, margin: float | None = None
) -> Conflicts:
    """Of the expressions that a query is translated into: with containers where they pay, by some
    margin, or without any."""
    least = margin_of(None) if margin is None else margin

    def arrange(join: Join) -> Joined:
        return chosen(join, settings, margin=least) if containers else flat(len(join.branches))

    return Conflicts(translate(node, arrange).expressions)


def schedule(conflicts: Conflicts, removed: Collection[Removal] = ()) -> SchedulingGraph:
    """An item of every stream, and one more of the first."""
    graph = SchedulingGraph(conflicts, removed)
    streams = [each.stream for each in conflicts.expressions]
    for stream in dict.fromkeys(streams):
        graph.arrive(stream, f"d'_{stream}")
    graph.arrive(streams[0], f"d''_{streams[0]}")
    return graph


def _lines(query: QueryPlan, settings: Settings) -> Iterator[str]:
    conflicts = conflicts_of(query.input, settings)
    yield "Conflicts"
    for number, operation in enumerate(conflicts.operations, 1):
        yield f"  α{number} = {operation}"
    for each in conflicts.expressions:
        numbers = ", ".join(f"α{conflicts.number(one) + 1}" for one in each.operations)
        yield f"  δ_{each.stream} : {numbers}"
    yield from (f"  {line}" for line in shown_matrix(conflicts.matrix()))
    yield from _removals(conflicts)
    yield from _schedules(query, settings, conflicts)
    reasons = order_matters(query.input)
    yield f"Order invariant: {'no, ' + '; '.join(reasons) if reasons else 'yes'}"
    yield _asked(query.consistency) + _containers(query, settings, conflicts)


def _removals(conflicts: Conflicts) -> Iterator[str]:
    count = Counter(each.removed_by for each in conflicts.found)
    yield f"{len(conflicts.found)} conflicts, removed by"
    for removal, what in (
        (Removal.TIMESTAMPS, "timestamps: items read only what came before them"),
        (
            Removal.CONTAINERS,
            f"dropped containers, or raised timestamps: {', '.join(sorted(conflicts.containers))}",
        ),
        (Removal.ORDER, "relaxed order: nobody looks before all is there"),
    ):
        if count[removal]:
            yield f"  {count[removal]} by {what}"


def _schedules(query: QueryPlan, settings: Settings, conflicts: Conflicts) -> Iterator[str]:
    """How much has to wait for an item of every stream, and one more."""
    yield "Schedule of an item of every stream, and one more of the first"
    # what is put behind those who have looked must mean the same there
    raised = conflicts.containers and not order_matters(query.input)
    for removed in (*STEPS, _RAISED) if raised else STEPS:
        given = conflicts
        if Removal.CONTAINERS in removed:
            given = conflicts_of(query.input, settings, containers=False)
        graph = schedule(given, removed)
        dashed = len(graph.dashed)
        names = ", ".join(each.value for each in removed) or "nothing removed"
        rounds = graph.rounds()
        yield f"  {names}: {dashed} dashed edge{'s' * (dashed != 1)}, {rounds} rounds"


def _asked(consistency: Consistency | None) -> str:
    if consistency is None:
        return "CONSISTENCY is not said: tuples are handled batch by batch"
    if consistency.at_most is None:
        return f"{consistency}: order is relaxed, rows agree at the end"
    return f"{consistency}: the output is recorded in the order of items"


def _containers(query: QueryPlan, settings: Settings, conflicts: Conflicts) -> str:
    """What becomes of those that there are if nobody says anything."""
    if query.consistency is None or not conflicts.containers:
        return ""
    kept = conflicts_of(query.input, settings, margin=margin_of(query.consistency)).containers
    names = ", ".join(sorted(kept or conflicts.containers))
    return f"; {names} {'kept, which pays more than threads' if kept else 'not kept'}"
