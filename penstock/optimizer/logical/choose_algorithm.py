"""The rule that chooses how sliding windows are computed.

Before: WindowAggregate [RANGE 600, SLIDE 10], no algorithm.
After:  the same node with a Choice: PANED, because panes take the least time; or what a hint asks
        for, with the numbers for all of them beside it.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.estimates.predict import predict
from penstock.optimizer.estimates.sizes import sizes_of
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.plan.algorithms import Algorithm, Choice, Estimate, Reason
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.windows.limits import MOST_KEPT, per_tuple
from penstock.windows.sliding import Sliding

# Numbers that rest on assumptions are no reason to leave what is seldom far from the best: of those
# that take about as long as the fastest, the first of these is taken.
_PREFERENCE = (
    Algorithm.PANED,
    Algorithm.WID,
    Algorithm.BUFFERING,
    Algorithm.ADAPTIVE,
    Algorithm.TWO_LEVEL,
)
_ABOUT = 1.25


def choose_algorithm(query: QueryPlan, settings: Settings) -> QueryPlan:
    """Fill in the choice of every window aggregate over sliding windows."""
    revises = query.late is Late.AMEND or query.early_every is not None

    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        if not isinstance(node, WindowAggregate) or not isinstance(node.window, Sliding):
            return node
        if node.input.signed:  # there is one way to fold what may be taken back
            return node
        return replace(node, choice=_choice(node, settings, revises))

    return with_inputs(query, change)


def _choice(node: WindowAggregate, settings: Settings, revises: bool) -> Choice:
    sizes = sizes_of(node)
    estimates = predict(node, sizes)
    if node.hint is not None:
        algorithm, reason = node.hint, Reason.HINT
    elif revises:
        algorithm, reason = Algorithm.PANED, Reason.REVISIONS
    elif isinstance(node.window, Sliding) and per_tuple(node.window) > MOST_KEPT:
        algorithm, reason = Algorithm.PANED, Reason.TIME  # the others keep every window for itself
    else:
        algorithm, reason = cheapest(estimates, settings.state_budget)
    by_time = sorted(estimates, key=lambda each: (each.time, _PREFERENCE.index(each.algorithm)))
    return Choice(
        algorithm, reason, tuple(by_time), settings.state_budget, sizes.known, sizes.assumed
    )


def cheapest(estimates: tuple[Estimate, ...], budget: float) -> tuple[Algorithm, Reason]:
    """The least time among those whose state is within the budget.  If none is, the least state;
    of equals ADAPTIVE, because groups that differ more than assumed only make its state smaller.

    >>> fast, small = Estimate(Algorithm.WID, 1, 900), Estimate(Algorithm.BUFFERING, 5, 20)
    >>> [cheapest((fast, small), budget)[0].name for budget in (1000, 100, 10)]
    ['WID', 'BUFFERING', 'BUFFERING']
    """
    within = [each for each in estimates if each.state <= budget]
    if not within:
        least = min(each.state for each in estimates)
        smallest = [each.algorithm for each in estimates if each.state == least]
        if Algorithm.ADAPTIVE in smallest:
            return Algorithm.ADAPTIVE, Reason.STATE
        return min(smallest, key=_PREFERENCE.index), Reason.STATE
    fastest = _fastest(within)
    if fastest is _fastest(list(estimates)):
        return fastest, Reason.TIME
    return fastest, Reason.BUDGET


def _fastest(estimates: list[Estimate]) -> Algorithm:
    limit = _ABOUT * min(each.time for each in estimates)
    near = [each.algorithm for each in estimates if each.time <= limit]
    return min(near, key=_PREFERENCE.index)
