"""What the operations of a join take, for sets of inputs: everything follows from how many
combinations there are for a tuple of one input, which does not depend on the order in which they
are found.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from math import exp, log2, prod

import numpy as np

from penstock.model.arrays import Mask
from penstock.operators.joins.partners.pairs import AT_ONCE
from penstock.optimizer.dataflow.encounters import encounters
from penstock.optimizer.dataflow.join_statistics import JoinStatistics
from penstock.optimizer.dataflow.met import Met
from penstock.optimizer.dataflow.work import Work
from penstock.plan.nodes.joins import Join
from penstock.plan.properties.pairwise_windows import between
from penstock.windows.joins import BandJoin, SlidingJoin

Inputs = frozenset[int]


class JoinCosts:
    def __init__(self, join: Join, statistics: JoinStatistics) -> None:
        self.statistics = statistics
        self.size = len(join.branches)
        self._bands = {
            (i, j): _band(join, i, j) for i in range(self.size) for j in range(self.size) if i != j
        }
        self._met = [
            Met(number, found, self._bands)
            for number, found in enumerate(encounters(statistics.inputs))
        ]
        self._matching, self._passing = cache(statistics.matching), cache(statistics.passing)
        self._part = cache(self._part_of)
        self.combinations = cache(self._combinations)
        self._timed = cache(self._timed_of)
        self.staying = cache(self._staying)
        self.kept = cache(self._kept)
        self.recording = cache(self._recording)
        self.extension = cache(self._extension)
        self.extension_time = cache(lambda *given: self.extension(*given).time)
        self.writing_time = cache(lambda members: self.writing(members).time)

    def rate(self, number: int) -> float:
        return self.statistics.inputs[number].rate

    def reach(self, number: int, other: int) -> float:
        """How long after a tuple of an input one of another may come that fits."""
        return max(self._bands[number, other][1], 0.0)

    def _combinations(self, members: Inputs, origin: int) -> float:
        """Of a tuple of one input with those of some others that it finds."""
        rates = prod(self.rate(each) for each in members if each != origin)
        return self._part(members) * rates * float(self._met[origin].spans(members).mean())

    def _staying(self, members: Inputs, others: tuple[Inputs, ...], origin: int) -> float:
        """The same for those that are kept, because something may still come to them: tuples of
        other parts, or combinations, which are as late as the latest of what they are made of."""
        found = self.combinations(members, origin)
        if not found:
            return 0.0
        met, asked = self._met[origin], [(*self._timed(members, part), part) for part in others]
        if any(met.always_stays(*each) for each in asked):
            return found
        spans = met.spans(members)
        stays: Mask = np.zeros(len(spans), np.bool_)
        for each in asked:
            stays |= met.stays(*each)
        return found * float(spans[stays].sum()) / float(spans.sum())

    def _timed_of(self, members: Inputs, part: Inputs) -> tuple[int, int]:
        """The inputs of two parts by whose times these are looked up."""

        def width(pair: tuple[int, int]) -> float:
            low, high = self._bands[pair]
            return high - low

        return min(product(sorted(members), sorted(part)), key=width)

    def _made(self, members: Inputs) -> float:
        """The combinations of some inputs that there are a tick."""
        return sum(self.rate(each) * self.combinations(members, each) for each in members)

    def _found_in(self, bound: Inputs, new: Inputs, origin: int) -> float:
        """What combinations find in a part that is looked up by the times of one input of either
        side: whether others fit is seen afterwards."""
        own, other = self._timed(bound, new)
        rates = prod(self.rate(each) for each in bound if each != origin)
        spans = float(self._met[origin].spans_with(bound, own, other).mean())
        equal = self._matching(bound | new) / self._matching(new)
        return equal * self._passing(bound) * rates * spans * self._made(new)

    def _part_of(self, members: Inputs) -> float:
        """The part of all combinations for which the conditions hold."""
        return self._matching(members) * self._passing(members)

    def _kept(self, members: Inputs, behind: float = 1.0) -> float:
        """How many tuples, or combinations of some inputs, are kept: those of the window, and of
        the time that the slowest of the others may be late, or is behind because it is read in
        large batches; or of a part of that time."""
        others = [each for each in range(self.size) if each not in members]
        given = self.statistics.inputs
        late = max((max(given[i].disorder, 2 * given[i].spread) for i in others), default=0.0)
        # a combination goes when the first of its tuples does
        reach = max((min(self._bands[n, i][1] for n in members) for i in others), default=0.0)
        return self._made(members) * (max(reach, 0.0) + behind * late + 1)

    def _recording(
        self, members: Inputs, others: tuple[Inputs, ...], origin: int, of_two: bool
    ) -> Work:
        """→(w), for a tuple of the origin: what it is in one operator with others.  Where it is one
        of two, all tuples are put in order, because they look for partners in it; in others only
        those that stay are."""
        stays = self.staying(members, others, origin)
        placed = self.combinations(members, origin) if of_two else stays
        # what is kept is put together with what comes, the more often the longer it stays; on
        # average, others are half as far behind as they may be
        at_a_time = max(1.0, self.statistics.inputs[origin].batch * stays)
        merged = stays * log2(1 + self.kept(members, 0.5) / at_a_time)
        return Work(recorded=stays, merged=merged, placed=placed)

    def _equalities(self, one: Inputs, other: Inputs) -> frozenset[int]:
        """Those by which two sets of inputs meet."""
        equal = enumerate(self.statistics.equalities)
        return frozenset(number for number, each in equal if each & one and each & other)

    def recording_one(
        self, members: Inputs, others: tuple[Inputs, ...], origin: int, of_two: bool
    ) -> Work:
        """The same for one of them."""
        found = self.recording(members, others, origin, of_two)
        return found * (1 / max(self.combinations(members, origin), 1e-12))

    def writing(self, members: Inputs) -> Work:
        """Making a row of a combination."""
        return Work(cells=sum(self.statistics.inputs[each].columns for each in members))

    def _extension(self, bound: Inputs, new: Inputs, origin: int, of_two: bool = False) -> Work:
        """⋈(w) for one tuple of the origin: all of its combinations with some inputs look for
        tuples, or combinations, of new ones.  In an operator `of_two`, those that come are in order
        already, because they are recorded; in others, those that ask are put in order for it."""
        asking = self.combinations(bound, origin)
        both = bound | new
        if of_two:
            found = self._found_in(bound, new, origin)
        else:
            tested = self._passing(both) / (self._passing(bound) * self._passing(new))
            found = self.combinations(both, origin) / tested
        looked = log2(2 + self.kept(new))
        calls = self.batches(bound, origin)
        asked = 0.0 if of_two else asking
        return Work(calls=calls, asked=asked, looked=asking * looked, found=found)

    def batches(self, bound: Inputs, origin: int) -> float:
        """Of combinations, for a tuple: those of one batch come together, but for very many."""
        batch = self.statistics.inputs[origin].batch
        further = 0.0 if len(bound) == 1 else self.combinations(bound, origin) / AT_ONCE
        return self.some_of(bound, origin) / batch + further

    def some_of(self, bound: Inputs, origin: int) -> float:
        """How often a batch of an input has any combination with some others: where it has none,
        nobody looks for more."""
        if len(bound) == 1:
            return 1.0
        return 1 - exp(-self.statistics.inputs[origin].batch * self.combinations(bound, origin))

    def indexes(
        self, part: Inputs, orders: Iterable[tuple[Inputs, ...]]
    ) -> frozenset[frozenset[int]]:
        """By which equalities a part is looked up, by others that come to it in these orders: each
        begins with the one that looks.  Its tuples are put into an index for every set of them."""
        found = set()
        for order in orders:
            before = frozenset[int]().union(*order[: order.index(part)])
            found.add(self._equalities(before, part))
        return frozenset(found)


def _band(join: Join, left: int, right: int) -> tuple[float, float]:
    """How far the time of one input may be from that of another; a tumbling window begins and ends
    anywhere."""
    window = between(join, min(left, right), max(left, right))
    match window:
        case SlidingJoin(band=band) | (BandJoin() as band):
            low, high = band.low, band.high
            return (low, high) if left < right else (-high, -low)
        case _:
            return -window.range / 2, window.range / 2
