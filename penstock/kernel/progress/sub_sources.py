"""Sub-sources of a stream: rows of a batch by sub-source, their bounds in arrays by number, SLACK,
the low-watermark at which new ones join, and their names.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.state import ChunkStore
from penstock.model.arrays import Codes, Ints, Mask, stable_order
from penstock.model.punctuation import Delay, Ordered, Punctuated, Rule, Slack
from penstock.model.types import INT64_MAX, INT64_MIN, STRING
from penstock.model.values import to_json, to_python
from penstock.plan.streams import StreamDefinition, StreamProgress

NOTHING = INT64_MIN  # a contribution without a bound


# The rows of a batch sub-source by sub-source, so that all of them are computed on at once.


class BySubSource:
    """Rows in the order of their sub-sources, and of their arrival within each.

    >>> rows = BySubSource.of(np.array([7, 2, 7, 7, 2]))
    >>> rows.codes, rows.sizes, rows.sorted(np.array([10, 20, 30, 40, 50]))
    (array([2, 7]), array([2, 3]), array([20, 50, 10, 30, 40]))
    """

    def __init__(self, order: Ints, codes: Codes, begins: Ints) -> None:
        self.order = order  # the rows, sorted
        self.codes = codes  # the sub-sources, ascending
        self.begins = begins  # where each begins, in sorted order

    @cached_property
    def ends(self) -> Ints:
        return np.append(self.begins[1:], len(self.order))

    @cached_property
    def sizes(self) -> Ints:
        sizes: Ints = self.ends - self.begins
        return sizes

    @staticmethod
    def of(codes: Codes) -> BySubSource:
        order = stable_order(codes)
        ordered = codes[order]
        begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        return BySubSource(order, ordered[begins], begins)

    @staticmethod
    def one(code: int, rows: int) -> BySubSource:
        """Rows that are all of one sub-source."""
        return BySubSource(np.arange(rows), np.array([code]), np.zeros(1, np.int64))

    def sorted(self, values: Ints) -> Ints:
        return values if len(self.codes) == 1 else values[self.order]

    def restored(self, values: Ints) -> Ints:
        """Put values back from sorted order into that of arrival."""
        if len(self.codes) == 1:
            return values
        found = np.empty(len(values), np.int64)
        found[self.order] = values
        return found

    def spread(self, values: Ints) -> Ints:
        """Repeat the value of each sub-source for each of its rows."""
        return np.repeat(values, self.sizes)

    @property
    def ranks(self) -> Ints:
        """The place of each row within its sub-source."""
        return np.arange(len(self.order)) - self.spread(self.begins)

    def highest_before(self, starts: Ints, after: Ints) -> tuple[Ints, Ints]:
        """For each row, the highest of the bound that its sub-source starts with and of those after
        the rows before it; and for each sub-source, the highest after all of its rows."""
        begins = np.zeros(len(after), np.bool_)
        begins[self.begins] = True
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[self.begins] = starts
        before = running_highest(before, begins)
        last = self.ends - 1
        return before, np.maximum(before[last], after[last])

    def next_in_each(self, values: Ints, last: Ints) -> Ints:
        """Value of the next row of the sub-source; `last` for the last row of each."""
        following = np.empty_like(values)
        following[:-1] = values[1:]
        following[self.ends - 1] = last
        return following


def running_highest(values: Ints, begins: Mask) -> Ints:
    """The highest so far in each run of values; `begins` marks the first of every run.

    >>> running_highest(np.array([5, 2, 7, 1, 3]), np.array([True, False, False, True, False]))
    array([5, 5, 7, 1, 3])
    """
    runs = int(np.count_nonzero(begins))
    if runs <= 1:
        return np.maximum.accumulate(values)
    known = values[values != NOTHING] if values.min() == NOTHING else values
    lowest, highest = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if lowest > INT64_MIN + 1 and (highest - lowest + 2) * runs < INT64_MAX:
        span = highest - lowest + 2
        steps = np.where(values == NOTHING, 0, values - (lowest - 1))
        return _above_each_other(steps, begins, span, lowest - 1)
    # ranks instead of values, which are too far apart
    different, ranks = np.unique(values, return_inverse=True)
    found: Ints = different[_above_each_other(ranks, begins, len(different), None)]
    return found


def _above_each_other(steps: Ints, begins: Mask, span: int, base: int | None) -> Ints:
    """One running maximum for all: the steps of a later run are put above all that went before."""
    floors = np.cumsum(begins, dtype=np.int64)
    floors -= 1
    floors *= span
    highest = steps + floors
    np.maximum.accumulate(highest, out=highest)
    highest -= floors
    if base is None:
        return highest
    return np.where(highest == 0, NOTHING, highest + base)


def ranks_within(sizes: Ints) -> Ints:
    """
    >>> ranks_within(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    begins = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) - np.repeat(begins, sizes)


# The minimum of many numbers that change, without reading those that have not changed.

UNCOUNTED = INT64_MAX  # what is not counted
_BITS = 6
_WIDE = 1 << _BITS  # numbers whose lowest is kept together


class Lowest:
    """Minimum by blocks: each block of numbers has its lowest, blocks of those have theirs, and so
    on.

    >>> lowest = Lowest()
    >>> lowest.put(np.array([3, 200]), np.array([9, 4]))
    >>> lowest.value, lowest.at_most(9)
    (4, array([  3, 200]))
    >>> lowest.put_one(200, UNCOUNTED)
    >>> lowest.value
    9
    """

    def __init__(self) -> None:
        self._levels: list[Ints] = [np.full(_WIDE, UNCOUNTED)]

    @property
    def value(self) -> int:
        """Lowest number; UNCOUNTED if nothing is counted."""
        return int(self._levels[-1].min())

    def put(self, codes: Codes, values: Ints) -> None:
        """Change the numbers of some codes, none of which is named twice."""
        if len(codes) == 0:
            return
        self._reserve(int(codes.max()) + 1)
        self._levels[0][codes] = values
        for below, above in pairwise(self._levels):
            changed = np.zeros(len(above), np.bool_)
            changed[codes >> _BITS] = True
            codes = np.flatnonzero(changed)
            above[codes] = below.reshape(-1, _WIDE)[codes].min(axis=1)

    def put_one(self, code: int, value: int) -> None:
        if code >= len(self._levels[0]):
            self._reserve(code + 1)
        for below, above in pairwise(self._levels):
            before, block = int(below[code]), code >> _BITS
            below[code] = value
            lowest = int(above[block])
            if lowest < min(before, value):
                return  # another one of the block is the lowest, as it was
            if value > lowest:
                value = int(below[block << _BITS : (block + 1) << _BITS].min())
            code = block
        self._levels[-1][code] = value

    def at_most(self, value: int) -> Codes:
        """Codes whose numbers are not above `value`."""
        codes = np.flatnonzero(self._levels[-1] <= value)
        for below in self._levels[-2::-1]:
            inside = below.reshape(-1, _WIDE)[codes] <= value
            blocks, places = np.nonzero(inside)
            codes = (codes[blocks] << _BITS) + places
        return codes

    def _reserve(self, size: int) -> None:
        level = self._levels[0]
        if size <= len(level):
            return
        grown = np.full(_up_to_blocks(max(size, 2 * len(level))), UNCOUNTED)
        grown[: len(level)] = level
        self._levels = [grown]
        while len(self._levels[-1]) > _WIDE:
            lowest = self._levels[-1].reshape(-1, _WIDE).min(axis=1)
            above = np.full(_up_to_blocks(len(lowest)), UNCOUNTED)
            above[: len(lowest)] = lowest
            self._levels.append(above)


def _up_to_blocks(size: int) -> int:
    return -(-size // _WIDE) * _WIDE


# Places at which new sub-sources join, many of them at once.
#
# A new sub-source joins at the low-watermark of its moment.  Let R be the bound of a sub-source by
# its own tuples alone, without the place where it joined.  A sub-source that is known at a moment
# has a bound that is the higher one of R and of the watermark before.  So the watermark of a moment
# is the higher one of the watermark of the moment before and of the lowest R, which the place of a
# new sub-source does not change: all of them follow from one running maximum.


def joined_in(
    rows: BySubSource, new: Mask, starts: Ints, after: Ints, others: int | None, low: int
) -> Ints:
    """Compute the places at which those sub-sources of a batch join that are `new`.

    `starts` is R before the batch, `after` is R after each row, in sorted order; `others` is the
    lowest bound of the sub-sources that have no rows, None if none is known; `low` is the
    low-watermark so far.
    """
    first = rows.order[rows.begins]
    joins = np.zeros(len(rows.order), np.int64)
    joins[first[new]] = 1
    count = int(np.count_nonzero(new))
    come = np.cumsum(joins)[rows.order]  # how many have come up to each row, itself included
    gone = rows.next_in_each(come, np.full(len(rows.codes), count))
    known = ~new
    begins = np.concatenate([np.zeros(int(np.count_nonzero(known)), np.int64), come])
    ends = np.concatenate([come[rows.begins[known]], gone])
    lowest = lowest_over(begins, ends, np.concatenate([starts[known], after]), count)
    joined = watermarks(lowest, others, low)
    places: Ints = joined[come[rows.begins[new]] - 1]
    return places


def watermarks(lowest: Ints, others: int | None, low: int) -> Ints:
    """The low-watermark at some moments, from the lowest R of the sub-sources that move."""
    if others is None:  # none counts when the first one comes
        lowest[0] = NOTHING
    else:
        lowest = np.minimum(lowest, others)
    return np.maximum.accumulate(np.maximum(lowest, low))


def lowest_over(begins: Ints, ends: Ints, values: Ints, size: int) -> Ints:
    """For each place below `size`, the lowest value of the ranges, from begin up to end, that it is
    in; UNCOUNTED if it is in none.

    >>> lowest_over(np.array([0, 2, 1]), np.array([3, 4, 1]), np.array([7, 5, 0]), 5)
    array([                  7,                   7,                   5,
                             5, 9223372036854775807])
    """
    rows = np.flatnonzero(begins < ends)
    begins, ends, values = begins[rows], ends[rows], values[rows]
    # a range is two, perhaps overlapping, of the longest power of two that fits in
    levels = np.frexp((ends - begins).astype(np.float64))[1] - 1
    lowest = np.full(size, UNCOUNTED)
    for level in range(int(levels.max(initial=0)), -1, -1):
        length = 1 << level
        own = levels == level
        np.minimum.at(lowest, begins[own], values[own])
        np.minimum.at(lowest, ends[own] - length, values[own])
        if level:  # each is two of half the length
            half = length >> 1
            halves = lowest.copy()
            halves[half:] = np.minimum(lowest[half:], lowest[: size - half])
            lowest = halves
    return lowest


# SLACK: the last tuples of every sub-source, from which no bound follows yet.


class HeldBack:
    """The last ticks of each sub-source, as many as SLACK says.

    A ring for each sub-source in one array: tuple n is in slot n modulo the capacity.  A ring
    grows until it holds as many as SLACK says; its former, smaller places are not used again.
    """

    def __init__(self, slack: int) -> None:
        self.slack = slack
        self._ticks: Ints = np.zeros(0, np.int64)
        self._used = 0  # of those
        self._counts: Ints = np.zeros(0, np.int64)  # tuples of each sub-source so far
        self._begins: Ints = np.zeros(0, np.int64)  # of its ring
        self._capacities: Ints = np.zeros(0, np.int64)

    def counts(self, codes: Codes) -> Ints:
        """Number of tuples that are held back of each of some sub-sources."""
        self._reserve(codes)
        return np.minimum(self._counts[codes], self.slack)

    def of(self, codes: Codes) -> tuple[Ints, Ints]:
        """Number of tuples held back of each sub-source, and all their ticks, in the order of
        arrival within each."""
        sizes = self.counts(codes)
        numbers = np.repeat(self._counts[codes] - sizes, sizes) + ranks_within(sizes)
        return sizes, self._ticks[self._slots(np.repeat(codes, sizes), numbers)]

    def released(self, codes: Codes, sizes: Ints, ticks: Ints) -> Ints:
        """Hold back tuples, `sizes` of each sub-source; for each the tick that it releases, NOTHING
        if it does not."""
        if self.slack == 0:
            return ticks
        self._reserve(codes)
        if len(ticks) == len(codes) == 1:
            return np.array([self._released_by_one(int(codes[0]), int(ticks[0]))])
        ranks = ranks_within(sizes)
        of_rows = np.repeat(codes, sizes)
        numbers = self._counts[of_rows] + ranks
        released = np.full(len(ticks), NOTHING)
        inside = np.flatnonzero(ranks >= self.slack)  # released are tuples of the same batch
        released[inside] = ticks[inside - self.slack]
        earlier = np.flatnonzero((ranks < self.slack) & (numbers >= self.slack))
        slots = self._slots(of_rows[earlier], numbers[earlier] - self.slack)
        released[earlier] = self._ticks[slots]
        self._make_room(codes, sizes)
        last = np.flatnonzero(np.repeat(sizes, sizes) - ranks <= self.slack)
        self._ticks[self._slots(of_rows[last], numbers[last])] = ticks[last]
        self._counts[codes] += sizes
        return released

    def _released_by_one(self, code: int, tick: int) -> int:
        """Hold back a single tuple; return the tick that it releases, NOTHING if it does not."""
        count, full = int(self._counts[code]), int(self._counts[code]) >= self.slack
        if not full and count == self._capacities[code]:
            self._make_room(np.array([code]), np.ones(1, np.int64))
        slot = int(self._begins[code]) + count % int(self._capacities[code])
        released = int(self._ticks[slot]) if full else NOTHING
        self._ticks[slot] = tick
        self._counts[code] += 1
        return released

    def _slots(self, codes: Codes, numbers: Ints) -> Ints:
        slots: Ints = self._begins[codes] + numbers % self._capacities[codes]
        return slots

    def _reserve(self, codes: Codes) -> None:
        size = int(codes.max(initial=-1)) + 1
        self._counts = grown(self._counts, size, 0)
        self._begins = grown(self._begins, size, 0)
        self._capacities = grown(self._capacities, size, 0)

    def _make_room(self, codes: Codes, sizes: Ints) -> None:
        needed = np.minimum(self._counts[codes] + sizes, self.slack)
        short = needed > self._capacities[codes]
        if not short.any():
            return
        codes = codes[short]
        wanted = np.minimum(np.maximum(needed[short], 2 * self._capacities[codes]), self.slack)
        begins = self._used + np.cumsum(wanted) - wanted
        self._used += int(wanted.sum())
        self._ticks = grown(self._ticks, self._used, 0)
        kept = self._counts[codes]  # a ring that is not full begins with tuple 0
        ranks = ranks_within(kept)
        old = np.repeat(self._begins[codes], kept) + ranks
        self._ticks[np.repeat(begins, kept) + ranks] = self._ticks[old]
        self._begins[codes], self._capacities[codes] = begins, wanted


# The bounds of sub-sources by number, as their own tuples make them (see `model.progress` for
# tuple by tuple).
#
# Every tuple contributes a bound that holds after it; the bound before a tuple is the highest of
# the contributions before it in its sub-source.


class SubSourceBounds:
    """Bounds of sub-sources by their own tuples, in arrays by number."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._delay = rule.ticks if isinstance(rule, Delay) else 0
        self._reset()

    def _reset(self) -> None:
        self._bounds: Ints = np.zeros(0, np.int64)  # NOTHING for unknown ones
        rule = self._rule
        self._held = HeldBack(rule.rows) if isinstance(rule, Slack) else None

    def before(self, codes: Codes, ticks: Ints, promised: Ints | None) -> Ints:
        """The bound before each of some tuples, by the codes of their sub-sources; `promised` holds
        the bounds of rows that are punctuations, NOTHING for tuples.  `ticks` of punctuations are
        NOTHING."""
        if len(codes) == 0:
            return ticks
        rows = BySubSource.of(codes)
        said = rows.sorted(promised) if promised is not None else None
        return rows.restored(self._before(rows, rows.sorted(ticks), said))

    def before_of(self, code: int, ticks: Ints, promised: Ints | None) -> Ints:
        """The bound before each of some tuples that are all of one sub-source."""
        return self._before(BySubSource.one(code, len(ticks)), ticks, promised)

    def kept_by(self, code: int, lowest: int, highest: int) -> bool:
        """Whether no tuple of a sub-source between two ticks can break its bound, in whichever
        order they come; then the bound moves on as they make it.  That is much cheaper to find out
        than the bound before each of them."""
        if not isinstance(self._rule, Delay | Ordered) or not self.knows(code):
            return False
        after = max(self._bound(code), highest - self._delay)
        if lowest < after:
            return False
        self._move_one(code, after)
        return True

    def knows(self, code: int) -> bool:
        raise NotImplementedError

    def _bound(self, code: int) -> int:
        return int(self._bounds[code])

    def _before(self, rows: BySubSource, ticks: Ints, promised: Ints | None) -> Ints:
        """The bound before each row; all in the order of `rows`."""
        raise NotImplementedError

    def _move_one(self, code: int, bound: int) -> None:
        raise NotImplementedError

    def _reserve(self, size: int) -> None:
        self._bounds = grown(self._bounds, size, NOTHING)

    def _contributions(self, rows: BySubSource, ticks: Ints, promised: Ints | None) -> Ints:
        match self._rule:
            case Delay(delay) if delay:
                # a bound below all ticks is no bound
                after = np.maximum(ticks, NOTHING + delay)
                after -= delay
                return after
            case Ordered() | Delay():
                return ticks
            case Slack():
                assert self._held is not None
                return self._held.released(rows.codes, rows.sizes, ticks)
            case Punctuated():  # without such rows, only groups are punctuated
                return promised if promised is not None else np.full(len(ticks), NOTHING)

    def _restore(self, codes: Codes, bounds: Ints, sizes: Ints | None, recent: Ints | None) -> Ints:
        """Restore bounds and the ticks that were held back, `sizes` of each; return the bounds that
        hold now.  Ticks that SLACK does not hold back any more, because it was changed, are
        released."""
        if self._held is not None and sizes is not None and recent is not None:
            released = self._held.released(codes, sizes, recent)
            bounds = np.maximum(bounds, highest_of_each(sizes, released))
        self._reserve(int(codes.max(initial=-1)) + 1)
        self._bounds[codes] = bounds
        return bounds

    def _recent(self, codes: Codes) -> tuple[Ints, Ints]:
        """Number of ticks that SLACK holds back of each of some sub-sources, and the ticks."""
        if self._held is None:
            return np.zeros(len(codes), np.int64), np.zeros(0, np.int64)
        return self._held.of(codes)


def highest_of_each(sizes: Ints, values: Ints) -> Ints:
    """Highest of the values of each of several, `sizes` to each; NOTHING where there are none.

    >>> highest_of_each(np.array([2, 0, 1]), np.array([3, 9, 4])).tolist()[::2]
    [9, 4]
    """
    found = np.full(len(sizes), NOTHING)
    some = np.flatnonzero(sizes)
    if len(some):
        found[some] = np.maximum.reduceat(values, (np.cumsum(sizes) - sizes)[some])
    return found


def within_ticks(bound: float) -> int:
    """A bound as a tick: NOTHING if it is below all, the highest if it is above all."""
    if bound <= NOTHING:
        return NOTHING
    return INT64_MAX if bound >= INT64_MAX else int(bound)


# Names of sub-sources, and the sub-source of each row: everything else knows sub-sources by number.

_NAMED = 100  # sub-sources in one answer
_SPARSE = 64  # sub-sources for each row, below which it is cheaper to look at all of them


class SubSourceNames:
    """Sub-sources, numbered as they appear: by the values of PER, by file, or one with no name."""

    def __init__(self, progress: StreamProgress | None) -> None:
        self._per = progress.per if progress is not None else None
        self._type = self._per.type if self._per is not None else STRING
        self._keys = KeyCodes([self._type])

    def __len__(self) -> int:
        return len(self._keys)

    def numbers(self, names: pa.Array) -> Codes:
        return self._keys.encode([names], len(names))

    def of_files(self, names: list[str]) -> Codes:
        return self.numbers(pa.array(names, pa.string()))

    def names(self, codes: Codes) -> pa.Array:
        return self._keys.take(codes)[0]

    def some_texts(self, codes: Codes) -> tuple[list[str], int]:
        """Names of some sub-sources, for explanations of what holds a stream back, and the number
        of the others."""
        named = codes[:_NAMED]
        found = to_python(self.names(named), self._type)
        if self._per is None:
            texts = [name for name in found if name]
        else:
            texts = [to_json(value, self._type) for value in found]
        return texts, len(codes) - len(named)

    def save(self, store: ChunkStore) -> None:
        self._keys.save(store)

    def load(self, store: ChunkStore) -> None:
        """Replace the names by a snapshot."""
        self._keys = self._keys.empty()
        self._keys.load(store)


class SubSources(SubSourceNames):
    """The sub-sources of the rows of one scan, or of several that follow each other."""

    def __init__(self, stream: StreamDefinition, progress: StreamProgress) -> None:
        super().__init__(progress)
        self._expression = (
            compile_expression(progress.per, stream.schema) if progress.per is not None else None
        )
        self._per_file = progress.per_file
        self._part: tuple[str, int] | None = None  # the one that was asked for last

    def of_single(self, batch: Batch, part: str) -> int:
        """Sub-source of a single tuple, of which columns are made only if they tell it."""
        if self._expression is None:
            return self._of_part(part if self._per_file else "")
        return int(self.numbers(self._expression(batch.rows))[0])

    def of(self, batch: pa.RecordBatch, part: str) -> Codes | int:
        """Sub-source of each row, or the one of all rows."""
        if self._expression is None:
            return self._of_part(part if self._per_file else "")
        codes = self.numbers(self._expression(batch))
        return int(codes[0]) if len(codes) == 1 else codes

    def _of_part(self, part: str) -> int:
        if self._part is None or self._part[0] != part:
            self._part = (part, int(self.of_files([part])[0]))
        return self._part[1]

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        self._part = None


def distinct(codes: Codes | int) -> Codes:
    """Each sub-source once, in order."""
    if isinstance(codes, int):
        return np.array([codes])
    highest = int(codes.max(initial=0))
    if len(codes) * _SPARSE < highest:
        return np.unique(codes)
    found = np.zeros(highest + 1, np.bool_)
    found[codes] = True
    return np.flatnonzero(found)
