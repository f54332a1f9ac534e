"""Sinks: their protocol, sinks in memory, queues for subscribers, callbacks, and the ledger of the
outputs that a checkpoint has."""

from __future__ import annotations

import contextvars
import inspect
import logging
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from enum import StrEnum
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from penstock.errors import CheckpointError, PenstockError, RunError, SinkError, nearest
from penstock.io.durable_files import read_json, write_json
from penstock.model.types import Kind, from_arrow
from penstock.model.values import to_json, to_python, to_text


def column_texts(column: pa.ChunkedArray) -> list[str | None]:
    """Format values as plain text; None for NULL."""
    sql_type = from_arrow(column.type)
    assert sql_type is not None
    values = to_python(column, sql_type)
    if sql_type.kind is Kind.STRING:
        return values
    return [None if value is None else to_text(value, sql_type) for value in values]


def column_json(column: pa.ChunkedArray) -> list[str]:
    sql_type = from_arrow(column.type)
    assert sql_type is not None
    return [to_json(value, sql_type) for value in to_python(column, sql_type)]


# The protocol: a sink takes the rows of one result, batch by batch.


@runtime_checkable
class Sink(Protocol):
    """Takes the rows of one result. `begin` comes first, then batches as they are released, and
    `end` when nothing follows: all rows have come, or the run was stopped. A run that fails calls
    no `end`."""

    def begin(self, schema: pa.Schema) -> None: ...

    def write(self, batch: pa.RecordBatch) -> None: ...

    def flush(self) -> None:
        """Make the rows so far visible: the next may take a while."""
        ...

    def end(self) -> None: ...


class Collected:
    """Rows gathered in memory."""

    def __init__(self) -> None:
        self._schema = pa.schema([])
        self._batches: list[pa.RecordBatch] = []

    def begin(self, schema: pa.Schema) -> None:
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def flush(self) -> None:
        """No-op."""

    def end(self) -> None:
        """No-op."""

    def take(self) -> list[pa.RecordBatch]:
        """Return and remove the batches so far."""
        taken, self._batches = self._batches, []
        return taken

    @property
    def batches(self) -> list[pa.RecordBatch]:
        return self._batches

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, self._schema)


# A sink that discards its rows.


class Discarded:
    """Drops all rows; the outlet before it has counted them."""

    def begin(self, schema: pa.Schema) -> None:
        """No-op."""

    def write(self, batch: pa.RecordBatch) -> None:
        """No-op."""

    def flush(self) -> None:
        """No-op."""

    def end(self) -> None:
        """No-op."""


# Rows that are kept in case the caller asks for them: up to a limit, with a warning if there were
# more.

LIMIT = 10_000  # rows: enough to see what is wrong, and nothing to a memory
_LOG = logging.getLogger("penstock")


class Kept:
    """Keeps the first rows of a run that may not end; without a limit, all of them."""

    def __init__(self, what: str, limit: int | None = LIMIT) -> None:
        self._what = what
        self._limit = limit
        self._schema = pa.schema([])
        self._seen = 0
        self._kept = 0
        self.batches: list[pa.RecordBatch] = []

    def begin(self, schema: pa.Schema) -> None:
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._seen += batch.num_rows
        room = batch.num_rows if self._limit is None else self._limit - self._kept
        if room > 0 and batch.num_rows:
            self.batches.append(batch.slice(0, room))
            self._kept += self.batches[-1].num_rows

    def flush(self) -> None:
        """No-op."""

    def end(self) -> None:
        """No-op."""

    @property
    def table(self) -> pa.Table:
        return self.marked(pa.Table.from_batches(self.batches, self._schema))

    def marked(self, table: pa.Table) -> pa.Table:
        """Table of the kept rows; its metadata and the log tell if it is cut."""
        if self._kept == self._seen:
            return table
        cut = f"the first {self._kept:,} of {self._seen:,} {self._what}"
        _LOG.warning("%s are kept; give the run a sink for all of them", cut)
        return table.replace_schema_metadata({"penstock": cut})


# Subscribers, which get rows as they are emitted, in addition to the sink of the query.
#
# A callback of the program may be slow, and other queries must not wait for it. So each subscriber
# has a queue and a thread of its own. The queue is bounded: when it is full, the sources of the
# query are not read on until there is room, or the oldest rows are dropped and counted.

_ROOM = 10_000  # rows
_NAMES = ("block", "drop-oldest")
_TEXT = re.compile(r"([\w-]+?)(?:\s+(\d+))?")
_QUICK = 5_000_000  # nanoseconds: functions that take rows get more at a time if they are quicker
_MOST = 4096  # rows at a time


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How many `rows` may wait for a subscriber; beyond that its query blocks, or, if the queue
    `drops`, the oldest rows are dropped.

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
    """All queues of the subscribers of one query: what waits in them, and whether one is full."""

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
        """Number of rows that wait in the queues."""
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
        """Report whether a queue is full, or all are drained."""
        with self._turn:
            full = self.full
            self.on_full(full)
        if not full and self.drained:
            self.on_drained()

    def fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self.on_failure(error)

    def finish(self, drain: bool) -> None:
        """Wait until all rows have been passed on, or drop them; no more follow."""
        for each in self._queues:
            if drain:
                each.wait_until_drained()
            each.leave()


class SubscriberThread(threading.Thread):
    """The thread in which a callback runs; it knows the query whose rows it gets."""

    def __init__(self, backlog: Backlog, work: Callable[[], None]) -> None:
        super().__init__(target=work, name="penstock subscriber", daemon=True)
        self.backlog = backlog


def works_for(owner: object) -> bool:
    """Whether this thread is one of an engine's subscribers."""
    thread = threading.current_thread()
    return isinstance(thread, SubscriberThread) and thread.backlog.owner is owner


class SubscriberQueue:
    """A sink that passes rows on to another one, in a thread of its own."""

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
        """Enqueue a call, behind the rows before it."""
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
        """Drop the oldest rows that wait, not those being passed on."""
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
        """Stop passing rows on; those that wait are dropped."""
        with self._turn:
            self._left = True
            self._items.clear()
            self.waiting, self.full = 0, False
            self._turn.notify_all()
        self._backlog.look()

    def remove(self) -> None:
        """Remove the subscriber."""
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
        """Next rows to pass on: a whole batch; for a callback of rows, few enough to drop others
        meanwhile."""
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
    """Subscribers of one result, which get rows while they are subscribed; `also` is a sink that
    gets all rows."""

    def __init__(self, also: Sink | None = None) -> None:
        self._schema = pa.schema([])
        self._sinks: tuple[Sink, ...] = () if also is None else (also,)

    @property
    def wanted(self) -> bool:
        """Whether there are any subscribers."""
        return bool(self._sinks)

    def subscribe(self, sink: SubscriberQueue) -> Callable[[], None]:
        """Add a subscriber. Returns a function that removes it."""
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


# Callbacks: rows given to a function of the program, a batch at a time, or as dictionaries.


class Callback:
    """Calls a function with every batch, or with every row if `rows` is set."""

    def __init__(self, function: Callable[[Any], object], rows: bool = False) -> None:
        if inspect.iscoroutinefunction(function):
            raise SinkError(
                f"the function {function.__qualname__} is asynchronous, and is not awaited here",
                hint="query.run_async(…), or a function that calls"
                " asyncio.run_coroutine_threadsafe",
            )
        self._function = function
        self.by_row = rows
        self._name = getattr(function, "__qualname__", None) or type(function).__qualname__

    def begin(self, schema: pa.Schema) -> None:
        """No-op: batches have schemas."""

    def write(self, batch: pa.RecordBatch) -> None:
        for argument in rows_of(batch) if self.by_row else (batch,):
            try:
                self._function(argument)
            except PenstockError:
                raise
            except Exception as error:
                raise RunError(
                    f"the callback {self._name} failed: {type(error).__name__}: {error}",
                    expected="a function that takes " + ("a row" if self.by_row else "a batch"),
                ) from error

    def flush(self) -> None:
        """No-op: no row is held back."""

    def end(self) -> None:
        """No-op: no row is held back."""


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Convert rows to dictionaries. A time that `datetime` cannot hold is an ISO 8601 text."""
    columns = [_values(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, row, strict=True))


def _values(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:  # a value must not depend on the others of its batch
        values = [_value(column[place : place + 1]) for place in range(len(column))]
    return values


def _value(cell: pa.Array) -> Any:
    try:
        return cell[0].as_py()
    except OverflowError:
        return column_texts(cell)[0]


# The ledger: what the outputs of a run held at its last checkpoint, so that a restored run
# continues there.
#
# A run with a checkpoint works in epochs. At the end of each, what its outputs are going to hold is
# noted here, then they are brought to disk, and then the state of the run is saved. After a crash
# in between, the state is one epoch behind, and the outputs go back to what they held then. A file
# that holds more than was noted has rows of another writer.

FORMAT = 3
_READ = (1, 2, FORMAT)  # marks of format 1 say only how long an output was
_EPOCHS = 2  # that are remembered: the one that is being saved, and the one before it


class OutputKind(StrEnum):
    """Kinds of outputs that a ledger knows."""

    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Mark:
    """Length of an output after an epoch, and how it ended: a checksum of its last bytes, or, while
    it has none, the number of the file. By it a file is recognised that has been moved together
    with the checkpoint, and one that has been exchanged is refused."""

    epoch: int
    length: int
    ending: str = ""


class Ledger:
    """The outputs of one checkpoint, by name; `owner` identifies the checkpoint."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json(path)
        self._changed = found is None  # since it was written
        self._is_written = found is not None
        found = found or {"format": FORMAT, "owner": uuid.uuid4().hex, "outputs": {}}
        if found["format"] not in _READ:
            raise CheckpointError(
                f"{path} has format {found['format']}, and this version of Penstock reads {FORMAT}",
                hint="run it with the version that wrote it, or a later one",
            )
        self.owner: str = found["owner"]
        self._outputs: dict[str, dict[str, Any]] = found["outputs"]

    @property
    def names(self) -> list[str]:
        return list(self._outputs)

    def __contains__(self, name: str) -> bool:
        return name in self._outputs

    def place(self, name: str) -> str | None:
        """The place of an output when it was noted last."""
        output = self._outputs.get(name)
        return None if output is None else output["place"]

    def kind(self, name: str) -> OutputKind:
        return OutputKind(self._outputs[name].get("kind", OutputKind.FILE))

    def is_ahead(self, name: str) -> bool:
        """Whether marks were noted before the output was written: then it holds no more than the
        last of them says. Versions before format 3 noted them afterwards."""
        return bool(self._outputs[name].get("ahead", False))

    def move(self, name: str, place: str) -> None:
        """Note that an output is at another place now."""
        self._outputs[name]["place"] = place
        self._changed = True

    def marks(self, name: str, place: str) -> list[Mark]:
        """Marks of an output at a place, its current or a former one, oldest first; none if it was
        never there."""
        if self.place(name) == place:
            return self.all_marks(name)
        former = self._former(name).get(place)
        return [] if former is None else [Mark(*former)]

    def all_marks(self, name: str) -> list[Mark]:
        """Marks of an output, wherever it is, oldest first."""
        return [Mark(*each) for each in self._outputs.get(name, {}).get("marks", [])]

    def _former(self, name: str) -> dict[str, list[Any]]:
        """Former places of an output, each with its last mark."""
        former: dict[str, list[Any]] = self._outputs.get(name, {}).get("former", {})
        return former

    def was_at(self, name: str, place: str) -> bool:
        """Whether an output is at a place, or was there before."""
        return self.place(name) == place or place in self._former(name)

    def columns(self, name: str, place: str) -> list[str] | None:
        return self._outputs[name]["columns"] if self.place(name) == place else None

    def note(
        self,
        name: str,
        place: str,
        mark: Mark,
        columns: list[str] | None = None,
        kind: OutputKind = OutputKind.FILE,
    ) -> None:
        """Note up to which mark an output is going to be on disk."""
        kept = [each for each in self.marks(name, place) if each.epoch < mark.epoch]
        marks = [astuple(each) for each in [*kept, mark][-_EPOCHS:]]
        known = columns or self.columns(name, place)
        former, left = dict(self._former(name)), self.place(name)
        if left is not None and left != place:
            former[left] = list(astuple(self.all_marks(name)[-1]))
        former.pop(place, None)
        self._outputs[name] = {
            "place": place,
            "kind": kind,
            "columns": known,
            "marks": marks,
            "ahead": True,
            "former": former,
        }
        self._changed = True

    def set_back(self, name: str, mark: Mark) -> None:
        """Note that an output has been cut back to a mark."""
        self._outputs[name] |= {"marks": [astuple(mark)], "ahead": True}
        self._changed = True

    def forget(self, name: str) -> tuple[Path, OutputKind, list[Mark]]:
        """Remove an output that no query writes any more. Returns its place, kind and marks."""
        self._changed = True
        kind, marks = self.kind(name), self.all_marks(name)
        return Path(self._outputs.pop(name)["place"]), kind, marks

    def write(self) -> None:
        """Write the ledger. This comes before an output records its owner, because a run after a
        crash has to be the same owner; and before the state of the run is saved."""
        if not self._changed:
            return
        write_json(self._path, {"format": FORMAT, "owner": self.owner, "outputs": self._outputs})
        self._changed = False
        self._is_written = True

    def claim(self) -> str:
        """Return the owner, after bringing it to disk."""
        if not self._is_written:
            self.write()
        return self.owner
