"""What a source promises while it is read: which tuples broke it, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.clock import Clock
from penstock.model.progress import TimestampKind
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.room import Room
from penstock.model.row_form import RowForm, writer_of
from penstock.model.types import TIMESTAMP, Kind
from penstock.operators.batch import Batch
from penstock.operators.groups.bounds import GroupBounds
from penstock.operators.operator import Item, Progress
from penstock.operators.ticks import to_ticks
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import StreamProgress
from penstock.promises.by_sub_source import NOTHING
from penstock.promises.enabling import EnablingTimestamps
from penstock.promises.group_promises import GroupPromises
from penstock.promises.idle import IdleSubSources
from penstock.promises.punctuations import Punctuations, SourceRows
from penstock.promises.running_bounds import RunningBounds
from penstock.promises.stamping import stamped
from penstock.promises.sub_source_bounds import SubSourceBounds
from penstock.promises.sub_sources import SubSources, distinct
from penstock.promises.unfit import Unfit
from penstock.sources.source import Chunk
from penstock.state.chunks import ChunkStore, Within, required

_STAMP = writer_of(TIMESTAMP)


class Promise:
    """Of one scan.  A host that keeps the promises of sources itself only wants the bounds before
    tuples, and hands in bounds that have no low-watermark."""

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
        # whether nothing but its attribute says what becomes of a tuple
        self._simple = (
            said is None
            and progress.policy.future_limit is None
            and self._type.kind is not Kind.DECIMAL
        )
        self._rows: dict[str, int] = {}  # read so far, by part
        self.high: Bound = BEGINNING
        self._told: tuple[Bound, Bound] | None = None  # the progress that was yielded last
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
        """A tuple that comes alone, if it can take part and keeps the promise, as most do; the same
        as for many, without arrays."""
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
            rows = rows.tuples()  # they say nothing about the stream as a whole
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
        """The bound of its sub-source before each row; None if all tuples keep the promise."""
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
        if len(said):  # whatever lies below has been passed
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
        """Whether something can be promised without a tuple."""
        return self._enabling is not None

    def enable(self) -> Iterator[Item]:
        """Promise what can be promised now."""
        if self._enabling is not None and self._whole is not None:
            self._whole.raise_to(self._enabling.value(self.high))
            yield from self._progress_made()

    def due(self) -> int | None:
        """When a silence is long enough to mean something."""
        return self._idle.due() if self._idle is not None else None

    def begin_at(self, part: str, rows: int) -> None:
        self._rows[part] = rows

    def let_in_files(self, parts: list[str]) -> None:
        """Files that are there from now on, if each is a sub-source."""
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
        """Where the whole stream is, for those who have not heard of it."""
        return self._progress_at(self.low)

    def _progress_at(self, low: Bound, groups: GroupBounds | None = None) -> Progress:
        return Progress(
            {} if low == BEGINNING else {self._name: low}, self.reached(), groups=groups
        )

    def _progress_made(self) -> list[Progress]:
        low = self.low
        groups = self._groups.told(low) if self._groups is not None else None
        if (low, self.high) == self._told and groups is None:
            return []
        self._told = (low, self.high)
        return [self._progress_at(low, groups)]

    def reached(self) -> dict[str, Bound]:
        """How far the attribute has come."""
        return {} if self.high == BEGINNING else {self._name: self.high}

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        assert self._whole is not None
        self._whole.save(store)
        self.sub_sources.save(store)
        if self._groups is not None:
            self._groups.save(Within(store, "groups/"))
        store.put("run", {"rows": self._rows, "high": self.high, "told": self._told})

    def load(self, store: ChunkStore) -> None:
        assert self._whole is not None
        saved = required(store, "run")
        self._whole.load(store)
        self.sub_sources.load(store)
        if self._groups is not None:
            self._groups.load(Within(store, "groups/"))
        self._rows, self.high = saved["rows"], saved["high"]
        self._told = tuple(saved["told"]) if saved["told"] is not None else None
        if self._idle is not None:
            self._idle.begin_anew()
