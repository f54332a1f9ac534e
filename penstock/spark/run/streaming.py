"""Streaming queries on Spark: their options, their run with a checkpoint, and how a final run
closes what is open."""

from __future__ import annotations

import itertools
import logging
import shutil
import tempfile
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import CheckpointError, EngineError
from penstock.model.ticks import Domain
from penstock.plan.final_bounds import closing_reach, last_tick
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.runs.answer import Account, Decision
from penstock.runs.run_options import AVAILABLE_NOW, Adaptation, RunOptions
from penstock.runs.status import RunProgress, Watch, WorkInProgress
from penstock.spark.run.job import Job
from penstock.spark.run.job_checkpoint import (
    CheckpointLock,
    Planned,
    as_begun,
    claim,
    identity_of,
    relocate,
)
from penstock.spark.run.job_results import (
    Receiver,
    Recipient,
    RunTotals,
    counted_in,
    deliver_all,
    have_ended,
    progress_of,
    read_totals,
    tasks_at_work,
    write_totals,
)
from penstock.spark.session.session import (
    BUCKETS,
    CHANGELOG,
    FILE_MANAGER,
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    file_manager,
    setting,
)
from penstock.spark.session.worker_errors import failure, is_of_spark
from penstock.spark.sources.stream_inputs import (
    Feeds,
    FileWatch,
    parts_of,
    streaming_sources,
    streams_of,
)
from penstock.spark.sources.tables import TableFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class Options(RunOptions):
    """Options of a run on Spark.  `buckets` counts when a query first starts; `portions` is the
    number of micro-batches that Penstock's own sources are cut into; `adaptation` is when operators
    are exchanged."""

    buckets: int = BUCKETS
    portions: int | None = None
    adaptation: Adaptation = field(default_factory=Adaptation)

    def __post_init__(self) -> None:
        RunOptions.__post_init__(self)
        if self.buckets < 1:
            raise EngineError(f"{self.buckets} buckets", expected="at least one")

    def spark_trigger(self) -> dict[str, Any]:
        return {"availableNow": True} if self.bounded else {"processingTime": self.trigger}


# How a final run closes what is open, and its consequences for later runs.
#
# Where a bound is enough, it is an ordinary punctuation beyond the highest tuple, and later runs
# can resume the checkpoint: tuples below the bound are late.  Otherwise the streams end, for good.


@dataclass(frozen=True, slots=True)
class FinalClosing:
    """Closes the streams of every query by a bound, so many ticks beyond their highest tuple; None:
    by the end of all streams."""

    reaches: tuple[int, ...] | None
    streams: tuple[frozenset[str], ...]

    @staticmethod
    def of(queries: Sequence[QueryPlan], ends: bool) -> FinalClosing:
        """Choose how to close.  Without a checkpoint to resume, the streams can as well end."""
        found = [None if ends else closing_reach(query) for query in queries]
        reaches = [reach for reach in found if reach is not None]
        streams = tuple(frozenset(streams_of(query)) for query in queries)
        return FinalClosing(tuple(reaches) if len(reaches) == len(found) else None, streams)

    def end_feeds(self, feeds: Feeds) -> None:
        """End the streams that are fed, if they are to end: that is known before they have been
        read."""
        if self.reaches is None:
            for name in feeds.own:
                feeds.by_name[name].end()

    def send_bounds(self, feeds: Feeds, totals: Sequence[RunTotals]) -> bool:
        """Send the bounds, after the streams have been read; whether any was new.  A bound that one
        query needs of a stream is sent to all queries that read it."""
        promised: dict[str, int] = {}
        beyond = False  # the largest tick
        for reach, streams, own in zip(self.reaches or (), self.streams, totals, strict=False):
            if own.high is not None:
                bound = own.high + reach
                beyond = beyond or bound > min(last_tick(feeds.streams[each]) for each in streams)
                promised |= {each: max(bound, promised.get(each, bound)) for each in streams}
        if self.reaches is None or beyond:
            return _end(feeds)
        said = [feeds.by_name[name].promise(bound) for name, bound in promised.items()]
        return any(said)

    def end_streams(self, feeds: Feeds, totals: Sequence[RunTotals]) -> bool:
        """End the streams if bounds have left something open; whether that is new.  A result that
        has no value so far is an error then, as without a checkpoint."""
        return any(own.all.open_windows for own in totals) and _end(feeds)


def _end(feeds: Feeds) -> bool:
    said = [feed.end() for feed in feeds.by_name.values()]
    return any(said)


def closed_before(
    feeds: Feeds, totals: Sequence[RunTotals], checkpoint: Path, bounded: bool
) -> str | None:
    """Describe how an earlier final run has closed the checkpoint.  If nothing can be resumed,
    raise an error; a final run that was interrupted can be completed."""
    if feeds.ending:
        if have_ended(totals):
            raise CheckpointError(
                f"the checkpoint {checkpoint} was ended by a final run: nothing can go on from it",
                hint="another --checkpoint, or delete the directory to start over",
            )
        if not bounded:
            raise CheckpointError(
                f"the checkpoint {checkpoint} is being ended by a final run that was interrupted",
                expected=f"a run with the trigger {AVAILABLE_NOW}, which brings it to its end",
            )
        return "the checkpoint is being ended by a final run: what has come since is not read"
    promised = feeds.promised
    if promised is None:
        return None
    stream = next(each for each in feeds.streams.values() if each.progress is not None)
    text = Domain(stream.attribute.type).format(promised).replace(".000000Z", "Z")
    return f"the checkpoint was closed by a final run: rows below {text} are late"


# The run: queries as one streaming query of Spark, with a checkpoint.

_LOG = logging.getLogger("penstock")
PATIENCE = 10.0  # seconds that a micro-batch has to come to its end when a run is stopped


class SparkRun:
    """Queries that run as one streaming query of Spark, on a checkpoint."""

    def __init__(
        self,
        plans: Sequence[PhysicalPlan],
        spark: SparkSession,
        receivers: Sequence[Receiver],
        options: Options | None = None,
        strict: bool = False,
        planned: Planned | None = None,
    ) -> None:
        """`planned` makes a plan by some of the rules, as a checkpoint may have been begun."""
        self.queries = [plan.query for plan in plans]
        self._plans = plans
        self._planned = planned
        self.options = options or Options()
        self._spark = spark
        self._temporary = self.options.checkpoint is None
        given = self.options.checkpoint
        self.checkpoint = (given or Path(tempfile.mkdtemp(prefix="penstock-"))).resolve()
        self._own = self.checkpoint / "penstock"
        self._lock = CheckpointLock(self._own)
        self._tables = Path(tempfile.gettempdir()) / f"penstock-{uuid.uuid4().hex}"
        try:
            self._begin(strict)
        except BaseException:
            self._leave()
            raise
        self.streaming: StreamingQuery | None = None
        self.watch: Watch | None = None  # called after every micro-batch
        self._recipients = [
            Recipient(receiver, _order(query), frozenset(streams_of(query)))
            for query, receiver in zip(self.queries, receivers, strict=True)
        ]
        self._leaving = threading.Event()
        self._delivering = threading.Lock()  # held while a micro-batch is handed over
        self._delivered_by: threading.Thread | None = None
        self._stopped = False
        self._failed: Exception | None = None  # in a worker or a sink, not in Spark itself
        self._batches = 0
        self._counted = Account(0, 0, 0)

    def _begin(self, strict: bool) -> None:
        """Claim the checkpoint, and prepare the feeds and the job."""
        options, queries = self.options, self.queries
        self._plans = as_begun(self._plans, self._own, self._planned)
        own = identity_of(self._plans, options.buckets, parts_of(*queries), not options.bounded)
        begun = claim(self._own, own)
        relocate(self.checkpoint, self._own)
        self._totals = read_totals(self._own, len(queries))
        self.tallies = [totals.as_of_now() for totals in self._totals]
        self._buckets = begun.buckets
        self._feeds = Feeds.of(queries, self._own / "feed")
        self.closed = closed_before(self._feeds, self._totals, self.checkpoint, options.bounded)
        kept, followed = not self._temporary, not options.bounded
        growing = followed or (kept and not options.final)
        self._feeds.fill(strict, options.portions, kept, growing, followed)
        sources = streaming_sources(self._feeds, self._spark, begun.parts)
        tables = [
            TableFiles(query, self._spark, self._tables, strict, self._buckets) for query in queries
        ]
        self.job = Job(
            self._plans,
            sources,
            self._buckets,
            strict,
            options.bounded,
            tables,
            adaptation=options.adaptation,
        )
        # reported with the first micro-batch of the run
        self._of_tables = [each.rejects for each in tables]
        ends = self._temporary or self._feeds.ending
        closes = options.bounded and (options.final or ends) and self.job.stateful
        self._closing = FinalClosing.of(queries, ends) if closes else None
        if self._closing is not None:
            self._closing.end_feeds(self._feeds)

    def start(self) -> None:
        settings = {
            PARTITIONS: str(self._buckets),
            PROVIDER: ROCKSDB,
            CHANGELOG: "true",
            FILE_MANAGER: file_manager(self._spark.version),
        }
        with setting(self._spark, settings):
            writer = self.job.packed().writeStream.outputMode("append")
            writer = writer.option("checkpointLocation", str(self.checkpoint / "spark"))
            writer = writer.trigger(**self.options.spark_trigger())
            writer = writer.queryName(self._name())
            try:
                self.streaming = writer.foreachBatch(self._on_batch).start()
            except Exception as error:
                raise failure(error) from error
        if self._stopped:  # meanwhile
            self.streaming.stop()
        if not self.options.bounded:
            watch = FileWatch(self._feeds, self._leaving)
            threading.Thread(target=watch.look_on, daemon=True).start()

    def _name(self) -> str:
        """Name of the streaming query, with a number if another one of the session has it."""
        name = self.options.name or f"penstock {', '.join(self._feeds.streams)}"
        taken = {query.name for query in self._spark.streams.active}
        numbers = itertools.count(2)
        chosen = name
        while chosen in taken:
            chosen = f"{name} ({next(numbers)})"
        return chosen

    def wait(self) -> None:
        """Wait until the sources have been read, or the run is stopped."""
        try:
            self._await()
            closing = self._closing
            for close in () if closing is None else (closing.send_bounds, closing.end_streams):
                if not self._stopped and close(self._feeds, self._totals):
                    self.start()
                    self._await()
        finally:
            self._leave()

    def _leave(self) -> None:
        self._lock.release()
        shutil.rmtree(self._tables, ignore_errors=True)
        if self._temporary:
            shutil.rmtree(self.checkpoint, ignore_errors=True)

    def _await(self) -> None:
        assert self.streaming is not None
        try:
            self.streaming.awaitTermination()
        except Exception as error:
            if not self._stopped:
                if self._failed is not None:
                    raise self._failed from None
                raise failure(error) from error
        finally:
            self._leaving.set()
        if not self._stopped and not self._finished():
            raise EngineError(
                "the run was ended by somebody else: its Spark session, or the query in it, was"
                " stopped",
                hint="start it again: it goes on from its checkpoint"
                if not self._temporary
                else "a checkpoint, to go on from",
            )

    def _finished(self) -> bool:
        """Whether all available input has been answered, as far as that can be known."""
        if not self.options.bounded or self._spark.sparkContext._jsc is None:
            return False
        feeds = self._feeds.by_name.items()
        portions = {name: n for tally in self.tallies for name, n in tally.portions.items()}
        return all(portions.get(name, 0) >= feed.size for name, feed in feeds)

    def stop(self) -> None:
        """Stop after the current micro-batch, unless it takes long: Spark is not good at stopping
        while it waits for Python."""
        self._stopped = True
        self._leaving.set()
        if self.at_work:  # the micro-batch can only end when this has returned
            threading.Thread(target=self.stop, daemon=True).start()
            return
        waited = self._delivering.acquire(timeout=PATIENCE)
        try:
            if self.streaming is not None:
                self.streaming.stop()
        finally:
            if waited:
                self._delivering.release()
        self._leave()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def account(self, query: int = 0) -> Account:
        """Counts of a query in this run."""
        return self.tallies[query].account

    def total(self, query: int = 0) -> Account:
        """Counts of a query in all runs on the checkpoint."""
        return self._totals[query].total

    def open_windows(self, query: int = 0) -> int | None:
        """Number of open windows in the checkpoint, or of groups where there are no windows; None
        if it has not been reported."""
        return self.tallies[query].open_windows

    def decisions(self, query: int = 0) -> list[Decision]:
        """Decisions of the adaptation in this run: operators that have been exchanged, and why."""
        return self.tallies[query].decisions

    @property
    def read(self) -> int:
        """Number of rows read from all streams."""
        return self._counted.read

    def progress(self) -> RunProgress:
        last = self.streaming.lastProgress if self.streaming is not None else None
        operators = last.stateOperators if last is not None else []
        rate = last.processedRowsPerSecond if last is not None else 0.0
        state = sum(each.memoryUsedBytes for each in operators)
        return progress_of(self.tallies, self._counted, self._batches, rate, state)

    def doing(self) -> WorkInProgress:
        """Work in progress on the current micro-batch."""
        portions = {name: n for tally in self.tallies for name, n in tally.portions.items()}
        feeds = self._feeds.by_name
        read = sum(feed.bytes_of(portions.get(name, 0)) for name, feed in feeds.items())
        there = sum(feed.bytes_of(feed.size) for feed in feeds.values())
        return WorkInProgress(self._batches + 1, *tasks_at_work(self._spark), read, there)

    @property
    def at_work(self) -> bool:
        """Whether the current thread is the one that delivers rows."""
        return threading.current_thread() is self._delivered_by

    @property
    def active(self) -> bool:
        return self.streaming is not None and bool(self.streaming.isActive)

    def _on_batch(self, packed: DataFrame, batch_id: int) -> None:
        # waiting here for a thread that stops the run would be a deadlock
        if self._stopped or not self._delivering.acquire(blocking=False):
            raise EngineError("the run is being stopped")
        self._delivered_by = threading.current_thread()
        try:
            table = packed.toArrow()
            made = deliver_all(table, self._recipients, self._of_tables)
            self._feeds.stamp([tally.stamped for tally in made])
            for each in self._recipients:
                each.receiver.commit(batch_id)
            self._totals = [
                totals.with_batch(batch_id, tally)
                for totals, tally in zip(self._totals, made, strict=True)
            ]
            if not self._temporary:
                write_totals(self._own, self._totals)
        except Exception as error:
            self._failed = failure(error) if is_of_spark(error) else error
            if self._stopped:  # Spark searches the message, so it must be short
                raise EngineError("the run was stopped") from None
            raise
        finally:
            self._delivered_by = None
            self._delivering.release()
        self._counted = self._counted.plus(counted_in(table, self._of_tables))
        self._of_tables = [[] for _ in self._of_tables]
        self._batches += 1
        for decision in dict.fromkeys(each for tally in made for each in tally.decisions):
            _LOG.info("%s", decision)
        self.tallies = [a.plus(b) for a, b in zip(self.tallies, made, strict=True)]
        if self.watch is not None:
            self.watch(self.progress())


def _order(query: QueryPlan) -> str | None:
    """Column that results are sorted by.  Windows close in order, so it is enough to sort what one
    micro-batch releases."""
    ordered = query.in_order and not query.revises
    return query.progress[0].field.qualified if ordered else None
