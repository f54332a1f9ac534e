"""Sources that fall silent, or never speak: answers come as IDLE AFTER says, by the clock alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.runs.answer import Account
from penstock.spark.run.streaming import Options, SparkRun
from tests.planning import on_spark
from tests.reference.helpers import tuples
from tests.spark.helpers import Committed
from tests.spark.streaming import add_file, files_stream
from tests.spark.without_spark import Given, WithoutSpark, rows_of
from tests.waiting import LONGEST, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
SCHEMA = "link STRING, ts TIMESTAMP"
TUMBLING = "SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA ts] FROM "
BOTH = TUMBLING + "(SELECT ts FROM a UNION ALL SELECT ts FROM b) AS q"
PROMISE = ps.progress("ts", delay="1 second", per="link", idle="2 seconds")


def at(second: float, link: str = "x") -> dict[str, Any]:
    return {"link": link, "ts": str(datetime(1970, 1, 1) + timedelta(seconds=second))}


# --- tasks and buckets, with a clock in hand -----------------------------------------------------


class Live:
    """A job whose streams are fed by and by."""

    def __init__(self, sql: str, buckets: int = 2) -> None:
        db = ps.connect("reference")
        for name in ("a", "b"):
            db.stream(name, [], schema=SCHEMA, progress=PROMISE)
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        self._plan = query.plan
        self.job = WithoutSpark(query.plan, buckets, live=True)
        self.job.now = 1_000_000 * SECOND

    def feed(self, **streams: list[dict[str, Any]]) -> None:
        db = ps.connect("reference")
        for name, rows in streams.items():
            db.stream(name, rows, schema=SCHEMA, progress=PROMISE)
        given = {}
        for name in streams:
            query = db.sql(f"SELECT * FROM {name}")
            assert isinstance(query, ps.Query)
            given[name] = [Given([Chunk(rows_of(query.plan)[name])])]
        self.job.run(given)

    def pass_time(self, seconds: float) -> None:
        self.job.now += int(seconds * SECOND)
        self.job.wake()

    @property
    def counts(self) -> list[int]:
        rows = tuples(self.job.received.table(self._plan))
        return [n for _, _, n in sorted(rows)]


def test_a_silent_sub_source_does_not_stall_the_others() -> None:
    live = Live(TUMBLING + "a")
    live.feed(a=[at(1), at(2, "y")])
    live.pass_time(1)
    live.feed(a=[at(15)])
    assert live.counts == []  # y may still have something to say
    live.pass_time(1.5)
    assert live.counts == [2]


def test_a_source_that_never_speaks() -> None:
    live = Live(BOTH)
    live.feed(a=[at(1), at(15)])
    assert live.counts == []
    live.pass_time(1)
    assert live.counts == []
    live.pass_time(1)
    assert live.counts == [1]


def test_all_are_silent() -> None:
    live = Live(BOTH)
    live.feed(a=[at(9)], b=[at(9.5)])
    live.pass_time(1.9)
    assert live.counts == []
    live.pass_time(0.1)
    assert live.counts == [2]


def test_a_sub_source_that_speaks_again_is_waited_for() -> None:
    live = Live(TUMBLING + "a")
    live.feed(a=[at(1), at(2, "y")])
    live.pass_time(1)
    live.feed(a=[at(15)])
    live.pass_time(1.5)
    live.feed(a=[at(16, "y")])
    live.feed(a=[at(40)])
    assert live.counts == [2]
    live.feed(a=[at(45, "y")])
    assert live.counts == [2, 2]


def test_workers_that_are_lost_do_not_break_a_silence() -> None:
    live = Live(BOTH)
    live.feed(a=[at(9)], b=[at(9.5)])
    for _ in range(4):
        live.job.lose_workers()
        live.pass_time(0.5)
    assert live.counts == [2]


def test_the_time_without_a_run_is_no_silence() -> None:
    live = Live(BOTH)
    live.feed(a=[at(1)], b=[at(2)])
    live.job.now += 3600 * SECOND
    live.job.restart()
    live.feed(b=[at(15)])
    assert live.counts == []
    live.feed(a=[at(3)])
    live.feed(a=[at(15)])
    assert live.counts == [3]
    assert live.job.tally.late == 0


def test_after_a_restart_silence_counts_again() -> None:
    live = Live(TUMBLING + "a")
    live.feed(a=[at(1), at(2, "y")])
    live.job.restart()
    live.feed(a=[at(15)])
    live.pass_time(1)
    live.feed(a=[at(16)])
    assert live.counts == []
    live.pass_time(1)
    assert live.counts == [2]


# --- on Spark ------------------------------------------------------------------------------------


class Directories:
    """Streams of JSON files, which appear one by one."""

    def __init__(self, spark: SparkSession, root: Path, progress: Any) -> None:
        self._root = root
        self.db = ps.connect("reference")
        for name in ("a", "b"):
            (root / name).mkdir()
            reader = spark.readStream.schema("link string, ts timestamp")
            frame = reader.json(str(root / name))
            self.db.stream(name, frame, progress=progress)
        self._files = 0

    def add(self, name: str, *rows: dict[str, Any]) -> None:
        self._files += 1
        written = self._root / f"{self._files}.json"
        written.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        written.replace(self._root / name / written.name)


@contextmanager
def running(
    spark: SparkSession, directories: Directories, sql: str
) -> Iterator[Callable[[], list[int]]]:
    query = directories.db.sql(sql)
    assert isinstance(query, ps.Query)
    received = Committed()
    run = SparkRun(
        [on_spark(query.plan)], spark, [received], Options(trigger="200 milliseconds", buckets=2)
    )
    run.start()

    def counts() -> list[int]:
        assert run.streaming is not None
        assert run.streaming.exception() is None
        return [n for _, _, n in sorted(tuples(received.table(query.plan)))]

    try:
        yield counts
    finally:
        run.stop()
        run.wait()


def soon(found: Callable[[], list[int]], expected: list[int]) -> None:
    with suppress(AssertionError):
        wait_for(lambda: found() == expected)
    assert found() == expected


def test_one_source_falls_silent_and_then_the_other(spark: SparkSession, tmp_path: Path) -> None:
    directories = Directories(
        spark, tmp_path, ps.progress("ts", delay="0 seconds", idle="1 second")
    )
    directories.add("a", at(1), at(7199.5))
    directories.add("b", at(3599.5))
    with running(spark, directories, BOTH.replace("10 SECONDS", "1 HOUR")) as counts:
        soon(counts, [2])
        directories.add("b", at(7199.7))
        soon(counts, [2, 2])


def test_a_source_that_has_no_rows_at_all(spark: SparkSession, tmp_path: Path) -> None:
    directories = Directories(
        spark, tmp_path, ps.progress("ts", delay="0 seconds", idle="1 second")
    )
    with running(spark, directories, BOTH) as counts:
        directories.add("a", at(1), at(2))
        directories.add("a", at(15), at(19.5))
        soon(counts, [2, 2])


def test_a_source_that_starts_empty_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    directories = Directories(spark, tmp_path, ps.progress("ts", ordered=True))
    directories.add("a", at(1), at(15))
    with running(spark, directories, BOTH) as counts:
        directories.add("a", at(16))
        directories.add("b", at(3))
        directories.add("b", at(25))
        soon(counts, [2])


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_bounded_runs_close_every_window(spark: SparkSession, tmp_path: Path, rows: int) -> None:
    directories = Directories(spark, tmp_path, ps.progress("ts", delay="1 minute"))
    for number in range(rows):
        directories.add("a", at(number * 10 + 1))
    query = directories.db.sql(BOTH)
    assert isinstance(query, ps.Query)
    received = Committed()
    run = SparkRun([on_spark(query.plan)], spark, [received], Options(buckets=2))
    run.start()
    run.wait()
    assert [n for _, _, n in sorted(tuples(received.table(query.plan)))] == [1] * rows
    assert run.account() == Account(rows, 0, 0)


@pytest.mark.parametrize("runs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_available_now_ends_with_what_is_there(
    spark: SparkSession, tmp_path: Path, runs: int
) -> None:
    """What is open stays open, and the next query on the checkpoint goes on from there."""
    folder, schema = tmp_path / "in", pa.schema([("ts", pa.timestamp("us", "UTC"))])
    given = files_stream(spark, folder, schema, [[(1 * SECOND,), (12 * SECOND,)], [(15 * SECOND,)]])
    db = ps.connect(spark, buckets=2)
    db.stream("a", given, progress=ps.progress("ts", delay="1 second", idle="10 hours"))
    counted: list[int] = []
    for expected in ([1], [1, 2])[:runs]:
        query = db.sql(f"{TUMBLING} a")
        assert isinstance(query, ps.Query)
        writer = query.dataframe().writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "kept"))
        started = writer.foreachBatch(
            lambda batch, _: counted.extend(row.n for row in batch.collect())
        ).start()
        try:
            assert started.awaitTermination(LONGEST)
        finally:
            started.stop()
        assert counted == expected
        add_file(folder, 2, schema, [(21 * SECOND,), (22 * SECOND,)])
