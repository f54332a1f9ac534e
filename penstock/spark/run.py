"""A query that runs on Spark as a streaming query, with a checkpoint to go on from."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from penstock.answer import Account
from penstock.errors import EngineError, PenstockError
from penstock.plan.query import Query
from penstock.run_options import AVAILABLE_NOW
from penstock.run_progress import RunProgress, Watch
from penstock.sources.files import FileSource
from penstock.sources.rejects import RejectKind, RejectLog
from penstock.spark.checkpoint import claim, identity_of
from penstock.spark.failures import failure
from penstock.spark.feed import Feed, fill
from penstock.spark.job import Job
from penstock.spark.outcome import Receiver, Tally, deliver
from penstock.spark.progress import progress_of
from penstock.spark.session import (
    BUCKETS,
    CHANGELOG,
    FILE_MANAGER,
    PARTITIONS,
    PROVIDER,
    RENAMING,
    ROCKSDB,
    setting,
)
from penstock.spark.sources import parts_of, streaming_sources, streams_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_TIME = re.compile(r"\d+ (millisecond|second|minute|hour)s?")
_LOOK = 1.0  # seconds between two looks for new files
_PATIENCE = 10.0  # seconds that a micro-batch has to come to its end when a run is stopped


@dataclass(frozen=True, slots=True)
class Options:
    """How to run: `trigger` is "available-now" or a time between micro-batches; `buckets` counts
    when a query first starts; `portions` is into how many micro-batches Penstock's own sources are
    cut."""

    checkpoint: Path | None = None
    trigger: str = AVAILABLE_NOW
    buckets: int = BUCKETS
    portions: int | None = None

    def __post_init__(self) -> None:
        if self.buckets < 1:
            raise EngineError(f"{self.buckets} buckets", expected="at least one")
        if not self.bounded and not _TIME.fullmatch(self.trigger):
            raise EngineError(
                f"{self.trigger!r} is not a trigger",
                expected=f"{AVAILABLE_NOW}, or a time between micro-batches",
                hint="'5 seconds'",
            )

    @property
    def bounded(self) -> bool:
        return self.trigger == AVAILABLE_NOW

    def spark_trigger(self) -> dict[str, Any]:
        return {"availableNow": True} if self.bounded else {"processingTime": self.trigger}


class SparkRun:
    def __init__(
        self,
        query: Query,
        spark: SparkSession,
        receiver: Receiver,
        options: Options | None = None,
        strict: bool = False,
    ) -> None:
        self.query = query
        self.options = options or Options()
        self.tally = Tally()
        self.rejects = RejectLog(strict)
        self._spark = spark
        self._receiver = receiver
        self._temporary = self.options.checkpoint is None
        given = self.options.checkpoint
        self.checkpoint = (given or Path(tempfile.mkdtemp(prefix="penstock-"))).resolve()
        self._own = self.checkpoint / "penstock"
        live = not self.options.bounded
        own = identity_of(query, self.options.buckets, parts_of(query), live)
        begun = claim(self._own, own)
        self._buckets = begun.buckets
        sources = streaming_sources(
            query,
            spark,
            self._own / "feed",
            self.rejects,
            self.options.bounded,
            begun.parts,
            self.options.portions,
        )
        self.job = Job(query, sources, self._buckets, strict, self.options.bounded)
        self.streaming: StreamingQuery | None = None
        self.watch: Watch | None = None  # called after every micro-batch
        # windows close in order, so it is enough to sort what one micro-batch releases
        ordered = query.in_order and not query.revises
        self._order = query.progress[0].field.qualified if ordered else None
        self._leaving = threading.Event()
        self._delivering = threading.Lock()  # held while a micro-batch is handed over
        self._stopped = False
        self._failed: Exception | None = None  # in a worker or a sink, not in Spark itself
        self._batches = 0

    def start(self) -> None:
        rejects = self.rejects.take()
        if rejects:  # data in memory is looked at here
            self._receiver.on_rejects(rejects)
        settings = {
            PARTITIONS: str(self._buckets),
            PROVIDER: ROCKSDB,
            CHANGELOG: "true",
            FILE_MANAGER: RENAMING,
        }
        with setting(self._spark, settings):
            writer = self.job.packed().writeStream.outputMode("append")
            writer = writer.option("checkpointLocation", str(self.checkpoint / "spark"))
            writer = writer.trigger(**self.options.spark_trigger())
            self.streaming = writer.foreachBatch(self._on_batch).start()
        if self._stopped:  # meanwhile
            self.streaming.stop()
        if not self.options.bounded:
            threading.Thread(target=self._look_for_files, daemon=True).start()

    def _look_for_files(self) -> None:
        """Files that appear while the run goes on are fed to it."""
        streams = [s for s in streams_of(self.query).values() if isinstance(s.source, FileSource)]
        while streams and not self._leaving.wait(_LOOK):
            for stream in streams:
                with suppress(PenstockError):  # what was there may be gone for a moment
                    feed = Feed(self._own / "feed" / stream.name)
                    fill(feed, stream, self.rejects, ends=False)

    def wait(self) -> None:
        """Until the input ends and every window has closed, or somebody stops the run."""
        try:
            self._await()
            if self.options.bounded and not self._stopped and self._end_of_frames():
                self.start()
                self._await()
        finally:
            self._leaving.set()
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

    def _end_of_frames(self) -> bool:
        """Tell the streams that are DataFrames that they have ended; whether there are any."""
        feeds = [Feed(self._own / "feed" / name) for name in streams_of(self.query)]
        going_on = [feed for feed in feeds if not feed.ended()]
        for feed in going_on:
            feed.end()
        return bool(going_on)

    def stop(self) -> None:
        """After the micro-batch that is on its way, unless it takes long: Spark is not good at
        stopping while it waits for Python."""
        self._stopped = True
        self._leaving.set()
        waited = self._delivering.acquire(timeout=_PATIENCE)
        try:
            if self.streaming is not None:
                self.streaming.stop()
        finally:
            if waited:
                self._delivering.release()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def account(self) -> Account:
        read = self.tally.read + self.rejects.count(RejectKind.BAD_ROW)
        return Account(read, self.tally.late, self.tally.rejected + self.rejects.count())

    def progress(self) -> RunProgress:
        last = self.streaming.lastProgress if self.streaming is not None else None
        operators = last.stateOperators if last is not None else []
        rate = last.processedRowsPerSecond if last is not None else 0.0
        state = sum(each.memoryUsedBytes for each in operators)
        return progress_of(self.tally, self._batches, rate, state)

    @property
    def active(self) -> bool:
        return self.streaming is not None and bool(self.streaming.isActive)

    def _on_batch(self, packed: DataFrame, batch_id: int) -> None:
        # to wait here for somebody who stops the run would be to wait for each other
        if not self._delivering.acquire(blocking=False):
            raise EngineError("the run is being stopped")
        try:
            made = deliver(packed.toArrow(), self._receiver, self._order)
            self._receiver.commit(batch_id)
        except Exception as error:
            self._failed = failure(error) if isinstance(error, PySparkException) else error
            if self._stopped:  # a long message would be too much for Spark, which looks through it
                raise EngineError("the run was stopped") from None
            raise
        finally:
            self._delivering.release()
        self._batches += 1
        self.tally = self.tally.plus(made)
        if self.watch is not None:
            self.watch(self.progress())
