"""What the operations of a join take, for sets of inputs: everything follows from how many
combinations there are for a tuple of one input, which does not depend on the order in which they
are found.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import exp, log2

from penstock.optimizer.dataflow.join_statistics import JoinStatistics
from penstock.optimizer.dataflow.work import Work
from penstock.plan.joins import Join
from penstock.plan.pairwise_windows import between
from penstock.windows.joins import BandJoin, SlidingJoin

Inputs = frozenset[int]


class JoinCosts:
    def __init__(self, join: Join, statistics: JoinStatistics) -> None:
        self.statistics = statistics
        self.size = len(join.branches)
        self._bands = {
            (i, j): _band(join, i, j) for i in range(self.size) for j in range(self.size) if i != j
        }
        self._seen = {
            (i, j): self.visible(i, j) for i in range(self.size) for j in range(self.size) if i != j
        }
        self._part = cache(self._part_of)
        self.combinations = cache(self._combinations)
        self.kept = cache(self._kept)
        self.extension = cache(self._extension)
        self.extension_time = cache(lambda *given: self.extension(*given).time)

    def rate(self, number: int) -> float:
        return self.statistics.inputs[number].rate

    def visible(self, number: int, origin: int) -> float:
        """How many tuples of an input a tuple of another finds within its window: those that have
        come before it.  How far the input has come then, beside the tuple, is anywhere within what
        disorder and batches make of it."""
        low, high = self._bands[origin, number]
        one, other = self.statistics.inputs[number], self.statistics.inputs[origin]
        span = _overlap(
            high - low + 1, one.ahead - other.ahead - low + 1, one.spread + other.spread
        )
        return one.rate * span

    def _combinations(self, members: Inputs, origin: int) -> float:
        """Of a tuple of one input with those of some others that it finds."""
        found = self._part(members)
        for each in members:
            if each != origin:
                found *= self._seen[each, origin]
        return found

    def _part_of(self, members: Inputs) -> float:
        """The part of all combinations for which the conditions hold."""
        return self.statistics.matching(members) * self.statistics.passing(members)

    def _kept(self, members: Inputs) -> float:
        """How many tuples, or combinations of some inputs, are kept: those of the window, and of
        the time that the slowest of the others may be late, or is behind because it is read in
        large batches."""
        others = [each for each in range(self.size) if each not in members]
        given = self.statistics.inputs
        late = max((max(given[i].disorder, 2 * given[i].spread) for i in others), default=0.0)
        found = 0.0
        for origin in members:
            reach = max((self._bands[origin, each][1] for each in others), default=0.0)
            lasting = max(reach, 0.0) + late + 1
            found += self.rate(origin) * self.combinations(members, origin) * lasting
        return found

    def recording(self) -> Work:
        """→(w), for a tuple."""
        return Work(recorded=1)

    def writing(self, members: Inputs) -> Work:
        """Making a row of a combination."""
        return Work(cells=sum(self.statistics.inputs[each].columns for each in members))

    def _extension(self, bound: Inputs, new: Inputs, origin: int, of_two: bool = False) -> Work:
        """⋈(w) for one tuple of the origin: all of its combinations with some inputs look for
        tuples, or combinations, of new ones.  In an operator `of_two`, those that come are in order
        already, because they are recorded; in others, those that ask are put in order for it."""
        asking = self.combinations(bound, origin)
        both = bound | new
        tested = self.statistics.passing(both) / (
            self.statistics.passing(bound) * self.statistics.passing(new)
        )
        found = self.combinations(both, origin) / tested
        looked = log2(2 + self.kept(new))
        calls = self.some_of(bound, origin) / self.statistics.inputs[origin].batch
        asked = 0.0 if of_two else asking
        return Work(calls=calls, asked=asked, looked=asking * looked, found=found)

    def some_of(self, bound: Inputs, origin: int) -> float:
        """How often a batch of an input has any combination with some others: where it has none,
        nobody looks for more."""
        if len(bound) == 1:
            return 1.0
        return 1 - exp(-self.statistics.inputs[origin].batch * self.combinations(bound, origin))

    def indexes(self, part: Inputs, orders: Iterable[tuple[Inputs, ...]]) -> int:
        """By how many sets of keys a part is looked up, by others that come to it in these orders:
        each begins with the one that looks.  Its tuples are put into an index for every set."""
        found = set()
        for order in orders:
            before = frozenset[int]().union(*order[: order.index(part)])
            equal = enumerate(self.statistics.equalities)
            found.add(frozenset(n for n, each in equal if each & before and each & part))
        return max(1, len(found))


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


def _overlap(width: float, reached: float, spread: float) -> float:
    """How much of a window has been reached, on average, from so much before to so much behind a
    place in it.

    >>> _overlap(10, 4, 0), _overlap(10, 40, 3), _overlap(10, 5, 100)
    (4, 10.0, 5.0)
    """
    if spread <= 0:
        return min(max(reached, 0), width)

    def until(place: float) -> float:
        within = min(max(place, 0), width)
        return within * within / 2 + width * max(place - width, 0)

    return (until(reached + spread) - until(reached - spread)) / (2 * spread)
