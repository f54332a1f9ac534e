"""Entering the system: rows of a source become batches in which broken promises are marked."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.errors import SourceError
from penstock.expressions.compile import compile_expression, compile_predicate
from penstock.model.arrays import Ints, Mask
from penstock.model.clock import Clock
from penstock.model.progress import TimestampKind
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.texts import to_json
from penstock.model.types import TIMESTAMP, to_python
from penstock.operators.batch import Batch
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.operator import Item, Progress
from penstock.operators.ticks import to_ticks
from penstock.plan.stateless import Scan
from penstock.plan.streams import StreamDefinition, StreamProgress
from penstock.promises.group_promises import GroupPromises
from penstock.promises.idle import IdleSubSources
from penstock.promises.running_bounds import NOTHING, RunningBounds
from penstock.promises.unfit import Unfit
from penstock.sources.live import LiveSource
from penstock.sources.rejects import RejectLog
from penstock.sources.source import Chunk, Source
from penstock.state.chunks import ChunkStore, Within, required
from penstock.windows.columns import extremes


class Ingest:
    """One scan of a stream: batches, each followed by the progress it makes; at last the end.

    A host that keeps the bounds of sub-sources itself hands them in."""

    def __init__(
        self, node: Scan, clock: Clock, rejects: RejectLog, bounds: RunningBounds | None = None
    ) -> None:
        self.stream = node.stream
        self.room = node.room
        self.schema = node.schema.arrow
        self._names = self.schema.names
        self.clock = clock
        self.rejects = rejects.of(node.stream.name)
        self.read = 0
        self.ended = False
        self.followed = False  # whether whoever reads the source looks for more again and again
        self._bounds = bounds

    def chunks(self) -> Iterator[Chunk]:
        """What the source holds, for `on_chunk`."""
        return self._source().read(self.stream.input_schema, self.rejects)

    def items(self) -> Iterator[Item]:
        """The whole scan at once."""
        for chunk in self.chunks():
            yield from self.on_chunk(chunk)
        yield from self.on_end()

    def on_chunk(self, chunk: Chunk) -> Iterator[Item]:
        self.read += chunk.batch.num_rows
        if self._promise is not None:
            yield from self._promise.items(chunk)
        else:
            yield Batch(self.named(_with_stamps(self.stream, chunk.batch, None)))

    def begin_at(self, part: str, rows: int) -> None:
        """So many rows of a part have been handed in elsewhere: numbers of rows go on from them."""
        if self._promise is not None:
            self._promise.begin_at(part, rows)

    def on_silence(self) -> Iterator[Item]:
        """A source that is still there has had nothing to say for a while."""
        if self._promise is not None:
            yield from self._promise.silence()

    def on_end(self) -> Iterator[Item]:
        self.ended = True
        yield Progress({}, self._promise.reached() if self._promise else {}, ended=True)

    def on_part_begin(self, part: str) -> Iterator[Item]:
        """A file is there, and will be read: it is waited for from now on."""
        if self._promise is not None:
            yield from self._promise.part_begin(part)

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
        return self.followed or isinstance(self.stream.source, LiveSource)

    @property
    def low(self) -> Bound:
        """What the source has promised so far, in ticks of its progressing attribute."""
        return self._promise.low if self._promise is not None else BEGINNING

    @property
    def high(self) -> Bound:
        """How far the progressing attribute has come."""
        return self._promise.high if self._promise is not None else BEGINNING

    @property
    def waits_for(self) -> list[str]:
        """The sub-sources that hold the promise back, by their names."""
        return self._promise.waits_for() if self._promise is not None else []

    @cached_property
    def _promise(self) -> _Promise | None:
        if self.stream.progress is None or self.stream.is_latent:
            return None
        bounds = self._bounds
        if bounds is None:
            per_file = self.stream.progress.per_file
            parts: list[Hashable] | None = list(self._source().parts()) if per_file else None
            bounds = RunningBounds(self.stream.progress.policy.rule, parts)
        return _Promise(self, self.stream.progress, bounds)

    def sub_source_values(self, codes: Ints) -> pa.Array:
        """What PER says of sub-sources that the bounds know by number."""
        assert self._promise is not None
        return self._promise.sub_source_values(codes)

    def save(self, store: ChunkStore) -> None:
        """What the source has promised."""
        store.put("read", {"ended": self.ended})
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

    def named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns under the names by which the plan knows them."""
        return batch.rename_columns(self._names)

    def _source(self) -> Source:
        if self.stream.source is None:
            raise SourceError(
                f"stream {self.stream.name} has no source",
                hint=f"CREATE STREAM {self.stream.name} (…) FROM FILES '…', or db.stream(…)",
            )
        return self.stream.source


class _Promise:
    """What a source promises while it is read: which tuples broke it, and how far it has come."""

    def __init__(self, ingest: Ingest, progress: StreamProgress, bounds: RunningBounds) -> None:
        stream = ingest.stream
        self._ingest = ingest
        self._progress = progress
        self._type = stream.attribute.type
        self._position = stream.schema.index(stream.attribute.name)
        self._name = ingest.schema.names[self._position]
        self._bounds = bounds
        self._per = compile_expression(progress.per, stream.schema) if progress.per else None
        self._per_type = progress.per.type if progress.per else TIMESTAMP
        self._sub_sources = KeyCodes([progress.per.type]) if progress.per else None
        said = progress.punctuation
        self._when = compile_predicate(said.when, stream.schema) if said else None
        self._said = compile_expression(said.bound, stream.schema) if said else None
        self._groups = (
            GroupPromises(said.group, stream.schema, self._name, ingest.schema.names)
            if said and said.group
            else None
        )
        self._unfit = Unfit(stream, ingest.room, ingest.clock, ingest.rejects)
        self._rows: dict[str, int] = {}  # read so far, by part
        self.high: Bound = BEGINNING
        self._told: tuple[Bound, Bound] | None = None  # the progress that was yielded last
        idle_after = progress.policy.idle_after
        self._idle = None
        if idle_after is not None and ingest.live:  # what is read to its end is never silent
            self._idle = IdleSubSources(self._bounds, progress.policy, ingest.clock)

    def items(self, chunk: Chunk) -> Iterator[Item]:
        batch = self._stamped(chunk.batch)
        attribute = batch.column(self._position)
        punctuates, promised = self._punctuations(batch)
        before = self._rows.get(chunk.part, 0)
        self._rows[chunk.part] = before + batch.num_rows
        rejected = self._unfit.find(batch, attribute, punctuates, promised, chunk.part, before)
        if rejected is not None:
            kept = pa.array(~rejected)
            batch, attribute = batch.filter(kept), attribute.filter(kept)
            punctuates = punctuates[~rejected] if punctuates is not None else None
            promised = promised.filter(kept) if promised is not None else None
        if batch.num_rows:
            yield from self._marked(batch, chunk.part, attribute, punctuates, promised)
        if self._idle is not None:
            self._idle.look()
        yield from self._progress_made()

    def silence(self) -> Iterator[Item]:
        if self._idle is not None:
            self._idle.wait(self.high)
            yield from self._progress_made()

    def begin_at(self, part: str, rows: int) -> None:
        self._rows[part] = rows

    def part_begin(self, part: str) -> Iterator[Item]:
        if self._progress.per_file:
            self._bounds.let_in([part])
        yield from ()

    def part_end(self, part: str) -> Iterator[Item]:
        if self._progress.per_file and self._bounds.knows(part):
            self._bounds.leave_out(part)
            if self._idle is not None:
                self._idle.forget(part)
            yield from self._progress_made()

    def close_below(self, bound: int) -> Iterator[Item]:
        self._bounds.raise_to(bound)
        yield from self._progress_made()

    def waits_for(self) -> list[str]:
        keys = self._bounds.held_back_by
        if self._per is None:
            return [str(key) for key in keys if key]
        codes = np.array(keys, np.int64)
        return [
            to_json(value, self._per_type)
            for value in to_python(self.sub_source_values(codes), self._per_type)
        ]

    @property
    def low(self) -> Bound:
        return self._bounds.low

    def sub_source_values(self, codes: Ints) -> pa.Array:
        assert self._sub_sources is not None
        return self._sub_sources.take(codes)[0]

    def _progress_made(self) -> Iterator[Progress]:
        low = self._bounds.low
        groups = self._groups.told(low) if self._groups is not None else None
        if (low, self.high) != self._told or groups is not None:
            self._told = (low, self.high)
            bounds = {} if low == BEGINNING else {self._name: low}
            yield Progress(bounds, self.reached(), groups=groups)

    def reached(self) -> dict[str, Bound]:
        """How far the attribute has come."""
        return {} if self.high == BEGINNING else {self._name: self.high}

    def _stamped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._progress.policy.timestamps is not TimestampKind.INTERNAL:
            return batch
        now = [self._ingest.clock.now() for _ in range(batch.num_rows)]
        stamps = pa.array(now, pa.int64()).cast(TIMESTAMP.arrow)
        return _with_stamps(self._ingest.stream, batch, stamps)

    def _punctuations(self, batch: pa.RecordBatch) -> tuple[Mask | None, pa.Array | None]:
        """Which rows are punctuations, and what they promise."""
        if self._when is None or self._said is None:
            return None, None
        return np.asarray(self._when(batch)), self._said(batch)

    def _marked(
        self,
        batch: pa.RecordBatch,
        part: str,
        attribute: pa.Array,
        punctuates: Mask | None,
        promised: pa.Array | None,
    ) -> Iterator[Item]:
        """The tuples, with the bounds that some of them broke."""
        bounds = of_groups = None
        if punctuates is not None and promised is not None:
            said = to_ticks(promised.filter(pa.array(punctuates)), self._type)
            if self._groups is not None:
                ticks = self._ticks(attribute, punctuates)
                of_groups = self._groups.before(batch, ticks, punctuates, said)
                if len(said):
                    tuples = pa.array(~punctuates)
                    batch, attribute = batch.filter(tuples), attribute.filter(tuples)
                    of_groups = of_groups[~punctuates] if of_groups is not None else None
                    if batch.num_rows == 0:
                        return
                punctuates = None
        if punctuates is not None:
            bounds = np.full(batch.num_rows, NOTHING)
            bounds[punctuates] = said
            if len(said):  # whatever lies below has been passed
                self.high = max(self.high, int(said.max()) - 1)
        ticks = self._ticks(attribute, punctuates)
        keys, codes = self._keys(batch, part)
        if self._idle is not None:
            self._idle.heard(keys, codes)
        lowest, highest = extremes(ticks)
        if punctuates is None and self._bounds.kept_by(keys, lowest, highest):
            if of_groups is None:
                self.high = max(self.high, highest)
                yield Batch(self._ingest.named(batch))
                return
            before = of_groups
        else:
            before = self._bounds.before(keys, codes, ticks, bounds)
            if of_groups is not None:
                before = np.maximum(before, of_groups)
        if punctuates is not None:
            tuples = ~punctuates
            batch, ticks, before = batch.filter(pa.array(tuples)), ticks[tuples], before[tuples]
        if batch.num_rows == 0:
            return
        self.high = max(self.high, highest)
        named = Batch(self._ingest.named(batch))
        broken = ticks < before
        yield named.breaking(self._name, before, broken) if np.count_nonzero(broken) else named

    def _ticks(self, attribute: pa.Array, punctuates: Mask | None) -> Ints:
        if punctuates is None:
            return to_ticks(attribute, self._type)
        ticks = np.full(len(attribute), NOTHING)
        ticks[~punctuates] = to_ticks(attribute.filter(pa.array(~punctuates)), self._type)
        return ticks

    def _keys(self, batch: pa.RecordBatch, part: str) -> tuple[list[Hashable], Ints]:
        """The sub-sources, and which one each row is of."""
        if self._per is not None and self._sub_sources is not None:
            codes = self._sub_sources.encode([self._per(batch)], batch.num_rows)
            return list(range(len(self._sub_sources))), codes
        one = part if self._progress.per_file else ()
        return [one], np.zeros(batch.num_rows, np.int64)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self._bounds.save(store)
        if self._sub_sources is not None:
            self._sub_sources.save(store)
        if self._groups is not None:
            self._groups.save(Within(store, "groups/"))
        store.put("run", {"rows": self._rows, "high": self.high, "told": self._told})

    def load(self, store: ChunkStore) -> None:
        saved = required(store, "run")
        self._bounds.load(store)
        if self._sub_sources is not None:
            self._sub_sources.load(store)
        if self._groups is not None:
            self._groups.load(Within(store, "groups/"))
        self._rows, self.high = saved["rows"], saved["high"]
        self._told = tuple(saved["told"]) if saved["told"] is not None else None
        if self._idle is not None:  # nobody could be heard while nothing ran
            self._idle.begin_anew(self._bounds.known)


def _with_stamps(
    stream: StreamDefinition, batch: pa.RecordBatch, stamps: pa.Array | None
) -> pa.RecordBatch:
    """The batch with its column of stamps, if the stream has one."""
    if not stream.stamped:
        return batch
    if stamps is None:
        stamps = pa.nulls(batch.num_rows, TIMESTAMP.arrow)
    position = stream.schema.index(stream.attribute.name)
    return batch.add_column(position, stream.attribute.name, stamps)
