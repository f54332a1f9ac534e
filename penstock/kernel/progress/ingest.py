"""Ingestion of a stream: times that Penstock gives to tuples (stamped or computed), enabling
timestamps, the bounds of a scan, and the batches and progress that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expressions.compiler import compile_expression
from penstock.expressions.evaluation import evaluator
from penstock.io.sources.files import NoFilesError
from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import Attention, Chunk, LiveSource, Source, chunks_of
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.operator import Item, Progress
from penstock.kernel.progress.group_bounds import GroupBounds, GroupPromises
from penstock.kernel.progress.source_progress import (
    IdleSubSources,
    Punctuations,
    RunningBounds,
    SourceRows,
    Unfit,
)
from penstock.kernel.progress.sub_sources import NOTHING, SubSourceBounds, SubSources, distinct
from penstock.kernel.state import ChunkStore, Within, required
from penstock.model.arrays import Codes, Ints
from penstock.model.clock import Clock, SteadyClock
from penstock.model.punctuation import BEGINNING, Bound, ProgressPolicy, TimestampKind
from penstock.model.ticks import Room
from penstock.model.types import TIMESTAMP, Kind
from penstock.model.values import RowForm, to_arrow, to_python, writer_of
from penstock.plan.expressions import Expression
from penstock.plan.nodes.node import Scan
from penstock.plan.streams import StreamDefinition, StreamProgress, no_source

# Times of tuples that come from Penstock: the column that they are in, stamped or computed from
# what was read.


def stamped(stream: StreamDefinition, batch: pa.RecordBatch, stamps: list[int]) -> pa.RecordBatch:
    """INTERNAL: every tuple has the time at which it came in."""
    return _with_stamps(stream, batch, pa.array(stamps, TIMESTAMP.arrow))


def stamped_later(stream: StreamDefinition, batch: pa.RecordBatch) -> pa.RecordBatch:
    """LATENT: add an empty column for the stamps, if the stream has one."""
    if not stream.stamped:
        return batch
    return _with_stamps(stream, batch, pa.nulls(batch.num_rows, TIMESTAMP.arrow))


def _with_stamps(
    stream: StreamDefinition, batch: pa.RecordBatch, stamps: pa.Array
) -> pa.RecordBatch:
    position = stream.schema.index(stream.attribute.name)
    return batch.add_column(position, stream.attribute.name, stamps)


class ComputedTimes:
    """PROGRESS ON expression: the time of every tuple is the value of the expression; NULL if it
    has none."""

    def __init__(self, stream: StreamDefinition, expression: Expression) -> None:
        self._stream, self._expression = stream, expression
        self._schema = stream.input_schema
        self._compute = compile_expression(expression, self._schema)

    @staticmethod
    def of_stream(stream: StreamDefinition) -> ComputedTimes | None:
        computed = stream.progress.computed if stream.progress is not None else None
        return None if computed is None else ComputedTimes(stream, computed)

    def of(self, chunk: Chunk) -> Chunk:
        batch = chunk.batch
        try:
            times = self._compute(batch)
        except (PenstockError, pa.ArrowInvalid):
            times = self._one_by_one(batch)
        position = self._stream.schema.index(self._stream.attribute.name)
        made = batch.add_column(position, self._stream.attribute.name, times)
        return replace(chunk, batch=made)

    def _one_by_one(self, batch: pa.RecordBatch) -> pa.Array:
        """Evaluate tuple by tuple, where the expression fails for some: those get NULL."""
        columns = zip(batch.columns, self._schema, strict=True)
        rows = zip(*(to_python(column, field.type) for column, field in columns), strict=True)
        evaluate = evaluator(self._expression, self._schema)

        def time(values: tuple[Any, ...]) -> Any:
            try:
                return evaluate(values)
            except PenstockError:
                return None

        return to_arrow([time(values) for values in rows], self._expression.type)


# Enabling timestamps (ETS): bounds of a live source that follow without a tuple.
#
# INTERNAL stamps come from the clock, so none below it will follow.  A stream with SKEW promises
# that its tuples are at most so much behind the clock: after a tuple at t and a silence of τ, none
# below t + τ − δ. Nothing else is known of a silent source.


class EnablingTimestamps:
    """Generates enabling timestamps (ETS) of one scan, for streams with INTERNAL timestamps or with
    SKEW."""

    def __init__(self, policy: ProgressPolicy, clock: Clock) -> None:
        self._clock = clock
        self._skew = policy.skew
        self._last: int | None = None  # when a tuple came last

    @staticmethod
    def of(policy: ProgressPolicy, clock: Clock) -> EnablingTimestamps | None:
        """Make a generator; None if no bound can follow without a tuple."""
        internal = policy.timestamps is TimestampKind.INTERNAL
        return EnablingTimestamps(policy, clock) if internal or policy.skew is not None else None

    def heard(self) -> None:
        if self._skew is not None:
            self._last = self._clock.now()

    def value(self, high: Bound) -> Bound:
        """Bound that holds now, if the highest tick of the source is `high`."""
        if self._skew is None:
            return self._clock.now()
        if self._last is None or high == BEGINNING:
            return BEGINNING
        return int(high) + self._clock.now() - self._last - self._skew


# Bounds of a source while it is read: the tuples that broke them, and the low-watermark.

_STAMP = writer_of(TIMESTAMP)


class Promise:
    """Bounds of one scan.  A host that keeps the bounds of sources itself only needs the bounds
    before tuples, and hands in bounds that have no low-watermark."""

    def __init__(
        self,
        node: Scan,
        progress: StreamProgress,
        bounds: SubSourceBounds,
        sub_sources: SubSources,
        unfit: Unfit,
        clock: Clock,
        live: bool,
        form: RowForm,
    ) -> None:
        stream = node.stream
        names = node.schema.arrow.names
        self._stream = stream
        self._names = names
        self._progress = progress
        self._clock = clock
        self._type = stream.attribute.type
        self._position = stream.schema.index(stream.attribute.name)
        self._name = names[self._position]
        self._bounds = bounds
        self._whole = bounds if isinstance(bounds, RunningBounds) else None
        self.sub_sources = sub_sources
        said = progress.punctuation
        self._punctuations = Punctuations(said, stream.schema)
        self._groups = (
            GroupPromises(said.group, stream.schema, self._name, names)
            if said and said.group
            else None
        )
        self._unfit = unfit
        self._arrow = node.schema.arrow
        self._form = form
        self._stamps = progress.policy.timestamps is TimestampKind.INTERNAL
        # whether the attribute alone decides what becomes of a tuple
        self._simple = (
            said is None
            and progress.policy.future_limit is None
            and self._type.kind is not Kind.DECIMAL
        )
        self._rows: dict[str, int] = {}  # read so far, by part
        self.high: Bound = BEGINNING
        self._emitted: tuple[Bound, Bound] | None = None  # the last progress, as low and high
        self._idle = None
        if progress.policy.idle_after is not None and live and self._whole is not None:
            self._idle = IdleSubSources(self._whole, progress.policy, clock)
        self._enabling = None
        if live and self._whole is not None:
            self._enabling = EnablingTimestamps.of(progress.policy, clock)

    def items(self, chunk: Chunk) -> list[Item]:
        """The tuples of a chunk, and the progress that they make."""
        stamps = None
        if self._stamps:
            stamps = [self._clock.now() for _ in range(chunk.num_rows)]
        if self._simple and chunk.num_rows == 1:
            found = self._single(chunk, stamps)
            if found is not None:
                return found
        rows = self._fit_rows(chunk, stamps)
        items: list[Item] = []
        if rows.batch.num_rows:
            if self._enabling is not None:
                self._enabling.heard()
            marked = self._marked(rows, chunk.part)
            if marked is not None:
                items.append(marked)
        if self._idle is not None:
            self._idle.look()
        items += self._progress_made()
        return items

    def _single(self, chunk: Chunk, stamps: list[int] | None) -> list[Item] | None:
        """Items of a single tuple, if it can take part and breaks no bound, as is usual; they are
        the same as for many tuples, but made without arrays."""
        part, found = chunk.part, self._read(chunk, stamps)
        if found is None:
            return None
        tick, single = found
        room, sub_source = self._unfit.room.tuples, self.sub_sources.of_single(single, part)
        if not room.low <= tick <= room.high:
            return None
        if not self._bounds.kept_by(sub_source, tick, tick):
            return None
        self._rows[part] = self._rows.get(part, 0) + 1
        if self._enabling is not None:
            self._enabling.heard()
        if self._idle is not None:
            self._idle.heard(distinct(sub_source))
            self._idle.look()
        if tick > self.high:
            self.high = tick
        return [single, *self._progress_made()]

    def _read(self, chunk: Chunk, stamps: list[int] | None) -> tuple[int, Batch] | None:
        """The tick of a tuple that comes alone, and the tuple, as plain values if it came so."""
        place, values = self._position, chunk.values
        if values is not None:
            if stamps is not None:
                values = (*values[:place], *stamps, *values[place:])
            tick = values[place]
            return None if tick is None else (tick, Batch.single(values, self._form))
        columns = chunk.batch.columns
        if stamps is not None:
            (tick,) = stamps
            columns.insert(place, _STAMP(tick))
        elif columns[place].null_count:
            return None
        else:
            tick = int(to_ticks(columns[place], self._type)[0])
        return tick, Batch(pa.RecordBatch.from_arrays(columns, schema=self._arrow))

    def _fit_rows(self, chunk: Chunk, stamps: list[int] | None) -> SourceRows:
        """The rows that can take part."""
        batch = chunk.batch
        if stamps is not None:
            batch = stamped(self._stream, batch, stamps)
        rows = self._punctuations.told_apart(batch, batch.column(self._position))
        if stamps and rows.punctuates is None:
            rows.stamped(stamps)
        before = self._rows.get(chunk.part, 0)
        self._rows[chunk.part] = before + batch.num_rows
        rejected = self._unfit.find(rows, chunk.part, before)
        return rows if rejected is None else rows.only(~rejected)

    def _marked(self, rows: SourceRows, part: str) -> Batch | None:
        """The tuples, if there are any, with the bounds that some of them broke."""
        of_groups = None
        if self._groups is not None:
            ticks, said = rows.ticks(self._type), rows.said(self._type)
            assert rows.punctuates is not None
            of_groups = self._groups.before(rows.batch, ticks, rows.punctuates, said)
            if of_groups is not None:
                of_groups = of_groups[~rows.punctuates]
            rows = rows.tuples()  # their bounds are for groups only
            if len(rows) == 0:
                return None
        lowest, highest = rows.extremes(self._type)  # punctuations are below all tuples
        before = self._before(rows, lowest, highest, part)
        if of_groups is not None:
            before = of_groups if before is None else np.maximum(before, of_groups)
        batch = rows.batch
        if rows.punctuates is not None:
            batch = batch.filter(pa.array(~rows.punctuates))
        if batch.num_rows == 0:
            return None
        if highest > self.high:
            self.high = highest
        named = Batch(batch.rename_columns(self._names))
        if before is not None:
            ticks = rows.ticks(self._type)
            if rows.punctuates is not None:
                ticks, before = ticks[~rows.punctuates], before[~rows.punctuates]
            if np.count_nonzero(broken := ticks < before):
                named = named.breaking(self._name, before, broken)
        return named

    def _before(self, rows: SourceRows, lowest: int, highest: int, part: str) -> Ints | None:
        """The bound of its sub-source before each row; None if no tuple broke one."""
        sub_sources = self.sub_sources.of(rows.batch, part)
        if self._idle is not None:
            self._idle.heard(distinct(sub_sources))
        if rows.punctuates is None:
            if not isinstance(sub_sources, int):
                return self._bounds.before(sub_sources, rows.ticks(self._type), None)
            if self._bounds.kept_by(sub_sources, lowest, highest):
                return None
            return self._bounds.before_of(sub_sources, rows.ticks(self._type), None)
        promised = np.full(len(rows), NOTHING)
        promised[rows.punctuates] = said = rows.said(self._type)
        if len(said):  # the stream has passed all ticks below
            self.high = max(self.high, int(said.max()) - 1)
        return self._bounds_before(sub_sources, rows.ticks(self._type), promised)

    def _bounds_before(self, sub_sources: Codes | int, ticks: Ints, promised: Ints | None) -> Ints:
        if isinstance(sub_sources, int):
            return self._bounds.before_of(sub_sources, ticks, promised)
        return self._bounds.before(sub_sources, ticks, promised)

    # --- without tuples --------------------------------------------------------------------------

    def silence(self) -> Iterator[Item]:
        if self._idle is not None:
            self._idle.wait(self.high)
            yield from self._progress_made()

    @property
    def can_enable(self) -> bool:
        """Whether a bound can be emitted without a tuple."""
        return self._enabling is not None

    def enable(self) -> Iterator[Item]:
        """Emit the bound that holds now, without a tuple."""
        if self._enabling is not None and self._whole is not None:
            self._whole.raise_to(self._enabling.value(self.high))
            yield from self._progress_made()

    def due(self) -> int | None:
        """Next time at which a silence is long enough to matter, in microseconds, or None."""
        return self._idle.due() if self._idle is not None else None

    def begin_at(self, part: str, rows: int) -> None:
        self._rows[part] = rows

    def let_in_files(self, parts: list[str]) -> None:
        """Register files whose bounds count from now on, if each file is a sub-source."""
        if self._progress.per_file and self._whole is not None:
            self._whole.let_in(self.sub_sources.of_files(parts))

    def part_end(self, part: str) -> Iterator[Item]:
        if not self._progress.per_file or self._whole is None:
            return
        codes = self.sub_sources.of_files([part])
        if self._whole.knows(int(codes[0])):
            self._whole.leave_out(codes)
            if self._idle is not None:
                self._idle.forget(codes)
            yield from self._progress_made()

    def close_below(self, bound: int) -> Iterator[Item]:
        if self._whole is not None:
            self._whole.raise_to(bound)
            yield from self._progress_made()

    # --- how far it has come ---------------------------------------------------------------------

    @property
    def low(self) -> Bound:
        return self._whole.low if self._whole is not None else BEGINNING

    def waits_for(self) -> tuple[list[str], int]:
        if self._whole is None:
            return [], 0
        return self.sub_sources.some_texts(self._whole.held_back_by)

    def narrow(self, room: Room) -> None:
        self._unfit.room = room

    def promised(self) -> Progress:
        """Progress of the whole stream so far, for readers that start now."""
        return self._progress_at(self.low)

    def _progress_at(self, low: Bound, groups: GroupBounds | None = None) -> Progress:
        return Progress(
            {} if low == BEGINNING else {self._name: low}, self.reached(), groups=groups
        )

    def _progress_made(self) -> list[Progress]:
        low = self.low
        groups = self._groups.told(low) if self._groups is not None else None
        if (low, self.high) == self._emitted and groups is None:
            return []
        self._emitted = (low, self.high)
        return [self._progress_at(low, groups)]

    def reached(self) -> dict[str, Bound]:
        """Highest tick of the progressing attribute, by its name."""
        return {} if self.high == BEGINNING else {self._name: self.high}

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        assert self._whole is not None
        self._whole.save(store)
        self.sub_sources.save(store)
        if self._groups is not None:
            self._groups.save(Within(store, "groups/"))
        store.put("run", {"rows": self._rows, "high": self.high, "told": self._emitted})

    def load(self, store: ChunkStore) -> None:
        assert self._whole is not None
        saved = required(store, "run")
        self._whole.load(store)
        self.sub_sources.load(store)
        if self._groups is not None:
            self._groups.load(Within(store, "groups/"))
        self._rows, self.high = saved["rows"], saved["high"]
        self._emitted = tuple(saved["told"]) if saved["told"] is not None else None
        if self._idle is not None:
            self._idle.begin_anew()


# Ingestion: rows of a source become batches in which broken bounds are marked.


class Ingest:
    """One scan of a stream: batches, each followed by the progress it makes; at last the end.

    A host that keeps the bounds and the numbers of sub-sources itself hands them in.
    """

    def __init__(
        self,
        node: Scan,
        clock: Clock,
        rejects: RejectLog,
        bounds: SubSourceBounds | None = None,
        sub_sources: SubSources | None = None,
    ) -> None:
        self._node = node
        self.stream = node.stream
        self.room = node.room
        self.schema = node.schema.arrow
        self.form = RowForm(node.schema)
        self._stamps = None  # the times of INTERNAL tuples, which are in order by definition
        policy = node.stream.progress.policy if node.stream.progress is not None else None
        if policy is not None and policy.timestamps is TimestampKind.INTERNAL:
            self._stamps = SteadyClock(clock)
        self._clock = self._stamps or clock
        self.rejects = rejects.of(node.stream.name)
        self.read = 0
        self.ended = False
        self.followed = False  # whether the reader polls the source for more
        self._bounds = bounds
        self._sub_sources = sub_sources
        # asked for each single tuple, and ABCs are slow to answer
        self._is_live = isinstance(node.stream.source, LiveSource)

    def chunks(self, attention: Attention | None = None) -> Iterator[Chunk]:
        """Chunks of the source, for `on_chunk`."""
        source = self._source()
        return chunks_of(source, self.stream.input_schema, self.rejects, attention or Attention())

    def items(self) -> Iterator[Item]:
        """The whole scan at once."""
        for chunk in self.chunks():
            yield from self.on_chunk(chunk)
        yield from self.on_end()

    def on_chunk(self, chunk: Chunk) -> list[Item]:
        self.read += chunk.num_rows
        if self._promise is not None:
            return self._promise.items(chunk if self._timed is None else self._timed.of(chunk))
        batch = stamped_later(self.stream, chunk.batch)
        return [Batch(batch.rename_columns(self.schema.names))]  # as the plan knows them

    def begin_at(self, part: str, rows: int) -> None:
        """Continue the numbers of rows of a part after so many that were handed in elsewhere."""
        if self._promise is not None:
            self._promise.begin_at(part, rows)

    def on_silence(self) -> Iterator[Item]:
        """Handle that a source which has not ended has been silent for a while."""
        if self._promise is not None:
            yield from self._promise.silence()

    @property
    def can_enable(self) -> bool:
        """Whether the source can emit a bound without a tuple."""
        return not self.ended and self._promise is not None and self._promise.can_enable

    def enable(self) -> Iterator[Item]:
        """Emit an enabling timestamp (ETS), if there is a better one than before."""
        if self._promise is not None:
            yield from self._promise.enable()

    def narrow(self, room: Room) -> None:
        """Restrict the ticks to those that the windows of a new reader have room for: rows outside
        are rejected from now on."""
        self.room = self.room.meet(room)
        if "_promise" in self.__dict__ and self._promise is not None:
            self._promise.narrow(self.room)

    def promised(self) -> Progress | None:
        """Progress that holds for all items from now on."""
        return self._promise.promised() if self._promise is not None else None

    def due(self) -> int | None:
        """Next time at which a silence of the source will matter, in microseconds, or None."""
        if self.ended or not self.live or self._promise is None:
            return None
        return self._promise.due()

    def on_end(self) -> Iterator[Item]:
        self.ended = True
        yield Progress({}, self._promise.reached() if self._promise else {}, ended=True)

    def on_part_begin(self, part: str) -> Iterator[Item]:
        """Register a file that will be read: its bound counts from now on."""
        if self._promise is not None:
            self._promise.let_in_files([part])
        yield from ()

    def on_part_end(self, part: str) -> Iterator[Item]:
        """Handle the end of a file: its bound does not count any more, whatever comes later."""
        if self._promise is not None:
            yield from self._promise.part_end(part)

    def close_below(self, bound: int) -> Iterator[Item]:
        """Emit the bound `bound` on all tuples, whatever the rule of the stream says."""
        if self._promise is not None:
            yield from self._promise.close_below(bound)

    @property
    def live(self) -> bool:
        """Whether the source may fall silent and speak again."""
        return self.followed or self._is_live

    @property
    def low(self) -> Bound:
        """Bound of the source so far, in ticks of its progressing attribute."""
        return self._promise.low if self._promise is not None else BEGINNING

    @property
    def high(self) -> Bound:
        """Highest tick of the progressing attribute so far."""
        return self._promise.high if self._promise is not None else BEGINNING

    @property
    def waits_for(self) -> tuple[list[str], int]:
        """Sub-sources that hold the low-watermark back, by their names, and the number of
        others."""
        return self._promise.waits_for() if self._promise is not None else ([], 0)

    @cached_property
    def _timed(self) -> ComputedTimes | None:
        return ComputedTimes.of_stream(self.stream)

    @cached_property
    def _promise(self) -> Promise | None:
        progress = self.stream.progress
        if progress is None or self.stream.is_latent:
            return None
        bounds, sub_sources = self._bounds, self._sub_sources
        if bounds is None:
            bounds = RunningBounds(progress.policy.rule)
        if sub_sources is None:
            sub_sources = SubSources(self.stream, progress)
        unfit = Unfit(self.stream, self.room, self._clock, self.rejects)
        promise = Promise(
            *(self._node, progress, bounds, sub_sources, unfit, self._clock, self.live, self.form)
        )
        if self._bounds is None and progress.per_file:  # all of them are known from the start
            with suppress(NoFilesError):  # reported by the reader
                promise.let_in_files(list(self._source().parts()))
        return promise

    def sub_source_names(self, codes: Codes) -> pa.Array:
        """The values of PER, or the files, of sub-sources that the bounds know by number."""
        assert self._promise is not None
        return self._promise.sub_sources.names(codes)

    def save(self, store: ChunkStore) -> None:
        """Save the bounds of the source."""
        stamped = self._stamps.last if self._stamps is not None else None
        store.put("read", {"ended": self.ended, "stamped": stamped})
        if self._promise is not None:
            self._promise.save(store)

    def load(self, store: ChunkStore) -> None:
        """Restore the bounds; rows that were read before the snapshot must not be handed in
        again."""
        read = store.get("read")
        if read is None:
            return
        self.ended = read["ended"]
        if self._promise is not None:
            self._promise.load(store)
        if self._stamps is not None:
            last = read.get("stamped", self.high)  # which checkpoints once did without
            self._stamps.go_on_from(last if isinstance(last, int) else None)

    def _source(self) -> Source:
        if self.stream.source is None:
            raise no_source(self.stream)
        return self.stream.source
