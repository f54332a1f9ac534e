"""Queries over DataFrames that are tables: a batch job that runs beside the program."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import EngineError
from penstock.optimizer.share_panes import share_panes
from penstock.physical.plan import PhysicalPlan
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.adapting.decision import Decision
from penstock.runs.answer import Account
from penstock.runs.status import RunProgress, Watch, WorkInProgress
from penstock.spark.run.answer import run_job
from penstock.spark.run.delivering import Recipient, deliver_all
from penstock.spark.run.outcome import Receiver, Tally
from penstock.spark.run.progress import counted_in, progress_of, tasks_at_work
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
        plans: Sequence[PhysicalPlan],
        spark: SparkSession,
        receivers: Sequence[Receiver],
        buckets: int,
        strict: bool,
    ) -> None:
        self.queries = [plan.query for plan in plans]
        self._plans = share_panes(plans) if len(plans) > 1 else plans
        self.tallies = [Tally() for _ in plans]
        self._counted = Account(0, 0, 0)
        self.closed: str | None = None
        self._strict = strict
        self.watch: Watch | None = None
        self.stopped = False
        self._spark = spark
        self._recipients = [
            Recipient(
                receiver,
                query.progress[0].field.qualified if query.in_order else None,
                frozenset(streams_of(query)),
            )
            for query, receiver in zip(self.queries, receivers, strict=True)
        ]
        self._buckets = buckets
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _work(self) -> None:
        try:
            ran = run_job(self._plans, self._spark, self._strict, self._buckets)
            if self.stopped:
                return
            self.tallies = deliver_all(ran.packed, self._recipients, ran.rejects)
            self._counted = counted_in(ran.packed, ran.rejects)
            for each in self._recipients:
                each.receiver.commit(0)
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

    def doing(self) -> WorkInProgress:
        return WorkInProgress(1, *tasks_at_work(self._spark))

    def open_windows(self, query: int = 0) -> int:  # noqa: ARG002
        """A table ends, so everything closes."""
        return 0

    @property
    def at_work(self) -> bool:
        """Whether it is this thread that hands rows over."""
        return threading.current_thread() is self._thread

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def account(self, query: int = 0) -> Account:
        return self.tallies[query].account

    def total(self, query: int = 0) -> Account:
        """There is only one run."""
        return self.account(query)

    def progress(self) -> RunProgress:
        return progress_of(self.tallies, self._counted, batches=int(self.read > 0))

    def decisions(self, query: int = 0) -> list[Decision]:  # noqa: ARG002
        """A table is read as a whole: there is nothing to go on with."""
        return []

    @property
    def read(self) -> int:
        return self._counted.read
