"""The two modes of a sequence join: RECENT, with the latest first tuples by key, and CHRONICLE,
with the assignment of unused ones.
"""

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
    """The latest first tuple of every key up to some time; it hides all those before it.

    Numbers and ticks are arrays by key. If tuples can become too old, `ages` orders them by tick,
    so that expiry need not search all keys.
    """

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
        """Numbers of the tuples of keys, -1 for none, and their ticks."""
        self._grow(codes)
        return self._numbers[codes], self._ticks[codes]

    def put(self, codes: Codes, numbers: Ints, ticks: Ints) -> None:
        """Replace the tuples of some keys."""
        self._grow(codes)
        self._numbers[codes], self._ticks[codes] = numbers, ticks
        if self._ages and len(codes):
            self._enter(codes, numbers, ticks)

    def _enter(self, codes: Codes, numbers: Ints, ticks: Ints) -> None:
        self._entries += 1
        heappush(self._by_age, (int(ticks.min()), self._entries, codes, numbers, ticks))

    def expire(self, limit: int) -> Ints:
        """Expire the tuples below a tick; return their numbers."""
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
        """Evict all tuples; return their numbers."""
        numbers: Ints = self._numbers[self.codes()]
        self._numbers, self._ticks, self._by_age = self._numbers[:0], self._ticks[:0], []
        return numbers

    def renumber(self, places: Codes) -> None:
        """Replace the key codes by new ones."""
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
# be the partner of others as well.


class Recent(SequenceJoin):
    """SEQUENCE … MODE RECENT: pairs every second tuple with the latest first tuple at or before
    it.
    """

    def __init__(self, node: Sequence, asked: Asked | None = None, in_order: bool = False) -> None:
        super().__init__(node, asked, in_order)
        # a later tuple hides one before it, unless some condition may prefer that; and where rows
        # are counted, a tuple without a partner leaves no sooner for being hidden
        self._hides = not self.condition.is_left_to_pairs and not (in_order and self.keeps[FIRST])
        self._settled = Settled(ages=self.within is not None)

    def _decided(self) -> Bound:
        """Bound of the first input: second tuples do not depend on each other, so it is enough
        that all first tuples up to their time have arrived. The bound has to be above it, because
        on equal times the first tuple comes first.
        """
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
        """Find the last candidate that fits each tuple, from `begins` to before `ends`."""

        def fits(which: Ints, places: Ints) -> Mask:
            pairs = self.first, line.numbers[places], self.second, numbers[which]
            return self.condition.holds(*pairs)

        return nearest_fitting(begins, ends, fits, backward=True, whole=self.condition.may_fail)

    def _from_settled(self, codes: Codes, ticks: Ints) -> Ints:
        """Partners among the settled tuples. These lie before all others of their key, so they are
        tried last.
        """
        partners, since = self._settled.of(codes)
        if self.within is None:
            return partners
        return np.where(exceeds_by_at_most(ticks, since, self.within), partners, NOBODY)

    def _used(self, partners: Ints) -> Ints:
        """None: a first tuple may be the partner of several."""
        return partners[:0]

    # --- what can go -----------------------------------------------------------------------------

    def _outdated(self) -> Ints:
        """Remove first tuples that are hidden or too old.

        For a second tuple that is not decided yet, the latest first tuple of its key up to its
        time hides all before it; and with WITHIN, those that are too old for all such second
        tuples no longer count. Where a residual condition chooses among the first tuples, only age
        helps.
        """
        gone = [self._hidden()] if self._hides else []
        limit = self._too_old()
        if limit == END:
            gone += [self.first.numbers, self._settled.clear()]
            self.first.remove(np.ones(len(self.first), np.bool_))
        elif limit != BEGINNING:
            gone += [self.first.remove_below(int(limit)), self._settled.expire(int(limit))]
        return np.concatenate(gone) if gone else np.zeros(0, np.int64)

    def _hidden(self) -> Ints:
        """Settle the latest tuple of every key up to the undecided time, in place of all before
        it; return the numbers of those. Later arrivals may still be before a settled tuple.
        """
        upto = self._undecided()
        if self.first.lowest() > upto:
            return np.zeros(0, np.int64)
        which = self.first.upto(upto) & (self.first.codes != NO_KEY)
        line = self.first.in_line(which)
        last = np.append(line.codes[1:] != line.codes[:-1], True)[: len(line.codes)]
        beaten = self._settle_latest(line.codes[last], line.numbers[last], line.ticks[last])
        self.first.remove(which)
        return np.concatenate([line.numbers[~last], beaten])

    def _settle_latest(self, codes: Codes, numbers: Ints, ticks: Ints) -> Ints:
        """Settle candidates that are later than the settled tuples of their keys; return the
        numbers of those that lose.
        """
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
# it; both are consumed.


class Chronicle(SequenceJoin):
    """SEQUENCE … MODE CHRONICLE: pairs every second tuple with the earliest unused first tuple at
    or before it.
    """

    def _decided(self) -> Bound:
        """Bound of both inputs: a second tuple takes what those before it leave, so all of them,
        and all first tuples up to its time, have to have arrived.
        """
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
        """Find partners under a residual condition. The tuples of one key choose one after the
        other, because each depends on the choices before it; those of different keys choose
        together.
        """
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
        """Remove first tuples with their partners: each is used once."""
        self.first.remove_numbers(partners)
        return partners

    def _outdated(self) -> Ints:
        """Remove first tuples that are too old for every undecided second tuple. Without WITHIN,
        an unused one may be asked for at any time.
        """
        limit = self._too_old()
        if limit == END:
            gone = self.first.numbers
            self.first.remove(np.ones(len(gone), np.bool_))
            return gone
        return self.first.remove_below(int(limit)) if limit != BEGINNING else self.first.numbers[:0]


def _turns(codes: Codes) -> list[Ints]:
    """Group tuples by rank within their key: all first ones, then all second ones, and so on; the
    tuples of a key lie together.
    """
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    sizes = np.diff(np.append(starts, len(codes)))
    within = np.arange(len(codes)) - np.repeat(starts, sizes)
    order = stable_order(within)
    return np.split(order, np.cumsum(np.bincount(within))[:-1])


def earliest_unused(codes: Codes, begins: Ints, ends: Ints) -> Ints:
    """Choose the earliest unused candidate for each tuple, or -1: between `begins` and before
    `ends`, and not taken by a tuple of its key before it. Tuples of a key lie together, and both
    bounds rise among them.

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
