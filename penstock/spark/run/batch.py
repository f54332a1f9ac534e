"""A query over DataFrames that are tables: a batch job that runs beside the program."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.errors import EngineError
from penstock.physical.plan import PhysicalPlan
from penstock.plan.query import QueryPlan
from penstock.runs.answer import Account
from penstock.runs.status import RunProgress, Watch
from penstock.spark.run.answer import packed_answer
from penstock.spark.run.outcome import Receiver, Tally, deliver
from penstock.spark.run.progress import progress_of
from penstock.spark.sources.dataframe import DataFrameSource
from penstock.spark.sources.feeds import streams_of
from penstock.spark.tasks.worker_errors import failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_at_once(query: QueryPlan) -> bool:
    """Whether a source is a table of Spark's, and none is a stream of Spark's."""
    sources = [stream.source for stream in streams_of(query).values()]
    frames = [each.frame for each in sources if isinstance(each, DataFrameSource)]
    if any(frame.isStreaming for frame in frames):
        if not all(frame.isStreaming for frame in frames):
            raise EngineError(
                "some DataFrames of the query are streaming and some are not",
                hint="read all of them as streams: spark.readStream",
            )
        return False
    return bool(frames)


class BatchRun:
    def __init__(
        self,
        plan: PhysicalPlan,
        spark: SparkSession,
        receiver: Receiver,
        buckets: int,
        strict: bool,
    ) -> None:
        self.query = plan.query
        self._plan = plan
        self.tally = Tally()
        self.closed: str | None = None
        self._strict = strict
        self.watch: Watch | None = None
        self.stopped = False
        self._spark = spark
        self._receiver = receiver
        self._buckets = buckets
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _work(self) -> None:
        order = self.query.progress[0].field.qualified if self.query.in_order else None
        try:
            packed, of_tables = packed_answer(self._plan, self._spark, self._strict, self._buckets)
            if self.stopped:
                return
            self.tally = deliver(packed, self._receiver, order, of_tables)
            self._receiver.commit(0)
            if self.watch is not None:
                self.watch(self.progress())
        except BaseException as error:  # raised where somebody waits
            self._failure = error

    def wait(self) -> None:
        self._thread.join()
        if self._failure is not None and not self.stopped:
            raise failure(self._failure) from self._failure

    def stop(self) -> None:
        """What is computed already is lost: a table is read as a whole or not at all."""
        self.stopped = True

    @property
    def open_windows(self) -> int:
        """A table ends, so everything closes."""
        return 0

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def account(self) -> Account:
        return self.tally.account

    def total(self) -> Account:
        """There is only one run."""
        return self.account()

    def progress(self) -> RunProgress:
        return progress_of(self.tally, batches=int(self.tally.read > 0))
