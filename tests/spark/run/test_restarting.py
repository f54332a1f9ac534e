"""Runs that fail, or are stopped, between micro-batches and go on from their checkpoints: together
they give what an undisturbed run gives."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.sources.rejects import RejectLog
from penstock.plan.nodes.query import Late
from penstock.plan.streams import StreamDefinition
from penstock.spark.run.streaming import Options, SparkRun
from penstock.spark.sources.feed import Feed, fill
from penstock.spark.sources.stream_inputs import streams_of
from tests.planning import on_spark
from tests.queries import bound
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import Committed, CrashError
from tests.spark.test_fixtures import NAMES
from tests.waiting import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Several sub-sources, SLACK, tuples that miss some windows, two stages, revisions, running answers,
# rows beside each other.
SOME = ("per", "slack", "subquery", "late_amend_group", "running_join", "over_ahead")


def run_with_failures(
    query: ps.Query, spark: SparkSession, checkpoint: Path, portions: int, fails_at: set[int]
) -> tuple[Committed, int, int]:
    """What was committed, how many tuples were late in micro-batches that were, and the runs."""
    receiver = Committed(set(fails_at))
    late, runs = 0, 0
    while True:
        options = Options(checkpoint, portions=portions, buckets=2, final=True)
        run = SparkRun([on_spark(query.plan)], spark, [receiver], options)
        run.start()
        runs += 1
        try:
            run.wait()
        except CrashError:
            late += run.account().late
            continue
        return receiver, late + run.account().late, runs


def assert_reference(query: ps.Query, received: Committed, late: int) -> None:
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    assert late == query.account.late
    if query.plan.late is not Late.DROP:
        assert bag(tuples(received.late_table())) == bag(tuples(query.late))


@pytest.mark.parametrize("name", SOME)
def test_failures(spark: SparkSession, tmp_path: Path, name: str) -> None:
    query = bound(name)
    received, late, runs = run_with_failures(query, spark, tmp_path, 3, {1})
    assert runs == 2
    assert_reference(query, received, late)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_failure_in_every_micro_batch(spark: SparkSession, tmp_path: Path, name: str) -> None:
    query = bound(name)
    received, late, runs = run_with_failures(query, spark, tmp_path, 3, {0, 1, 2, 3})
    assert runs > 1
    assert_reference(query, received, late)


def test_a_run_that_is_stopped_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    query = bound("union")
    received = Committed()
    options = Options(tmp_path, portions=5, buckets=2, final=True)
    first = SparkRun([on_spark(query.plan)], spark, [received], options)
    stopping = threading.Thread(target=first.stop)
    received.after = lambda batch: stopping.start() if batch == 1 else None
    first.start()
    first.wait()
    join(stopping)
    assert max(received.rows) < 5  # there is something left
    received.after = None
    second = SparkRun([on_spark(query.plan)], spark, [received], options)
    second.start()
    second.wait()
    assert_reference(query, received, query.account.late)


def test_a_feed_that_was_begun_is_filled_up(tmp_path: Path) -> None:
    """The process may end between any two portions."""
    query = bound("tumbling")
    (stream,) = streams_of(query.plan).values()
    whole, begun = Feed(tmp_path / "whole"), Feed(tmp_path / "begun")
    fill(whole, stream, portions=3)
    fill(begun, stream, portions=3)
    for path in sorted(begun.portions.glob("*.json"))[1:]:
        path.unlink()
    (begun.directory / "head").write_text("1")
    begun = Feed(begun.directory)
    fill(begun, stream, portions=3)
    assert [rows_in(feed, stream) for feed in (begun, whole)] == 2 * [rows_in(whole, stream)]
    assert begun.size == whole.size == 3


def rows_in(feed: Feed, stream: StreamDefinition) -> list[list[tuple[object, ...]]]:
    """Portion by portion."""
    rejects = RejectLog(strict=True).of(stream.name)
    read = [p.read(stream.input_schema, rejects, feed.directory) for p in feed.written]
    return [[row for chunk in chunks for row in tuples(pa.table(chunk.batch))] for chunks in read]
