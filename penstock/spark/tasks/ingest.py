"""Before the shuffle: the rows that a task reads become one message for every bucket.

The task stamps progress, quarantines rows that cannot take part, does the stateless work, and
folds tuples into partial panes where the stage allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.clock import SystemClock
from penstock.model.progress import ProgressPolicy, Slack
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.batch import Batch
from penstock.operators.operator import Progress
from penstock.operators.ticks import to_ticks
from penstock.plan.stateless import Scan, Stamp
from penstock.promises.ingest import Ingest
from penstock.promises.sub_sources import distinct
from penstock.sources.fitting.arrow_columns import fit_batches
from penstock.sources.rejects import RejectKind, RejectLog, rejects_batch
from penstock.sources.source import Chunk
from penstock.spark.plan.config import StageConfig
from penstock.spark.plan.stages import Entry
from penstock.spark.sources.feed import Portion
from penstock.spark.tasks.bounds import TaskBounds
from penstock.spark.tasks.chain import Chain
from penstock.spark.tasks.groups import TaskGroups
from penstock.spark.tasks.kit import Kit, Outgoing
from penstock.spark.tasks.messages import (
    GroupsPromised,
    Message,
    Packed,
    PackedKind,
    RowsPiece,
    pack_rows,
    portions_read,
)
from penstock.spark.tasks.reports import Reports

_FLUSH = 1 << 22  # rows after which a task sends what it has
_WORTH_PANES = 256  # rows of a sub-source for which panes of its own are cheaper than the rows


class IngestTask:
    """One entry of a stage in one task of one micro-batch."""

    def __init__(
        self, config: StageConfig, entry_number: int, task: int, kit: Kit, in_order: bool = True
    ) -> None:
        """`in_order` unless the rows come as a table, which has no order to be late in."""
        self._config = config
        self._number = entry_number
        self._task = task
        self._kit = kit
        self._in_order = in_order
        entry = config.stage.entries[entry_number]
        assert isinstance(entry.leaf, Scan)
        self._scan = entry.leaf
        self._clock = SystemClock()
        self._log = RejectLog(config.strict)
        policy = _policy(self._scan)
        self._slack = policy.rule.rows if policy and isinstance(policy.rule, Slack) else 0
        self._bounds = TaskBounds(policy.rule) if policy is not None else None
        self._ingest = Ingest(
            self._scan, self._clock, self._log, self._bounds, kit.sub_sources(self._scan)
        )
        below, above = split_at_stamp(entry)
        self._below, self._above = Chain(below, self._clock), Chain(above, self._clock)
        self._groups = None  # where they are punctuated, and can be late
        if _punctuates_groups(self._scan) and in_order:
            routing = config.stage.keys(entry.port)
            self._groups = TaskGroups(self._scan, self._above, routing)
        self._stamp = next((step for step in below if isinstance(step, Stamp)), None)
        self._high: Bound = BEGINNING
        self._outgoing = [Outgoing() for _ in range(config.buckets)]
        self._waiting = 0
        self._sent = 0
        self._joins: list[str] = []
        self._leaves: list[str] = []
        self._portions = 0  # up to which one the feed has been read

    def fitted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
        """Batches of a DataFrame in the schema of the stream."""
        schema = self._scan.stream.input_schema
        for batch in fit_batches(batches, schema, "", self._ingest.rejects):
            yield Chunk(batch)

    def run_portions(self, portions: list[Portion], directory: Path) -> Iterator[Packed]:
        """What a feed says, in order."""
        schema = self._scan.stream.input_schema

        def chunks() -> Iterator[Chunk]:
            for portion in portions:
                self._ingest.begin_at("", portion.rows_before)
                yield from portion.read(schema, self._ingest.rejects, directory)

        self._portions = max(portion.number for portion in portions) + 1
        self._joins = [name for portion in portions for name in portion.joins]
        progress = self._scan.stream.progress
        if progress is not None and progress.per_file:  # every file is read as a whole
            self._leaves = [file.name for portion in portions for file in portion.files]
        promises = [portion.promise for portion in portions if portion.promise is not None]
        ended = any(portion.ends for portion in portions)
        return self.run(chunks(), ended, max(promises, default=None))

    def run(
        self, chunks: Iterator[Chunk], ended: bool = False, promise: int | None = None
    ) -> Iterator[Packed]:
        """`promise`: no later tuple is below it."""
        for chunk in chunks:
            for item in self._ingest.on_chunk(chunk):
                if isinstance(item, Batch):
                    self._take(item if self._in_order else item.without_broken())
                elif isinstance(item, Progress):
                    self._high = max([self._high, *item.high.values()])
                    if self._groups is not None:
                        self._groups.tell(item.groups)
            if self._waiting >= _FLUSH:
                yield from self._messages(more=True)
        yield from self._messages(ended=ended, promise=promise)
        yield from self._account()

    def _take(self, batch: Batch) -> None:
        bounds = self._bounds
        latent = self._scan.stream.is_latent
        if bounds is not None and not latent:
            places = bounds.places
            if places is None and bounds.place:  # without any, all are of the first sub-source
                places = np.full(batch.num_rows, bounds.place)
            batch = replace(batch, places=places, numbers=bounds.numbers)
        batch = self._below.batch(batch)
        if latent and batch.num_rows:
            self._observe_stamps(batch.rows)
        if self._groups is not None:
            self._take_of_groups(batch, self._groups)
            return
        batch = self._above.batch(batch)
        if batch.num_rows:
            self._route(batch)

    def _take_of_groups(self, batch: Batch, groups: TaskGroups) -> None:
        """The steps may drop the columns that groups are told by, so tuples say of which one they
        are.  Panes would have to be apart for every group: the plan makes none."""
        codes = groups.of(batch.rows)
        left = self._above.batch(replace(batch, lineage=np.arange(batch.num_rows)))
        if left.num_rows:
            assert left.lineage is not None
            self._waiting += left.num_rows
            self._route_rows(replace(left, lineage=None), codes[left.lineage])

    def _observe_stamps(self, batch: pa.RecordBatch) -> None:
        assert self._stamp is not None
        assert self._bounds is not None
        column = self._stamp.schema.fields[self._stamp.column.position(self._stamp.schema)]
        position = batch.schema.get_field_index(column.qualified)
        ticks = to_ticks(batch.column(position), column.type)
        self._bounds.before_of(0, ticks, None)
        self._high = max(self._high, int(ticks.max()))

    def _route(self, batch: Batch) -> None:
        self._waiting += batch.num_rows
        if batch.places is not None and not (batch.places != 0).any():
            batch = replace(batch, places=None)
        if self._kit.maker is None or not _worth_panes(batch.places):
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
        if not self._kit.fold(batch, self._outgoing):
            self._route_rows(replace(batch, broken=None, numbers=None))

    # --- out -------------------------------------------------------------------------------------

    def _messages(
        self, ended: bool = False, promise: int | None = None, more: bool = False
    ) -> Iterator[Packed]:
        reports, groups = self._reports(), self._groups
        told: Iterable[GroupsPromised | None] = repeat(None)
        if groups is not None:
            told = groups.promised(self._kit.router.keys, self._config.buckets)
        for (bucket, outgoing), promised in zip(enumerate(self._outgoing), told, strict=False):
            rows, keys = groups.among(outgoing.rows) if groups else (outgoing.rows, None)
            message = Message(
                self._number,
                reports=reports,
                high=self._high,
                rows=rows,
                panes=outgoing.panes,
                joins=self._joins,
                leaves=[] if more else self._leaves,
                promise=promise,
                ended=ended,
                more=more,
                groups=keys,
                promised=promised,
            )
            place = (self._task << 32) + self._sent
            key = self._config.bucket_keys[bucket]
            yield Packed(key, PackedKind.MESSAGE, message.pack(), place)
        self._sent += 1
        self._waiting = 0
        self._outgoing = [Outgoing() for _ in self._outgoing]

    def _reports(self) -> Reports | None:
        if self._bounds is None:
            return None
        codes = self._bounds.codes  # in the order of first appearance
        if self._scan.stream.is_latent:  # is one source, without a name
            names = pa.array([""] * len(codes), pa.string())
        else:
            names = self._ingest.sub_source_names(codes)
        reports = self._bounds.reports(names)
        return reports if self._in_order else reports.without_promises()

    def _account(self) -> Iterator[Packed]:
        key, rejects = self._config.bucket_keys[0], self._log.take()
        read = self._ingest.read + self._log.count(RejectKind.BAD_ROW)
        if rejects:
            payload = pack_rows(rejects_batch(rejects))
            yield Packed(key, PackedKind.REJECTED, payload, rejected=len(rejects))
        status = portions_read(self._scan.stream.name, self._portions)
        yield Packed(key, PackedKind.STATUS, status, read=read)


def split_at_stamp(entry: Entry) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The steps up to the one that stamps tuples, and those after it: all, if none does."""
    for number, step in enumerate(entry.steps):
        if isinstance(step, Stamp):
            return entry.steps[: number + 1], entry.steps[number + 1 :]
    return (), entry.steps


def _punctuates_groups(scan: Scan) -> bool:
    progress = scan.stream.progress
    return progress is not None and progress.group_punctuation is not None


def _policy(scan: Scan) -> ProgressPolicy | None:
    return scan.stream.progress.policy if scan.stream.progress is not None else None


def _worth_panes(places: Ints | None) -> bool:
    """Panes are apart for every sub-source, because each has a promise of its own."""
    return places is None or len(distinct(places)) * _WORTH_PANES <= len(places)
