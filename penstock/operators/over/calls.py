"""What stands before OVER, for sorted rows: a value for each of some of them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import of_64_bits
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints, Mask
from penstock.model.schema import Schema
from penstock.operators.over.frame_bounds import RowsInPartitions, Stretches
from penstock.operators.over.framed_aggregates import AggregateOverFrames
from penstock.plan.nodes.over_calls import (
    FramedAggregate,
    Neighbour,
    Numbering,
    NumberKind,
    OverCall,
    Standing,
    StandingKind,
    ValueAt,
)


class CallOverRows(Protocol):
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
    """Those of sorted rows that have a value."""

    def __init__(self, values: pa.Array) -> None:
        valid = np.asarray(values.is_valid())
        self._places = np.flatnonzero(valid)
        self._before = np.concatenate([[0], np.cumsum(valid)])

    def before(self, places: Ints) -> Ints:
        """How many there are before some places."""
        return self._before[places]

    def at(self, numbers: Ints, there: Mask) -> Ints:
        """The places of those with numbers, where they are there."""
        places = np.zeros(len(numbers), np.int64)
        places[there] = self._places[numbers[there]]
        return places


class ValueOverRows:
    def __init__(self, call: ValueAt, schema: Schema) -> None:
        self._frame, self._place, self._known = call.frame, call.place, call.known
        self._value = compile_expression(call.value, schema)

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        return self.found(given, targets)[0]

    def found(self, given: RowsInPartitions, targets: Ints) -> tuple[pa.Array, Mask]:
        """The values for the rows at some places, and whether there is a row that has it."""
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
