"""A source as a node: what it has delivered waits in an inbox, and enters the graph from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sized
from dataclasses import dataclass, replace
from itertools import count
from time import perf_counter_ns
from typing import TypeAlias, TypeGuard

import pyarrow as pa

from penstock.engine.graph.node import GraphNode
from penstock.engine.reading.reading import Reading
from penstock.operators.batch import Batch
from penstock.operators.measured import Traffic
from penstock.operators.operator import Progress
from penstock.promises.ingest import Ingest
from penstock.runs.outlet import Outlet
from penstock.sources.live import Attention, LiveSource
from penstock.sources.rejects import RejectKind, RejectLog
from penstock.sources.source import Chunk, can_be_read_again


@dataclass(frozen=True, slots=True)
class Ended:
    """The last that a source delivers."""

    failure: BaseException | None = None


Delivered: TypeAlias = Chunk | Ended
_ARRIVALS = count()


class SourceNode(GraphNode):
    """A stream that is read once for all that ask for it."""

    def __init__(self, name: str, ingest: Ingest, log: RejectLog) -> None:
        super().__init__(name)
        self.ingest = ingest
        self.log = log
        self._form = ingest.form
        self.reading: Reading | None = None  # if the run can go on later
        self.again = False  # whether another node reads the stream before, and tells of its rows
        self.caught_up = False  # with files that are followed: all that is there has been read
        self.outside: Sized = ()  # what has come, and has not been delivered yet
        self.flow = Traffic()
        self.begun = False  # whether anything has been delivered
        self.exhausted = False  # nothing more can be read now, and the stream goes on later
        self.held = False  # whether all of its queries are paused, so that it is not read on
        self.full: set[Outlet] = set()  # of the whole graph: outlets that cannot take more now
        self.looks = 0  # at files that are followed, which found all that is there to be read
        self.read_before = 0  # by earlier runs, if this one goes on
        self._bad = 0  # rows, of those that have been told of: others may be read ahead
        self._inbox: deque[Delivered] = deque()
        self.one_by_one = False  # whether a query wants to see what comes of every tuple
        self._alone: deque[tuple[int, Delivered]] = deque()  # with the numbers of their arrival

    def chunks(self, growing: bool = False, attention: Attention | None = None) -> Iterator[Chunk]:
        """What has not been read yet; a source that goes on `growing` may end in half a line."""
        ingest, attention = self.ingest, attention or Attention()
        if self.reading is None:
            return ingest.chunks(attention)
        schema, rejects = ingest.stream.input_schema, ingest.rejects
        return self.reading.chunks(schema, rejects, growing, attention, ingest.followed)

    @property
    def read(self) -> int:
        """How many rows, the bad ones as well; each counts once, however often it is read."""
        return 0 if self.again else self.ingest.read + self._bad

    @property
    def read_in_all(self) -> int:
        """By earlier runs, too."""
        return self.read_before + self.read

    def deliver(self, delivered: Delivered) -> None:
        """Something that enters the graph when it is this node's turn; `Ended` ends the stream."""
        self.begun = True
        self.changed()
        if self.one_by_one or self._alone:
            self._alone.append((next(_ARRIVALS), delivered))
            return
        self._inbox.append(delivered)
        self.wake()

    @property
    def next_alone(self) -> int | None:
        """The number of what comes alone next, among all that sources have delivered."""
        return self._alone[0][0] if self._alone else None

    def let_in_one(self) -> None:
        """The next tuple, when all that was before it has been handled."""
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
        """Whether all that is there has been read."""
        return self.caught_up or self.exhausted or self.ingest.ended

    @property
    def rows_delivered(self) -> int:
        """Rows that have been delivered, and wait for this node's turn."""
        waiting = (*self._inbox, *(each for _, each in self._alone))
        chunks = [each for each in waiting if not isinstance(each, Ended)]
        return sum(each.num_rows for each in chunks)

    @property
    def waits(self) -> bool:
        """Whether it is not to be read on: its queries are paused, or one of them has subscribers
        with more to do than they can."""
        return self.held or any(outlet in self.outlets for outlet in list(self.full))

    @property
    def can_be_joined(self) -> bool:
        """Whether somebody who comes now gets all that he can ever get: everything, or what comes
        from now on if it cannot be read again."""
        source = self.ingest.stream.source
        again = can_be_read_again(source) and not isinstance(source, LiveSource)
        if again and self.held:
            return False
        return not self.begun or not (again or self.ingest.ended or self.exhausted)

    def promised(self) -> Progress | None:
        """What those who come now may rely on."""
        return self.ingest.promised() if self.begun and not self.as_items else None

    def enable(self) -> None:
        """Promise what can be promised without a tuple."""
        self.changed()
        self.arrived = perf_counter_ns()
        self.emit(self.ingest.enable())

    def fall_silent(self) -> None:
        """Time has passed, and nothing has come."""
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
        """What came first; small chunks that have come meanwhile are handled together with it."""
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
        """No rows at all mean that a live source had nothing to say."""
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
        """Promise that nothing comes below a bound."""
        self.changed()
        self.arrived = perf_counter_ns()
        self.emit(self.ingest.close_below(bound))

    def _tell_rejects(self) -> None:
        rejects = self.log.take()
        if rejects:
            self._bad += sum(each.kind is RejectKind.BAD_ROW for each in rejects)
            if self.reading is not None:
                self.reading.told(rejects)
            for outlet in () if self.again else self.outlets:
                outlet.on_rejects(rejects)

    def backward(self) -> GraphNode:
        return self

    @property
    def predecessors(self) -> list[GraphNode]:
        return []


def _plain(delivered: Delivered) -> TypeGuard[Chunk]:
    """Rows, and nothing else that is to be known of them."""
    return (
        isinstance(delivered, Chunk)
        and delivered.num_rows > 0
        and delivered.restart is None
        and delivered.seen is None
    )
