"""EXCEPT ON: left tuples while they are in their window and no right tuple with the same keys is.

A positive item leaves when a tuple comes to be in that state, a negative one when it ceases to be.
What happens at a time is known when the right input has passed it: right tuples of that time would
count.  Left tuples do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.operators.batch import Batch
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.joins.differences.intervals import FreeTimes, Intervals, StayChanges, united
from penstock.operators.joins.differences.stays import Stays
from penstock.operators.joins.timed_inputs import TimedInputs, promised_on
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.signed.lineage import made_of
from penstock.operators.ticks import from_ticks
from penstock.physical.asked import Asked
from penstock.plan.nodes.difference import Difference
from penstock.state.chunks import ChunkStore, Within

LEFT, RIGHT = 0, 1
_MANY = 4096  # keys below which none is forgotten


class DifferenceOperator(Base):
    """With `in_order`, items leave in the order of their times, because somebody counts them."""

    def __init__(
        self, node: Difference, asked: Asked | None = None, in_order: bool = False
    ) -> None:
        self.schema = node.schema.arrow
        self._type = node.attributes[LEFT].type
        self._name = node.schema.fields[-1].qualified
        self._since = node.progress[0].field.qualified if node.progresses_twice else None
        self._inputs = TimedInputs(node.inputs, node.attributes, asked)
        self._keys = KeyCodes([left.type for left, _ in node.keys])
        self._places = [
            [pair[port].position(given.schema) for pair in node.keys]
            for port, given in enumerate(node.inputs)
        ]
        # what takes back a left tuple may come as long as the left input has not passed it
        self._waits_for_left = in_order or node.left.signed
        self._right_stays = node.ranges[RIGHT] is None and not node.right.signed
        left, right = node.ranges
        self._stay = left or 0
        self._sides = [Stays(node.left.schema.arrow, left), Stays(None, right)]
        self._done: Bound = BEGINNING  # below it, everything has been said about known tuples
        self._high: Bound = BEGINNING  # of what has been said
        self._look_again = _MANY
        self._promised = Progress()

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        given, ticks, late = self._inputs.split(port, batch)
        yield from late
        if given.num_rows == 0:
            return
        columns = [given.rows.column(place) for place in self._places[port]]
        self._sides[port].add(given, self._keys.encode(columns, given.num_rows), ticks)
        if port == LEFT and int(ticks.min()) < self._done:
            yield from self._release(self._done)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._inputs.pass_(port, progress)
        left, right = self._inputs.bounds
        bound = min(left, right) if self._waits_for_left else right
        if bound > self._done:
            yield from self._release(bound)
        self._forget(left)
        promised = self._promise(min(left, self._done))
        if promised != self._promised:
            self._promised = promised
            yield promised

    def _promise(self, bound: Bound) -> Progress:
        high = {} if self._high == BEGINNING else {self._name: self._high}
        if self._inputs.ended:
            return Progress({}, high, ended=True)
        bounds = promised_on(self._name, bound, self._type)
        if self._since is not None and bound not in (BEGINNING, END):
            bounds |= promised_on(self._since, int(bound) - self._stay - 1, self._type)
        return Progress(bounds, high)

    # --- items -----------------------------------------------------------------------------------

    def _release(self, bound: Bound) -> Iterator[Item]:
        """All that happens below a bound and has not been said."""
        left, right = self._sides
        new = left.settle(bound)
        right.settle(bound)
        last = INT64_MAX if bound == END else int(bound) - 1
        changing = self._changing(new, last)
        if changing.any():
            stays = _some(left.intervals, changing)
            free = FreeTimes(united(_of_keys(right.intervals, stays.codes, len(self._keys))))
            begins = np.where(new[changing], stays.since, self._begin)
            changes = free.changes(stays, begins, last)
            if len(changes.which):
                yield self._items(left.numbers[changing], changes)
        self._done = bound

    @property
    def _begin(self) -> int:
        """The first tick at which something is still to be said about known tuples."""
        if self._done in (BEGINNING, END):
            return INT64_MIN if self._done == BEGINNING else INT64_MAX
        return int(self._done)

    def _changing(self, new: Mask, last: int) -> Mask:
        """Left tuples that may come or go up to a tick, and since what was said: new ones, those
        whose window ends, and those with the keys of right tuples that come or go."""
        if self._done == END:  # all changes of known tuples have been emitted, the last tick's too
            return new
        codes, _, ends = self._sides[LEFT].intervals
        begin = self._begin
        right = self._sides[RIGHT].intervals
        come = (right.since >= begin) & (right.since <= last)
        go = (right.last < last) & ((right.last >= begin) | (right.last == begin - 1))
        touched = np.zeros(len(self._keys), np.bool_)
        touched[right.codes[come | go]] = True
        ending = (ends < last) & ((ends >= begin) | (ends == begin - 1))
        changing: Mask = new | ending | touched[codes]
        return changing

    def _items(self, numbers: Ints, changes: StayChanges) -> Batch:
        numbers = numbers[changes.which]
        order = np.lexsort((changes.signs, numbers, changes.ticks))
        numbers, ticks = numbers[order], changes.ticks[order]
        self._high = max(self._high, int(ticks[-1]))
        columns = [*self._sides[LEFT].columns(numbers), from_ticks(ticks, self._type)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Batch(rows, changes.signs[order].astype(np.int8), lineage=made_of(numbers, ticks))

    # --- what can go -----------------------------------------------------------------------------

    def _forget(self, left_bound: Bound) -> None:
        left, right = self._sides
        if self._done == END:  # nothing happens to them any more
            left.forget(np.ones(len(left.numbers), np.bool_))
        elif self._done != BEGINNING:
            done = int(self._done)
            # that they have gone has been said; and who is hidden for ever does not come back
            gone = left.last < done - 1
            if self._right_stays:
                gone |= self._earliest_right()[left.intervals.codes] < done
            left.forget(gone)
        if self._right_stays:
            # the earliest right tuple of a key hides as much as all of them
            codes, since, _ = right.intervals
            earliest = self._earliest_right()
            places = np.arange(len(codes))
            first = np.full(len(self._keys), len(codes))
            np.minimum.at(first, codes, np.where(since == earliest[codes], places, len(codes)))
            right.forget(first[codes] != places)
        # left tuples are not looked at before what has been said, nor come before their bound
        limit = min(self._done, left_bound)
        if limit == END or (left_bound == END and not left.waiting and not len(left.numbers)):
            right.forget(np.ones(len(right.numbers), np.bool_))
        elif limit != BEGINNING:
            right.forget(right.last < int(limit) - 1)
        self._forget_keys()

    def _earliest_right(self) -> Ints:
        """Since when the keys are hidden that are."""
        codes, since, _ = self._sides[RIGHT].intervals
        earliest = np.full(len(self._keys), INT64_MAX)
        np.minimum.at(earliest, codes, since)
        return earliest

    def _forget_keys(self) -> None:
        """Give up the numbers of keys that no tuple has, once they are the most."""
        size = len(self._keys)
        if size < self._look_again:
            return
        live = np.unique(np.concatenate([side.codes() for side in self._sides]))
        self._look_again = max(_MANY, 2 * len(live))
        if 2 * len(live) < size:
            places: Codes = np.zeros(size, np.int64)
            places[live] = np.arange(len(live))
            self._keys = self._keys.only(live)
            for side in self._sides:
                side.renumber(places)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return sum(map(len, self._sides))

    def open_results(self) -> OpenResults:
        """Left tuples of which it has not been said, or will be said again, whether they are there:
        those that stay for ever do not wait for anything."""
        left = self._sides[LEFT]
        return OpenResults(others=left.waiting + int(np.count_nonzero(left.last < INT64_MAX)))

    def save(self, store: ChunkStore) -> None:
        self._keys.save(store)
        for name, side in zip(("left/", "right/"), self._sides, strict=True):
            side.save(Within(store, name))
        registers = {"done": self._done, "said": self._high}
        store.put("run", {**self._inputs.save(None), **registers})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._keys.load(store)
        for name, side in zip(("left/", "right/"), self._sides, strict=True):
            side.load(Within(store, name))
        self._inputs.load(saved, None)
        self._done, self._high = saved["done"], saved["said"]
        self._promised = self._promise(min(self._inputs.bounds[LEFT], self._done))


def _some(given: Intervals, which: Mask) -> Intervals:
    return Intervals(*(column[which] for column in given))


def _of_keys(given: Intervals, codes: Codes, keys: int) -> Intervals:
    """Those that have one of some keys, of which there are so many in all."""
    wanted = np.zeros(keys, np.bool_)
    wanted[codes] = True
    return _some(given, wanted[given.codes])
