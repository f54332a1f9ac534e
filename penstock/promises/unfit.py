"""Rows that could be read but cannot take part: they are set aside where they enter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.calendar import format_timestamp
from penstock.model.clock import Clock
from penstock.model.plain_values import to_python
from penstock.model.room import TICKS, Interval, Room
from penstock.model.types import Kind
from penstock.operators.ticks import has_ticks, to_ticks
from penstock.plan.streams import StreamDefinition
from penstock.promises.by_sub_source import NOTHING
from penstock.promises.punctuations import SourceRows
from penstock.sources.rejects import RejectKind, StreamRejects, no_room
from penstock.windows.columns import extremes

_Reasons = dict[int, tuple[RejectKind, str]]


class Unfit:
    """Finds rows of one scan without a time, with one too far ahead, or with one that windows have
    no room for."""

    def __init__(
        self, stream: StreamDefinition, room: Room, clock: Clock, rejects: StreamRejects
    ) -> None:
        assert stream.progress is not None
        self._stream = stream
        self._type = stream.attribute.type
        self.room = room
        self._limit = stream.progress.policy.future_limit
        self._clock = clock
        self._rejects = rejects

    def find(self, rows: SourceRows, part: str, before: int) -> Mask | None:
        """Which rows cannot take part; `before` rows of the part came before them."""
        if self._are_fit(rows):
            return None
        batch, attribute = rows.batch, rows.attribute
        punctuates, promised = rows.punctuates, rows.promised
        reasons: _Reasons = {}
        said = punctuates if punctuates is not None else np.zeros(batch.num_rows, np.bool_)
        if attribute.null_count:
            for row in np.flatnonzero(np.asarray(attribute.is_null()) & ~said).tolist():
                reasons[row] = (RejectKind.NO_PROGRESS, self._stream.without_time)
        if promised is not None and promised.null_count:
            for row in np.flatnonzero(np.asarray(promised.is_null()) & said).tolist():
                reasons[row] = (RejectKind.NO_PROGRESS, "a punctuation without a bound")
        self._without_room(attribute, punctuates, self.room.tuples, 0, reasons)
        if promised is not None:
            self._without_room(promised, ~said, self.room.reached, 1, reasons)
        if self._limit is not None:
            times = np.asarray(attribute.cast(pa.int64()).fill_null(NOTHING))
            ahead = (times > self._clock.now() + self._limit) & ~said
            for row in np.flatnonzero(ahead).tolist():
                when = format_timestamp(int(times[row]))
                reasons[row] = (RejectKind.FUTURE, f"{when} is too far ahead of the clock")
        return self._set_aside(batch, part, before, reasons) if reasons else None

    def _are_fit(self, rows: SourceRows) -> bool:
        """Whether all of them obviously can, as they mostly can."""
        if rows.punctuates is not None or self._limit is not None:
            return False
        if rows.attribute.null_count or self._type.kind is Kind.DECIMAL:
            return False
        room = self.room.tuples
        if room is TICKS or not len(rows):
            return True
        lowest, highest = rows.extremes(self._type)
        return max(room.low, TICKS.low) <= lowest and highest <= min(room.high, TICKS.high)

    def _without_room(
        self,
        column: pa.Array,
        left_out: Mask | None,
        room: Interval,
        beyond: int,
        reasons: _Reasons,
    ) -> None:
        """Values that are more than `beyond` ticks outside of the room there is."""
        if room == TICKS and self._type.kind is not Kind.DECIMAL:
            return
        rows: Ints | None = None
        if column.null_count or left_out is not None:
            kept = np.asarray(column.is_valid())
            rows = np.flatnonzero(kept if left_out is None else kept & ~left_out)
            column = column.take(pa.array(rows))
        fits = has_ticks(column, self._type)
        if fits is None:
            fits = _inside(to_ticks(column, self._type), room, beyond)
        else:
            fits[fits] = _inside(to_ticks(column.filter(pa.array(fits)), self._type), room, beyond)
        for place in np.flatnonzero(~fits).tolist():
            row = place if rows is None else int(rows[place])
            (value,) = to_python(column.slice(place, 1), self._type)
            reasons[row] = (RejectKind.OUT_OF_RANGE, no_room(value, self._type))

    def _set_aside(self, batch: pa.RecordBatch, part: str, before: int, reasons: _Reasons) -> Mask:
        rejected = np.zeros(batch.num_rows, np.bool_)
        for row, (kind, reason) in sorted(reasons.items()):
            rejected[row] = True
            cells = [
                (field, to_python(batch.column(field.name).slice(row, 1), field.type)[0])
                for field in self._stream.input_schema
            ]
            name = self._stream.attribute.name
            self._rejects.set_aside(kind, part, before + row + 1, cells, name, reason)
        return rejected


def _inside(ticks: Ints, room: Interval, beyond: int) -> Mask:
    low, high = max(room.low, TICKS.low), min(room.high + beyond, TICKS.high)
    if low > high:
        return np.zeros(len(ticks), np.bool_)
    if len(ticks) == 0:
        return np.ones(0, np.bool_)
    lowest, highest = extremes(ticks)
    if low <= lowest and highest <= high:
        return np.ones(len(ticks), np.bool_)
    inside: Mask = (ticks >= low) & (ticks <= high)
    return inside
