"""Frames of OVER among sorted rows, and the calls over them: aggregates, row numbers, ranks,
neighbours and values of the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import of_64_bits
from penstock.expressions.compiler import compile_expression
from penstock.kernel.aggregates.aggregate import Aggregate
from penstock.kernel.aggregates.build import build
from penstock.kernel.grouping.folding import ArgumentsOf
from penstock.model.arrays import Ints, Mask
from penstock.model.types import INT64_MAX, INT64_MIN, Schema
from penstock.plan.expressions import AggregateCall
from penstock.plan.nodes.over import (
    Excluded,
    FramedAggregate,
    FrameUnit,
    Neighbour,
    Numbering,
    NumberKind,
    OverCall,
    RowFrame,
    Standing,
    StandingKind,
    ValueAt,
)

# Columns as integers that have the same order, whatever their type and direction.


def sort_numbers(
    column: pa.Array, descending: bool = False, nulls_first: bool = False, exact: bool = False
) -> Ints:
    """A number for each value: the lower, the sooner it comes.  NaN is above all numbers.  Zeros
    are one value, unless they are told apart (`exact`).

    >>> sort_numbers(pa.array([2.5, None, -1.0]), descending=True, nulls_first=True).argsort()
    array([1, 0, 2])
    """
    numbers = _numbers(column, exact)
    if descending:
        numbers = ~numbers
    if column.null_count:
        absent = np.asarray(column.is_null())
        numbers = _beyond(numbers, absent, nulls_first)
    return numbers


def _beyond(numbers: Ints, absent: Mask, first: bool) -> Ints:
    """The numbers, and one before or behind all of them for what is absent."""
    present = numbers[~absent]
    if not len(present):
        return np.zeros(len(numbers), np.int64)
    low, high = int(present.min()), int(present.max())
    if low == INT64_MIN or high == INT64_MAX:  # there is nothing beyond them
        different, places = np.unique(numbers, return_inverse=True)
        numbers, low, high = places.astype(np.int64), 0, len(different) - 1
    return np.where(absent, low - 1 if first else high + 1, numbers)


def _numbers(column: pa.Array, exact: bool) -> Ints:
    kind = column.type
    if pa.types.is_floating(kind):
        doubles = np.asarray(pc.fill_null(column, 0.0), dtype=np.float64)
        doubles = np.where(np.isnan(doubles), np.nan, doubles if exact else doubles + 0.0)
        bits = doubles.view(np.int64)
        return np.where(bits < 0, bits ^ INT64_MAX, bits)
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(column, False).cast(pa.int8())).astype(np.int64)
    if pa.types.is_integer(kind):
        return np.asarray(pc.fill_null(column, 0)).astype(np.int64)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return np.asarray(pc.fill_null(column.cast(pa.int64()), 0)).astype(np.int64)
    if pa.types.is_date32(kind):
        return np.asarray(pc.fill_null(column.cast(pa.int32()), 0)).astype(np.int64)
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(ranks).astype(np.int64)


# Bounds of frames among sorted rows.

Stretches: TypeAlias = tuple[Ints, Ints]  # where they begin, and where they end


@dataclass
class RowsInPartitions:
    """Rows sorted by partition and order: `codes` tell partitions apart, and `peers` rows that are
    equal in the order.  `ticks` are of the only key of the order, if frames are measured on it;
    they count where they are `timed` (None: everywhere), the others are NULL, which stand behind
    the rest or before it."""

    rows: pa.RecordBatch
    codes: Ints
    peers: Ints
    ticks: Ints | None = None
    timed: Mask | None = None
    nulls_first: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def _parts(self) -> tuple[Ints, Ints, Ints]:
        return stretches(self.codes)

    @property
    def numbers(self) -> Ints:
        """The partition of each row, numbered in this order."""
        return self._parts[0]

    @property
    def starts(self) -> Ints:
        """First row of each partition."""
        return self._parts[1]

    @property
    def stops(self) -> Ints:
        return self._parts[2]

    @cached_property
    def _equals(self) -> tuple[Ints, Ints, Ints]:
        return stretches(self.peers)

    @property
    def begin(self) -> Ints:
        """First row of the partition of each row."""
        return self.starts[self.numbers]

    @property
    def end(self) -> Ints:
        return self.stops[self.numbers]

    @property
    def first_peer(self) -> Ints:
        number, starts, _ = self._equals
        return starts[number]

    @property
    def end_of_peers(self) -> Ints:
        number, _, stops = self._equals
        return stops[number]

    @cached_property
    def _by_tick(self) -> tuple[Ints, Ints]:
        """All different ticks, and a number for every row that rises with partition and tick."""
        assert self.ticks is not None
        different, places = np.unique(self.ticks, return_inverse=True)
        places = places + 1
        if self.timed is not None:
            places = np.where(self.timed, places, 0 if self.nulls_first else len(different) + 1)
        return different, self.numbers * (len(different) + 2) + places

    def held(self, frame: RowFrame, targets: Ints) -> list[Stretches]:
        """Rows that the frames of some rows hold: for each row one stretch of rows, or several that
        follow each other."""
        low, high = self.bounds(frame, targets)
        if not frame.leaves_out:
            return [(low, high)]
        first, last = targets, targets + 1
        if frame.excluded is not Excluded.CURRENT_ROW:
            first, last = self.first_peer[targets], self.end_of_peers[targets]
        first, last = np.clip(first, low, high), np.clip(last, low, high)
        around = [(low, first), (last, high)]
        if frame.excluded is Excluded.TIES:
            around.insert(1, (np.clip(targets, low, high), np.clip(targets + 1, low, high)))
        return around

    def bounds(self, frame: RowFrame, targets: Ints) -> Stretches:
        """The first row of the frames of some rows, and the one after the last, including excluded
        rows in between."""
        begin, end = self.begin[targets], self.end[targets]
        low = begin if frame.first is None else self._low(frame, targets)
        high = end if frame.last is None else self._high(frame, targets)
        low = np.clip(low, begin, end)
        return low, np.maximum(low, np.clip(high, begin, end))

    def _low(self, frame: RowFrame, targets: Ints) -> Ints:
        assert frame.first is not None
        if frame.unit is FrameUnit.ROWS:
            return moved(targets, frame.first)
        if frame.first == 0:
            return self.first_peer[targets]
        if frame.unit is FrameUnit.GROUPS:
            return self._from_group(frame.first, targets)
        return self._from_tick(frame.first, targets, "left", self.first_peer)

    def _high(self, frame: RowFrame, targets: Ints) -> Ints:
        assert frame.last is not None
        if frame.unit is FrameUnit.ROWS:
            return moved(targets, frame.last + 1)
        if frame.last == 0:
            return self.end_of_peers[targets]
        if frame.unit is FrameUnit.GROUPS:
            return self._from_group(frame.last + 1, targets)
        return self._from_tick(frame.last, targets, "right", self.end_of_peers)

    def _from_group(self, by: int, targets: Ints) -> Ints:
        """The first row of a group that stands so many groups behind that of a row."""
        number, starts, _ = self._equals
        size = len(self)
        groups = number[targets] + max(-size, min(size, by))
        first, last = number[self.begin[targets]], number[self.end[targets] - 1]
        return np.append(starts, size)[np.clip(groups, first, last + 1)]

    def _from_tick(self, by: int, targets: Ints, side: str, of_peers: Ints) -> Ints:
        """The first row that is not below a tick, or above it; of NULLs, where their peers are."""
        assert self.ticks is not None
        different, keys = self._by_tick
        wanted = np.searchsorted(different, moved(self.ticks[targets], by), side=side)  # type: ignore[call-overload]
        keyed = self.numbers[targets] * (len(different) + 2) + wanted + 1
        found: Ints = np.searchsorted(keys, keyed, side="left")
        if self.timed is None:
            return found
        return np.where(self.timed[targets], found, of_peers[targets])


def stretches(values: Ints) -> tuple[Ints, Ints, Ints]:
    """Number the stretches of equal neighbours: for each row its stretch, and the begin and end of
    each stretch.

    >>> [each.tolist() for each in stretches(np.array([5, 5, 3]))]
    [[0, 0, 1], [0, 2], [2, 3]]
    """
    differs = np.ones(len(values), np.bool_)
    differs[1:] = values[1:] != values[:-1]
    starts = np.flatnonzero(differs)
    return np.cumsum(differs) - 1, starts, np.append(starts[1:], len(values))


def moved(values: Ints, by: int) -> Ints:
    """Values and a distance, up to the ends of 64 bits."""
    if by < 0:
        return np.maximum(values, INT64_MIN - by) + by
    return np.minimum(values, INT64_MAX - min(by, INT64_MAX)) + min(by, INT64_MAX)


# Aggregates over frames, which are stretches of sorted rows.
#
# An aggregate that can be subtracted is the difference of two running totals; the least and the
# greatest are found in a table of stretches whose lengths are powers of two, of which two cover any
# frame; any other aggregate folds the rows of every different frame.

_AT_ONCE = 1 << 20  # rows that frames are expanded to at a time
_LEAST = frozenset(["min", "any_value", "bool_and", "min_by"])
_GREATEST = frozenset(["max", "bool_or", "max_by"])


class Seen:
    """Rows that an aggregate sees among sorted rows: its arguments without the rows that it
    ignores, and the places of all rows among these."""

    def __init__(self, arguments: ArgumentsOf, rows: pa.RecordBatch) -> None:
        found = arguments.of(rows)
        self.columns, self.chosen = found.columns, found.chosen
        self.size = rows.num_rows
        self._before: Ints | None = None
        if found.chosen is not None:
            self.size = int(np.count_nonzero(found.chosen))
            self._before = np.concatenate([[0], np.cumsum(found.chosen)])

    def among(self, places: Ints) -> Ints:
        return places if self._before is None else self._before[places]


class AggregateOverFrames:
    """An aggregate of the plan, for all frames of some rows at once."""

    def __init__(self, call: AggregateCall, frame: RowFrame, schema: Schema) -> None:
        self.frame = frame
        self.arguments = ArgumentsOf(call, schema)
        self.aggregate: Aggregate[Any] = build(call)
        self._over: Callable[[Seen, list[Stretches]], pa.Array] = self._expanded
        name = call.function.name
        if call.function.implementation is None and name in _LEAST | _GREATEST:
            self._over = self._chosen
        elif self.aggregate.additive:
            self._over = self._difference
        self.greatest = name in _GREATEST

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        seen = Seen(self.arguments, given.rows)
        return self._over(seen, self.held(seen, given, targets))

    def held(self, seen: Seen, given: RowsInPartitions, targets: Ints) -> list[Stretches]:
        """Stretches that frames hold, among the rows that the aggregate sees."""
        held = given.held(self.frame, targets)
        return [(seen.among(low), seen.among(high)) for low, high in held]

    # --- running totals --------------------------------------------------------------------------

    def totals(self, seen: Seen) -> Any:
        """Partial results over the first row, the first two, and so on; before them, over none."""
        partial = self.aggregate.new(seen.size + 1)
        if seen.size:
            codes = np.arange(1, seen.size + 1)
            self.aggregate.fold(partial, codes, seen.columns, np.zeros(seen.size, np.int64))
        self.aggregate.accumulate(partial)
        return partial

    def between(self, totals: Any, held: list[Stretches]) -> Any:
        """Partial results over stretches, by running totals."""
        partial, *others = (self._total(totals, *each) for each in held)
        for other in others:
            self.aggregate.merge(partial, other)
        return partial

    def _total(self, totals: Any, low: Ints, high: Ints) -> Any:
        partial = self.aggregate.take(totals, high)
        self.aggregate.subtract(partial, self.aggregate.take(totals, low))
        return partial

    def _difference(self, seen: Seen, held: list[Stretches]) -> pa.Array:
        partial = self.between(self.totals(seen), held)
        return self.aggregate.finish(partial, np.arange(len(held[0][0])))

    # --- the least and the greatest --------------------------------------------------------------

    def ranks(self, seen: Seen) -> Ints:
        """Rank of each row, the best one lowest; rows with equal arguments share one."""
        numbers = [sort_numbers(_shown(each)) for each in seen.columns[::-1]]
        if len(numbers) == 1:
            different, ranks = np.unique(numbers[0], return_inverse=True)
            count = len(different)
        else:
            order = np.lexsort(numbers[::-1])
            differs = np.zeros(seen.size, np.bool_)
            for each in numbers:
                differs[1:] |= each[order][1:] != each[order][:-1]
            ranks = np.empty(seen.size, np.int64)
            ranks[order] = np.cumsum(differs)
            count = seen.size
        ranks = ranks.astype(np.int64)
        return count - 1 - ranks if self.greatest else ranks

    def _chosen(self, seen: Seen, held: list[Stretches]) -> pa.Array:
        ranks = self.ranks(seen)
        best, found = lowest_of_all(ranks, held)
        return self.values(seen, ranks, best, found)

    def values(self, seen: Seen, ranks: Ints, best: Ints, found: Mask) -> pa.Array:
        """The values that have ranks, NULL where nothing is found."""
        rows = np.zeros(int(ranks.max(initial=0)) + 1, np.int64)
        rows[ranks] = np.arange(seen.size)
        column = _shown(seen.columns[0])
        return column.take(pa.array(rows[best] if seen.size else best, mask=~found))

    # --- everything else -------------------------------------------------------------------------

    def _expanded(self, seen: Seen, held: list[Stretches]) -> pa.Array:
        """Every row is folded once for each different frame that it is in."""
        ends = [end for stretches in held for end in stretches]
        differs = np.ones(len(ends[0]), np.bool_)
        differs[1:] = False
        for each in ends:
            differs[1:] |= each[1:] != each[:-1]
        which = np.cumsum(differs) - 1
        held = [(low[differs], high[differs]) for low, high in held]
        upto = np.cumsum(sum(high - low for low, high in held))
        parts, at = [], 0
        while at < len(upto):
            before = int(upto[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(upto, before + _AT_ONCE, side="right")))
            parts.append(self._folded(seen, [(low[at:stop], high[at:stop]) for low, high in held]))
            at = stop
        results = pa.concat_arrays(parts) if parts else self._folded(seen, held)
        return results.take(pa.array(which))

    def _folded(self, seen: Seen, held: list[Stretches]) -> pa.Array:
        count = len(held[0][0])
        partial = self.aggregate.new(count)
        for low, high in held:
            sizes = high - low
            codes = np.repeat(np.arange(count), sizes)
            if len(codes):
                within = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
                places = np.repeat(low, sizes) + within
                columns = [each.take(pa.array(places)) for each in seen.columns]
                self.aggregate.fold(partial, codes, columns, places)
        return self.aggregate.finish(partial, np.arange(count))


def lowest_of_all(ranks: Ints, held: list[Stretches]) -> tuple[Ints, Mask]:
    """The lowest rank of several stretches each, and whether they have any."""
    (best, found), *others = (lowest_of_stretches(ranks, *each) for each in held)
    for other, there in others:
        best = np.where(there & ~(found & (best < other)), other, best)
        found |= there
    return best, found


def lowest_of_stretches(ranks: Ints, low: Ints, high: Ints) -> tuple[Ints, Mask]:
    """The lowest rank of every stretch, and whether it has any.

    >>> [each.tolist() for each in lowest_of_stretches(
    ...     np.array([3, 1, 2]), np.array([0, 2, 1]), np.array([1, 3, 1]))]
    [[3, 2, 0], [True, True, False]]
    """
    sizes = high - low
    found = sizes > 0
    best = np.zeros(len(low), np.int64)
    if not found.any():
        return best, found
    levels = np.zeros(len(low), np.int64)
    levels[found] = np.frexp(sizes[found].astype(np.float64))[1] - 1
    table, width = ranks, 1
    for level in range(int(levels.max()) + 1):
        own = np.flatnonzero(found & (levels == level))
        best[own] = np.minimum(table[low[own]], table[high[own] - width])
        if level < int(levels.max()):
            table = np.minimum(table[:-width], table[width:]) if len(table) > width else table
            width *= 2
    return best, found


def _shown(column: pa.Array) -> pa.Array:
    """0.0 for −0.0, which is the same value."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


# Calls of OVER on sorted rows: a value for each of some of them.


class CallOverRows(Protocol):
    """A call of OVER, computed for some of the sorted rows at once."""

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        """The values for the rows at some places."""
        ...


def call_over_rows(call: OverCall, schema: Schema) -> CallOverRows:
    match call:
        case Numbering():
            return NumberOverRows(call.kind)
        case Standing():
            return StandingOverRows(call)
        case Neighbour():
            return NeighbourOverRows(call, schema)
        case ValueAt():
            return ValueOverRows(call, schema)
        case FramedAggregate():
            return AggregateOverFrames(call.call, call.frame, schema)


class NumberOverRows:
    """row_number, rank and dense_rank."""

    def __init__(self, kind: NumberKind) -> None:
        self._kind = kind

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        return of_64_bits(numbers(self._kind, given)[targets])


def numbers(kind: NumberKind, given: RowsInPartitions) -> Ints:
    """The numbers of all rows, as if nothing had been before them."""
    match kind:
        case NumberKind.ROW_NUMBER:
            return np.arange(len(given)) - given.begin + 1
        case NumberKind.RANK:
            return given.first_peer - given.begin + 1
        case NumberKind.DENSE_RANK:
            differs = np.ones(len(given), np.int64)
            differs[1:] = given.peers[1:] != given.peers[:-1]
            groups = np.cumsum(differs)
            return groups - groups[given.begin] + 1


class StandingOverRows:
    """Position of a row in its partition: percent_rank, cume_dist and ntile."""

    def __init__(self, call: Standing) -> None:
        self._kind, self._parts = call.kind, call.parts

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        begin = given.begin[targets]
        sizes = given.end[targets] - begin
        match self._kind:
            case StandingKind.NTILE:
                return of_64_bits(self._part(targets - begin, sizes))
            case StandingKind.PERCENT_RANK:
                before = given.first_peer[targets] - begin
                return pa.array(before / np.maximum(sizes - 1, 1))
            case StandingKind.CUME_DIST:
                return pa.array((given.end_of_peers[targets] - begin) / sizes)

    def _part(self, place: Ints, sizes: Ints) -> Ints:
        """The first parts have a row more, if the rows do not go into all alike."""
        assert self._parts is not None
        parts = np.minimum(sizes, self._parts)  # each has a row at least
        small = sizes // parts
        large = sizes - small * parts
        within = large * (small + 1)
        return 1 + np.where(place < within, place // (small + 1), large + (place - within) // small)


class NeighbourOverRows:
    """lag and lead: the value of the row so many rows before or after, or the default."""

    def __init__(self, call: Neighbour, schema: Schema) -> None:
        self._offset, self._known = call.offset, call.known
        self._value = compile_expression(call.value, schema)
        self._default = None
        if call.default is not None:
            self._default = compile_expression(call.default, schema)

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        begin, end = given.begin[targets], given.end[targets]
        values = self._value(given.rows)
        size = len(given)
        by = max(-size, min(size, self._offset))
        if self._known:
            known = KnownRows(values)
            low, high = known.before(begin), known.before(end)
            places = known.before(targets) + by
            if by > 0:  # the row's own value is none of those behind it
                places += known.before(targets + 1) - known.before(targets) - 1
            there = (places >= low) & (places < high)
            places = known.at(places, there)
        else:
            places = targets + by
            there = (places >= begin) & (places < end)
        found = values.take(pa.array(places, mask=~there))
        if self._default is None or there.all():
            return found
        others = self._default(given.rows).take(pa.array(targets))
        return pc.if_else(pa.array(there), found, others)


class KnownRows:
    """Sorted rows that have a value, by number."""

    def __init__(self, values: pa.Array) -> None:
        valid = np.asarray(values.is_valid())
        self._places = np.flatnonzero(valid)
        self._before = np.concatenate([[0], np.cumsum(valid)])

    def before(self, places: Ints) -> Ints:
        """Number of rows with a value before some places."""
        return self._before[places]

    def at(self, numbers: Ints, there: Mask) -> Ints:
        """The places of the rows with these numbers, where `there`."""
        places = np.zeros(len(numbers), np.int64)
        places[there] = self._places[numbers[there]]
        return places


class ValueOverRows:
    """first_value, last_value and nth_value of frames."""

    def __init__(self, call: ValueAt, schema: Schema) -> None:
        self._frame, self._place, self._known = call.frame, call.place, call.known
        self._value = compile_expression(call.value, schema)

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        return self.found(given, targets)[0]

    def found(self, given: RowsInPartitions, targets: Ints) -> tuple[pa.Array, Mask]:
        """Values for the rows at some places, and whether a row of the frame has it."""
        held = given.held(self._frame, targets)
        values = self._value(given.rows)
        known = KnownRows(values) if self._known else None
        if known is not None:
            held = [(known.before(low), known.before(high)) for low, high in held]
        places, there = self._places(held)
        if known is not None:
            places = known.at(places, there)
        return values.take(pa.array(places, mask=~there)), there

    def _places(self, held: list[Stretches]) -> tuple[Ints, Mask]:
        """The places of rows in their frames, and whether frames have so many rows."""
        size = len(held[0][0])
        places, there = np.zeros(size, np.int64), np.zeros(size, np.bool_)
        before = np.full(size, max(self._place - 1, 0))  # rows to be passed over
        for low, high in held if self._place > 0 else held[::-1]:
            here = ~there & (before < high - low)
            places[here] = (low + before if self._place > 0 else high - 1)[here]
            there |= here
            before -= high - low
        return places, there
