"""What stands before OVER, for sorted rows: a value for each of some of them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import of_64_bits
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints
from penstock.model.schema import Schema
from penstock.operators.over.frame_bounds import RowsInPartitions
from penstock.operators.over.framed_aggregates import AggregateOverFrames
from penstock.plan.over_calls import (
    FramedAggregate,
    Neighbour,
    Numbering,
    NumberKind,
    OverCall,
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


class NeighbourOverRows:
    def __init__(self, call: Neighbour, schema: Schema) -> None:
        self._offset = call.offset
        self._value = compile_expression(call.value, schema)
        self._default = None
        if call.default is not None:
            self._default = compile_expression(call.default, schema)

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        begin, end = given.begin[targets], given.end[targets]
        size = len(given)
        places = targets + max(-size, min(size, self._offset))
        there = (places >= begin) & (places < end)
        found = self._value(given.rows).take(pa.array(places, mask=~there))
        if self._default is None or there.all():
            return found
        others = self._default(given.rows).take(pa.array(targets))
        return pc.if_else(pa.array(there), found, others)


class ValueOverRows:
    def __init__(self, call: ValueAt, schema: Schema) -> None:
        self._frame, self._place = call.frame, call.place
        self._value = compile_expression(call.value, schema)

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        low, high = given.bounds(self._frame, targets)
        places = high - 1 if self._place < 0 else low + (self._place - 1)
        there = (places >= low) & (places < high)
        return self._value(given.rows).take(pa.array(places, mask=~there))
