"""The Python of workers on one machine: which one it is, and that planning says nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.spark.session import workers

SCRIPT = Path(workers.__file__).with_name("worker_python.sh")
PLANNING = "pyspark.sql.streaming.transform_with_state_driver_worker"
OWN_SESSION = """
import sys

from pyspark.sql import SparkSession

import penstock as ps

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
db = ps.connect(spark, buckets=1)
db.sql("CREATE STREAM s (t INT) FROM VALUES (1), (13) PROGRESS ON t ORDERED")
query = db.sql("SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s")
started = query.start(lambda row: print(row["n"]), rows=True, checkpoint=sys.argv[1])
started.wait()
spark.stop()
"""


def run_script(directory: Path, *arguments: str) -> tuple[str, str]:
    """What comes out when a worker prints where its packages are, and its arguments."""
    worker = directory / "python"
    worker.write_text('#!/bin/sh\necho "$PYTHONPATH" "$@"\necho trouble >&2\n')
    worker.chmod(0o755)
    chosen = {"PENSTOCK_PYTHON": str(worker), "PENSTOCK_PYTHONPATH": "packages"}
    done = subprocess.run(
        [SCRIPT, *arguments],
        env={**os.environ, **chosen},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def test_workers_are_this_python_and_may_print(tmp_path: Path) -> None:
    said = run_script(tmp_path, "-m", "pyspark.daemon", "pyspark.worker")
    assert said == ("packages -m pyspark.daemon pyspark.worker\n", "trouble\n")


def test_planning_says_nothing_but_errors(tmp_path: Path) -> None:
    assert run_script(tmp_path, "-m", PLANNING) == ("", "trouble\n")


def test_the_process_that_plans_is_called_so() -> None:
    assert find_spec(PLANNING) is not None


@pytest.mark.slow
def test_a_session_of_the_user_says_nothing_of_planning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN_SESSION, str(tmp_path / "checkpoint")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"
    assert "Python worker" not in done.stderr
