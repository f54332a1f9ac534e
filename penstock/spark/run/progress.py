"""How a run on Spark is doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.runs.answer import Account
from penstock.runs.status import RunProgress
from penstock.sources.rejects import Reject
from penstock.spark.run.outcome import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def progress_of(
    tallies: Sequence[Tally],
    counted: Account,
    batches: int,
    rows_per_second: float = 0.0,
    state_bytes: int = 0,
) -> RunProgress:
    """Of all queries of a run, which has `counted` rows once for all of them."""
    opened = [tally.open_windows for tally in tallies if tally.open_windows is not None]
    sources = {source.stream: source for tally in tallies for source in tally.sources}
    operators = {name: each for tally in tallies for name, each in tally.operators.items()}
    return RunProgress(
        batches,
        counted.read,
        rows_per_second,
        counted.late,
        counted.rejected,
        sum(tally.rows for tally in tallies),
        state_bytes,
        sum(opened) if opened else None,
        list(sources.values()),
        list(operators.values()),
    )


def tasks_at_work(spark: SparkSession) -> tuple[int, int]:
    """How many tasks of the stages that Spark is working on are done, and how many there are."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    there = [each for each in stages if each is not None]
    return sum(each.numCompletedTasks for each in there), sum(each.numTasks for each in there)


def counted_in(packed: pa.Table, rejects: Sequence[Sequence[Reject]] = ()) -> Account:
    """What tasks and buckets have counted, and the rows of tables that could not take part."""
    read, late, rejected = (
        pc.sum(packed.column(name)).as_py() or 0 for name in ("read", "late", "rejected")
    )
    return Account(read, late, rejected + max(map(len, rejects), default=0))
