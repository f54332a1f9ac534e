"""Search for the fastest tree of operators and orders of probes.

Up to six inputs, all trees and orders are compared by dynamic programming over sets of inputs;
beyond that, the input that adds the fewest combinations comes next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from operator import itemgetter
from typing import TypeAlias

from penstock.optimizer.join_costs import BATCH, CALL, Inputs, JoinCosts, Work
from penstock.plan.join_trees import Joined, JoinInput, JoinTree, left_deep, partitions, trees_of

EXACT = 6  # inputs
ProbeOrder: TypeAlias = tuple[Inputs, tuple[Inputs, ...]]  # a part, and those that it probes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tree, and the nanoseconds that it takes for the tuples of one tick."""

    tree: Joined
    time: float


class Search:
    """Search for the fastest trees by the costs of a join."""

    def __init__(self, costs: JoinCosts) -> None:
        self._costs = costs
        self._best = cache(self._best_of)
        self._ordered = cache(self._order_of)
        self._step_time = cache(self._step_time_of)
        self._called = cache(self._called_of)
        self._part_time = cache(self._part_time_of)

    def flat(self) -> Candidate:
        """Best tree with one operator for all inputs."""
        return self.completed(tuple(map(JoinInput, range(self._costs.size))))

    def containing(self) -> Candidate:
        """Best tree with containers of intermediate results wherever they pay."""
        if self._costs.size > EXACT:
            return min((self.flat(), self.pipeline()), key=lambda each: each.time)
        return self._whole(self._costs.size)

    def pipeline(self) -> Candidate:
        """Best tree of joins with two inputs."""
        if self._costs.size > EXACT:
            order = min(
                (self._greedy_order(first) for first in range(self._costs.size)),
                key=lambda order: self.time(left_deep(order)),
            )
            tree = left_deep(order)
            return Candidate(tree, self.time(tree))
        return self._whole(2)

    def _whole(self, most: int) -> Candidate:
        tree, time = self._best(tuple(range(self._costs.size)), most)
        assert isinstance(tree, Joined)
        return Candidate(tree, time)

    def completed(self, parts: tuple[JoinTree, ...]) -> Candidate:
        """Tree with the parts joined by one operator, each with its best order of probes."""
        tree = Joined(parts, self._probes([frozenset(part.leaves) for part in parts]))
        return Candidate(tree, self.time(tree))

    def every(self) -> list[Candidate]:
        """All trees, each with its best orders of probes."""
        trees = map(self._with_best_orders, trees_of(range(self._costs.size)))
        return [Candidate(tree, self.time(tree)) for tree in trees if isinstance(tree, Joined)]

    def _with_best_orders(self, tree: JoinTree) -> JoinTree:
        if isinstance(tree, JoinInput):
            return tree
        return self.completed(tuple(map(self._with_best_orders, tree.parts))).tree

    def time(self, tree: JoinTree) -> float:
        """Nanoseconds of a tree for the tuples of a tick."""
        if isinstance(tree, JoinInput):
            return 0.0
        return self._time_here(tree) + sum(map(self.time, tree.parts))

    def _time_here(self, tree: Joined) -> float:
        """Nanoseconds of the operator at the top alone."""
        return self._operator_time(list(_probe_orders(tree)))

    def _operator_time(self, probes: Sequence[ProbeOrder], at_most: float = inf) -> float:
        """Nanoseconds of one operator; infinite if it takes at least `at_most`."""
        here = 0.0
        for own, order in probes:
            here += self._part_time(own, order)
            if here >= at_most:
                return inf
        return here + self._indexing(probes).time

    def _indexing(self, probes: Sequence[ProbeOrder]) -> Work:
        """Cost of indexes beyond the first for the tuples of a part, and of hashing several
        keys.
        """
        if len(probes) == 2:
            return Work()
        costs, total = self._costs, Work()
        for part, _ in probes:
            orders = [(own, *order) for own, order in probes if own != part]
            indexes = costs.indexes(part, orders)
            more, by_several = len(indexes) - 1, sum(len(each) > 1 for each in indexes)
            if more or by_several:
                others = tuple(own for own, _ in probes if own != part)
                for i in part:
                    once = costs.recording(part, others, i, False)
                    hashed = Work(hashed=by_several * once.recorded)
                    total += (once * more + hashed) * costs.rate(i)
        return total

    # --- all of them -----------------------------------------------------------------------------

    def _best_of(self, numbers: tuple[int, ...], most: int) -> tuple[JoinTree, float]:
        if len(numbers) == 1:
            return JoinInput(numbers[0]), 0.0
        ways = [
            ([frozenset(block) for block in blocks], [self._best(block, most) for block in blocks])
            for blocks in partitions(numbers)
            if 2 <= len(blocks) <= most
        ]
        # by ascending lower bound, until no other can take less
        written = self._written(frozenset(numbers))
        at_least = [
            sum(time for _, time in below) + sum(map(self._called, sets)) + written
            for sets, below in ways
        ]
        best, least = None, inf
        for bound, (sets, below) in sorted(zip(at_least, ways, strict=True), key=itemgetter(0)):
            if bound >= least:
                break
            all_parts, so_far = frozenset(sets), sum(time for _, time in below)
            probes = [(own, self._ordered(own, all_parts - {own})) for own in sets]
            time = so_far + self._operator_time(probes, least - so_far)
            if time < least:
                parts = tuple(part for part, _ in below)
                best, least = Joined(parts, self._probes(sets)), time
        assert best is not None
        return best, least

    def _called_of(self, own: Inputs) -> float:
        """Lower bound on the time of a part in an operator: its batches come there, and search
        once.
        """
        costs = self._costs
        batches = sum(costs.rate(origin) * costs.batches(own, origin) for origin in own)
        return (BATCH + CALL) * batches

    def _written(self, members: Inputs) -> float:
        """Nanoseconds to write the rows of the combinations of some inputs, which any tree has to
        do.
        """
        return self._costs.writing_time(members) * self._found(members, members)

    # --- orders ----------------------------------------------------------------------------------

    def _probes(self, parts: Sequence[Inputs]) -> tuple[tuple[int, ...], ...]:
        """Order of probes of each part, by number."""
        numbers = {part: number for number, part in enumerate(parts)}
        all_parts = frozenset(parts)
        return tuple(
            tuple(numbers[part] for part in self._ordered(own, all_parts - {own})) for own in parts
        )

    def _order_of(self, own: Inputs, others: frozenset[Inputs]) -> tuple[Inputs, ...]:
        if len(others) == 1:
            return tuple(others)
        if len(others) >= EXACT:
            return self._greedy(own, others)
        # by the set of inputs bound: the least time, and the order that takes it
        best: dict[Inputs, tuple[float, tuple[Inputs, ...]]] = {own: (0.0, ())}
        for _ in others:
            longer: dict[Inputs, tuple[float, tuple[Inputs, ...]]] = {}
            for bound, (time, order) in best.items():
                for new in others:
                    if new <= bound:
                        continue
                    step, both = time + self._step_time(own, bound, new), bound | new
                    if both not in longer or step < longer[both][0]:
                        longer[both] = step, (*order, new)
            best = longer
        ((_, order),) = best.values()
        return order

    def _greedy(self, own: Inputs, others: frozenset[Inputs]) -> tuple[Inputs, ...]:
        left, bound, order = sorted(others, key=sorted), own, []
        while left:
            found = min(left, key=lambda new: self._found(own, bound | new))
            order.append(found)
            left.remove(found)
            bound |= found
        return tuple(order)

    def _greedy_order(self, first: int) -> tuple[int, ...]:
        all_parts = frozenset(frozenset([number]) for number in range(self._costs.size))
        own = frozenset([first])
        return (first, *(min(each) for each in self._greedy(own, all_parts - {own})))

    def _found(self, own: Inputs, bound: Inputs) -> float:
        return sum(self._costs.rate(i) * self._costs.combinations(bound, i) for i in own)

    # --- times -----------------------------------------------------------------------------------

    def _step_time_of(self, own: Inputs, bound: Inputs, new: Inputs) -> float:
        costs = self._costs
        return sum(costs.rate(i) * costs.extension_time(bound, new, i) for i in own)

    def _part_time_of(self, own: Inputs, order: tuple[Inputs, ...]) -> float:
        """Nanoseconds of `work`, computed directly because they are needed very often."""
        costs, of_two, total = self._costs, len(order) == 1, 0.0
        for origin in own:
            bound, time = own, costs.recording(own, order, origin, of_two).time
            for new in order:
                time += costs.extension_time(bound, new, origin, of_two)
                bound |= new
            time += costs.writing_time(bound) * costs.combinations(bound, origin)
            total += (time + BATCH * costs.batches(own, origin)) * costs.rate(origin)
        return total

    def work(self, own: Inputs, order: tuple[Inputs, ...]) -> Work:
        """Work for the tuples of a part a tick in one operator, with the given order of probes."""
        costs, total = self._costs, Work()
        for origin in own:
            bound, of_two = own, len(order) == 1
            spent = costs.recording(own, order, origin, of_two)
            for new in order:
                spent += costs.extension(bound, new, origin, of_two)
                bound |= new
            spent += costs.writing(bound) * costs.combinations(bound, origin)
            spent += Work(batches=costs.batches(own, origin))
            total += spent * costs.rate(origin)
        return total

    def total(self, tree: JoinTree) -> Work:
        """Work of a tree for the tuples of a tick."""
        if isinstance(tree, JoinInput):
            return Work()
        found = Work()
        for own, order in _probe_orders(tree):
            found += self.work(own, order)
        for part in tree.parts:
            found += self.total(part)
        return found + self._indexing(list(_probe_orders(tree)))


def _probe_orders(tree: Joined) -> Iterator[ProbeOrder]:
    """Every part as a set of inputs, with those that its tuples probe."""
    sets = [frozenset(part.leaves) for part in tree.parts]
    for own, order in zip(sets, tree.probes, strict=True):
        yield own, tuple(sets[number] for number in order)
