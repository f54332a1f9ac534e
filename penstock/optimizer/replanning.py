"""Replanning by observations of operators at run time: better join trees, and better algorithms
for sliding windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import pyarrow as pa

from penstock.optimizer.join_costs import JoinCosts
from penstock.optimizer.join_search import Search
from penstock.optimizer.join_statistics import InputStatistics, JoinStatistics, Sample, key_shares
from penstock.optimizer.lowering import ALGORITHMS
from penstock.optimizer.rewrite import STATE_BUDGET
from penstock.optimizer.sizes import Sizes, counted, rate
from penstock.optimizer.window_choice import cheapest, predict
from penstock.plan.algorithms import Algorithm, Choice, Reason
from penstock.plan.join_trees import Joined
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.join import Join
from penstock.plan.physical import OperatorKind, PhysicalNode
from penstock.plan.window_kinds import MOST_KEPT, Sliding, per_tuple


@dataclass(frozen=True, slots=True)
class ObservedInput:
    """Observations of a port since the last check: tuples and batches that came; ticks that its
    bound has advanced, and ticks that it is behind the newest tuple; and a sample of the kept
    tuples.
    """

    rows: int
    batches: int
    ticks: float
    disorder: float
    sample: pa.RecordBatch | None = None

    @property
    def rate(self) -> float:
        """Tuples a tick."""
        return max(self.rows, 1e-3) / self.ticks

    @property
    def batch(self) -> float:
        return max(1.0, self.rows / max(1, self.batches))


@dataclass(frozen=True, slots=True)
class Observations:
    """Observations of an operator; `results` are the rows that were emitted."""

    inputs: tuple[ObservedInput, ...]
    results: int


@dataclass(frozen=True, slots=True)
class Better:
    """A better node: it would take `then` nanoseconds a tuple instead of `now`, both by the same
    statistics; with the names of both plans, and the reason.
    """

    node: PhysicalNode
    now: float
    then: float
    before: str
    after: str
    because: str

    @property
    def times(self) -> float:
        """Factor by which it is faster."""
        return self.now / max(self.then, 1e-9)


# A better tree for a join of several streams, by its observations.

_NOTABLE = 1.25  # factor from which on a difference is mentioned


def can_change_join(node: PhysicalNode) -> bool:
    """Whether another tree may be chosen."""
    join = node.logical
    kinds = (OperatorKind.MULTIWAY_JOIN, OperatorKind.CONTAINING_JOIN)
    return (
        node.operator in kinds
        and isinstance(join, Join)
        and join.tree is not None
        and join.hint is None
        and not join.signed
    )


def observed_statistics(join: Join, seen: Observations, expected: JoinStatistics) -> JoinStatistics:
    """Statistics with the observed rates and disorder, and the keys of the kept tuples. The
    selectivity of other conditions follows from the number of results.
    """
    samples = [None if each.sample is None else Sample(each.sample, 1.0) for each in seen.inputs]
    found = replace(
        expected,
        inputs=tuple(
            _input(known, rows=each.rate, batch=each.batch, disorder=each.disorder)
            for known, each in zip(expected.inputs, seen.inputs, strict=True)
        ),
        shares=key_shares(join, samples),
    )
    return _with_others(join, found, seen)


def _input(known: InputStatistics, rows: float, batch: float, disorder: float) -> InputStatistics:
    """Statistics of an input with observed numbers; its distance from the others depends on
    whether the source is bounded.
    """
    at_will = known.ahead > 0 or known.spread == 0 == known.ahead
    spread = (disorder + (batch / rows if at_will else 0.0)) / 2
    ahead = spread if at_will else -spread
    return replace(
        known,
        rate=rows,
        batch=batch,
        disorder=disorder,
        ahead=ahead,
        spread=spread,
        measured=True,
        ends=(),
    )


def _with_others(join: Join, found: JoinStatistics, seen: Observations) -> JoinStatistics:
    if not found.others:
        return found
    costs, all_inputs = JoinCosts(join, found), frozenset(range(len(join.branches)))
    ticks = max(each.ticks for each in seen.inputs)
    expected = ticks * sum(costs.rate(i) * costs.combinations(all_inputs, i) for i in all_inputs)
    if not expected:
        return found
    scale = (max(seen.results, 1) / expected) ** (1 / len(found.others))
    others = tuple((inputs, min(1.0, part * scale)) for inputs, part in found.others)
    return replace(found, others=others)


def better_join(
    node: PhysicalNode, seen: Observations, expected: JoinStatistics
) -> tuple[Better, JoinStatistics]:
    """Best tree by the observations, which may be the current one. Containers are excluded where
    rows must follow tuples (CONSISTENCY).
    """
    join = node.logical
    assert isinstance(join, Join)
    assert join.tree is not None
    statistics = observed_statistics(join, seen, expected)
    search = Search(JoinCosts(join, statistics))
    found = [search.flat()]
    if node.consistency is None:
        found.append(search.containing())
    best = min(found, key=lambda each: each.time)
    tuples = sum(each.rate for each in statistics.inputs)
    names = [each.name for each in statistics.inputs]
    better = Better(
        as_tree(node, best.tree),
        search.time(join.tree) / tuples,
        best.time / tuples,
        in_words(join.tree, names),
        in_words(best.tree, names),
        ", ".join(_differences(join, expected, statistics)) or "as expected",
    )
    return better, statistics


def as_tree(node: PhysicalNode, tree: Joined) -> PhysicalNode:
    """The join with another tree."""
    assert isinstance(node.logical, Join)
    kind = OperatorKind.MULTIWAY_JOIN if tree.is_flat else OperatorKind.CONTAINING_JOIN
    return replace(node, operator=kind, logical=replace(node.logical, tree=tree))


def in_words(tree: Joined, names: list[str]) -> str:
    """Format the tree, and the orders of probes where there is a choice.

    >>> from penstock.plan.join_trees import flat
    >>> in_words(flat(3, ((1, 2), (2, 0), (0, 1))), ["r", "s", "t"])
    '(r s t) by r: s t, s: t r, t: r s'
    """
    told = []
    parts = [[names[leaf] for leaf in part.leaves] for part in tree.parts]
    if len(parts) > 2:
        for own, order in enumerate(tree.probes):
            others = " ".join(",".join(parts[number]) for number in order)
            told.append(f"{','.join(parts[own])}: {others}")
    whole = tree.named(names)
    return f"{whole} by {', '.join(told)}" if told else whole


def _differences(join: Join, before: JoinStatistics, now: JoinStatistics) -> Iterator[str]:
    """Differences from the statistics that the plan was chosen by: rates, and how often keys are
    equal.
    """
    for number, (one, other) in enumerate(zip(before.inputs, now.inputs, strict=True)):
        if _differs(one.rate, other.rate):
            kind = join.attributes[number].type
            yield f"{other.name} {rate(other.rate, kind)} (was {rate(one.rate, kind)})"
    for pair in combinations(range(len(join.branches)), 2):
        members = frozenset(pair)
        was, is_ = before.matching(members), now.matching(members)
        if _differs(was, is_):
            names = " and ".join(now.inputs[each].name for each in pair)
            yield f"{names} match in {is_:.2g} of all pairs (was {was:.2g})"


def _differs(one: float, other: float) -> bool:
    return max(one, other) > _NOTABLE * min(one, other)


# A better algorithm for sliding windows, by their observations.

_CHOSEN = (Reason.TIME, Reason.BUDGET, Reason.STATE)


def can_change_window(node: PhysicalNode) -> bool:
    """Whether another algorithm may be chosen."""
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
    """Algorithm of the windows of a node."""
    return next(name for name, kind in ALGORITHMS.items() if kind is node.operator)


def better_window(node: PhysicalNode, seen: Observations) -> Better:
    """Best algorithm by the observations, which may be the current one."""
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
