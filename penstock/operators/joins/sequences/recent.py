"""SEQUENCE … MODE RECENT: every second tuple with the latest first tuple at or before it, which may
serve others as well.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.joins.keyed_times import earlier
from penstock.operators.joins.sequences.equal_keys import NO_KEY
from penstock.operators.joins.sequences.fitting import nearest_fitting
from penstock.operators.joins.sequences.pool import InLine
from penstock.operators.joins.sequences.sequence_join import FIRST, NOBODY, SequenceJoin
from penstock.operators.joins.sequences.settled import Settled
from penstock.physical.asked import Asked
from penstock.plan.nodes.sequence import Sequence
from penstock.windows.columns import exceeds_by_at_most


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
