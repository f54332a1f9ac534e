"""Python workers on one machine that are killed in the middle of a run: the answer is the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.run.streaming import Options, SparkRun
from tests.planning import on_spark
from tests.queries import bound
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import Committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parents() -> dict[int, tuple[int, str]]:
    """The parent and the command line of every process."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            status = (place / "stat").read_text().rpartition(")")[2].split()
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it is gone
            continue
        found[int(place.name)] = (int(status[1]), command)
    return found


def own_workers() -> Iterator[int]:
    """Those that the daemons of this process's Java have forked."""
    processes = parents()
    for number, (parent, command) in processes.items():
        if "pyspark.daemon" in command and "pyspark.daemon" in processes.get(parent, (0, ""))[1]:
            above = parent
            while above in processes and above != os.getpid():
                above = processes[above][0]
            if above == os.getpid():
                yield number


def test_workers_that_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    query = bound("union")
    received = Committed()
    killed = []

    def kill(batch: int) -> None:
        if batch in (0, 2):
            for worker in own_workers():
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    received.after = kill
    options = Options(tmp_path, portions=4, buckets=2, final=True)
    run = SparkRun([on_spark(query.plan)], spark, [received], options)
    run.start()
    run.wait()
    assert killed
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    assert run.total().late == query.account.late
