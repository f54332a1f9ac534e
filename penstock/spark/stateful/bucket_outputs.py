"""Output of a bucket: results, late tuples and progress, packed for the end or for the buckets of
the next stage; and the order of results of several buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import perf_counter_ns

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch, signed_record
from penstock.kernel.build import operator_for
from penstock.kernel.grouping.keys import sorted_places
from penstock.kernel.operator import Item, LateRows, Measured, Metrics, Operator, Progress
from penstock.kernel.retractions.lineage import made_of
from penstock.kernel.state import ChunkStore, Tree, Within, pack
from penstock.kernel.windows.pane_windows import WindowsOfPanesOperator
from penstock.kernel.windows.shared_panes import SharedPanesOperator
from penstock.model.arrays import Ints
from penstock.model.clock import Clock
from penstock.plan.nodes.aggregation import GroupAggregate, WindowAggregate
from penstock.plan.nodes.query import Late
from penstock.plan.physical import PhysicalNode
from penstock.plan.window_kinds import Session, SlideByTuple
from penstock.spark.stages import Destination, Stage, StageConfig
from penstock.spark.tasks.messages import (
    FOLDING,
    MANY_ROWS,
    Message,
    Packed,
    PackedKind,
    RowsPiece,
    StepName,
    StepWork,
    pack_rows,
    work_done,
)
from penstock.spark.tasks.paths import Outgoing, TaskCache
from penstock.spark.tasks.segments import StatelessSegment

_WINDOW_COLUMNS = 3  # before the keys: window_id, window_start, window_end


# The order of results of several buckets, as one operator would emit them.
#
# Groups leave a window in the order of their keys.  A window that counts rows depends on that
# order, so what comes to it from several buckets in a micro-batch is merged: every bucket releases
# the same windows there.  Rows travel with the columns that they are sorted by, because the steps
# of the path may drop them.


def order_columns(feeding: Stage, fed: Stage) -> list[int] | None:
    """Columns of results by which the stage that they feed needs them merged; None if their order
    makes no difference to it, or has no meaning beyond a bucket."""
    counts = isinstance(fed.node, WindowAggregate) and fed.node.counts_rows
    if not counts or feeding.one_bucket:
        return None
    match feeding.node:
        case WindowAggregate(window=SlideByTuple()) as node:
            # a partition is in one bucket, and gives a window as often as it was opened
            parts = [node.keys.index(node.partition[place]) for place in node.partition_order]
            return [0, *(_WINDOW_COLUMNS + place for place in parts)]
        case WindowAggregate(window=Session()) as node:  # as they end
            return [2, *(_WINDOW_COLUMNS + place for place in node.key_order)]
        case WindowAggregate() as node if not node.counts_rows:
            return [0, *(_WINDOW_COLUMNS + place for place in node.key_order)]
        case GroupAggregate() as node:
            first = node.schema.names.index(node.progress[0].field.name)
            return [first, *node.key_order]
    return None


def _sort_columns(given: pa.RecordBatch, columns: list[int], rows: Ints) -> pa.RecordBatch:
    """Columns that some rows of results are sorted by."""
    arrays = [given.column(column).take(pa.array(rows)) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, [str(place) for place in range(len(arrays))])


def merged(messages: list[Message]) -> list[Message]:
    """Merge the rows of each path in the messages of a micro-batch; they are all in its last
    message."""
    found: dict[int, list[RowsPiece]] = {}
    last: dict[int, int] = {}
    for number, message in enumerate(messages):
        pieces = [piece for piece in message.rows if piece.order is not None]
        if pieces:
            found.setdefault(message.path, []).extend(pieces)
            last[message.path] = number
    if not found:
        return messages
    made = []
    for number, message in enumerate(messages):
        rows = [piece for piece in message.rows if piece.order is None]
        if last.get(message.path) == number:
            rows.append(_merged(found[message.path]))
        made.append(replace(message, rows=rows))
    return made


def _merged(pieces: list[RowsPiece]) -> RowsPiece:
    batch = Batch(pa.concat_batches([piece.batch.rows for piece in pieces]))
    order = pa.concat_batches([piece.order for piece in pieces])
    places = sorted_places(order.columns)
    return RowsPiece(batch if (np.diff(places) > 0).all() else batch.take(places))


# Paths out of a bucket.


class OutputPath:
    """One path of the results of a bucket: its steps, and the cache for the stage that it leads
    to."""

    def __init__(
        self, config: StageConfig, destination: Destination, bucket: int, clock: Clock
    ) -> None:
        self.config = config
        self.destination = destination
        self.bucket = bucket
        self._tail = StatelessSegment(destination.tail.steps, clock)
        fed = destination.stage
        self.cache = TaskCache(fed, destination.path) if fed is not None else None
        self._columns = order_columns(config.stage, fed.stage) if fed is not None else None
        self.sent = 0  # messages, since the bucket is here
        self._folded = StepWork()

    @property
    def key(self) -> int:
        """Key under which output goes on that is not for the buckets of the next stage."""
        fed = self.destination.stage
        return self.config.bucket_keys[self.bucket] if fed is None else fed.bucket_keys[0]

    def pieces(self, given: Batch) -> Iterator[RowsPiece]:
        """Apply the steps of the path to results."""
        if not self.config.stage.passes_tuples:
            given = given.without_broken()
        given = replace(given, places=None, numbers=None)  # which were of this stage's sources
        if self._columns is None:
            yield from map(RowsPiece, self._tail.batches(given))
            return
        numbered = replace(given, lineage=made_of(np.arange(given.num_rows)))
        for left in self._tail.batches(numbered):
            assert left.lineage is not None
            order = _sort_columns(given.rows, self._columns, left.lineage[:, 0])
            yield RowsPiece(replace(left, lineage=None), order)

    def progress(self, progress: Progress) -> Progress:
        return self._tail.progress(progress)

    def folded(self, batch: Batch, outgoing: list[Outgoing]) -> bool:
        """Fold results into panes for the next stage; False if that is not worth it."""
        assert self.cache is not None
        begin = perf_counter_ns()
        made = self.cache.fold(batch, outgoing)
        if made is not None:
            self._folded.add(StepWork(batch.num_rows, made, perf_counter_ns() - begin))
        return made is not None

    def work(self) -> list[tuple[StepName, StepWork]]:
        """Work of the steps of the path, and of folding."""
        fed, path = self.destination.stage, self.destination.path
        stage = 0 if fed is None else fed.identity.stage
        return [*self._tail.work(stage, path), (StepName(stage, path, FOLDING), self._folded)]


class BucketOutput:
    """Output of a bucket on one path in a micro-batch.  Results are packed, or folded, and leave as
    they come: they may be more than fit into memory at once."""

    def __init__(self, path: OutputPath) -> None:
        self._path = path
        fed = path.destination.stage
        self._outgoing = [Outgoing() for _ in range(fed.buckets if fed is not None else 0)]
        self._waiting = 0  # rows that have not been sent
        self._progress: Progress | None = None

    def tell(self, progress: Progress) -> None:
        self._progress = progress

    def add(self, batch: Batch) -> Iterator[Packed]:
        for piece in self._path.pieces(batch):
            yield from self._add_rows(piece)

    def _add_rows(self, piece: RowsPiece) -> Iterator[Packed]:
        path = self._path
        if path.cache is None:
            payload, query = pack_rows(signed_record(piece.batch)), path.destination.query
            yield Packed(path.key, PackedKind.ROWS, payload, query=query)
            return
        if path.cache.maker is None or not path.folded(piece.batch, self._outgoing):
            path.cache.route(piece, self._outgoing)
        self._waiting += piece.batch.num_rows
        if self._waiting >= MANY_ROWS:
            yield from self._messages(None)

    def rest(self) -> Iterator[Packed]:
        """Yield the remaining output, and progress behind it."""
        yield from self._messages(self._progress)

    def _messages(self, progress: Progress | None) -> Iterator[Packed]:
        """Yield a message with results, and progress behind the last of them, for every bucket of
        the next stage."""
        path, destination = self._path, self._path.destination
        if destination.stage is None or path.cache is None:
            return
        path.cache.tidy()
        progress = progress and path.progress(progress)
        for number, mine in enumerate(self._outgoing):
            message = Message(
                destination.path,
                path.bucket,
                rows=mine.rows,
                panes=mine.panes,
                progress=progress,
            )
            key = destination.stage.bucket_keys[number]
            place = (path.bucket << 32) + path.sent
            stage = destination.stage.identity.stage
            yield Packed(key, PackedKind.MESSAGE, message.pack(), place, stage=stage)
        path.sent += 1
        self._waiting = 0
        self._outgoing = [Outgoing() for _ in self._outgoing]


# From the operator of a bucket to all paths of its results.
#
# Most have one path.  Results that several queries share go to each of them: through a part of its
# own in the same bucket where queries compute different things from them, or unchanged.


class OutputPaths:
    """All paths of the results of a bucket, with the parts of the queries that share its
    operator."""

    def __init__(self, config: StageConfig, bucket: int, clock: Clock, measured: Measured) -> None:
        self.config = config
        self._measured = measured
        self.parts = [
            _part(f"{number}", node, measured.operator, clock)
            for number, node in enumerate(config.stage.parts)
        ]
        self.path = [OutputPath(config, each, bucket, clock) for each in config.destinations]
        self.of_part: list[list[int]] = [[] for _ in range(max(1, len(self.parts)))]
        for place, each in enumerate(config.destinations):
            self.of_part[each.part].append(place)
        self._most = [Metrics(0, 0, 0) for _ in range(1 + len(self.parts))]

    def look(self) -> None:
        """Sample the state that operators keep, to report the most."""
        for place, measured in enumerate([self._measured, *self.parts]):
            most, now = self._most[place], measured.operator.metrics()
            self._most[place] = Metrics(max(most.rows, now.rows), max(most.bytes, now.bytes), 0)

    def status(self, sources: Tree, decisions: Tree) -> dict[int, Tree]:
        """Status of the operators of each query, with that of the `sources`, and decisions."""
        token, reports = self.config.token, dict[int, list[Tree]]()
        first, *others = self._most
        own = _status(token, self._measured, first)
        named = zip(self.parts, others, strict=True)
        parts = [_status(f"{token}/{n}", *part) for n, part in enumerate(named)]
        for each in self.config.destinations:
            known = reports.setdefault(each.query, [own])
            if parts and parts[each.part] not in known:
                known.append(parts[each.part])
        return {
            query: {"sources": sources, "operators": known, "decisions": decisions}
            for query, known in reports.items()
        }

    def save(self, store: ChunkStore) -> None:
        for number, part in enumerate(self.parts):
            part.operator.save(Within(store, f"part {number}/"))

    def load(self, store: ChunkStore) -> None:
        """Restore the parts, before the operator that they share."""
        for number, part in enumerate(self.parts):
            part.operator.load(Within(store, f"part {number}/"))


class BatchOutput:
    """Output of a bucket in a micro-batch, on all paths."""

    def __init__(self, paths: OutputPaths) -> None:
        self._output_paths = paths
        self._outputs = [BucketOutput(each) for each in paths.path]
        self._late: Counter[int] = Counter()  # by query

    def add(self, items: Iterable[Item]) -> Iterator[Packed]:
        parts = self._output_paths.parts
        if not parts:
            yield from self._out(0, items)
            return
        for item in items:
            for number, part in enumerate(parts):
                yield from self._out(number, _given(part, item))

    def _out(self, part: int, items: Iterable[Item]) -> Iterator[Packed]:
        places = self._output_paths.of_part[part]
        for item in items:
            for place in places:
                if isinstance(item, LateRows):
                    yield from self._add_late(place, item.batch)
                elif isinstance(item, Progress):
                    self._outputs[place].tell(item)
                else:
                    yield from self._outputs[place].add(item)

    def _add_late(self, place: int, rows: pa.RecordBatch) -> Iterator[Packed]:
        """Count and pack late tuples, once for each time that the query uses the path."""
        path = self._output_paths.path[place]
        destination = path.destination
        self._late[destination.query] += rows.num_rows * destination.times
        if destination.late is not Late.DROP:
            payload = pack_rows(rows)
            for _ in range(destination.times):
                yield Packed(path.key, PackedKind.LATE, payload, query=destination.query)

    def rest(self, sources: Tree, late: int, decisions: Tree) -> Iterator[Packed]:
        """Yield the remaining output and the status of the bucket; `late` more tuples were late in
        panes."""
        keys: dict[int, int] = {}
        for path, output in zip(self._output_paths.path, self._outputs, strict=True):
            yield from output.rest()
            query = path.destination.query
            keys.setdefault(query, path.key)
            self._late[query] += late * path.destination.times
        for query, status in self._output_paths.status(sources, decisions).items():
            number = self._late[query]
            yield Packed(keys[query], PackedKind.STATUS, pack(status), late=number, query=query)
        if self._output_paths.config.analyzed:
            done = [work for path in self._output_paths.path for work in path.work()]
            yield Packed(self._output_paths.path[0].key, PackedKind.STATUS, work_done(done))


def _part(name: str, node: PhysicalNode, folding: Operator, clock: Clock) -> Measured:
    operator = operator_for(node, clock)
    assert isinstance(operator, WindowsOfPanesOperator)
    assert isinstance(folding, SharedPanesOperator)
    operator.share(folding, name)
    return Measured(operator, node.operator.value)


def _given(part: Measured, item: Item) -> Iterable[Item]:
    if isinstance(item, Progress):
        return part.on_progress(0, item)
    assert isinstance(item, Batch)
    return part.on_batch(0, item)


def _status(name: str, measured: Measured, most: Metrics) -> Tree:
    open_ = measured.operator.open_results().save()
    kept = [most.rows, most.bytes]
    return {"stage": name, "operator": measured.status().save(), "open": open_, "most": kept}
