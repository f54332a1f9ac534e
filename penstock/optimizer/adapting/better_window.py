"""A better algorithm for sliding windows, by what has been seen of them."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.adapting.observations import Better, Observations
from penstock.optimizer.estimates.predict import predict
from penstock.optimizer.estimates.sizes import Sizes, counted
from penstock.optimizer.logical.choose_algorithm import cheapest
from penstock.optimizer.physical.lower import ALGORITHMS
from penstock.optimizer.settings import STATE_BUDGET
from penstock.physical.node import PhysicalNode
from penstock.plan.algorithms import Algorithm, Choice, Reason
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.windows.limits import MOST_KEPT, per_tuple
from penstock.windows.sliding import Sliding

_CHOSEN = (Reason.TIME, Reason.BUDGET, Reason.STATE)


def can_change_window(node: PhysicalNode) -> bool:
    """Whether it may be computed by another algorithm."""
    window = node.logical
    return (
        node.operator in ALGORITHMS.values()
        and isinstance(window, WindowAggregate)
        and isinstance(window.window, Sliding)
        and window.hint is None
        and (window.choice is None or window.choice.reason in _CHOSEN)
        and per_tuple(window.window) <= MOST_KEPT
        and node.asked is None
        and not node.punctuated
    )


def observed_sizes(node: WindowAggregate, seen: Observations) -> Sizes:
    assert isinstance(node.window, Sliding)
    (own,) = seen.inputs
    tuples = max(1.0, own.rate * node.window.range)
    closed = max(1.0, own.ticks / node.window.slide)
    groups = max(1.0, seen.results / closed) if node.keys else 1.0
    known = (f"{counted(tuples, 'tuple')} a window", counted(groups, "group"))
    return Sizes(tuples, groups, own.rate, own.disorder, own.batch, known, ())


def algorithm_of(node: PhysicalNode) -> Algorithm:
    """What its windows are computed by."""
    return next(name for name, kind in ALGORITHMS.items() if kind is node.operator)


def better_window(node: PhysicalNode, seen: Observations) -> Better:
    """The best algorithm by what has been seen; it may be the one that is there."""
    window, present = node.logical, algorithm_of(node)
    assert isinstance(window, WindowAggregate)
    assert isinstance(window.window, Sliding)
    sizes = observed_sizes(window, seen)
    estimates = predict(window, sizes)
    budget = STATE_BUDGET if window.choice is None else window.choice.budget
    best, reason = cheapest(estimates, budget)
    times = {each.algorithm: each.time for each in estimates}
    by_time = tuple(sorted(estimates, key=lambda each: each.time))
    choice = Choice(best, reason, by_time, budget, sizes.known, ())
    entering = max(1.0, sizes.volume * window.window.slide)
    return Better(
        replace(node, operator=ALGORITHMS[best], logical=replace(window, choice=choice)),
        times[present] / entering,
        times[best] / entering,
        present.name,
        best.name,
        ", ".join(sizes.known),
    )
