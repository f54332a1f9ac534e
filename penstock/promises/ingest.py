"""Entering the system: rows of a source become batches in which broken promises are marked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property

import pyarrow as pa

from penstock.model.arrays import Codes
from penstock.model.clock import Clock, SteadyClock
from penstock.model.progress import TimestampKind
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.room import Room
from penstock.model.row_form import RowForm
from penstock.operators.batch import Batch
from penstock.operators.operator import Item, Progress
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import no_source
from penstock.promises.promise import Promise
from penstock.promises.running_bounds import RunningBounds
from penstock.promises.stamping import ComputedTimes, stamped_later
from penstock.promises.sub_source_bounds import SubSourceBounds
from penstock.promises.sub_sources import SubSources
from penstock.promises.unfit import Unfit
from penstock.sources.files import NoFilesError
from penstock.sources.live import Attention, LiveSource, chunks_of
from penstock.sources.rejects import RejectLog
from penstock.sources.source import Chunk, Source
from penstock.state.chunks import ChunkStore


class Ingest:
    """One scan of a stream: batches, each followed by the progress it makes; at last the end.

    A host that keeps the bounds and the numbers of sub-sources itself hands them in."""

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
        self.followed = False  # whether whoever reads the source looks for more again and again
        self._bounds = bounds
        self._sub_sources = sub_sources
        # somebody asks for every tuple that comes alone, and ABCs take long to tell
        self._is_live = isinstance(node.stream.source, LiveSource)

    def chunks(self, attention: Attention | None = None) -> Iterator[Chunk]:
        """What the source holds, for `on_chunk`."""
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
        """So many rows of a part have been handed in elsewhere: numbers of rows go on from them."""
        if self._promise is not None:
            self._promise.begin_at(part, rows)

    def on_silence(self) -> Iterator[Item]:
        """A source that is still there has had nothing to say for a while."""
        if self._promise is not None:
            yield from self._promise.silence()

    @property
    def can_enable(self) -> bool:
        """Whether the source can promise something although it has nothing to say."""
        return not self.ended and self._promise is not None and self._promise.can_enable

    def enable(self) -> Iterator[Item]:
        """An enabling timestamp, if there is a better one than before."""
        if self._promise is not None:
            yield from self._promise.enable()

    def narrow(self, room: Room) -> None:
        """Somebody asks for the stream who has windows of another reach: rows that they have no
        room for are set aside from now on."""
        self.room = self.room.meet(room)
        if "_promise" in self.__dict__ and self._promise is not None:
            self._promise.narrow(self.room)

    def promised(self) -> Progress | None:
        """What holds for all that comes from now on."""
        return self._promise.promised() if self._promise is not None else None

    def due(self) -> int | None:
        """When a silence of the source will mean something; None: never."""
        if self.ended or not self.live or self._promise is None:
            return None
        return self._promise.due()

    def on_end(self) -> Iterator[Item]:
        self.ended = True
        yield Progress({}, self._promise.reached() if self._promise else {}, ended=True)

    def on_part_begin(self, part: str) -> Iterator[Item]:
        """A file is there, and will be read: it is waited for from now on."""
        if self._promise is not None:
            self._promise.let_in_files([part])
        yield from ()

    def on_part_end(self, part: str) -> Iterator[Item]:
        """A file has been read to its end: nobody waits for it, whatever comes later."""
        if self._promise is not None:
            yield from self._promise.part_end(part)

    def close_below(self, bound: int) -> Iterator[Item]:
        """Promise that nothing comes below a bound, whatever the rule of the stream says."""
        if self._promise is not None:
            yield from self._promise.close_below(bound)

    @property
    def live(self) -> bool:
        """Whether the source may fall silent and speak again."""
        return self.followed or self._is_live

    @property
    def low(self) -> Bound:
        """What the source has promised so far, in ticks of its progressing attribute."""
        return self._promise.low if self._promise is not None else BEGINNING

    @property
    def high(self) -> Bound:
        """How far the progressing attribute has come."""
        return self._promise.high if self._promise is not None else BEGINNING

    @property
    def waits_for(self) -> tuple[list[str], int]:
        """The sub-sources that hold the promise back, by their names, and how many others."""
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
            with suppress(NoFilesError):  # which is for the reading to say
                promise.let_in_files(list(self._source().parts()))
        return promise

    def sub_source_names(self, codes: Codes) -> pa.Array:
        """The values of PER, or the files, of sub-sources that the bounds know by number."""
        assert self._promise is not None
        return self._promise.sub_sources.names(codes)

    def save(self, store: ChunkStore) -> None:
        """What the source has promised."""
        stamped = self._stamps.last if self._stamps is not None else None
        store.put("read", {"ended": self.ended, "stamped": stamped})
        if self._promise is not None:
            self._promise.save(store)

    def load(self, store: ChunkStore) -> None:
        """What was read before is not to be handed in again."""
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
