"""SEQUENCE … MODE CHRONICLE: every second tuple with the earliest unused first tuple at or before
it; both are used up.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.joins.keyed_times import earlier
from penstock.operators.joins.sequences.fitting import nearest_fitting
from penstock.operators.joins.sequences.pool import InLine
from penstock.operators.joins.sequences.sequence_join import FIRST, NOBODY, SECOND, SequenceJoin


class Chronicle(SequenceJoin):
    def _decided(self) -> Bound:
        """A second tuple takes what those before it leave, so all of them have to be there, and all
        first tuples up to its time."""
        return min(self.bounds[FIRST], self.bounds[SECOND])

    def _paired(self, due: Mask) -> tuple[Ints, Ints]:
        asking = self.second.in_line(due)
        codes, ticks = asking.codes, asking.ticks
        keys = len(self.condition.keys)
        line = self.first.in_line(self.first.of_keys(codes, int(ticks.max()), keys))
        oldest = None if self.within is None else earlier(ticks, self.within)
        begins, ends = line.times.since(codes, oldest), line.times.upto(codes, ticks)
        if self.condition.is_left_to_pairs:
            taken = self._one_by_one(asking, line.numbers, begins, ends)
        else:
            taken = earliest_unused(codes, begins, ends)
        partners = np.full(len(codes), NOBODY)
        found = taken >= 0
        partners[found] = line.numbers[taken[found]]
        return asking.numbers, partners

    def _one_by_one(self, asking: InLine, firsts: Ints, begins: Ints, ends: Ints) -> Ints:
        """What is left to a second tuple depends on what those of its key before it have taken, so
        they choose one after the other; those of different keys do so together."""
        taken = np.full(len(begins), NOBODY)
        used = np.zeros(len(firsts), np.bool_)
        whole = self.condition.may_fail
        for turn in _turns(asking.codes):
            numbers = asking.numbers[turn]

            def fits(which: Ints, places: Ints, numbers: Ints = numbers) -> Mask:
                holds = ~used[places]
                free = np.flatnonzero(holds)
                pairs = firsts[places[free]], numbers[which[free]]
                holds[free] = self.condition.holds(self.first, pairs[0], self.second, pairs[1])
                return holds

            chosen = nearest_fitting(begins[turn], ends[turn], fits, whole=whole)
            taken[turn] = chosen
            used[chosen[chosen >= 0]] = True
        return taken

    def _used(self, partners: Ints) -> Ints:
        """A first tuple is used once, so it goes with its partner."""
        self.first.remove_numbers(partners)
        return partners

    def _outdated(self) -> Ints:
        """Without WITHIN, an unused first tuple may be asked for at any time.  With it, one that is
        too old for every second tuple that is not decided yet will not be."""
        limit = self._too_old()
        if limit == END:
            gone = self.first.numbers
            self.first.remove(np.ones(len(gone), np.bool_))
            return gone
        return self.first.remove_below(int(limit)) if limit != BEGINNING else self.first.numbers[:0]


def _turns(codes: Codes) -> list[Ints]:
    """All first ones of their key, then all second ones, and so on; keys lie together."""
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    sizes = np.diff(np.append(starts, len(codes)))
    within = np.arange(len(codes)) - np.repeat(starts, sizes)
    order = stable_order(within)
    return np.split(order, np.cumsum(np.bincount(within))[:-1])


def earliest_unused(codes: Codes, begins: Ints, ends: Ints) -> Ints:
    """Which candidate each tuple takes, or -1: the earliest between `begins` and before `ends` that
    none of its key before it has taken.  Tuples of a key lie together, and for them both rise.

    Let p be the place behind what a key has taken so far.  A tuple goes on from max(p, begin), and
    takes that candidate unless it has come to the end, so p becomes min(max(p, begin) + 1, end).
    Counted back by the number j of the tuple, y = p - j, it becomes min(max(y, begin + 1 - j),
    end - j): y is brought between two limits.  One such step after another is again such a step,
    between the limits of the first brought between those of the second.  So the steps of all keys
    are put together two by two, four by four, and so on, and never one by one.

    >>> earliest_unused(np.array([0, 0, 0]), np.array([0, 0, 2]), np.array([1, 1, 4])).tolist()
    [0, -1, 2]
    """
    size = len(codes)
    if size == 0:
        return np.zeros(0, np.int64)
    j = np.arange(size)
    high = ends - j
    low = np.minimum(begins + 1 - j, high)
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    of = np.repeat(starts, np.diff(np.append(starts, size)))  # where the key of each begins
    high[starts] = low[starts]  # the first of a key goes on from its own candidates
    reach, longest = 1, int((j - of).max())
    while reach <= longest:
        later = np.flatnonzero(j - of >= reach)
        lows, highs = low[later], high[later]
        low[later] = np.minimum(np.maximum(low[later - reach], lows), highs)
        high[later] = np.minimum(np.maximum(high[later - reach], lows), highs)
        reach *= 2
    behind = np.empty(size, np.int64)
    behind[1:] = low[:-1] + j[:-1]
    behind[starts] = begins[starts]
    taken = np.maximum(behind, begins)
    return np.where(taken < ends, taken, -1)
