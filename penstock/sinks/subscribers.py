"""Rows handed to subscribers while they are made, beside the sink that they are for.

A function of the program may be slow, and other queries must not wait for it.  So what a subscriber
gets waits in a queue of its own, from which a thread of its own takes it.  The queue is bounded:
when it is full, the sources of the query are not read on until there is room, or the oldest rows
are dropped and counted.
"""

from __future__ import annotations

import contextvars
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import pyarrow as pa

from penstock.errors import SinkError, nearest
from penstock.sinks.callback import Callback
from penstock.sinks.sink import Sink

_ROOM = 10_000  # rows
_NAMES = ("block", "drop-oldest")
_TEXT = re.compile(r"([\w-]+?)(?:\s+(\d+))?")
_QUICK = 5_000_000  # nanoseconds: functions that take rows get more at a time if they are quicker
_MOST = 4096  # rows at a time


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """So many `rows` may wait for a subscriber; beyond that its query blocks, or if the queue
    `drops`, the oldest rows are gone.

    >>> QueuePolicy.of("block"), QueuePolicy.of("drop-oldest 50")
    (QueuePolicy(rows=10000, drops=False), QueuePolicy(rows=50, drops=True))
    """

    rows: int = _ROOM
    drops: bool = False

    @staticmethod
    def of(text: str) -> QueuePolicy:
        match = _TEXT.fullmatch(str(text).strip().lower())
        if match is None or match[1] not in _NAMES or (match[2] and not int(match[2])):
            close = nearest(str(text), _NAMES)
            raise SinkError(
                f"{text!r} does not say what happens when a subscriber is too slow",
                expected="'block' or 'drop-oldest', and how many rows may wait",
                hint=close[0] if close else f"'block {_ROOM}'",
            )
        return QueuePolicy(int(match[2]) if match[2] else _ROOM, match[1] == "drop-oldest")


class Backlog:
    """What waits for the subscribers of one query, in all of their queues."""

    def __init__(self) -> None:
        self.owner: object = None  # the engine: its subscribers must not wait for it
        self.failure: BaseException | None = None
        self.on_full: Callable[[bool], None] = lambda _: None  # a queue is full, or has room again
        self.on_failure: Callable[[BaseException], None] = lambda _: None
        self.on_drained: Callable[[], None] = lambda: None
        self._queues: tuple[SubscriberQueue, ...] = ()
        self._dropped = 0  # by queues of subscribers that have left
        self._turn = threading.Lock()

    def add(self, queue: SubscriberQueue) -> None:
        with self._turn:
            self._queues = (*self._queues, queue)

    def remove(self, queue: SubscriberQueue) -> None:
        with self._turn:
            if queue in self._queues:
                self._queues = tuple(each for each in self._queues if each is not queue)
                self._dropped += queue.dropped
        self.look()

    @property
    def waiting(self) -> int:
        """Rows that have not been handed over."""
        return sum(each.waiting for each in self._queues)

    @property
    def dropped(self) -> int:
        return self._dropped + sum(each.dropped for each in self._queues)

    @property
    def full(self) -> bool:
        return any(each.full for each in self._queues)

    @property
    def drained(self) -> bool:
        return all(each.drained for each in self._queues)

    def look(self) -> None:
        """Whether the query is to be read on may have changed."""
        with self._turn:
            full = self.full
            self.on_full(full)
        if not full and self.drained:
            self.on_drained()

    def fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self.on_failure(error)

    def finish(self, drain: bool) -> None:
        """Wait until everything has been handed over, or drop what waits; nothing follows."""
        for each in self._queues:
            if drain:
                each.wait_until_drained()
            each.leave()


class SubscriberThread(threading.Thread):
    def __init__(self, backlog: Backlog, work: Callable[[], None]) -> None:
        super().__init__(target=work, name="penstock subscriber", daemon=True)
        self.backlog = backlog


def works_for(owner: object) -> bool:
    """Whether this thread is one of an engine's subscribers."""
    thread = threading.current_thread()
    return isinstance(thread, SubscriberThread) and thread.backlog.owner is owner


class SubscriberQueue:
    """A sink that hands what it gets to another one, in a thread of that one's own."""

    def __init__(self, sink: Sink, policy: QueuePolicy, backlog: Backlog) -> None:
        self._sink = sink
        self._policy = policy
        self._backlog = backlog
        self._by_row = isinstance(sink, Callback) and sink.by_row
        self._items: deque[pa.RecordBatch | Callable[[], object]] = deque()
        self._in_hand = False
        self._left = False
        self._turn = threading.Condition()
        self._thread: SubscriberThread | None = None
        self._context = contextvars.copy_context()
        self.waiting = 0  # rows, with those that are in hand
        self.dropped = 0
        self.full = False
        backlog.add(self)

    # --- for the engine --------------------------------------------------------------------------

    def begin(self, schema: pa.Schema) -> None:
        self._sink.begin(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        with self._turn:
            if self._left:
                return
            self.waiting += batch.num_rows
            self._items.append(batch)
            if self._policy.drops:
                self._make_room()
            self._work_soon()
            filled = not self._policy.drops and self.waiting >= self._policy.rows
            changed, self.full = filled and not self.full, filled or self.full
        if changed:
            self._backlog.look()

    def flush(self) -> None:
        self._do(self._sink.flush, unless_waiting=True)

    def prepare(self, epoch: int) -> None:
        self._tell("prepare", epoch)

    def commit(self, epoch: int) -> None:
        self._tell("commit", epoch)

    def _tell(self, what: str, epoch: int) -> None:
        tell: Any = getattr(self._sink, what, None)
        if tell is not None:
            self._do(lambda: tell(epoch))

    def end(self) -> None:
        self._do(self._sink.end)

    def _do(self, work: Callable[[], object], unless_waiting: bool = False) -> None:
        """When what came before has been handed over."""
        with self._turn:
            if not self._left and not (unless_waiting and self._items and self._items[-1] == work):
                self._items.append(work)
                self._work_soon()

    def _work_soon(self) -> None:
        if self._thread is None:
            run = self._context.run
            self._thread = SubscriberThread(self._backlog, lambda: run(self._work))
            self._thread.start()
        self._turn.notify_all()

    def _make_room(self) -> None:
        """Drop the oldest rows that wait, not those in hand."""
        place = 0
        while (over := self.waiting - self._policy.rows) > 0 and place < len(self._items):
            item = self._items[place]
            if not isinstance(item, pa.RecordBatch):
                place += 1
                continue
            gone = min(over, item.num_rows)
            self.waiting -= gone
            self.dropped += gone
            if gone < item.num_rows:
                self._items[place] = item.slice(gone)
            else:
                del self._items[place]

    # --- for others ------------------------------------------------------------------------------

    @property
    def drained(self) -> bool:
        return not self._items and not self._in_hand

    def wait_until_drained(self) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self.drained or self._left)

    def leave(self) -> None:
        """Nothing more is handed over; what waits is gone."""
        with self._turn:
            self._left = True
            self._items.clear()
            self.waiting, self.full = 0, False
            self._turn.notify_all()
        self._backlog.look()

    def remove(self) -> None:
        """The subscriber leaves."""
        self.leave()
        self._backlog.remove(self)

    # --- the thread ------------------------------------------------------------------------------

    def _work(self) -> None:
        most = 1
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._items or self._left)
                if self._left:
                    return
                item, rows = self._next(most)
            begun = perf_counter_ns()
            try:
                if isinstance(item, pa.RecordBatch):
                    self._sink.write(item)
                else:
                    item()
            except BaseException as error:  # SystemExit would end this thread silently
                self._fail(error)
                return
            if rows:
                quick = perf_counter_ns() - begun < _QUICK
                most = min(2 * most, _MOST) if quick else max(1, most // 2)
            self._done(rows)

    def _next(self, most: int) -> tuple[pa.RecordBatch | Callable[[], object], int]:
        """A whole batch; or for a function that takes rows, few enough to drop others meanwhile."""
        item = self._items.popleft()
        self._in_hand = True
        if not isinstance(item, pa.RecordBatch):
            return item, 0
        if self._by_row and item.num_rows > most:
            self._items.appendleft(item.slice(most))
            item = item.slice(0, most)
        return item, item.num_rows

    def _done(self, rows: int) -> None:
        with self._turn:
            self._in_hand = False
            self.waiting = max(0, self.waiting - rows)  # 0 if it has been left meanwhile
            has_room = self.full and self.waiting <= self._policy.rows // 2
            if has_room:
                self.full = False
            drained = self.drained
            if drained:
                self._turn.notify_all()
        if has_room or drained:
            self._backlog.look()

    def _fail(self, error: BaseException) -> None:
        self._backlog.fail(error)
        with self._turn:
            self._in_hand = False
        self.leave()


class Subscribers:
    """`also` is a sink that gets everything; subscribers get what comes while they are there."""

    def __init__(self, also: Sink | None = None) -> None:
        self._schema = pa.schema([])
        self._sinks: tuple[Sink, ...] = () if also is None else (also,)

    @property
    def wanted(self) -> bool:
        """Whether anybody is there."""
        return bool(self._sinks)

    def subscribe(self, sink: SubscriberQueue) -> Callable[[], None]:
        """From now on, until the answer is called."""
        sink.begin(self._schema)
        self._sinks = (*self._sinks, sink)

        def leave() -> None:
            self._sinks = tuple(each for each in self._sinks if each is not sink)
            sink.remove()

        return leave

    def begin(self, schema: pa.Schema) -> None:
        self._schema = schema
        for sink in self._sinks:
            sink.begin(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        for sink in self._sinks:
            sink.write(batch)

    def flush(self) -> None:
        for sink in self._sinks:
            sink.flush()

    def prepare(self, epoch: int) -> None:
        self._tell("prepare", epoch)

    def commit(self, epoch: int) -> None:
        self._tell("commit", epoch)

    def _tell(self, what: str, epoch: int) -> None:
        for sink in self._sinks:
            tell: Any = getattr(sink, what, None)
            if tell is not None:
                tell(epoch)

    def end(self) -> None:
        for sink in self._sinks:
            sink.end()
