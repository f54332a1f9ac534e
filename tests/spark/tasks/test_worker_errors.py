"""What fails in a worker is said here as if it had failed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.errors import CheckpointError, EngineError, RunError, SourceError
from penstock.spark.session.worker_errors import failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OVERFLOW = "SELECT k + 9223372036854775807 AS more FROM s"
TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "x.py", line 1, in y
    raise SourceError(
penstock.errors.SourceError: the data: there is no column n
  expected: one of its columns: k, t
  try: m

\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_an_error_of_penstock() -> None:
    found = failure(Exception(TRACE))
    assert isinstance(found, SourceError)
    assert found.message == "the data: there is no column n"
    assert (found.expected, found.hint) == ("one of its columns: k, t", "m")


def test_an_error_of_somebody_else() -> None:
    trace = "Traceback (most recent call last):\n  File\nZeroDivisionError: division by zero\n"
    assert failure(Exception(trace)).message == (
        "the query failed on Spark: ZeroDivisionError: division by zero"
    )
    assert failure(Exception("Job aborted\n\tat java")).message == (
        "the query failed on Spark: Job aborted"
    )
    assert isinstance(failure(Exception()), EngineError)


STATE = """An error occurred while calling o260.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat org.apache.spark.Some
Caused by: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.X] An error. SQLSTATE: 580
\tat org.apache.spark.Other
Caused by: java.io.EOFException: Stream ended prematurely
\tat java.Else
"""
LOG = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Failed to read log file"
    " file:/a/spark/offsets/2. [MALFORMED_LOG_FILE] Log file was malformed. SQLSTATE: KD002\n"
    "=== Streaming Query ===\nIdentifier: x\n"
)


def test_a_checkpoint_that_cannot_be_read() -> None:
    """One sentence, and what to do."""
    for trace, message in (
        (STATE, "the checkpoint cannot be read: Stream ended prematurely"),
        (
            LOG,
            "the checkpoint cannot be read: Failed to read log file file:/a/spark/offsets/2. Log"
            " file was malformed.",
        ),
    ):
        found = failure(Exception(trace))
        assert isinstance(found, CheckpointError)
        assert found.message == message


def test_an_error_that_is_none_of_penstocks_own() -> None:
    assert isinstance(failure(Exception("penstock.errors.Span: 1..2")), EngineError)


@pytest.mark.parametrize("how", ["collect", "start"])
def test_an_overflow_in_a_worker(spark: SparkSession, how: str) -> None:
    db = ps.connect(spark)
    db.stream("s", [{"k": 1, "t": 1}, {"k": 2, "t": 2}], progress=ps.progress("t", delay=5))
    query = db.sql(OVERFLOW)
    assert isinstance(query, ps.Query)
    with pytest.raises(RunError, match="BIGINT"):
        query.collect() if how == "collect" else query.start(print).wait()


def test_what_a_worker_says_without_a_trace() -> None:
    """After Spark's own words, on their line."""
    said = failure(
        Exception(
            "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] An"
            " exception was thrown from the Python worker: penstock.errors.CheckpointError: the"
            " state belongs to another query; they differ in:\n  -    sum(x)\n  expected: the"
            " query that it was made by\n  try: another checkpoint\n SQLSTATE: 38000"
        )
    )
    assert isinstance(said, CheckpointError)
    assert said.message == "the state belongs to another query; they differ in:\n  -    sum(x)"
    assert said.expected == "the query that it was made by"
    assert said.hint == "another checkpoint"
