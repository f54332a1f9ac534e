"""Results of several buckets in the order in which one operator would have given them.

Groups leave a window in the order of their keys.  A window that counts rows sees that order, so
what comes to it from several buckets in a micro-batch is merged: every bucket releases the same
windows there.  Rows travel with the columns that say where they belong, because the steps on the
way may drop them.
"""

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
from penstock.spark.tasks.paths import Kit, Outgoing
from penstock.spark.tasks.segments import Chain

_WINDOW_COLUMNS = 3  # before the keys: window_id, window_start, window_end


def order_columns(feeding: Stage, fed: Stage) -> list[int] | None:
    """The columns of results by which the stage that they are fed to wants them merged; None if
    their order makes no difference to it, or has none beyond a bucket."""
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


def placed(given: pa.RecordBatch, columns: list[int], rows: Ints) -> pa.RecordBatch:
    """Where some rows of results belong."""
    arrays = [given.column(column).take(pa.array(rows)) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, [str(place) for place in range(len(arrays))])


def merged(messages: list[Message]) -> list[Message]:
    """The messages of a micro-batch with the rows of each entry in order, all in its last one."""
    found: dict[int, list[RowsPiece]] = {}
    last: dict[int, int] = {}
    for number, message in enumerate(messages):
        pieces = [piece for piece in message.rows if piece.order is not None]
        if pieces:
            found.setdefault(message.entry, []).extend(pieces)
            last[message.entry] = number
    if not found:
        return messages
    made = []
    for number, message in enumerate(messages):
        rows = [piece for piece in message.rows if piece.order is None]
        if last.get(message.entry) == number:
            rows.append(_merged(found[message.entry]))
        made.append(replace(message, rows=rows))
    return made


def _merged(pieces: list[RowsPiece]) -> RowsPiece:
    batch = Batch(pa.concat_batches([piece.batch.rows for piece in pieces]))
    order = pa.concat_batches([piece.order for piece in pieces])
    places = sorted_places(order.columns)
    return RowsPiece(batch if (np.diff(places) > 0).all() else batch.take(places))


# What leaves a bucket: results, late tuples and progress, packed for the end or for the buckets of
# the next stage.


class Leaving:
    """One of the places that the results of a bucket go to, and by which steps."""

    def __init__(
        self, config: StageConfig, destination: Destination, bucket: int, clock: Clock
    ) -> None:
        self.config = config
        self.destination = destination
        self.bucket = bucket
        self._tail = Chain(destination.tail.steps, clock)
        fed = destination.stage
        self.kit = Kit(fed, destination.entry) if fed is not None else None
        self._columns = order_columns(config.stage, fed.stage) if fed is not None else None
        self.sent = 0  # messages, since the bucket is here
        self._folded = StepWork()

    @property
    def key(self) -> int:
        """Under which things go on that are not for the buckets of the next stage."""
        fed = self.destination.stage
        return self.config.bucket_keys[self.bucket] if fed is None else fed.bucket_keys[0]

    def pieces(self, given: Batch) -> Iterator[RowsPiece]:
        """Results after the steps that follow."""
        if not self.config.stage.passes_tuples:
            given = given.without_broken()
        given = replace(given, places=None, numbers=None)  # which were of this stage's sources
        if self._columns is None:
            yield from map(RowsPiece, self._tail.batches(given))
            return
        numbered = replace(given, lineage=made_of(np.arange(given.num_rows)))
        for left in self._tail.batches(numbered):
            assert left.lineage is not None
            order = placed(given.rows, self._columns, left.lineage[:, 0])
            yield RowsPiece(replace(left, lineage=None), order)

    def progress(self, progress: Progress) -> Progress:
        return self._tail.progress(progress)

    def folded(self, batch: Batch, outgoing: list[Outgoing]) -> bool:
        """Whether results have been folded into panes for the next stage."""
        assert self.kit is not None
        begin = perf_counter_ns()
        made = self.kit.fold(batch, outgoing)
        if made is not None:
            self._folded.add(StepWork(batch.num_rows, made, perf_counter_ns() - begin))
        return made is not None

    def work(self) -> list[tuple[StepName, StepWork]]:
        """What has been done on the way to the next stage, or to the end."""
        fed, entry = self.destination.stage, self.destination.entry
        stage = 0 if fed is None else fed.identity.stage
        return [*self._tail.work(stage, entry), (StepName(stage, entry, FOLDING), self._folded)]


class BucketOutput:
    """What a bucket has to say to one of those places in a micro-batch.  Results are packed, or
    folded, and leave as they come: they may be many more than there is room for at once."""

    def __init__(self, leaving: Leaving) -> None:
        self._leaving = leaving
        fed = leaving.destination.stage
        self._outgoing = [Outgoing() for _ in range(fed.buckets if fed is not None else 0)]
        self._waiting = 0  # rows that have not been sent
        self._progress: Progress | None = None

    def tell(self, progress: Progress) -> None:
        self._progress = progress

    def add(self, batch: Batch) -> Iterator[Packed]:
        for piece in self._leaving.pieces(batch):
            yield from self._add_rows(piece)

    def _add_rows(self, piece: RowsPiece) -> Iterator[Packed]:
        leaving = self._leaving
        if leaving.kit is None:
            payload, query = pack_rows(signed_record(piece.batch)), leaving.destination.query
            yield Packed(leaving.key, PackedKind.ROWS, payload, query=query)
            return
        if leaving.kit.maker is None or not leaving.folded(piece.batch, self._outgoing):
            leaving.kit.route(piece, self._outgoing)
        self._waiting += piece.batch.num_rows
        if self._waiting >= MANY_ROWS:
            yield from self._messages(None)

    def rest(self) -> Iterator[Packed]:
        """What has not left."""
        yield from self._messages(self._progress)

    def _messages(self, progress: Progress | None) -> Iterator[Packed]:
        """Results, and progress behind the last of them, for every bucket of the next stage."""
        leaving, destination = self._leaving, self._leaving.destination
        if destination.stage is None or leaving.kit is None:
            return
        leaving.kit.tidy()
        progress = progress and leaving.progress(progress)
        for number, mine in enumerate(self._outgoing):
            message = Message(
                destination.entry,
                leaving.bucket,
                rows=mine.rows,
                panes=mine.panes,
                progress=progress,
            )
            key = destination.stage.bucket_keys[number]
            place = (leaving.bucket << 32) + leaving.sent
            stage = destination.stage.identity.stage
            yield Packed(key, PackedKind.MESSAGE, message.pack(), place, stage=stage)
        leaving.sent += 1
        self._waiting = 0
        self._outgoing = [Outgoing() for _ in self._outgoing]


# From the operator of a bucket to all places where its results go.
#
# Most have one place.  What several queries share goes to each of them: through a part of its own
# in the same bucket where queries make different things of it, or as it is.


class Exits:
    def __init__(self, config: StageConfig, bucket: int, clock: Clock, measured: Measured) -> None:
        self.config = config
        self._measured = measured
        self.parts = [
            _part(f"{number}", node, measured.operator, clock)
            for number, node in enumerate(config.stage.parts)
        ]
        self.leaving = [Leaving(config, each, bucket, clock) for each in config.destinations]
        self.of_part: list[list[int]] = [[] for _ in range(max(1, len(self.parts)))]
        for place, each in enumerate(config.destinations):
            self.of_part[each.part].append(place)
        self._most = [Metrics(0, 0, 0) for _ in range(1 + len(self.parts))]

    def look(self) -> None:
        """Remember the most that operators have kept."""
        for place, measured in enumerate([self._measured, *self.parts]):
            most, now = self._most[place], measured.operator.metrics()
            self._most[place] = Metrics(max(most.rows, now.rows), max(most.bytes, now.bytes), 0)

    def status(self, sources: Tree, decisions: Tree) -> dict[int, Tree]:
        """How the operators of each query are doing, with what is known of `sources`, and what has
        been decided."""
        token, told = self.config.token, dict[int, list[Tree]]()
        first, *others = self._most
        own = _status(token, self._measured, first)
        named = zip(self.parts, others, strict=True)
        parts = [_status(f"{token}/{n}", *part) for n, part in enumerate(named)]
        for each in self.config.destinations:
            known = told.setdefault(each.query, [own])
            if parts and parts[each.part] not in known:
                known.append(parts[each.part])
        return {
            query: {"sources": sources, "operators": known, "decisions": decisions}
            for query, known in told.items()
        }

    def save(self, store: ChunkStore) -> None:
        for number, part in enumerate(self.parts):
            part.operator.save(Within(store, f"part {number}/"))

    def load(self, store: ChunkStore) -> None:
        """Before the operator that all of them share."""
        for number, part in enumerate(self.parts):
            part.operator.load(Within(store, f"part {number}/"))


class Leaves:
    """What leaves a bucket in a micro-batch."""

    def __init__(self, exits: Exits) -> None:
        self._exits = exits
        self._outputs = [BucketOutput(each) for each in exits.leaving]
        self._late: Counter[int] = Counter()  # by query

    def add(self, items: Iterable[Item]) -> Iterator[Packed]:
        parts = self._exits.parts
        if not parts:
            yield from self._out(0, items)
            return
        for item in items:
            for number, part in enumerate(parts):
                yield from self._out(number, _given(part, item))

    def _out(self, part: int, items: Iterable[Item]) -> Iterator[Packed]:
        places = self._exits.of_part[part]
        for item in items:
            for place in places:
                if isinstance(item, LateRows):
                    yield from self._add_late(place, item.batch)
                elif isinstance(item, Progress):
                    self._outputs[place].tell(item)
                else:
                    yield from self._outputs[place].add(item)

    def _add_late(self, place: int, rows: pa.RecordBatch) -> Iterator[Packed]:
        """A tuple is late as often as it is asked for."""
        leaving = self._exits.leaving[place]
        destination = leaving.destination
        self._late[destination.query] += rows.num_rows * destination.times
        if destination.late is not Late.DROP:
            payload = pack_rows(rows)
            for _ in range(destination.times):
                yield Packed(leaving.key, PackedKind.LATE, payload, query=destination.query)

    def rest(self, sources: Tree, late: int, decisions: Tree) -> Iterator[Packed]:
        """What has not left, and how the bucket is doing; so many tuples were late that nobody has
        seen one by one."""
        keys: dict[int, int] = {}
        for leaving, output in zip(self._exits.leaving, self._outputs, strict=True):
            yield from output.rest()
            query = leaving.destination.query
            keys.setdefault(query, leaving.key)
            self._late[query] += late * leaving.destination.times
        for query, status in self._exits.status(sources, decisions).items():
            number = self._late[query]
            yield Packed(keys[query], PackedKind.STATUS, pack(status), late=number, query=query)
        if self._exits.config.analyzed:
            done = [work for leaving in self._exits.leaving for work in leaving.work()]
            yield Packed(self._exits.leaving[0].key, PackedKind.STATUS, work_done(done))


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
