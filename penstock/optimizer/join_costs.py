"""Costs of joins: the table of the costs of their steps, the encounters of tuples with the windows
of other inputs, and the costs of the operations on sets of inputs.

`python -m benchmarks.join_constants` measures such numbers on plans of random joins; measurements
of single kernels have completed them. The choice of the steps also considered the five queries of
`benchmarks/join_orders.py`. The numbers are of one machine; on another they differ by a factor
that most steps share, so the order of plans stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import exp, log2, prod

import numpy as np

from penstock.kernel.joins.join_side import AT_ONCE
from penstock.model.arrays import Floats, Mask
from penstock.optimizer.join_statistics import Encounters, JoinStatistics, encounters, evenly
from penstock.plan.join_properties import between
from penstock.plan.join_windows import BandJoin, SlidingJoin
from penstock.plan.nodes.join import Join


@dataclass(frozen=True, slots=True)
class Work:
    """Counts of the steps of a join.

    >>> (Work(found=2) + Work(cells=3)) * 2 == Work(found=4, cells=6)
    True
    """

    batches: float = 0.0
    calls: float = 0.0
    recorded: float = 0.0
    merged: float = 0.0
    placed: float = 0.0
    hashed: float = 0.0
    asked: float = 0.0
    looked: float = 0.0
    found: float = 0.0
    cells: float = 0.0
    waited: float = 0.0
    releases: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.batches + other.batches,
            self.calls + other.calls,
            self.recorded + other.recorded,
            self.merged + other.merged,
            self.placed + other.placed,
            self.hashed + other.hashed,
            self.asked + other.asked,
            self.looked + other.looked,
            self.found + other.found,
            self.cells + other.cells,
            self.waited + other.waited,
            self.releases + other.releases,
        )

    def __mul__(self, times: float) -> Work:
        return Work(
            self.batches * times,
            self.calls * times,
            self.recorded * times,
            self.merged * times,
            self.placed * times,
            self.hashed * times,
            self.asked * times,
            self.looked * times,
            self.found * times,
            self.cells * times,
            self.waited * times,
            self.releases * times,
        )

    @property
    def time(self) -> float:
        """Time in nanoseconds."""
        return (
            BATCH * self.batches
            + CALL * self.calls
            + RECORD * self.recorded
            + MERGE * self.merged
            + PLACE * self.placed
            + HASH * self.hashed
            + ASK * self.asked
            + LOOK * self.looked
            + FIND * self.found
            + CELL * self.cells
            + WAIT * self.waited
            + RELEASE * self.releases
        )


BATCH = 245000.0
CALL = 210000.0
RECORD = 40.0
MERGE = 25.0
PLACE = 25.0
HASH = 30.0
ASK = 27.0
LOOK = 2.0
FIND = 8.0
CELL = 2.1
WAIT = 10.0
RELEASE = 50000.0


# The parts of the windows of other inputs that tuples of one input find when they arrive.

_OTHERS = 17  # first of the number sequences (see `evenly`) that the encounters do not use

_REMEMBERED = 4096  # tuples of an input up to which results are cached


class EncounterStats:
    """Encounters of the tuples of one input with the windows of the others.

    `bands` is the band between the times of two inputs. For every sampled tuple, one time of each
    other input stands for all that it may have.
    """

    def __init__(
        self, origin: int, seen: Encounters, bands: Mapping[tuple[int, int], tuple[float, float]]
    ) -> None:
        self._origin = origin
        self._seen = seen
        self._bands = bands
        self._span = cache(self._span_of)
        self._fit = cache(self._fit_of)
        # for very many batches, a cache would take too much memory
        few = len(seen.times) <= _REMEMBERED
        self.spans = cache(self._spans_of) if few else self._spans_of
        self.stays = cache(self._stays_of) if few else self._stays_of
        self.always_stays = cache(lambda *given: bool(self.stays(*given).all()))

    def _spans_of(self, members: frozenset[int]) -> Floats:
        """Ticks of some other inputs within the windows of each tuple, multiplied; 0 where they do
        not fit each other.
        """
        others = sorted(members - {self._origin})
        found: Floats = np.ones(len(self._seen.times))
        for place, each in enumerate(others):
            found = found * self._span(each)[0]
            for before in others[:place]:
                found = found * self._fit(before, each)
        return found

    def spans_with(self, members: frozenset[int], own: int, other: int) -> Floats:
        """`spans` with one more input, which is searched by the time of one of them alone."""
        return self.spans(members) * self._within(self._time(own), own, other)[0]

    def _stays_of(self, each: int, other: int, part: frozenset[int]) -> Mask:
        """Whether a later tuple of another input may fit a kept one. It comes as a part of
        combinations of some inputs, so its time may be as far below the bound of any of them as
        they may be apart.
        """
        promised = np.minimum.reduce(
            [
                self._seen.promised[of] - (0.0 if of == other else self._bands[other, of][1])
                for of in part
            ]
        )
        found: Mask = self._time(each) + self._bands[each, other][1] >= promised
        return found

    def _time(self, number: int) -> Floats:
        return self._seen.times if number == self._origin else self._span(number)[1]

    def _span_of(self, number: int) -> tuple[Floats, Floats]:
        return self._within(self._seen.times, self._origin, number)

    def _within(self, times: Floats, own: int, number: int) -> tuple[Floats, Floats]:
        """Number of ticks of an input that have come within a window, and one of them."""
        low, high = self._bands[own, number]
        begins = np.maximum(times + low, self._seen.begins[number])
        ends = np.minimum(times + high, self._seen.reached[number])
        found = np.maximum(ends - begins + 1, 0.0)
        return found, begins + found * evenly(_OTHERS + number, len(times))

    def _fit_of(self, one: int, other: int) -> Floats:
        """Whether the sampled times of two other inputs fit."""
        low, high = self._bands[one, other]
        apart = self._time(other) - self._time(one)
        found: Floats = ((apart >= low - 0.5) & (apart <= high + 0.5)).astype(np.float64)
        return found


# The costs of the operations of a join, for sets of inputs: everything follows from the number of
# combinations for a tuple of one input, which does not depend on the order in which they are found.

Inputs = frozenset[int]


class JoinCosts:
    """Costs of the operations of a join by its statistics, for sets of inputs."""

    def __init__(self, join: Join, statistics: JoinStatistics) -> None:
        self.statistics = statistics
        self.size = len(join.branches)
        self._bands = {
            (i, j): _band(join, i, j) for i in range(self.size) for j in range(self.size) if i != j
        }
        self._encounters = [
            EncounterStats(number, found, self._bands)
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
        """Ticks after a tuple of one input during which one of another may come that fits."""
        return max(self._bands[number, other][1], 0.0)

    def _combinations(self, members: Inputs, origin: int) -> float:
        """Number of combinations of a tuple of one input with those of some others that it
        finds.
        """
        rates = prod(self.rate(each) for each in members if each != origin)
        return self._part(members) * rates * float(self._encounters[origin].spans(members).mean())

    def _staying(self, members: Inputs, others: tuple[Inputs, ...], origin: int) -> float:
        """Number of those combinations that are kept, because later partners may come: tuples of
        other parts, or combinations, which are as late as the latest of their tuples.
        """
        found = self.combinations(members, origin)
        if not found:
            return 0.0
        met, asked = (
            self._encounters[origin],
            [(*self._timed(members, part), part) for part in others],
        )
        if any(met.always_stays(*each) for each in asked):
            return found
        spans = met.spans(members)
        stays: Mask = np.zeros(len(spans), np.bool_)
        for each in asked:
            stays |= met.stays(*each)
        return found * float(spans[stays].sum()) / float(spans.sum())

    def _timed_of(self, members: Inputs, part: Inputs) -> tuple[int, int]:
        """The inputs of two parts by whose times these are searched."""

        def width(pair: tuple[int, int]) -> float:
            low, high = self._bands[pair]
            return high - low

        return min(product(sorted(members), sorted(part)), key=width)

    def _made(self, members: Inputs) -> float:
        """Number of combinations of some inputs a tick."""
        return sum(self.rate(each) * self.combinations(members, each) for each in members)

    def _found_in(self, bound: Inputs, new: Inputs, origin: int) -> float:
        """Number of partners found in a part that is searched by the times of one input of either
        side; whether others fit is tested afterwards.
        """
        own, other = self._timed(bound, new)
        rates = prod(self.rate(each) for each in bound if each != origin)
        spans = float(self._encounters[origin].spans_with(bound, own, other).mean())
        equal = self._matching(bound | new) / self._matching(new)
        return equal * self._passing(bound) * rates * spans * self._made(new)

    def _part_of(self, members: Inputs) -> float:
        """Share of all combinations for which the conditions hold."""
        return self._matching(members) * self._passing(members)

    def _kept(self, members: Inputs, behind: float = 1.0) -> float:
        """Number of tuples, or combinations of some inputs, that are kept: those of the window,
        and of the time that the slowest of the others may be late, or behind because it is read in
        large batches; or of a part of that time.
        """
        others = [each for each in range(self.size) if each not in members]
        given = self.statistics.inputs
        late = max((max(given[i].disorder, 2 * given[i].spread) for i in others), default=0.0)
        # a combination goes when the first of its tuples does
        reach = max((min(self._bands[n, i][1] for n in members) for i in others), default=0.0)
        return self._made(members) * (max(reach, 0.0) + behind * late + 1)

    def _recording(
        self, members: Inputs, others: tuple[Inputs, ...], origin: int, of_two: bool
    ) -> Work:
        """Recorder →(w), for a tuple of the origin: its combinations in one operator with others.
        In an operator of two inputs, all tuples are sorted, because they search in sorted order;
        in others, only those that stay are.
        """
        stays = self.staying(members, others, origin)
        placed = self.combinations(members, origin) if of_two else stays
        # kept tuples are merged with new ones, the more often the longer they stay; on average,
        # others are half as far behind as they may be
        at_a_time = max(1.0, self.statistics.inputs[origin].batch * stays)
        merged = stays * log2(1 + self.kept(members, 0.5) / at_a_time)
        return Work(recorded=stays, merged=merged, placed=placed)

    def _equalities(self, one: Inputs, other: Inputs) -> frozenset[int]:
        """Equalities between two sets of inputs."""
        equal = enumerate(self.statistics.equalities)
        return frozenset(number for number, each in equal if each & one and each & other)

    def recording_one(
        self, members: Inputs, others: tuple[Inputs, ...], origin: int, of_two: bool
    ) -> Work:
        """`recording` for one combination."""
        found = self.recording(members, others, origin, of_two)
        return found * (1 / max(self.combinations(members, origin), 1e-12))

    def writing(self, members: Inputs) -> Work:
        """Cost of writing the row of a combination."""
        return Work(cells=sum(self.statistics.inputs[each].columns for each in members))

    def _extension(self, bound: Inputs, new: Inputs, origin: int, of_two: bool = False) -> Work:
        """Join ⋈(w) for one tuple of the origin: all of its combinations with some inputs search
        for tuples, or combinations, of new ones. In an operator `of_two`, arriving tuples are
        sorted already, because they are recorded; in others, they are sorted for the search.
        """
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
        """Number of batches of combinations for a tuple: those of one batch come together, except
        for very many.
        """
        batch = self.statistics.inputs[origin].batch
        further = 0.0 if len(bound) == 1 else self.combinations(bound, origin) / AT_ONCE
        return self.some_of(bound, origin) / batch + further

    def some_of(self, bound: Inputs, origin: int) -> float:
        """Probability that a batch of an input has any combination with some others: without one,
        no further search is made.
        """
        if len(bound) == 1:
            return 1.0
        return 1 - exp(-self.statistics.inputs[origin].batch * self.combinations(bound, origin))

    def indexes(
        self, part: Inputs, orders: Iterable[tuple[Inputs, ...]]
    ) -> frozenset[frozenset[int]]:
        """Sets of equalities by which a part is searched, for these orders of probes, each of
        which begins with the part that searches. The part has an index for every such set.
        """
        found = set()
        for order in orders:
            before = frozenset[int]().union(*order[: order.index(part)])
            found.add(self._equalities(before, part))
        return frozenset(found)


def _band(join: Join, left: int, right: int) -> tuple[float, float]:
    """Band between the times of two inputs; a tumbling window may begin and end anywhere."""
    window = between(join, min(left, right), max(left, right))
    match window:
        case SlidingJoin(band=band) | (BandJoin() as band):
            low, high = band.low, band.high
            return (low, high) if left < right else (-high, -low)
        case _:
            return -window.range / 2, window.range / 2
