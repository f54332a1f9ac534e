"""Sources as nodes of the query graph: how far each has been read, part by part, so that a later
run can resume behind it; what it has delivered; and which sources are read in step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass, replace
from itertools import count
from time import perf_counter_ns
from typing import TypeAlias, TypeGuard

import pyarrow as pa

from penstock.errors import SourceError
from penstock.io.checksums import RowDigest
from penstock.io.sources.files import FileSource
from penstock.io.sources.rejects import (
    Reject,
    RejectKind,
    RejectLog,
    RejectsOnceMore,
    StreamRejects,
)
from penstock.io.sources.source import (
    Attention,
    Chunk,
    FileSeen,
    LiveSource,
    PartRead,
    Restart,
    Source,
    can_be_read_again,
    chunks_of,
)
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress, Traffic
from penstock.kernel.progress.ingest import Ingest
from penstock.kernel.state import ChunkStore, Tree, required
from penstock.local.graph.node import GraphNode
from penstock.model.types import Schema
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.physical import PhysicalNode
from penstock.runs.answer import Outlet

_BLOCK = 256  # files whose marks are saved together


class Reading:
    """Progress of the reading of a source, part by part, so that a later run can resume behind it.

    Files are resumed where they were left, and new ones are read from their beginning.  Data that
    the program holds, and rows that it makes, are read again from their first row: those that had
    been read are compared and skipped.  A live source cannot be read again; it resumes with what
    comes next.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.parts: dict[str, PartRead] = {}
        self._numbers: dict[str, int] = {}  # of the parts, in the order in which they came
        self._changed: set[int] = set()  # blocks that have to be saved
        self._digest = RowDigest()
        self._known_digest = self._digest.value  # by the run before

    # --- reading ---------------------------------------------------------------------------------

    def chunks(
        self,
        schema: Schema,
        rejects: StreamRejects,
        growing: bool,
        attention: Attention,
        followed: bool = False,
    ) -> Iterator[Chunk]:
        """Yield the rows that have not been read yet; a source that may go on `growing` keeps back
        half a line."""
        bad_to = {part: read.bad_to for part, read in self.parts.items()}
        again = RejectsOnceMore(rejects.log, rejects.stream, bad_to)
        if isinstance(self.source, FileSource):
            known = dict(self.parts)
            return self.source.read_on(schema, again, known, growing, attention, followed)
        if isinstance(self.source, LiveSource) or not self.parts:
            return chunks_of(self.source, schema, rejects, attention)
        return self._skipping(schema, again, attention)

    def _skipping(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        """Yield the rows of a source that starts at its beginning again, without those that were
        read."""
        left, digest = self.parts[""].rows, RowDigest()

        def rest(chunk: Chunk | None) -> Chunk | None:
            nonlocal left
            if not left or chunk is None:
                return chunk
            rows = chunk.num_rows
            skipped = min(left, rows)
            left -= skipped
            digest.add(chunk.batch.slice(0, skipped))
            if not left:
                self._check(digest)
            return replace(chunk, batch=chunk.batch.slice(skipped)) if skipped < rows else None

        meanwhile = attention.meanwhile
        if meanwhile is not None:
            poll = meanwhile
            attention = replace(attention, meanwhile=lambda take: poll(lambda: rest(take())))
        for chunk in chunks_of(self.source, schema, rejects, attention):
            new = rest(chunk)
            if new is not None:
                yield new
        if left:
            self._check(digest)

    def _check(self, digest: RowDigest) -> None:
        if digest.value != self._known_digest:
            raise SourceError(
                f"the first {self.parts[''].rows:,} rows of {self.source.describe()} are not those"
                " that were read",
                expected="the same rows as before, and new ones behind them",
                hint="start over with another checkpoint",
            )
        self._digest = digest

    # --- what has been read ----------------------------------------------------------------------

    def fed(self, chunk: Chunk) -> None:
        """Note that a chunk is part of the state now."""
        if not chunk.num_rows and chunk.seen is None:
            return  # the source was silent
        read = self.parts.get(chunk.part, PartRead())
        read = replace(read, rows=read.rows + chunk.num_rows)
        if chunk.restart is not None:
            read = replace(read, restart=chunk.restart, restart_rows=read.rows)
        if chunk.seen is not None:
            read = replace(read, seen=chunk.seen)
        self._put(chunk.part, read)
        if not isinstance(self.source, FileSource | LiveSource):
            self._digest.add(chunk.batch)

    def rejected(self, rejects: Iterable[Reject]) -> None:
        """Note that rejects have been delivered; bad rows may lie ahead of what has been fed."""
        for reject in rejects:
            if reject.kind is RejectKind.BAD_ROW:
                read = self.parts.get(reject.source, PartRead())
                self._put(reject.source, replace(read, bad_to=max(read.bad_to, reject.row)))

    def _put(self, part: str, read: PartRead) -> None:
        number = self._numbers.setdefault(part, len(self._numbers))
        self._changed.add(number // _BLOCK)
        self.parts[part] = read

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        if not self._changed:
            return
        names = list(self._numbers)
        for block in self._changed:
            some = names[block * _BLOCK : (block + 1) * _BLOCK]
            store.put(f"parts/{block}", {name: _saved(self.parts[name]) for name in some})
        self._changed = set()
        store.put("digest", list(self._digest.value))

    def load(self, store: ChunkStore) -> None:
        blocks = sorted(int(name[6:]) for name in store.names() if name.startswith("parts/"))
        for block in blocks:
            for name, saved in required(store, f"parts/{block}").items():
                self._put(name, _loaded(saved))
        self._changed = set()
        if blocks:
            self._known_digest = tuple(required(store, "digest"))


def _saved(read: PartRead) -> Tree:
    saved = asdict(read)
    if saved["seen"] is not None and not saved["seen"]["left"]:
        del saved["seen"]["left"]  # which earlier versions do not know
    return saved


def _loaded(saved: Tree) -> PartRead:
    restart, seen = saved["restart"], saved["seen"]
    return PartRead(
        saved["rows"],
        saved["bad_to"],
        None if restart is None else Restart(**restart),
        saved["restart_rows"],
        None if seen is None else FileSeen(**seen),
    )


# A source as a node: delivered chunks wait in an inbox, and enter the graph from there.


@dataclass(frozen=True, slots=True)
class Ended:
    """Marks the end of a source, behind its last chunk."""

    failure: BaseException | None = None


Delivered: TypeAlias = Chunk | Ended
_ARRIVALS = count()


class SourceNode(GraphNode):
    """A stream that is read once for all queries that name it."""

    def __init__(self, name: str, ingest: Ingest, log: RejectLog) -> None:
        super().__init__(name)
        self.ingest = ingest
        self.log = log
        self._form = ingest.form
        self.reading: Reading | None = None  # if the run can go on later
        self.again = False  # whether another node reads the stream first, and reports its rows
        self.caught_up = False  # with files that are followed: they have been read to their end
        self.outside: Sized = ()  # chunks that have come, and have not been delivered yet
        self.flow = Traffic()
        self.begun = False  # whether anything has been delivered
        self.exhausted = False  # nothing more can be read now, and the stream goes on later
        self.held = False  # whether all of its queries are paused, so that it is not read on
        self.full: set[Outlet] = set()  # of the whole graph: outlets that cannot take more now
        self.looks = 0  # at followed files that found nothing left to read
        self.read_before = 0  # by earlier runs that this one resumes
        self._bad = 0  # rows, of those that were reported: others may be read ahead
        self._inbox: deque[Delivered] = deque()
        self.one_by_one = False  # whether a query has to see the effect of every tuple
        self._alone: deque[tuple[int, Delivered]] = deque()  # with the numbers of their arrival

    def chunks(self, growing: bool = False, attention: Attention | None = None) -> Iterator[Chunk]:
        """Yield the rows that have not been read yet; a source that goes on `growing` may end in
        half a line."""
        ingest, attention = self.ingest, attention or Attention()
        if self.reading is None:
            return ingest.chunks(attention)
        schema, rejects = ingest.stream.input_schema, ingest.rejects
        return self.reading.chunks(schema, rejects, growing, attention, ingest.followed)

    @property
    def read(self) -> int:
        """Number of rows read, including bad ones; each counts once, however often it is read."""
        return 0 if self.again else self.ingest.read + self._bad

    @property
    def read_in_all(self) -> int:
        """Number of rows read, including those of earlier runs."""
        return self.read_before + self.read

    def deliver(self, delivered: Delivered) -> None:
        """Enqueue what enters the graph when it is this node's turn; `Ended` ends the stream."""
        self.begun = True
        self.changed()
        if self.one_by_one or self._alone:
            self._alone.append((next(_ARRIVALS), delivered))
            return
        self._inbox.append(delivered)
        self.wake()

    @property
    def next_alone(self) -> int | None:
        """Arrival number, among all that sources have delivered, of the next chunk that enters
        tuple by tuple; or None."""
        return self._alone[0][0] if self._alone else None

    def let_in_one(self) -> None:
        """Let the next tuple in, after everything before it has been handled."""
        number, delivered = self._alone.popleft()
        if isinstance(delivered, Chunk) and delivered.num_rows > 1:
            batch = delivered.batch
            rest = replace(delivered, batch=batch.slice(1))
            self._alone.appendleft((number, rest))
            delivered = replace(delivered, batch=batch.slice(0, 1), restart=None, seen=None)
        self._inbox.append(delivered)
        self.wake()

    @property
    def is_empty(self) -> bool:
        return not self._inbox and not self._alone and not len(self.outside)

    @property
    def has_nothing_now(self) -> bool:
        """Whether the source has been read as far as it goes now."""
        return self.caught_up or self.exhausted or self.ingest.ended

    @property
    def rows_delivered(self) -> int:
        """Rows that have been delivered, and wait for this node's turn."""
        waiting = (*self._inbox, *(each for _, each in self._alone))
        chunks = [each for each in waiting if not isinstance(each, Ended)]
        return sum(each.num_rows for each in chunks)

    @property
    def waits(self) -> bool:
        """Whether reading is suspended: the queries are paused, or one of them has subscribers that
        are too slow."""
        return self.held or any(outlet in self.outlets for outlet in list(self.full))

    @property
    def can_be_joined(self) -> bool:
        """Whether a query that comes now gets all rows that it can ever get: every row, or those
        from now on if the source cannot be read again."""
        source = self.ingest.stream.source
        again = can_be_read_again(source) and not isinstance(source, LiveSource)
        if again and self.held:
            return False
        return not self.begun or not (again or self.ingest.ended or self.exhausted)

    def promised(self) -> Progress | None:
        """Progress that queries which come now may rely on."""
        return self.ingest.promised() if self.begun and not self.as_items else None

    def enable(self) -> None:
        """Emit an enabling timestamp (ETS): the bound that can be promised without a tuple."""
        self.changed()
        self.arrived = perf_counter_ns()
        self.emit(self.ingest.enable())

    def fall_silent(self) -> None:
        """Emit the bounds that follow from silence: time has passed without a row."""
        self.changed()
        self.arrived = perf_counter_ns()
        self.emit(self.ingest.on_silence())

    # --- the cycle -------------------------------------------------------------------------------

    @property
    def more(self) -> bool:
        return bool(self._inbox)

    def execute(self) -> int:
        if not self._inbox:
            return 0
        self.changed()
        delivered, begun = self._next(), perf_counter_ns()
        if isinstance(delivered, Ended):
            self.arrived = begun
            self.emit(self.ingest.on_end())
            self._tell_rejects()
            return 0
        self.arrived = delivered.arrived
        self._enter(delivered)
        rows, flow = delivered.num_rows, self.flow
        flow.calls += 1
        flow.rows_in += rows
        flow.nanoseconds += perf_counter_ns() - begun
        return rows

    def _next(self) -> Delivered:
        """Take the oldest delivery; small chunks behind it are handled together with it."""
        inbox = self._inbox
        first = inbox.popleft()
        if isinstance(first, Ended) or not inbox or not _plain(first):
            return first
        several, rows = [first], first.num_rows
        while inbox and _plain(later := inbox[0]) and later.part == first.part:
            rows += later.num_rows
            if rows > self.step:
                break
            several.append(later)
            inbox.popleft()
        if len(several) == 1:
            return first
        batch = pa.concat_batches([each.batch for each in several])
        return replace(several[-1], batch=batch, arrived=first.arrived)

    def _enter(self, chunk: Chunk) -> None:
        """Feed a chunk into the graph.  A chunk without rows means that a live source was
        silent."""
        ingest, rows = self.ingest, chunk.num_rows
        self.caught_up = ingest.followed and not rows and chunk.seen is None
        self.looks += self.caught_up
        self.emit(ingest.on_silence() if not rows and ingest.live else ingest.on_chunk(chunk))
        self._tell_rejects()
        if self.reading is not None:
            self.reading.fed(chunk)
        if chunk.seen is not None:
            on_part = ingest.on_part_end if chunk.seen.whole else ingest.on_part_begin
            self.emit(on_part(chunk.part))

    def _give(self, batch: Batch) -> None:
        rows = batch.num_rows
        if rows == 1 and batch.form is None and batch.is_plain:
            batch.form = self._form
        self.flow.rows_out += rows
        super()._give(batch)

    def close_below(self, bound: int) -> None:
        """Emit the bound that no later tuple is below."""
        self.changed()
        self.arrived = perf_counter_ns()
        self.emit(self.ingest.close_below(bound))

    def _tell_rejects(self) -> None:
        rejects = self.log.take()
        if rejects:
            self._bad += sum(each.kind is RejectKind.BAD_ROW for each in rejects)
            if self.reading is not None:
                self.reading.rejected(rejects)
            for outlet in () if self.again else self.outlets:
                outlet.on_rejects(rejects)

    def backward(self) -> GraphNode:
        return self

    @property
    def predecessors(self) -> list[GraphNode]:
        return []


def _plain(delivered: Delivered) -> TypeGuard[Chunk]:
    """Whether a delivery is rows only, without marks for resuming."""
    return (
        isinstance(delivered, Chunk)
        and delivered.num_rows > 0
        and delivered.restart is None
        and delivered.seen is None
    )


# Sources that are read in step, because their tuples meet.
#
# Of sources that meet, the one with the lowest bound is read next: the others wait for it.  So a
# join over files keeps what its windows keep, however large the files are.


@dataclass(frozen=True)
class Meeting:
    """Scans that are read together.  Those `in_turn` come one after the other, as the definitions
    have it: a window above them counts rows as they arrive."""

    scans: tuple[SourceNode, ...]
    in_turn: bool = False

    def next(self, reading: Sequence[SourceNode]) -> SourceNode:
        """Choose the source to read next among those that are still being read."""
        return reading[0] if self.in_turn else min(reading, key=lambda scan: scan.ingest.low)


def meetings(scans: Sequence[SourceNode], met: Sequence[Meeting]) -> list[Meeting]:
    """Merge meetings, so that every scan is in one, in the order of the first mention of scans."""
    groups = [Meeting((scan,)) for scan in scans]
    for each in met:
        together = [group for group in groups if set(group.scans) & set(each.scans)]
        apart = [group for group in groups if group not in together]
        members = [scan for scan in scans if any(scan in group.scans for group in together)]
        in_turn = each.in_turn or any(group.in_turn for group in together)
        groups = [*apart, Meeting(tuple(members), in_turn)]
    return sorted(groups, key=lambda group: scans.index(group.scans[0]))


def meetings_at(node: PhysicalNode, below: Sequence[Sequence[SourceNode]]) -> Iterator[Meeting]:
    """Yield the meeting that one operator causes, given the scans below its ports."""
    scans = tuple(dict.fromkeys(scan for port in below for scan in port))
    counts = isinstance(node.logical, WindowAggregate) and node.logical.counts_rows
    if len(scans) > 1 and (counts or len(below) > 1):
        yield Meeting(scans, counts)


def keeps_for_others(node: PhysicalNode) -> bool:
    """Whether the operator keeps tuples of one port for those of another."""
    return node.stateful and len(node.ports) > 1


def is_ahead(scan: SourceNode, others: Sequence[SourceNode]) -> bool:
    """Whether a source that can wait is ahead of one of those that its tuples are kept for.  The
    last of these is never ahead, so one source can always be read; and a file that may grow has to
    be waited for only as long as it has something left to read."""
    if isinstance(scan.ingest.stream.source, LiveSource):
        return False
    return any(each.ingest.low < scan.ingest.low for each in others if not each.has_nothing_now)
