"""The latest first tuple of every key up to some time: it hides all those before it."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.joins.sequence import (
    FIRST,
    NO_KEY,
    NOBODY,
    SECOND,
    InLine,
    SequenceJoin,
    nearest_fitting,
)
from penstock.kernel.joins.timed_inputs import earlier
from penstock.model.arrays import Codes, Ints, Mask, exceeds_by_at_most, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MIN
from penstock.plan.nodes.join import Sequence
from penstock.plan.physical import Asked

_NONE = -1


class Settled:
    """Numbers and ticks by key.  Where tuples become too old, `ages` has them in the order of their
    ticks, so that nobody has to look through all keys for them."""

    def __init__(self, ages: bool) -> None:
        self._numbers: Ints = np.zeros(0, np.int64)
        self._ticks: Ints = np.zeros(0, np.int64)
        self._ages = ages
        self._by_age: list[tuple[int, int, Codes, Ints, Ints]] = []  # a heap, by the lowest tick
        self._entries = 0

    def __len__(self) -> int:
        return int(np.count_nonzero(self._numbers != _NONE))

    def codes(self) -> Codes:
        return np.flatnonzero(self._numbers != _NONE)

    def of(self, codes: Codes) -> tuple[Ints, Ints]:
        """The numbers of the tuples that keys have, -1 for none, and their ticks."""
        self._grow(codes)
        return self._numbers[codes], self._ticks[codes]

    def put(self, codes: Codes, numbers: Ints, ticks: Ints) -> None:
        """Other tuples for some keys."""
        self._grow(codes)
        self._numbers[codes], self._ticks[codes] = numbers, ticks
        if self._ages and len(codes):
            self._enter(codes, numbers, ticks)

    def _enter(self, codes: Codes, numbers: Ints, ticks: Ints) -> None:
        self._entries += 1
        heappush(self._by_age, (int(ticks.min()), self._entries, codes, numbers, ticks))

    def expire(self, limit: int) -> Ints:
        """Forget the tuples below a tick; their numbers."""
        gone: list[Ints] = []
        while self._by_age and self._by_age[0][0] < limit:
            _, _, codes, numbers, ticks = heappop(self._by_age)
            current: Mask = self._numbers[codes] == numbers  # others have been hidden meanwhile
            old = current & (ticks < limit)
            gone.append(numbers[old])
            self._numbers[codes[old]] = _NONE
            rest = current & ~old
            if rest.any():
                self._enter(codes[rest], numbers[rest], ticks[rest])
        return np.concatenate(gone) if gone else np.zeros(0, np.int64)

    def clear(self) -> Ints:
        """Forget all; their numbers."""
        numbers: Ints = self._numbers[self.codes()]
        self._numbers, self._ticks, self._by_age = self._numbers[:0], self._ticks[:0], []
        return numbers

    def renumber(self, places: Codes) -> None:
        """Keys have got other numbers."""
        codes = self.codes()
        numbers, ticks = self._numbers[codes], self._ticks[codes]
        self._numbers, self._ticks = self._numbers[:0], self._ticks[:0]
        self._by_age = []
        self.put(places[codes], numbers, ticks)

    def _grow(self, codes: Codes) -> None:
        size = int(codes.max()) + 1 if len(codes) else 0
        if size > len(self._numbers):
            self._numbers = grown(self._numbers, size, _NONE)
            self._ticks = grown(self._ticks, size, INT64_MIN)


# SEQUENCE … MODE RECENT: every second tuple with the latest first tuple at or before it, which may
# serve others as well.


class Recent(SequenceJoin):
    def __init__(self, node: Sequence, asked: Asked | None = None, in_order: bool = False) -> None:
        super().__init__(node, asked, in_order)
        # a later tuple hides one before it, unless some condition may prefer that; and where rows
        # are counted, a tuple without a partner leaves no sooner for being hidden
        self._hides = not self.condition.is_left_to_pairs and not (in_order and self.keeps[FIRST])
        self._settled = Settled(ages=self.within is not None)

    def _decided(self) -> Bound:
        """Second tuples do not depend on each other, so only first ones have to be there, and have
        to be above it: on equal times the first comes first."""
        return min(self.bounds) if self.in_order else self.bounds[FIRST]

    # --- pairs -----------------------------------------------------------------------------------

    def _paired(self, due: Mask) -> tuple[Ints, Ints]:
        codes, ticks = self.second.codes[due], self.second.ticks[due]
        numbers = self.second.numbers[due]
        keys = len(self.condition.keys)
        line = self.first.in_line(self.first.of_keys(codes, int(ticks.max()), keys))
        ends = line.times.upto(codes, ticks)
        oldest = None if self.within is None else earlier(ticks, self.within)
        if self.condition.is_left_to_pairs:
            taken = self._fitting(line, line.times.since(codes, oldest), ends, numbers)
        else:
            taken = ends - 1
        partners = np.full(len(numbers), NOBODY)
        found = taken >= 0
        if len(line.codes):  # the one before may be of another key, or too old
            found &= line.codes[taken] == codes
            if oldest is not None:
                found &= line.ticks[taken] >= oldest
        partners[found] = line.numbers[taken[found]]
        if self._hides:
            alone = np.flatnonzero(~found & (codes != NO_KEY))
            partners[alone] = self._from_settled(codes[alone], ticks[alone])
        return numbers, partners

    def _fitting(self, line: InLine, begins: Ints, ends: Ints, numbers: Ints) -> Ints:
        """The last of the candidates, from `begins` to before `ends`, that fits each tuple."""

        def fits(which: Ints, places: Ints) -> Mask:
            pairs = self.first, line.numbers[places], self.second, numbers[which]
            return self.condition.holds(*pairs)

        return nearest_fitting(begins, ends, fits, backward=True, whole=self.condition.may_fail)

    def _from_settled(self, codes: Codes, ticks: Ints) -> Ints:
        """What is settled lies before all others of its key, so it is asked last."""
        partners, since = self._settled.of(codes)
        if self.within is None:
            return partners
        return np.where(exceeds_by_at_most(ticks, since, self.within), partners, NOBODY)

    def _used(self, partners: Ints) -> Ints:
        """A first tuple may be taken again."""
        return partners[:0]

    # --- what can go -----------------------------------------------------------------------------

    def _outdated(self) -> Ints:
        """For a second tuple that is not decided yet, the latest first tuple of its key up to its
        time hides all that are before it; and with WITHIN, those that are too old for all such do
        not count any more.  Where a condition chooses among the first tuples, only age helps."""
        gone = [self._hidden()] if self._hides else []
        limit = self._too_old()
        if limit == END:
            gone += [self.first.numbers, self._settled.clear()]
            self.first.remove(np.ones(len(self.first), np.bool_))
        elif limit != BEGINNING:
            gone += [self.first.remove_below(int(limit)), self._settled.expire(int(limit))]
        return np.concatenate(gone) if gone else np.zeros(0, np.int64)

    def _hidden(self) -> Ints:
        """Let the latest tuple of every key up to the time of what is not decided stand for all
        before it; these are the result.  Tuples that come may still be before one that stands."""
        upto = self._undecided()
        if self.first.lowest() > upto:
            return np.zeros(0, np.int64)
        which = self.first.upto(upto) & (self.first.codes != NO_KEY)
        line = self.first.in_line(which)
        last = np.append(line.codes[1:] != line.codes[:-1], True)[: len(line.codes)]
        beaten = self._challenge(line.codes[last], line.numbers[last], line.ticks[last])
        self.first.remove(which)
        return np.concatenate([line.numbers[~last], beaten])

    def _challenge(self, codes: Codes, numbers: Ints, ticks: Ints) -> Ints:
        """Who loses of those that stand and those that want to."""
        standing, since = self._settled.of(codes)
        wins = (standing < 0) | (ticks > since)
        tied = np.flatnonzero((standing >= 0) & (ticks == since))
        if len(tied):
            ranks = self.first.ranks(np.concatenate([standing[tied], numbers[tied]]))
            wins[tied] = ranks[len(tied) :] > ranks[: len(tied)]
        self._settled.put(codes[wins], numbers[wins], ticks[wins])
        beaten = np.where(wins, standing, numbers)
        return beaten[beaten >= 0]

    # --- state -----------------------------------------------------------------------------------

    def _codes(self) -> tuple[Codes, ...]:
        return (*super()._codes(), self._settled.codes())

    def _renumber(self, places: Codes) -> None:
        super()._renumber(places)
        self._settled.renumber(places)


# SEQUENCE … MODE CHRONICLE: every second tuple with the earliest unused first tuple at or before
# it; both are used up.


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
