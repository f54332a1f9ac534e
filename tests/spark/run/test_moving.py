"""Checkpoints that are copied or moved between two runs, and runs that get in each other's way."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.errors import CheckpointError, EngineError
from penstock.spark.run.streaming import Options, SparkRun
from tests.planning import on_spark
from tests.queries import bound
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import Committed, CrashError
from tests.waiting import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def interrupted(query: ps.Query, spark: SparkSession, options: Options) -> Committed:
    """A run that failed in its third micro-batch, which is planned but not complete."""
    received = Committed({2})
    first = SparkRun([on_spark(query.plan)], spark, [received], options)
    first.start()
    with pytest.raises(CrashError):
        first.wait()
    return received


def copied(checkpoint: Path) -> Path:
    """Deleted and restored by a copy, as `cp -r` does it: all files are new."""
    saved = checkpoint.parent / "saved"
    shutil.copytree(checkpoint, saved, copy_function=shutil.copy)
    shutil.rmtree(checkpoint)
    # the newest first, which is not the order that they were written in
    for path in sorted(saved.rglob("*"), reverse=True):
        target = checkpoint / path.relative_to(saved)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return checkpoint


def moved(checkpoint: Path) -> Path:
    target = checkpoint.parent / "some where else" / "b"
    target.parent.mkdir()
    shutil.move(checkpoint, target)
    return target


@pytest.mark.parametrize("carry", [copied, moved])
def test_a_checkpoint_that_was_carried(
    spark: SparkSession, tmp_path: Path, carry: Callable[[Path], Path]
) -> None:
    query = bound("union")
    checkpoint = tmp_path / "a"
    received = interrupted(query, spark, Options(checkpoint, portions=5, buckets=2))
    checkpoint = carry(checkpoint)
    options = Options(checkpoint, portions=5, buckets=2, final=True)
    last = SparkRun([on_spark(query.plan)], spark, [received], options)
    last.start()
    last.wait()
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    assert last.total().late == query.account.late


def test_two_runs_on_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    query = bound("union")
    options = Options(tmp_path / "a", buckets=2)
    first = SparkRun([on_spark(query.plan)], spark, [Committed()], options)
    with pytest.raises(CheckpointError, match="is in use by another run"):
        SparkRun([on_spark(query.plan)], spark, [Committed()], options)
    first.start()
    first.wait()
    SparkRun([on_spark(query.plan)], spark, [Committed()], options).stop()
    SparkRun([on_spark(query.plan)], spark, [Committed()], options).stop()


def test_a_run_that_somebody_else_stops(spark: SparkSession, tmp_path: Path) -> None:
    query = bound("union")
    received = Committed()
    run = SparkRun(
        [on_spark(query.plan)], spark, [received], Options(tmp_path, portions=5, buckets=2)
    )

    def stop() -> None:
        assert run.streaming is not None
        run.streaming.stop()

    stopping = threading.Thread(target=stop)
    received.after = lambda batch: stopping.start() if batch == 1 else None
    run.start()
    with pytest.raises(EngineError, match="the run was ended by somebody else"):
        run.wait()
    join(stopping)


def test_a_name_that_leads_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    db = ps.connect("reference")
    *_, query = db.script(
        "CREATE STREAM `../../escaped` (t INT) FROM VALUES (1), (2), (13) PROGRESS ON t ORDERED;"
        "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM `../../escaped`"
    )
    assert isinstance(query, ps.Query)
    received = Committed()
    run = SparkRun(
        [on_spark(query.plan)], spark, [received], Options(tmp_path / "a", buckets=2, final=True)
    )
    run.start()
    run.wait()
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["penstock", "spark"]


# --- names ---------------------------------------------------------------------------------------


def test_names_of_streaming_queries(spark: SparkSession) -> None:
    query = bound("union")
    runs = [
        SparkRun([on_spark(query.plan)], spark, [Committed()], Options(trigger="1 hour", name=name))
        for name in (None, "sums", "sums")
    ]
    try:
        for run in runs:
            run.start()
        names = {each.name for each in spark.streams.active}
        assert names >= {"penstock one, two", "sums", "sums (2)"}
    finally:
        for run in runs:
            run.stop()
