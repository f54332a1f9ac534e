"""Paths in a task: tuples of a scan go through the segments of a path to the buckets of a stage,
routed by their keys or by slices of time, as rows or folded into panes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.groups.group_by import plain_names
from penstock.kernel.operator import Progress
from penstock.kernel.progress.group_bounds import GroupBounds
from penstock.kernel.progress.sub_sources import SubSources, distinct
from penstock.kernel.retractions.lineage import made_of
from penstock.kernel.state import Tree
from penstock.kernel.windows.panes import PaneMaker
from penstock.model.arrays import Codes, Ints
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, Bound, ProgressPolicy, Slack
from penstock.model.types import Schema
from penstock.plan.expressions import Expression, Named
from penstock.plan.nodes.node import Scan, Stamp
from penstock.plan.physical import TimeSlices
from penstock.spark.stages import PathToStage, Stage, StagePath
from penstock.spark.tasks.buckets import Router
from penstock.spark.tasks.messages import (
    FOLDING,
    GroupsPromised,
    Message,
    Packed,
    PackedKind,
    Reports,
    RowsPiece,
    StepName,
    StepWork,
    TaskBounds,
)
from penstock.spark.tasks.segments import StatelessSegment

if TYPE_CHECKING:
    from penstock.spark.stages import StageConfig


# Routing: the buckets of the tuples of a port.


class Route(NamedTuple):
    """Rows of a batch for one bucket.  If rows go to several buckets, they are `copies` in all but
    one of them, so that they are counted once."""

    bucket: int
    rows: Ints
    copies: bool = False


class PortRouter:
    """Routes the tuples of a port: by their keys, or by slices of time."""

    def __init__(self, stage: Stage, port: int, buckets: int) -> None:
        self.keys = Router(stage.keys(port), stage.schema(port), buckets)
        slices = stage.physical.ports[port].slices
        self._slices = SliceRouter(slices, stage.schema(port), buckets) if slices else None

    def routes(self, rows: pa.RecordBatch) -> Iterator[Route]:
        if self._slices is not None:
            yield from self._slices.routes(rows)
            return
        for bucket, own in by_bucket(self.keys.buckets(rows)):
            yield Route(bucket, own)


class SliceRouter:
    """Routes tuples by slices of time, which are dealt to the buckets in turn.  A tuple of several
    slices comes to each bucket once, however many of the slices the bucket has."""

    def __init__(self, slices: TimeSlices, schema: Schema, buckets: int) -> None:
        self._slices = slices
        self._attribute = compile_expression(slices.attribute, schema)
        self._type = slices.attribute.type
        self._buckets = buckets

    def routes(self, rows: pa.RecordBatch) -> Iterator[Route]:
        ticks = to_ticks(self._attribute(rows), self._type)
        first = self._slices.first(ticks)
        for bucket, own in by_bucket(first % self._buckets):
            yield Route(bucket, own)
        if self._slices.one_each or not len(ticks):
            return
        further = np.minimum(self._slices.last(ticks) - first, self._buckets - 1)
        for step in range(1, int(further.max()) + 1):
            which = np.flatnonzero(further >= step)
            for bucket, own in by_bucket((first[which] + step) % self._buckets):
                yield Route(bucket, which[own], copies=True)


def by_bucket(buckets: Codes) -> Iterator[tuple[int, Ints]]:
    """Yield the positions of the rows of each bucket, in order.

    >>> list(by_bucket(np.array([1, 0, 1])))
    [(0, array([1])), (1, array([0, 2]))]
    """
    if len(buckets) == 0:
        return
    if buckets[0] == buckets[-1] and (buckets == buckets[0]).all():
        yield int(buckets[0]), np.arange(len(buckets))
        return
    order = np.argsort(buckets.astype(np.uint16), kind="stable")
    ordered = buckets[order]
    cuts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    for begin, end in pairwise(cuts):
        yield int(ordered[begin]), order[begin:end]


# Rows for the buckets of a port: routed as rows, or folded into panes.

_MANY = 1 << 20  # keys, or sub-sources, that are remembered
_GAIN = 1.25  # rows that a partial result has to stand for: otherwise they go as they are,
_BATCHES = 16  # so many batches, until folding is tried again


@dataclass
class Outgoing:
    """Output of a task for one bucket."""

    rows: list[RowsPiece] = field(default_factory=list)
    panes: list[Tree] = field(default_factory=list)


class TaskCache:
    """Caches of a worker for one path, from micro-batch to micro-batch: keys and sub-sources."""

    def __init__(self, config: StageConfig, path: int) -> None:
        stage, port = config.stage, config.stage.paths[path].port
        self.router = PortRouter(stage, port, config.buckets)
        self.maker = PaneMaker(stage.node) if stage.makes_panes(port) else None  # type: ignore[arg-type]
        self._unfolded_batches = 0  # batches that are not worth folding
        self._of_groups: Ints = np.zeros(0, np.int64)
        self._sub_sources: SubSources | None = None

    def sub_sources(self, scan: Scan) -> SubSources | None:
        if self._sub_sources is None and scan.stream.progress is not None:
            self._sub_sources = SubSources(scan.stream, scan.stream.progress)
        return self._sub_sources

    def route(self, piece: RowsPiece, outgoing: list[Outgoing]) -> None:
        """Route rows, with all their annotations."""
        batch = piece.batch
        for bucket, rows, copies in self.router.routes(batch.rows):
            own = piece
            if len(rows) < batch.num_rows:
                own = RowsPiece(
                    batch.take(rows),
                    piece.order.take(pa.array(rows)) if piece.order is not None else None,
                    piece.groups[rows] if piece.groups is not None else None,
                )
            outgoing[bucket].rows.append(replace(own, copies=copies))

    def folds(self) -> bool:
        """Whether the next batch is to be folded: not if earlier ones had almost as many groups in
        their panes as rows.  The result in the buckets is the same, so every task decides for
        itself."""
        if self.maker is None or not self._unfolded_batches:
            return self.maker is not None
        self._unfolded_batches -= 1
        return False

    def fold(self, batch: Batch, outgoing: list[Outgoing]) -> int | None:
        """Fold rows, and return the number of partial results; None if they are too many, or if a
        row has no value.  That row may be too late to count, which only a bucket can tell."""
        maker = self.maker
        assert maker is not None
        try:
            made, groups = maker.panes(batch.rows, batch.places)
        except RunError:
            return None
        if len(made) * _GAIN > batch.num_rows:
            self._unfolded_batches = _BATCHES
            return None
        buckets = self._bucket_of_groups(maker)[groups]
        for bucket, pairs in by_bucket(buckets):
            own = made if len(pairs) == len(made) else maker.take(made, pairs)
            outgoing[bucket].panes.append(own.save(maker.folder))
        return len(made)

    def _bucket_of_groups(self, maker: PaneMaker) -> Ints:
        """Bucket of every group that the pane maker knows."""
        keys = maker.folder.keys
        if len(self._of_groups) > len(keys):
            self._of_groups = self._of_groups[:0]
        if len(self._of_groups) < len(keys):
            fresh = keys.take(np.arange(len(self._of_groups), len(keys)))
            hashed = self.router.keys.hashed(fresh, len(keys) - len(self._of_groups))
            self._of_groups = np.concatenate([self._of_groups, hashed])
        return self._of_groups

    def tidy(self) -> None:
        """Evict keys, and sub-sources, when they have become very many."""
        if self._sub_sources is not None and len(self._sub_sources) > _MANY:
            self._sub_sources = None
        if self.maker is not None and len(self.maker.folder.keys) > _MANY:
            self.maker.forget_keys()
            self._of_groups = self._of_groups[:0]


# Groups that a stream is punctuated for (PUNCTUATED … FOR): the group of each row, and the bounds
# of the punctuations that a task has read.
#
# Bounds from before the micro-batch are known to the buckets alone.


class TaskGroups:
    """Groups of the rows that a task reads, and the bounds that it reads for them."""

    def __init__(
        self, scan: Scan, segment: StatelessSegment, routing: Sequence[Expression]
    ) -> None:
        """`segment` leads up to where tuples are routed by some keys."""
        stream = scan.stream
        assert stream.progress is not None
        said = stream.progress.group_punctuation
        assert said is not None
        self._positions = [column.position(stream.schema) for column in said.group]
        self._types = [column.type for column in said.group]
        self._keys = KeyCodes(self._types)
        self._told: list[GroupBounds] = []
        self._segment = segment
        self._routing = plain_names([Named("", each) for each in routing])

    def of(self, rows: pa.RecordBatch) -> Codes:
        """Numbers of the groups of tuples, as they are read."""
        columns = [rows.column(position) for position in self._positions]
        return self._keys.encode(columns, rows.num_rows)

    def among(self, pieces: list[RowsPiece]) -> tuple[list[RowsPiece], list[pa.Array]]:
        """Number the groups of tuples among themselves; return the tuples, and those groups."""
        codes = [piece.groups for piece in pieces if piece.groups is not None]
        numbers, of_rows = np.unique(np.concatenate([_NONE, *codes]), return_inverse=True)
        cuts = np.cumsum([len(each) for each in codes])[:-1]
        numbered = zip(pieces, np.split(of_rows, cuts), strict=True) if pieces else ()
        made = [replace(piece, groups=each) for piece, each in numbered]
        return made, self._keys.take(numbers)

    def tell(self, groups: GroupBounds | None) -> None:
        """Add the bounds of punctuations."""
        if groups is not None:
            self._told.append(groups)

    def promised(self, router: Router, buckets: int) -> Iterator[GroupsPromised | None]:
        """Yield the bounds since the last call, for every bucket.  If tuples are routed by nothing
        but the columns of the groups, each group is in one bucket only."""
        told, self._told = self._told, []
        if not told:
            yield from [None] * buckets
            return
        columns = zip(*(each.keys for each in told), strict=True)
        keys = [pa.concat_arrays(list(each)) for each in columns]
        bounds = np.concatenate([ticks for each in told for ticks in each.bounds.values()])
        of_groups = self._buckets(replace(told[0], keys=keys), router)
        for bucket in range(buckets):
            if of_groups is None:
                yield GroupsPromised(keys, bounds)
                continue
            mine = np.flatnonzero(of_groups == bucket)
            taken = [each.take(pa.array(mine)) for each in keys]
            yield GroupsPromised(taken, bounds[mine]) if len(mine) else None

    def _buckets(self, groups: GroupBounds, router: Router) -> Codes | None:
        """Bucket of each group; None if its tuples may be in any."""
        left = self._segment.progress(Progress(groups=groups)).groups
        if left is None or not self._routing or not set(self._routing) <= set(left.columns):
            return None
        by_name = dict(zip(left.columns, left.keys, strict=True))
        return router.hashed([by_name[name or ""] for name in self._routing], len(left))


_NONE = np.zeros(0, np.int64)


# From the tuples that a task has read to the messages for the buckets of one stage.
#
# The stateless work is done here, and tuples are folded into partial panes where the stage allows
# it.

_WORTH_PANES = 256  # rows of a sub-source for which panes of its own are cheaper than the rows


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Report of a task to all buckets, without tuples: see `Message`."""

    reports: Reports | None
    high: Bound
    joins: list[str]
    leaves: list[str]
    promise: int | None = None
    ended: bool = False
    more: bool = False


class ColumnsOfScan:
    """The columns of one scan among those of the common scan of a stream, under the names of the
    former."""

    def __init__(self, reading: Scan, scan: Scan) -> None:
        given = dict(zip(reading.stream.schema.names, reading.schema.arrow.names, strict=True))
        names = zip(scan.stream.schema.names, scan.schema.arrow.names, strict=True)
        self._names = {given[column]: name for column, name in names}
        whole = len(self._names) == len(given)
        self._unchanged = whole and all(old == new for old, new in self._names.items())

    def batch(self, batch: Batch) -> Batch:
        if self._unchanged:
            return batch
        return batch.with_rows(batch.rows.select(list(self._names))).renamed(self._names)

    def progress(self, progress: Progress) -> Progress:
        """Rename the bounds of groups: all other bounds go by reports."""
        if self._unchanged or progress.groups is None:
            return progress
        return replace(progress, groups=progress.groups.renamed(self._names))


class TaskPath:
    """The path to a stage, in one task of one micro-batch."""

    def __init__(
        self, to: PathToStage, reading: Scan, cache: TaskCache, clock: Clock, in_order: bool
    ) -> None:
        """`in_order` unless the rows come as a table, which has no order to be late in."""
        self.config = config = to.config
        self._number = to.number
        self._cache = cache
        self._in_order = in_order
        assert isinstance(to.path.leaf, Scan)
        scan = to.path.leaf
        self._columns = ColumnsOfScan(reading, scan)
        policy = policy_of(scan)
        self._slack = policy.rule.rows if policy and isinstance(policy.rule, Slack) else 0
        # latent tuples get their times on this path, so their bounds belong to the path
        latent = policy is not None and scan.stream.is_latent
        self._stamps = TaskBounds(policy.rule) if policy is not None and latent else None
        self._high: Bound = BEGINNING
        below, above = split_at_stamp(to.path)
        self._below, self._above = StatelessSegment(below, clock), StatelessSegment(above, clock)
        self._groups = None  # where they are punctuated, and can be late
        if _punctuates_groups(scan) and in_order:
            self._groups = TaskGroups(scan, self._above, config.stage.keys(to.path.port))
        self._stamp = next((step for step in below if isinstance(step, Stamp)), None)
        self._outgoing = [Outgoing() for _ in range(config.buckets)]
        self.waiting = 0  # rows that have not been sent
        self._folded = StepWork()
        self._split = len(below)

    def work(self) -> list[tuple[StepName, StepWork]]:
        """Work of the steps of the path, and of folding."""
        stage, path = self.config.identity.stage, self._number
        folding = [(StepName(stage, path, FOLDING), self._folded)]
        below = self._below.work(stage, path)
        return [*below, *self._above.work(stage, path, self._split), *folding]

    def take(self, batch: Batch) -> Iterator[None]:
        """Send a batch along the path.  Yields after every piece of output, so that it can be sent:
        there may be more than fits into memory at once."""
        for given in self._below.batches(self._columns.batch(batch)):
            if self._stamps is not None:
                self._observe_stamps(given.rows, self._stamps)
            if self._groups is not None:
                yield from self._take_of_groups(given, self._groups)
                continue
            for piece in self._above.batches(given):
                self._route(piece)
                yield

    def tell(self, progress: Progress) -> None:
        if self._groups is not None:
            self._groups.tell(self._columns.progress(progress).groups)

    def _take_of_groups(self, batch: Batch, groups: TaskGroups) -> Iterator[None]:
        """Send a batch with the group of each tuple, because the steps may drop the columns that
        tell it.  Panes would have to be separate for every group: the plan makes none."""
        codes = groups.of(batch.rows)
        numbered = replace(batch, lineage=made_of(np.arange(batch.num_rows)))
        for left in self._above.batches(numbered):
            assert left.lineage is not None
            self.waiting += left.num_rows
            self._route_rows(replace(left, lineage=None), codes[left.lineage[:, 0]])
            yield

    def _observe_stamps(self, batch: pa.RecordBatch, bounds: TaskBounds) -> None:
        assert self._stamp is not None
        column = self._stamp.schema.fields[self._stamp.column.position(self._stamp.schema)]
        position = batch.schema.get_field_index(column.qualified)
        ticks = to_ticks(batch.column(position), column.type)
        bounds.before_of(0, ticks, None)
        self._high = max(self._high, int(ticks.max()))

    def _route(self, batch: Batch) -> None:
        self.waiting += batch.num_rows
        if batch.places is not None and not (batch.places != 0).any():
            batch = replace(batch, places=None)
        if not _worth_panes(batch.places) or not self._cache.folds():
            self._route_rows(batch)
            return
        apart = np.zeros(batch.num_rows, np.bool_)
        for bounds in (batch.broken or {}).values():  # few; each may have a bound of its own
            apart |= np.asarray(bounds.is_valid())
        if batch.numbers is not None:
            apart |= batch.numbers < self._slack
        if apart.any():
            self._route_rows(batch.filter(pa.array(apart)))
            batch = batch.filter(pa.array(~apart))
        if batch.num_rows:
            self._route_panes(batch)

    def _route_rows(self, batch: Batch, groups: Codes | None = None) -> None:
        self._cache.route(RowsPiece(batch, groups=groups), self._outgoing)

    def _route_panes(self, batch: Batch) -> None:
        begin = perf_counter_ns()
        made = self._cache.fold(batch, self._outgoing)
        if made is None:
            self._route_rows(replace(batch, broken=None, numbers=None))
            return
        self._folded.add(StepWork(batch.num_rows, made, perf_counter_ns() - begin))

    # --- out -------------------------------------------------------------------------------------

    def messages(self, said: TaskReport, place: int) -> Iterator[Packed]:
        """Yield a message for every bucket, with all waiting output."""
        groups, config = self._groups, self.config
        if self._stamps is not None:
            said = replace(said, reports=self._of_stamps(self._stamps), high=self._high)
        told: Iterable[GroupsPromised | None] = repeat(None)
        if groups is not None:
            told = groups.promised(self._cache.router.keys, config.buckets)
        for (bucket, outgoing), promised in zip(enumerate(self._outgoing), told, strict=False):
            rows, keys = groups.among(outgoing.rows) if groups else (outgoing.rows, None)
            message = Message(
                self._number,
                reports=said.reports,
                high=said.high,
                rows=rows,
                panes=outgoing.panes,
                joins=said.joins,
                leaves=said.leaves,
                promise=said.promise,
                ended=said.ended,
                more=said.more,
                groups=keys,
                promised=promised,
            )
            key = config.bucket_keys[bucket]
            stage = config.identity.stage
            yield Packed(key, PackedKind.MESSAGE, message.pack(), place, stage=stage)
        self.waiting = 0
        self._outgoing = [Outgoing() for _ in self._outgoing]

    def _of_stamps(self, bounds: TaskBounds) -> Reports:
        """Report on the stamps of latent tuples, which are one sub-source without a name."""
        reports = bounds.reports(pa.array([""] * len(bounds.codes), pa.string()))
        return reports if self._in_order else reports.without_promises()


def split_at_stamp(path: StagePath) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split the steps of a path after the one that stamps tuples; if there is none, all are in the
    second part."""
    for number, step in enumerate(path.steps):
        if isinstance(step, Stamp):
            return path.steps[: number + 1], path.steps[number + 1 :]
    return (), path.steps


def policy_of(scan: Scan) -> ProgressPolicy | None:
    return scan.stream.progress.policy if scan.stream.progress is not None else None


def _punctuates_groups(scan: Scan) -> bool:
    progress = scan.stream.progress
    return progress is not None and progress.group_punctuation is not None


def _worth_panes(places: Ints | None) -> bool:
    """Whether there are rows enough for panes, which are separate for every sub-source, because
    each has a bound of its own."""
    return places is None or len(distinct(places)) * _WORTH_PANES <= len(places)
