"""State carried from row to row of a partition, so that its rows need not be kept: first and last
values, row numbers, running aggregates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import of_64_bits
from penstock.expressions.compiler import compile_expression
from penstock.kernel.grouping.key_codes import GrownColumn, grown
from penstock.kernel.over.frames import (
    AggregateOverFrames,
    KnownRows,
    RowsInPartitions,
    Seen,
    Stretches,
    ValueOverRows,
    lowest_of_all,
    numbers,
)
from penstock.kernel.state import ChunkStore, Tree
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.types import Schema, Type
from penstock.plan.expressions import Expression
from penstock.plan.nodes.over import (
    FramedAggregate,
    FrameUnit,
    Neighbour,
    Numbering,
    NumberKind,
    OverCall,
    RowFrame,
    ValueAt,
)


class CarriedCall(ABC):
    """A call whose frame begins with the partition and ends with the row."""

    @abstractmethod
    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        """The values for new rows, which are all that have come since; there are partitions with
        codes below `size`."""

    @abstractmethod
    def save(self, codes: Codes) -> Tree:
        """State that is carried for some partitions."""

    @abstractmethod
    def load(self, saved: Tree, codes: Codes, size: int) -> None: ...


# Values of earlier rows of a partition, without these rows: the first of all, the first that is
# known, and the last few known ones (IGNORE NULLS).

_FEW = 1024  # dead values that may be kept
_ALL = RowFrame(FrameUnit.ROWS, None, None)


class CarriedFirst(CarriedCall):
    """first_value of frames that begin with the partition.

    Partitions are numbered as they are first seen, so new ones stand behind all others.
    """

    def __init__(self, call: ValueAt, schema: Schema) -> None:
        self._value = compile_expression(call.value, schema)
        self._without = ValueOverRows(call, schema) if call.frame.leaves_out else None
        self._firsts: pa.Array = pa.array([], call.value.type.arrow)

    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        known = len(self._firsts)
        if size > known:
            codes = given.codes[given.starts]
            new = codes >= known
            places = np.empty(size - known, np.int64)
            places[codes[new] - known] = given.starts[new]
            found = self._value(given.rows).take(pa.array(places))
            self._firsts = pa.concat_arrays([self._firsts, found])
        firsts = self._firsts.take(pa.array(given.codes))
        if self._without is None or size == known:
            return firsts
        own = self._without.of(given, np.arange(len(given)))
        return pc.if_else(pa.array(given.codes < known), firsts, own)

    def save(self, codes: Codes) -> Tree:
        return self._firsts.take(pa.array(codes))

    def load(self, saved: Tree, codes: Codes, size: int) -> None:  # noqa: ARG002
        self._firsts = pa.concat_arrays([self._firsts, saved])  # blocks come in turn


class ValueSlots:
    """Numbered slots that hold a value or none; a value may replace another."""

    def __init__(self, sql_type: Type) -> None:
        self._type = sql_type.arrow
        self._places: Ints = np.zeros(0, np.int64)  # among the values; -1 for none
        self._values = GrownColumn(pa.array([], self._type))

    def grow(self, size: int) -> None:
        self._places = grown(self._places, size, -1)

    def put(self, slots: Ints, values: pa.Array) -> None:
        numbers = len(self._values) + np.arange(len(values))
        self._places[slots] = np.where(np.asarray(values.is_valid()), numbers, -1)
        self._values.append(values)
        if len(self._values) > 2 * len(self._places) + _FEW:  # most of them are no longer held
            held = np.flatnonzero(self._places >= 0)
            self._values = GrownColumn(self._values.take(self._places[held]))
            self._places[held] = np.arange(len(held))

    def take(self, slots: Ints) -> pa.Array:
        places = self._places[slots]
        held = places >= 0
        if not held.any():
            return pa.nulls(len(slots), self._type)
        values = self._values.take(np.where(held, places, 0))
        if held.all():
            return values
        return pc.if_else(pa.array(held), values, pa.scalar(None, self._type))


class CarriedFirstKnown(CarriedCall):
    """The first value of every partition that is known, or NULL as long as there is none."""

    def __init__(self, call: ValueAt, schema: Schema) -> None:
        self._in_frames = ValueOverRows(call, schema)
        self._in_all = ValueOverRows(replace(call, frame=_ALL), schema)
        self._firsts = ValueSlots(call.value.type)

    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        self._firsts.grow(size)
        own = self._in_frames.of(given, np.arange(len(given)))
        found = pc.coalesce(self._firsts.take(given.codes), own)
        last = given.stops - 1
        codes = given.codes[last]
        first = pc.coalesce(self._firsts.take(codes), self._in_all.of(given, last))
        self._firsts.put(codes, first)
        return found

    def save(self, codes: Codes) -> Tree:
        return self._firsts.take(codes)

    def load(self, saved: Tree, codes: Codes, size: int) -> None:
        self._firsts.grow(size)
        self._firsts.put(codes, saved)


class CarriedLast(CarriedCall):
    """The last value of frames that leave rows out: the rows that they hold may have come long
    before."""

    def __init__(self, call: ValueAt, schema: Schema) -> None:
        self._in_frames = ValueOverRows(call, schema)
        self._in_all = ValueOverRows(replace(call, frame=_ALL), schema)
        self._lasts = ValueSlots(call.value.type)

    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        self._lasts.grow(size)
        found = self._last(self._in_frames, given, np.arange(len(given)))
        last = given.stops - 1
        self._lasts.put(given.codes[last], self._last(self._in_all, given, last))
        return found

    def _last(self, call: ValueOverRows, given: RowsInPartitions, targets: Ints) -> pa.Array:
        own, there = call.found(given, targets)
        return pc.if_else(pa.array(there), own, self._lasts.take(given.codes[targets]))

    def save(self, codes: Codes) -> Tree:
        return self._lasts.take(codes)

    def load(self, saved: Tree, codes: Codes, size: int) -> None:
        self._lasts.grow(size)
        self._lasts.put(codes, saved)


class CarriedLastKnown(CarriedCall):
    """The n-th last value that is known: before the row, or up to the end of its frame.

    Every partition has n slots, the latest value in the last of them."""

    def __init__(
        self,
        value: Expression,
        back: int,
        frame: RowFrame | None,
        default: Expression | None,
        schema: Schema,
    ) -> None:
        self._back, self._frame = back, frame
        self._value = compile_expression(value, schema)
        self._default = None if default is None else compile_expression(default, schema)
        self._lasts = ValueSlots(value.type)

    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        self._lasts.grow(size * self._back)
        targets = np.arange(len(given))
        upto = targets if self._frame is None else given.bounds(self._frame, targets)[1]
        values = self._value(given.rows)
        known = KnownRows(values)
        found = self._found(values, known, given, targets, upto)
        self._carry(values, known, given)
        # no value that is carried is NULL, so NULL means that there is none
        return found if self._default is None else pc.coalesce(found, self._default(given.rows))

    def _found(
        self,
        values: pa.Array,
        known: KnownRows,
        given: RowsInPartitions,
        targets: Ints,
        upto: Ints,
        slot: Ints | int = 0,
    ) -> pa.Array:
        """Value of a slot of the partitions of some rows, when all rows before `upto` have come:
        the first slot is the n-th last value."""
        before = known.before(given.begin[targets])
        number = known.before(upto) - before
        moved = slot + number  # slots to the left, as many as values have come
        here = moved >= self._back
        own = values.take(pa.array(known.at(before + moved - self._back, here), mask=~here))
        if here.all():
            return own
        kept = given.codes[targets] * self._back + np.where(here, 0, moved)
        return pc.if_else(pa.array(here), own, self._lasts.take(kept))

    def _carry(self, values: pa.Array, known: KnownRows, given: RowsInPartitions) -> None:
        came = known.before(given.stops) > known.before(given.starts)
        ends = np.repeat(given.stops[came] - 1, self._back)
        slot = np.tile(np.arange(self._back), int(np.count_nonzero(came)))
        found = self._found(values, known, given, ends, ends + 1, slot)
        self._lasts.put(given.codes[ends] * self._back + slot, found)

    def save(self, codes: Codes) -> Tree:
        return self._lasts.take(self._slots(codes))

    def load(self, saved: Tree, codes: Codes, size: int) -> None:
        self._lasts.grow(size * self._back)
        self._lasts.put(self._slots(codes), saved)

    def _slots(self, codes: Codes) -> Ints:
        return (codes[:, None] * self._back + np.arange(self._back)).ravel()


# State by partition: numbers of rows, running aggregates and first values.
#
# Partitions have codes, and everything is arrays by them, saved in blocks.

_BLOCK = 1024  # partitions that are saved together


def carried_call(call: OverCall, schema: Schema) -> CarriedCall | None:
    """The call, if it runs with the rows."""
    match call:
        case Numbering():
            return CarriedNumber(call.kind)
        case ValueAt(place=1, frame=frame) if frame.runs:
            return CarriedFirstKnown(call, schema) if call.known else CarriedFirst(call, schema)
        case ValueAt(place=-1, frame=frame) if frame.runs and frame.leaves_out:
            return CarriedLast(call, schema)
        case ValueAt(place=-1, frame=frame, known=True) if frame.runs:
            return CarriedLastKnown(call.value, 1, frame, None, schema)
        case Neighbour(known=True):
            return CarriedLastKnown(call.value, -call.offset, None, call.default, schema)
        case FramedAggregate(frame=frame) if frame.runs:
            return CarriedAggregate(call, schema)
    return None


class CarriedNumber(CarriedCall):
    """row_number and ranks, by the number of rows that each partition has had."""

    def __init__(self, kind: NumberKind) -> None:
        self._kind = kind
        self._counts: Ints = np.zeros(0, np.int64)  # rows, or kinds of rows

    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        self._counts = grown(self._counts, size, 0)
        found = numbers(self._kind, given) + self._counts[given.codes]
        last = given.stops - 1
        own = found[last]
        if self._kind is NumberKind.RANK:
            own = self._counts[given.codes[last]] + given.stops - given.starts
        self._counts[given.codes[last]] = own
        return of_64_bits(found)

    def unseen(self, codes: Codes, size: int) -> Ints:
        """The places of those codes whose partitions have had no row."""
        self._counts = grown(self._counts, size, 0)
        places: Ints = np.flatnonzero(self._counts[codes] == 0)
        return places

    def count_one(self, codes: Codes) -> None:
        """Note that partitions have one row."""
        self._counts[codes] = 1

    def save(self, codes: Codes) -> Tree:
        return self._counts[codes]

    def load(self, saved: Tree, codes: Codes, size: int) -> None:
        self._counts = grown(self._counts, size, 0)
        self._counts[codes] = saved


class CarriedAggregate(CarriedCall):
    """An aggregate whose frame begins with the partition, as partial results by partition."""

    def __init__(self, call: FramedAggregate, schema: Schema) -> None:
        self._over = AggregateOverFrames(call.call, call.frame, schema)
        self._aggregate = self._over.aggregate
        self._partial = self._aggregate.new(0)

    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        aggregate = self._aggregate
        aggregate.grow(self._partial, size)
        seen = Seen(self._over.arguments, given.rows)
        held = self._over.held(seen, given, np.arange(len(given)))
        if aggregate.additive:
            own = self._over.between(self._over.totals(seen), held)
        else:
            own = self._best(seen, held)
        aggregate.merge(own, aggregate.take(self._partial, given.codes))
        results = aggregate.finish(own, np.arange(len(given)))
        if seen.size:
            codes = given.codes if seen.chosen is None else given.codes[seen.chosen]
            zeros = np.zeros(seen.size, np.int64)
            aggregate.fold(self._partial, codes, seen.columns, zeros)
        return results

    def _best(self, seen: Seen, held: list[Stretches]) -> Any:
        """Partial results over frames: of the rows in each the best."""
        partial = self._aggregate.new(len(held[0][0]))
        if not any((high > low).any() for low, high in held):
            return partial
        ranks = self._over.ranks(seen)
        if len(held) == 1:
            best, found = _best_so_far(ranks, *held[0])
        else:
            best, found = lowest_of_all(ranks, held)
        some = np.flatnonzero(found)
        rows = np.zeros(int(ranks.max()) + 1, np.int64)
        rows[ranks] = np.arange(seen.size)
        places = pa.array(rows[best[some]])
        columns = [each.take(places) for each in seen.columns]
        self._aggregate.fold(partial, some, columns, np.zeros(len(some), np.int64))
        return partial

    def save(self, codes: Codes) -> Tree:
        return self._aggregate.save(self._aggregate.take(self._partial, codes))

    def load(self, saved: Tree, codes: Codes, size: int) -> None:
        aggregate = self._aggregate
        aggregate.grow(self._partial, size)
        aggregate.merge(self._partial, aggregate.spread(aggregate.load(saved), codes, size))


def _best_so_far(ranks: Ints, low: Ints, high: Ints) -> tuple[Ints, Mask]:
    """The lowest rank of stretches that begin with their partition, and whether they have any."""
    width = int(ranks.max()) + 1
    # partitions from the last to the first, so that the best so far never is of another one
    begins = np.zeros(len(ranks) + 1, np.int64)
    begins[low] = 1
    turn = np.cumsum(begins[: len(ranks)])
    best = np.minimum.accumulate(ranks - turn * width) + turn * width
    return best[np.maximum(high, 1) - 1], high > low


class Carried:
    """State of all calls of a node that are carried."""

    def __init__(self, calls: list[CarriedCall]) -> None:
        self._calls = calls
        self._touched: set[int] = set()  # blocks of partitions, since the last save

    def of(self, given: RowsInPartitions, size: int) -> list[pa.Array]:
        if self._calls:
            self.touch(given.codes[given.starts])
        return [call.of(given, size) for call in self._calls]

    def touch(self, codes: Codes) -> None:
        """Mark the state of some partitions as changed, to be written by the next save."""
        blocks = np.bincount(codes // _BLOCK)
        self._touched.update(np.flatnonzero(blocks).tolist())

    def save(self, store: ChunkStore, size: int) -> None:
        for block in sorted(self._touched):
            codes = np.arange(block * _BLOCK, min(size, (block + 1) * _BLOCK))
            store.put(f"carried/{block}", [call.save(codes) for call in self._calls])
        self._touched.clear()

    def load(self, store: ChunkStore, size: int) -> None:
        for block in range(-(-size // _BLOCK) if self._calls else 0):
            codes = np.arange(block * _BLOCK, min(size, (block + 1) * _BLOCK))
            saved = store.get(f"carried/{block}")
            for call, own in zip(self._calls, saved or (), strict=False):
                call.load(own, codes, size)
