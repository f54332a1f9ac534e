"""The end of input is a fact of a run, not of the stream: runs that go on from runs that came to
their end, and runs that are final."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.errors import CheckpointError, EngineError, SourceError
from penstock.runs.answer import Account
from penstock.spark.run.job_results import Tally
from penstock.spark.run.streaming import Options, SparkRun
from tests.planning import on_spark
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import Committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUMS = "SELECT k, count(*) AS n, sum(x) AS total [RANGE 10, SLIDE 5, WA t] FROM s GROUP BY k"
CREATE = "CREATE STREAM s (k STRING, x INT, t INT) FROM FILES 'data/*.jsonl' PROGRESS ON t DELAY 3;"
FILES = [
    [("a", 1, 1), ("b", 2, 4), ("a", 3, 13), (None, 4, 11)],
    [("b", 5, 12), ("a", 6, 21), ("a", 7, 2)],  # the last one is late
    [("a", 8, 18), ("b", 9, 41)],
]


def write(directory: Path, number: int) -> None:
    (directory / "data").mkdir(exist_ok=True)
    rows = [json.dumps(dict(zip("kxt", row, strict=True))) for row in FILES[number]]
    path = directory / "data" / f"{number}.jsonl"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def over_files(directory: Path, sql: str = SUMS) -> ps.Query:
    *_, query = ps.connect("reference", base=directory).script(f"{CREATE} {sql}")
    assert isinstance(query, ps.Query)
    return query


def run(
    query: ps.Query, spark: SparkSession, checkpoint: Path, received: Committed, **options: object
) -> SparkRun:
    made = Options(checkpoint, buckets=2, **options)  # type: ignore[arg-type]
    run = SparkRun([on_spark(query.plan)], spark, [received], made)
    run.start()
    run.wait()
    return run


def test_available_now_twice(spark: SparkSession, tmp_path: Path) -> None:
    """What is open stays open, what is new is read, and a final run closes the rest."""
    received, checkpoint = Committed(), tmp_path / "checkpoint"
    write(tmp_path, 0)
    query = over_files(tmp_path)
    first = run(query, spark, checkpoint, received)
    assert first.account() == Account(4, 0, 0)
    assert first.open_windows() == 2  # those that end at 15 and 20
    assert first.closed is None
    write(tmp_path, 1)
    assert run(query, spark, checkpoint, received).account() == Account(3, 1, 0)
    before = len(tuples(received.table(query.plan)))
    nothing = run(query, spark, checkpoint, received)
    assert nothing.account() == Account(0, 0, 0)
    assert nothing.total() == Account(7, 1, 0)
    write(tmp_path, 2)
    last = run(query, spark, checkpoint, received, final=True)
    assert last.account() == Account(2, 0, 0)
    assert last.total() == Account(9, 1, 0)
    assert last.open_windows() == 0
    assert len(tuples(received.table(query.plan))) > before
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))


def test_going_on_after_a_final_run(spark: SparkSession, tmp_path: Path) -> None:
    """Rows below the promise are late, and can be had; rows above it count."""
    received, checkpoint = Committed(), tmp_path / "checkpoint"
    write(tmp_path, 0)
    query = over_files(tmp_path, f"{SUMS} LATE SIDE")
    run(query, spark, checkpoint, received, final=True)
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    write(tmp_path, 2)
    again = run(query, spark, checkpoint, received, final=True)
    assert again.closed == "the checkpoint was closed by a final run: rows below 23 are late"
    assert again.account() == Account(2, 1, 0)
    assert received.late_table().column("t").to_pylist() == [18]
    assert received.late_table().column("late_bound").to_pylist() == [23]
    rows = received.table(query.plan).to_pylist()
    ends = [(row["window_end"], row["n"]) for row in rows if row["window_end"] > 23]
    assert ends == [(25, 1), (45, 1), (50, 1)]  # t = 18 counts where it was not late


ROWS = "SELECT k, count(*) AS n [RANGE 3 ROWS, SLIDE 3 ROWS] FROM s GROUP BY k"


def test_a_final_run_that_ends_the_streams(spark: SparkSession, tmp_path: Path) -> None:
    """No promise closes windows over numbers of rows."""
    received, checkpoint = Committed(), tmp_path / "checkpoint"
    write(tmp_path, 0)
    query = over_files(tmp_path, ROWS)
    assert run(query, spark, checkpoint, received).open_windows() == 1
    write(tmp_path, 1)
    run(query, spark, checkpoint, received, final=True)
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    with pytest.raises(CheckpointError, match="was ended by a final run: nothing can"):
        run(query, spark, checkpoint, received)


def test_final_runs_have_an_end() -> None:
    with pytest.raises(EngineError, match="never final"):
        Options(trigger="1 second", final=True)


def in_memory(rows: list[tuple[object, ...]]) -> ps.Query:
    db = ps.connect("reference")
    db.stream("s", rows, schema="k STRING, x INT, t INT", progress=ps.progress("t", delay=3))
    query = db.sql(SUMS)
    assert isinstance(query, ps.Query)
    return query


def test_data_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    """More of it is read; what was read before must be the same."""
    received = Committed()
    begun: list[tuple[object, ...]] = [*FILES[0], ("x", "no number", 1)]
    first = run(in_memory(begun), spark, tmp_path, received, portions=2)
    assert first.account() == Account(5, 0, 1)
    whole = [*begun, *FILES[1], ("y", "none either", 1), ("z", 1, None)]
    second = run(in_memory(whole), spark, tmp_path, received)
    assert second.account() == Account(5, 1, 2)
    assert second.total() == Account(10, 1, 3)
    for other, what in (
        ([("a", 1, 2), *whole[1:]], "its rows 1 to 2 are not the same any more"),
        (whole[:6], "has 6 rows, and 10 have been read"),
    ):
        with pytest.raises(SourceError, match=what):
            run(in_memory(other), spark, tmp_path, received)
    last = run(in_memory(whole), spark, tmp_path, received, final=True)
    assert last.account() == Account(0, 0, 0)
    query = in_memory(whole)
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    rejected = [each.row for made in received.rejects.values() for each in made]
    assert rejected == [5, 9, 10]


def test_streams_of_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    def frames() -> ps.Query:
        frame = spark.readStream.schema("k string, x int, t int").option("maxFilesPerTrigger", 1)
        db = ps.connect(spark)
        db.stream("s", frame.json(str(tmp_path / "data")), progress=ps.progress("t", delay=3))
        query = db.sql(SUMS)
        assert isinstance(query, ps.Query)
        return query

    received, checkpoint = Committed(), tmp_path / "checkpoint"
    write(tmp_path, 0)
    assert run(frames(), spark, checkpoint, received).account() == Account(4, 0, 0)
    write(tmp_path, 1)
    second = run(frames(), spark, checkpoint, received, final=True)
    assert second.account() == Account(3, 1, 0)
    assert second.open_windows() == 0
    query = over_files(tmp_path)
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    write(tmp_path, 2)
    third = run(frames(), spark, checkpoint, received)
    assert third.closed is not None
    assert third.account() == Account(2, 1, 0)


def test_books_count_a_micro_batch_once() -> None:
    from penstock.spark.run.job_results import RunTotals

    books = RunTotals().with_batch(0, Tally(read=5)).with_batch(1, Tally(read=2))
    assert books.with_batch(1, Tally(read=2)) == books
    assert books.with_batch(2, Tally(read=1, late=1)).total == Account(8, 1, 0)
