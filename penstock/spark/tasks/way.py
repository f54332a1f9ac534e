"""From the tuples that a task has read to the messages for the buckets of one stage.

The stateless work is done here, and tuples are folded into partial panes where the stage allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.clock import Clock
from penstock.model.progress import ProgressPolicy, Slack
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.batch import Batch
from penstock.operators.operator import Progress
from penstock.operators.signed.lineage import made_of
from penstock.operators.ticks import to_ticks
from penstock.plan.nodes.stateless import Scan, Stamp
from penstock.promises.sub_sources import distinct
from penstock.spark.plan.readings import WayToStage
from penstock.spark.plan.stages import Entry
from penstock.spark.tasks.bounds import TaskBounds
from penstock.spark.tasks.chain import Chain
from penstock.spark.tasks.groups import TaskGroups
from penstock.spark.tasks.kit import Kit, Outgoing
from penstock.spark.tasks.messages import GroupsPromised, Message, Packed, PackedKind, RowsPiece
from penstock.spark.tasks.reports import Reports
from penstock.spark.tasks.step_work import FOLDING, StepName, StepWork

_WORTH_PANES = 256  # rows of a sub-source for which panes of its own are cheaper than the rows


@dataclass(frozen=True, slots=True)
class TaskSaid:
    """What a task has to say to all buckets, beside its tuples: see `Message`."""

    reports: Reports | None
    high: Bound
    joins: list[str]
    leaves: list[str]
    promise: int | None = None
    ended: bool = False
    more: bool = False


class ColumnsOfScan:
    """The columns of one scan among those that a reading has, under the names of the scan."""

    def __init__(self, reading: Scan, scan: Scan) -> None:
        given = dict(zip(reading.stream.schema.names, reading.schema.arrow.names, strict=True))
        names = zip(scan.stream.schema.names, scan.schema.arrow.names, strict=True)
        self._names = {given[column]: name for column, name in names}
        whole = len(self._names) == len(given)
        self._as_it_is = whole and all(old == new for old, new in self._names.items())

    def batch(self, batch: Batch) -> Batch:
        if self._as_it_is:
            return batch
        return batch.with_rows(batch.rows.select(list(self._names))).renamed(self._names)

    def progress(self, progress: Progress) -> Progress:
        """What is promised for groups: all else goes by reports."""
        if self._as_it_is or progress.groups is None:
            return progress
        return replace(progress, groups=progress.groups.renamed(self._names))


class Way:
    """To one entry of a stage, in one task of one micro-batch."""

    def __init__(
        self, to: WayToStage, reading: Scan, kit: Kit, clock: Clock, in_order: bool
    ) -> None:
        """`in_order` unless the rows come as a table, which has no order to be late in."""
        self.config = config = to.config
        self._number = to.number
        self._kit = kit
        self._in_order = in_order
        assert isinstance(to.entry.leaf, Scan)
        scan = to.entry.leaf
        self._columns = ColumnsOfScan(reading, scan)
        policy = policy_of(scan)
        self._slack = policy.rule.rows if policy and isinstance(policy.rule, Slack) else 0
        # what is latent gets its times on this way, and the way has what follows from them
        latent = policy is not None and scan.stream.is_latent
        self._stamps = TaskBounds(policy.rule) if policy is not None and latent else None
        self._high: Bound = BEGINNING
        below, above = split_at_stamp(to.entry)
        self._below, self._above = Chain(below, clock), Chain(above, clock)
        self._groups = None  # where they are punctuated, and can be late
        if _punctuates_groups(scan) and in_order:
            self._groups = TaskGroups(scan, self._above, config.stage.keys(to.entry.port))
        self._stamp = next((step for step in below if isinstance(step, Stamp)), None)
        self._outgoing = [Outgoing() for _ in range(config.buckets)]
        self.waiting = 0  # rows that have not been sent
        self._folded = StepWork()
        self._split = len(below)

    def work(self) -> list[tuple[StepName, StepWork]]:
        """What has been done on it."""
        stage, entry = self.config.identity.stage, self._number
        folding = [(StepName(stage, entry, FOLDING), self._folded)]
        below = self._below.work(stage, entry)
        return [*below, *self._above.work(stage, entry, self._split), *folding]

    def take(self, batch: Batch) -> Iterator[None]:
        """Stops after every piece of what comes of the tuples, so that it can be sent: there may be
        more than there is room for at once."""
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
        """The steps may drop the columns that groups are told by, so tuples say of which one they
        are.  Panes would have to be apart for every group: the plan makes none."""
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
        if not _worth_panes(batch.places) or not self._kit.folds():
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
        self._kit.route(RowsPiece(batch, groups=groups), self._outgoing)

    def _route_panes(self, batch: Batch) -> None:
        begin = perf_counter_ns()
        made = self._kit.fold(batch, self._outgoing)
        if made is None:
            self._route_rows(replace(batch, broken=None, numbers=None))
            return
        self._folded.add(StepWork(batch.num_rows, made, perf_counter_ns() - begin))

    # --- out -------------------------------------------------------------------------------------

    def messages(self, said: TaskSaid, place: int) -> Iterator[Packed]:
        """One for every bucket, with all that is waiting."""
        groups, config = self._groups, self.config
        if self._stamps is not None:
            said = replace(said, reports=self._of_stamps(self._stamps), high=self._high)
        told: Iterable[GroupsPromised | None] = repeat(None)
        if groups is not None:
            told = groups.promised(self._kit.router.keys, config.buckets)
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
        """What is latent is one source, without a name."""
        reports = bounds.reports(pa.array([""] * len(bounds.codes), pa.string()))
        return reports if self._in_order else reports.without_promises()


def split_at_stamp(entry: Entry) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The steps up to the one that stamps tuples, and those after it: all, if none does."""
    for number, step in enumerate(entry.steps):
        if isinstance(step, Stamp):
            return entry.steps[: number + 1], entry.steps[number + 1 :]
    return (), entry.steps


def policy_of(scan: Scan) -> ProgressPolicy | None:
    return scan.stream.progress.policy if scan.stream.progress is not None else None


def _punctuates_groups(scan: Scan) -> bool:
    progress = scan.stream.progress
    return progress is not None and progress.group_punctuation is not None


def _worth_panes(places: Ints | None) -> bool:
    """Panes are apart for every sub-source, because each has a promise of its own."""
    return places is None or len(distinct(places)) * _WORTH_PANES <= len(places)
