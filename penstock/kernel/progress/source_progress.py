"""Progress of a source: the running bounds of its sub-sources and their low-watermark, idle
sub-sources, and the rows that are punctuations or cannot take part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression, compile_predicate
from penstock.io.sources.rejects import RejectKind, StreamRejects, no_room
from penstock.kernel.bounds import has_ticks, to_ticks
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.progress.sub_sources import (
    NOTHING,
    UNCOUNTED,
    BySubSource,
    Lowest,
    SubSourceBounds,
    joined_in,
    within_ticks,
)
from penstock.kernel.state import ChunkStore, required
from penstock.model.arrays import Codes, Ints, Mask, extremes, stable_order
from penstock.model.clock import Clock
from penstock.model.durations import format_timestamp
from penstock.model.punctuation import BEGINNING, Bound, Delay, ProgressPolicy, Rule
from penstock.model.ticks import TICKS, Interval, Room
from penstock.model.types import INT64_MIN, Kind, Schema, Type
from penstock.model.values import to_python
from penstock.plan.streams import PunctuationRows, StreamDefinition

BLOCK = 1024  # sub-sources that are saved together


# The bounds of sub-sources, and the low-watermark of all of them.  Each step costs as much as there
# are sub-sources that take part in it, however many others there are.


class RunningBounds(SubSourceBounds):
    """Bounds of all sub-sources of a source, by number.  No sub-source that counts has a bound
    below the low-watermark: so that is a floor for all bounds, and raising it raises all of them.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._waited_for: Mask = np.zeros(0, np.bool_)
        self._waiting = 0  # for so many
        self._lowest = Lowest()  # of the bounds of those that are waited for
        self._low = NOTHING
        self._touched: set[int] = set()  # blocks, since the last save

    @property
    def low(self) -> Bound:
        return BEGINNING if self._low == NOTHING else self._low

    @property
    def known(self) -> Codes:
        """Sub-sources whose bounds count for the low-watermark."""
        return np.flatnonzero(self._waited_for)

    def knows(self, code: int) -> bool:
        return code < len(self._waited_for) and bool(self._waited_for[code])

    @property
    def held_back_by(self) -> Codes:
        """Sub-sources with the lowest bound, which hold the low-watermark back."""
        return self._lowest.at_most(self._low) if self._low < UNCOUNTED else self.known

    def let_in(self, codes: Codes) -> None:
        """Register sub-sources before any of them has been heard.  New ones, or those that had been
        excluded, join at the low-watermark."""
        self._reserve(int(codes.max(initial=-1)) + 1)
        codes = codes[~self._waited_for[codes]]
        self._wait_for(codes)
        self._move(codes, np.maximum(self._bounds[codes], self._low))

    def leave_out(self, codes: Codes) -> None:
        """Exclude sub-sources that have fallen silent, as if they left one by one."""
        if len(codes) == 0:
            return
        self._bounds[codes] = np.maximum(self._bounds[codes], self._low)
        self._waited_for[codes] = False
        self._waiting -= len(codes)
        self._lowest.put(codes, np.full(len(codes), UNCOUNTED))
        if not self._waiting:  # the last one was waited for alone
            self._low = int(self._bounds[codes[-1]])
        self._update_low()
        self._touch(codes)

    def raise_to(self, bound: Bound) -> None:
        """Raise all bounds: nothing below `bound` is waited for any more, in any sub-source."""
        self._low = max(self._low, within_ticks(bound))

    def kept_by(self, code: int, lowest: int, highest: int) -> bool:
        if not self.knows(code):
            self._let_in_one(code)  # they are about to come
        return super().kept_by(code, lowest, highest)

    def before_of(self, code: int, ticks: Ints, promised: Ints | None) -> Ints:
        if len(ticks) == 0:
            return ticks
        if not self.knows(code):
            self._let_in_one(code)
        rows = BySubSource.one(code, len(ticks))
        after = self._contributions(rows, ticks, promised)
        running = np.empty(len(after) + 1, np.int64)
        running[0], running[1:] = self._bound(code), after
        np.maximum.accumulate(running, out=running)
        self._move_one(code, int(running[-1]))
        return running[:-1]

    def _bound(self, code: int) -> int:
        return max(int(self._bounds[code]), self._low)

    def _before(self, rows: BySubSource, ticks: Ints, promised: Ints | None) -> Ints:
        self._reserve(int(rows.codes[-1]) + 1)
        known = self._waited_for[rows.codes]
        starts = self._bounds[rows.codes]
        starts[known] = np.maximum(starts[known], self._low)
        after = self._contributions(rows, ticks, promised)
        before, reached = rows.highest_before(starts, after)
        if not known.all():
            others = self._lowest_without(rows.codes) if self._waiting else None
            made = rows.next_in_each(before, reached)
            joined = np.full(len(rows.codes), NOTHING)
            joined[~known] = joined_in(rows, ~known, starts, made, others, self._low)
            before = np.maximum(before, rows.spread(joined))
            reached = np.maximum(reached, joined)
            self._wait_for(rows.codes[~known])
        self._move(rows.codes, reached)
        return before

    def _lowest_without(self, codes: Codes) -> int:
        """The lowest bound of all others; those must be put back."""
        self._lowest.put(codes, np.full(len(codes), UNCOUNTED))
        return self._lowest.value

    def _let_in_one(self, code: int) -> None:
        self._reserve(code + 1)
        self._waited_for[code] = True
        self._waiting += 1
        self._move_one(code, self._bound(code))

    def _wait_for(self, codes: Codes) -> None:
        self._waited_for[codes] = True
        self._waiting += len(codes)

    def _move(self, codes: Codes, bounds: Ints) -> None:
        self._bounds[codes] = bounds
        self._lowest.put(codes, bounds)
        self._update_low()
        self._touch(codes)

    def _move_one(self, code: int, bound: int) -> None:
        held_back = self._bounds[code] <= self._low  # otherwise the low-watermark does not move
        self._bounds[code] = bound = within_ticks(bound)
        self._lowest.put_one(code, bound)
        if self._waiting == 1:
            self._low = max(self._low, bound)
        elif held_back:
            self._update_low()
        self._touched.add(code // BLOCK)

    def _update_low(self) -> None:
        if self._waiting:
            self._low = max(self._low, self._lowest.value)

    def _reserve(self, size: int) -> None:
        super()._reserve(size)
        self._waited_for = grown(self._waited_for, size, False)

    # --- state -----------------------------------------------------------------------------------

    def _touch(self, codes: Codes) -> None:
        self._touched.update(blocks_of(codes))

    def save(self, store: ChunkStore) -> None:
        """Write the blocks of sub-sources that have changed."""
        for block in self._touched:
            codes = np.arange(block * BLOCK, min(len(self._bounds), (block + 1) * BLOCK))
            chunk = {"bounds": self._bounds[codes], "waited for": self._waited_for[codes]}
            if self._held is not None:
                chunk["sizes"], chunk["recent"] = self._held.of(codes)
            store.put(f"bounds/{block}", chunk)
        self._touched.clear()
        store.put("low", self._low)

    def load(self, store: ChunkStore) -> None:
        """Replace the state by a snapshot."""
        self._reset()
        self._low = required(store, "low")
        for name in store.names():
            if name.startswith("bounds/"):
                self._load_block(int(name.removeprefix("bounds/")), required(store, name))
        self._update_low()

    def _load_block(self, block: int, chunk: dict[str, Ints]) -> None:
        codes = block * BLOCK + np.arange(len(chunk["bounds"]))
        bounds = self._restore(codes, chunk["bounds"], chunk.get("sizes"), chunk.get("recent"))
        self._reserve(int(codes[-1]) + 1)
        waited_for = chunk["waited for"].astype(np.bool_)
        self._wait_for(codes[waited_for])
        self._lowest.put(codes[waited_for], bounds[waited_for])


def blocks_of(codes: Codes) -> list[int]:
    """The blocks that hold some sub-sources."""
    if len(codes) == 0:
        return []
    touched = np.zeros(int(codes.max()) // BLOCK + 1, np.bool_)
    touched[codes // BLOCK] = True
    blocks: list[int] = np.flatnonzero(touched).tolist()
    return blocks


# Times at which sub-sources were last heard, and the longest silent ones.

_NEVER = INT64_MIN
_FEW = 1024  # names that are kept although their sub-sources have spoken again


@dataclass(slots=True)
class _Moment:
    """Sub-sources that were heard at one moment; `left` of them have not been heard since."""

    when: int
    number: int
    codes: list[Codes] = field(default_factory=list)
    left: int = 0


class LastHeard:
    """Sub-sources by the moments at which they were last heard, in order.  One that is heard again
    counts at its new moment only; its old entry stays until no sub-source counts there."""

    def __init__(self) -> None:
        self._moments: dict[int, _Moment] = {}  # by number, as they came
        self._first = self._next = 0  # the numbers of the first one, and of the one to come
        self._at: Ints = np.zeros(0, np.int64)  # the number of the moment of each, −1 if of none
        self._when: Ints = np.zeros(0, np.int64)
        self._size = 0
        self._names = 0  # in all moments
        self._touched: set[int] = set()  # blocks, since the last save

    def __len__(self) -> int:
        return self._size

    @property
    def longest_silence(self) -> int:
        """Moment since which the longest silent sub-source is silent; at least one must have been
        heard."""
        return self._moments[self._first].when

    def most_silent(self) -> Codes:
        """Longest silent sub-sources, in the order of their numbers."""
        first = self._moments[self._first]
        codes = np.concatenate(first.codes)
        return np.unique(codes[self._at[codes] == first.number])

    def put(self, codes: Codes, now: int) -> None:
        """Register sub-sources as heard at `now`; each is named once."""
        if len(codes) == 0:
            return
        self.drop(codes)
        if not self._moments or self._moments[self._next - 1].when != now:
            self._moments[self._next] = _Moment(now, self._next)
            self._next += 1
        last = self._moments[self._next - 1]
        last.codes.append(codes)
        last.left += len(codes)
        self._at[codes], self._when[codes] = last.number, now
        self._size += len(codes)
        self._names += len(codes)
        if self._names > 2 * self._size + _FEW:
            self._tidy()

    def drop(self, codes: Codes) -> None:
        """Remove sub-sources, which have no last moment then."""
        size = int(codes.max(initial=-1)) + 1
        self._at, self._when = grown(self._at, size, -1), grown(self._when, size, _NEVER)
        numbers, counts = np.unique(self._at[codes], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number >= 0:
                self._moments[number].left -= count
                self._size -= count
        self._at[codes], self._when[codes] = -1, _NEVER
        self._touched.update(blocks_of(codes))
        while self._first < self._next and not self._moments[self._first].left:
            gone = self._moments.pop(self._first)
            self._names -= sum(map(len, gone.codes))
            self._first += 1

    def _tidy(self) -> None:
        """Remove the entries of sub-sources that have been heard since."""
        self._restore(self._when)

    def _restore(self, when: Ints) -> None:
        heard = np.flatnonzero(when != _NEVER)
        order = heard[stable_order(when[heard])]
        times, begins = np.unique(when[order], return_index=True)
        self._when = when
        self._at = np.full(len(when), -1)
        self._size = self._names = len(heard)
        self._moments = {}
        self._first, self._next = 0, len(times)
        ends = [*begins[1:].tolist(), len(order)]
        for number, time in enumerate(times.tolist()):
            codes = order[begins[number] : ends[number]]
            self._at[codes] = number
            self._moments[number] = _Moment(time, number, [codes], len(codes))

    def save(self, store: ChunkStore) -> None:
        for block in self._touched:
            store.put(f"heard/{block}", self._when[block * BLOCK : (block + 1) * BLOCK])
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        """Replace the state by a snapshot."""
        when: Ints = np.zeros(0, np.int64)
        for name in store.names():
            if name.startswith("heard/"):
                begin, found = int(name.removeprefix("heard/")) * BLOCK, required(store, name)
                when = grown(when, begin + len(found), _NEVER)
                when[begin : begin + len(found)] = found
        self._restore(when)


# IDLE AFTER: sub-sources that have been silent for too long no longer hold back the low-watermark.


class IdleSubSources:
    """Times at which the sub-sources of a live source were last heard, and the exclusion of silent
    ones.

    A silent sub-source does not count for the low-watermark.  When it is heard again it joins like
    a new one.  If all of them are silent, the low-watermark moves on with the clock.
    """

    def __init__(self, bounds: RunningBounds, policy: ProgressPolicy, clock: Clock) -> None:
        assert policy.idle_after is not None
        self._bounds = bounds
        self._clock = clock
        self._idle_after = policy.idle_after
        self._delay = policy.rule.ticks if isinstance(policy.rule, Delay) else 0
        self._heard = LastHeard()
        self._last = clock.now()

    def heard(self, codes: Codes) -> None:
        """Register that some sub-sources, each named once, are about to be read."""
        self._last = self._clock.now()
        self._heard.put(codes, self._last)

    def forget(self, codes: Codes) -> None:
        """Drop sub-sources that do not count for the low-watermark any more."""
        self._heard.drop(codes)

    def look(self) -> None:
        """Exclude the sub-sources that are silent while others are not."""
        now = self._clock.now()
        while len(self._heard) > 1 and now - self._heard.longest_silence >= self._idle_after:
            silent = self._heard.most_silent()
            if len(silent) == len(self._heard):
                silent = silent[:-1]  # one counts, even if all are silent
            self._heard.drop(silent)
            self._bounds.leave_out(silent)

    def wait(self, high: Bound) -> None:
        """Handle a silence of the whole source: once it is long enough, the bound is the highest
        tick so far, moved on with the clock, less the delay; by the clock alone if no tuple has
        ever come."""
        self.look()
        now = self._clock.now()
        silence = now - self._last
        if silence < self._idle_after:
            return
        reached = now if high == BEGINNING else int(high) + silence
        self._bounds.raise_to(reached - self._delay)

    def due(self) -> int:
        """Next time, in microseconds, at which a sub-source or the whole source may have been
        silent for long enough."""
        heard = self._heard.longest_silence if len(self._heard) > 1 else self._last
        return min(heard, self._last) + self._idle_after

    def begin_anew(self) -> None:
        """Restart all silences now: time in which nothing ran is no silence of the sub-sources."""
        self._last = self._clock.now()
        self._heard = LastHeard()
        self._heard.put(self._bounds.known, self._last)

    def save(self, store: ChunkStore) -> None:
        store.put("last", self._last)
        self._heard.save(store)

    def load(self, store: ChunkStore) -> None:
        self._last = required(store, "last")
        self._heard.load(store)


# Rows of a source that are not data: punctuations, told apart from tuples.


@dataclass(slots=True)  # not frozen, like batches
class SourceRows:
    """Rows of a source with the progressing attribute of each; `punctuates` marks the punctuations,
    and `promised` has their bounds.  Both are None where the stream has none."""

    batch: pa.RecordBatch
    attribute: pa.Array
    punctuates: Mask | None = None
    promised: pa.Array | None = None
    _ticks: Ints | None = None  # once they have been asked for
    _extremes: tuple[int, int] | None = None

    def __len__(self) -> int:
        rows: int = self.batch.num_rows
        return rows

    def only(self, kept: Mask) -> SourceRows:
        taken = pa.array(kept)
        return SourceRows(
            self.batch.filter(taken),
            self.attribute.filter(taken),
            self.punctuates[kept] if self.punctuates is not None else None,
            self.promised.filter(taken) if self.promised is not None else None,
        )

    def tuples(self) -> SourceRows:
        """Keep the tuples, without punctuations."""
        if self.punctuates is None:
            return self
        left = self.only(~self.punctuates) if self.punctuates.any() else self
        return SourceRows(left.batch, left.attribute)

    def stamped(self, stamps: list[int]) -> None:
        """Note the ticks of stamped rows, so that they need not be looked for in the columns."""
        self._extremes = min(stamps), max(stamps)

    def ticks(self, sql_type: Type) -> Ints:
        """Ticks of the progressing attribute; NOTHING for punctuations."""
        if self.punctuates is None:
            if self._ticks is None:
                self._ticks = to_ticks(self.attribute, sql_type)
            return self._ticks
        ticks = np.full(len(self), NOTHING)
        ticks[~self.punctuates] = to_ticks(
            self.attribute.filter(pa.array(~self.punctuates)), sql_type
        )
        return ticks

    def extremes(self, sql_type: Type) -> tuple[int, int]:
        """The lowest and the highest of these ticks."""
        if self._extremes is None:
            self._extremes = extremes(self.ticks(sql_type))
        return self._extremes

    def said(self, sql_type: Type) -> Ints:
        """Bounds of the punctuations, in their order."""
        if self.punctuates is None or self.promised is None:
            return np.zeros(0, np.int64)
        return to_ticks(self.promised.filter(pa.array(self.punctuates)), sql_type)


class Punctuations:
    """Finds punctuations among rows, by the predicate of the stream, if it has one."""

    def __init__(self, rows: PunctuationRows | None, schema: Schema) -> None:
        self._when = compile_predicate(rows.when, schema) if rows is not None else None
        self._bound = compile_expression(rows.bound, schema) if rows is not None else None

    def told_apart(self, batch: pa.RecordBatch, attribute: pa.Array) -> SourceRows:
        if self._when is None or self._bound is None:
            return SourceRows(batch, attribute)
        return SourceRows(batch, attribute, np.asarray(self._when(batch)), self._bound(batch))


# Rejected rows: they could be read but cannot take part, and are set aside where they enter.

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
        """Mask of the rows that cannot take part, which are rejected; `before` rows of the part
        came before them.  None if all rows can."""
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
