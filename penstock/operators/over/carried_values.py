"""Values of earlier rows of a partition, without these rows: the first of all, the first that is
known, and the last few that are (IGNORE NULLS)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints
from penstock.model.schema import Schema
from penstock.model.types import Type
from penstock.operators.folding.grown_column import GrownColumn
from penstock.operators.folding.scatter import grown
from penstock.operators.over.calls import KnownRows, ValueOverRows
from penstock.operators.over.carried_call import CarriedCall
from penstock.operators.over.frame_bounds import RowsInPartitions
from penstock.plan.expressions import Expression
from penstock.plan.nodes.over_calls import FrameUnit, RowFrame, ValueAt
from penstock.state.chunks import Tree

_FEW = 1024  # values that may be kept for nobody
_ALL = RowFrame(FrameUnit.ROWS, None, None)


class CarriedFirst(CarriedCall):
    """Partitions are numbered as they are first seen, so new ones stand behind all others."""

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
    """Numbered places that hold a value or none; another may be put where one is."""

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
    """The last value of frames that leave rows out: what they hold may have come long before."""

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
        """What is to be in a slot of the partitions of some rows, when all rows before `upto` have
        come: the first slot is the n-th last value."""
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
