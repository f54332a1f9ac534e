"""EXCEPT ON: left tuples while they are in their window and no right tuple with equal keys is.

From the parts to the operator: unions of intervals by key and the times at which other intervals
leave or enter them; the stays of the tuples of one input in its window; `DifferenceOperator`.
Intervals include both ends, so that the last tick of all can belong to one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch, Signs
from penstock.kernel.bounds import from_ticks
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.joins.timed_inputs import KeptTuples, KeyedTimes, TimedInputs, promised_on
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once
from penstock.kernel.retractions.lineage import (
    NOTHING,
    happening_order,
    lineage_of,
    made_of,
    numbers_of,
    segments,
    signs_of,
    stacked,
    taken_back,
)
from penstock.kernel.state import ChunkStore, Tree, Within, required
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.plan.nodes.join import Difference
from penstock.plan.physical import Asked


class Intervals(NamedTuple):
    """Intervals as columns: code of the key, first tick and last tick, both included."""

    codes: Codes
    since: Ints
    last: Ints


def united(given: Intervals) -> Intervals:
    """The union by key, in order; no two of them touch.

    >>> codes, since, last = np.array([1, 1, 0, 1]), np.array([4, 9, 0, 1]), np.array([6, 9, 2, 3])
    >>> [column.tolist() for column in united(Intervals(codes, since, last))]
    [[0, 1, 1], [0, 1, 9], [2, 6, 9]]
    """
    if len(given.codes) == 0:
        return given
    order = KeyedTimes(given.codes, given.since, None).order
    codes, since, last = (column[order] for column in given)
    same = codes[1:] == codes[:-1]
    reached = _running_highest(codes, last)[:-1]
    begins = np.append(True, ~same | ((since[1:] > reached) & (since[1:] - 1 != reached)))
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(codes)) - 1
    return Intervals(codes[starts], since[starts], _running_highest(codes, last)[ends])


def _running_highest(codes: Codes, values: Ints) -> Ints:
    """The highest value so far of each key; keys lie together."""
    if (values[1:] >= values[:-1])[codes[1:] == codes[:-1]].all():
        return values
    known, ranks = np.unique(values, return_inverse=True)
    key = np.cumsum(np.append(False, codes[1:] != codes[:-1])) * len(known)
    highest: Ints = known[np.maximum.accumulate(ranks + key) - key]
    return highest


class StayChanges(NamedTuple):
    """Changes of stays: index of the stay, tick, and +1 where it becomes free or -1 where it
    ceases to be.
    """

    which: Ints
    ticks: Ints
    signs: Ints


class FreeTimes:
    """When stays are free of the union of others, as changes from tick to tick."""

    def __init__(self, union: Intervals) -> None:
        self._union = union
        self._since = KeyedTimes(union.codes, union.since, None)
        self._last = KeyedTimes(union.codes, union.last, None)

    def changes(self, stays: Intervals, from_: Ints, upto: int) -> StayChanges:
        """All changes of each stay from some tick on, not before its own, up to a last one.

        >>> one = [np.array([column]) for column in (0, 0, 9)]
        >>> others = [np.array(column) for column in ([0, 0], [2, 6], [4, 20])]
        >>> found = FreeTimes(Intervals(*others)).changes(Intervals(*one), np.array([0]), 100)
        >>> list(zip(found.ticks.tolist(), found.signs.tolist()))
        [(0, 1), (5, 1), (2, -1), (6, -1)]
        """
        codes, since, last = stays
        later = from_ > since  # it has been there before
        most = np.minimum(last, upto)
        entering = np.flatnonzero(~later & (since <= upto) & ~self.covers(codes, since))
        still = (last >= from_) | (last == from_ - 1)
        leaving = np.flatnonzero(still & (last < upto) & ~self.covers(codes, last))
        # what covers it ends within it: it is free from the next tick on
        ended = self._last.since(codes, np.where(later, from_ - 1, since))
        freed = _spread(ended, self._last.since(codes, most))
        # something begins that covers it
        begun = self._since.upto(codes, np.where(later, from_ - 1, since))
        hidden = _spread(begun, self._since.upto(codes, most))
        ticks = [
            since[entering],
            self._union.last[freed[1]] + 1,
            self._union.since[hidden[1]],
            last[leaving] + 1,
        ]
        which = [entering, freed[0], hidden[0], leaving]
        signs = [1, 1, -1, -1]
        return StayChanges(
            np.concatenate(which),
            np.concatenate(ticks),
            np.repeat(np.array(signs), [len(each) for each in which]),
        )

    def covers(self, codes: Codes, ticks: Ints) -> Mask:
        """Whether the union holds a tick of a key."""
        if len(self._union.codes) == 0:
            return np.zeros(len(codes), np.bool_)
        place = self._last.since(codes, ticks)  # the first that ends at or after it
        known = np.minimum(place, len(self._union.codes) - 1)
        found: Mask = (self._union.codes[known] == codes) & (self._union.since[known] <= ticks)
        return found & (place < len(self._union.codes))


def _spread(begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Every number from begin to before end, and which pair it is of."""
    counts = np.maximum(ends - begins, 0)
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) + (begins - np.cumsum(counts) + counts)[which]


# Tuples of one input of a difference: the interval during which each is in its window.
#
# Tuples wait until everything up to their time is known.  On a signed input, a negative item then
# ends the stay of the tuple that it retracts.


class Stays:
    """Stays of the tuples of one input in its window.

    `length` is the length of the window; None: unbounded. Rows are kept by the numbers of their
    tuples; for an input without a `schema`, none are kept.
    """

    def __init__(self, schema: pa.Schema | None, length: int | None) -> None:
        self._rows = KeptTuples(schema) if schema is not None else None
        self._came = 0
        self._length = length
        self._waiting = _Items.none()
        self._there = _Items.none()  # positive items that have not been taken back
        self.last: Ints = np.zeros(0, np.int64)  # the last tick of each in its window

    @property
    def numbers(self) -> Ints:
        return self._there.numbers

    @property
    def intervals(self) -> Intervals:
        return Intervals(self._there.codes, self._there.ticks, self.last)

    @property
    def waiting(self) -> int:
        return len(self._waiting.numbers)

    def __len__(self) -> int:
        return self.waiting + len(self.numbers)

    def columns(self, numbers: Ints) -> list[pa.Array]:
        assert self._rows is not None
        return self._rows.columns(numbers)

    def codes(self) -> Codes:
        """Key codes of all tuples, waiting and present."""
        return np.concatenate([self._waiting.codes, self._there.codes])

    def add(self, batch: Batch, codes: Codes, ticks: Ints) -> None:
        numbers = np.arange(self._came, self._came + batch.num_rows)
        self._came += batch.num_rows
        if self._rows is not None:
            self._rows.add(batch.rows)  # under the same numbers
        items = _Items(numbers, codes, ticks, signs_of(batch), lineage_of(batch))
        self._waiting = _Items.joined(self._waiting, items)

    def settle(self, bound: Bound) -> Mask:
        """Fold in all items below a bound; return which stays are new."""
        known = len(self.numbers)
        due = self._waiting.ticks < bound
        if not due.any():
            return np.zeros(known, np.bool_)
        came, self._waiting = self._waiting.take(due), self._waiting.take(~due)
        came = came.take(happening_order(came.ticks, came.signs, came.lineage))
        there = _Items.joined(self._there, came)
        last = np.concatenate([self.last, self._expiry(came.ticks)])
        if (came.signs < 0).any():
            self._end(there, last)
        gone = (there.signs < 0) | (last < there.ticks)
        if self._rows is not None:
            self._rows.forget(there.numbers[gone])
        self._there, self.last = there.take(~gone), last[~gone]
        new = np.arange(len(there.numbers)) >= known
        return new[~gone]

    def _expiry(self, ticks: Ints) -> Ints:
        """Last tick of each tuple in the window. Scans leave out tuples whose windows would exceed
        64 bits.
        """
        return np.full(len(ticks), INT64_MAX) if self._length is None else ticks + self._length

    @staticmethod
    def _end(items: _Items, last: Ints) -> None:
        """End the stay of each retracted item one tick before the item that retracts it."""
        partners = np.full(len(items.numbers), NOTHING)
        known = np.flatnonzero(items.lineage[:, 0] >= 0)
        kinds = segments(list(numbers_of(items.lineage[known]).T))
        found = taken_back(kinds, items.signs[known])
        partners[known] = np.where(found == NOTHING, NOTHING, known[found])
        ends = np.flatnonzero(partners != NOTHING)
        last[partners[ends]] = np.minimum(last[partners[ends]], items.ticks[ends] - 1)
        items.lineage[partners[ends], 0] = NOTHING  # they are not taken back again

    def forget(self, which: Mask) -> None:
        if which.any():
            if self._rows is not None:
                self._rows.forget(self.numbers[which])
            self._there, self.last = self._there.take(~which), self.last[~which]

    def renumber(self, places: Codes) -> None:
        """Replace the key codes by new ones."""
        for items in (self._waiting, self._there):
            items.codes[:] = places[items.codes]

    def save(self, store: ChunkStore) -> None:
        if self._rows is not None:
            self._rows.save(store)
        items = {"waiting": self._waiting.save(), "there": self._there.save()}
        store.put("stays", {**items, "last": self.last, "came": self._came})

    def load(self, store: ChunkStore) -> None:
        if self._rows is not None:
            self._rows.load(store)
        saved = required(store, "stays")
        self._waiting, self._there = _Items(*saved["waiting"]), _Items(*saved["there"])
        self.last, self._came = saved["last"], saved["came"]


class _Items:
    """Columns of items."""

    __slots__ = ("codes", "lineage", "numbers", "signs", "ticks")

    def __init__(
        self, numbers: Ints, codes: Codes, ticks: Ints, signs: Signs, lineage: Ints
    ) -> None:
        self.numbers, self.codes, self.ticks = numbers, codes, ticks
        self.signs, self.lineage = signs, lineage

    @staticmethod
    def none() -> _Items:
        numbers = np.zeros(0, np.int64)
        return _Items(numbers, numbers, numbers, np.zeros(0, np.int8), np.zeros((0, 1), np.int64))

    @staticmethod
    def joined(one: _Items, other: _Items) -> _Items:
        return _Items(
            np.concatenate([one.numbers, other.numbers]),
            np.concatenate([one.codes, other.codes]),
            np.concatenate([one.ticks, other.ticks]),
            np.concatenate([one.signs, other.signs]),
            stacked([one.lineage, other.lineage]),
        )

    def take(self, which: Ints | Mask) -> _Items:
        return _Items(
            self.numbers[which],
            self.codes[which],
            self.ticks[which],
            self.signs[which],
            self.lineage[which],
        )

    def save(self) -> Tree:
        return [self.numbers, self.codes, self.ticks, self.signs, self.lineage]


# EXCEPT ON: left tuples while they are in their window and no right tuple with the same keys is.
#
# A positive item leaves when a tuple comes to be in that state, a negative one when it ceases to
# be. Changes at a time are final when the bound of the right input has passed it: right tuples of
# that time would count.  Left tuples do not depend on each other.

LEFT, RIGHT = 0, 1
_MANY = 4096  # keys below which none is forgotten


class DifferenceOperator(Base):
    """EXCEPT ON as an operator over two inputs.

    With `in_order`, items are emitted in the order of their times, because a consumer counts them.
    """

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
        """Emit all changes below a bound that have not been emitted yet."""
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
        """First tick at which changes of known tuples are still to be emitted."""
        if self._done in (BEGINNING, END):
            return INT64_MIN if self._done == BEGINNING else INT64_MAX
        return int(self._done)

    def _changing(self, new: Mask, last: int) -> Mask:
        """Select the left tuples that may change up to a tick since the last emission: new ones,
        those whose window ends, and those whose key has right tuples that come or go.
        """
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
            # their retraction has been emitted; and a tuple that is hidden for ever does not come
            # back
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
        # left tuples neither change before `_done` nor arrive below their bound
        limit = min(self._done, left_bound)
        if limit == END or (left_bound == END and not left.waiting and not len(left.numbers)):
            right.forget(np.ones(len(right.numbers), np.bool_))
        elif limit != BEGINNING:
            right.forget(right.last < int(limit) - 1)
        self._forget_keys()

    def _earliest_right(self) -> Ints:
        """Earliest tick from which each key is hidden by a right tuple; the highest value if it is
        not.
        """
        codes, since, _ = self._sides[RIGHT].intervals
        earliest = np.full(len(self._keys), INT64_MAX)
        np.minimum.at(earliest, codes, since)
        return earliest

    def _forget_keys(self) -> None:
        """Drop the codes of keys without tuples, once these are the majority."""
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
        """Count left tuples whose presence has not been emitted yet or may still change; those
        that stay for ever do not count.
        """
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
    """Select the intervals whose key is one of `codes`; `keys` is the number of all keys."""
    wanted = np.zeros(keys, np.bool_)
    wanted[codes] = True
    return _some(given, wanted[given.codes])
