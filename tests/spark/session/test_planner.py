"""What states a step has is answered in this process, which has imported PySpark already."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.spark.session import workers
from penstock.spark.stateful.step import StageStep
from tests.waiting import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = Path(workers.__file__).with_name("worker_python.sh")
PLANNING = "pyspark.sql.streaming.transform_with_state_driver_worker"


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    found = tmp_path / "asked"
    os.mkfifo(found)
    return found


def count(spark: SparkSession) -> ps.Query:
    db = ps.connect(spark, buckets=1)
    db.sql("CREATE STREAM s (t INT) FROM VALUES (1), (13) PROGRESS ON t ORDERED")
    query = db.sql("SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s")
    assert isinstance(query, ps.Query)
    return query


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ({"PYTHON_WORKER_FACTORY_PORT": "123", "PYTHON_WORKER_FACTORY_SECRET": "x"}, "123\tx"),
        ({"PYTHON_WORKER_FACTORY_SOCK_PATH": "/a socket"}, "/a socket\t"),
    ],
)
def test_the_script_says_where_spark_listens_and_waits(
    pipe: Path, where: dict[str, str], place: str
) -> None:
    with os.fdopen(os.open(pipe, os.O_RDWR), "r") as asked:
        process = subprocess.Popen(
            [SCRIPT, "-m", PLANNING],
            env={"PENSTOCK_PLANNER": str(pipe), **where},
            stdin=subprocess.PIPE,
        )
        assert asked.readline() == f"{process.pid}\t{place}\n"
        assert process.poll() is None
        process.communicate()  # as when Spark ends
        assert process.returncode is not None


@contextmanager
def hangs_up(after: int) -> Iterator[str]:
    """Listens like a query that is stopped when it has heard so many bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            connection, _ = server.accept()
            with connection:
                if after:
                    connection.recv(after, socket.MSG_WAITALL)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        listening = threading.Thread(target=listen)
        listening.start()
        yield str(server.getsockname()[1])
        join(listening)


@pytest.mark.parametrize("after", [0, 4, 12])
def test_nobody_is_answered_who_is_gone(after: int) -> None:
    pytest.importorskip("pyspark")
    with hangs_up(after) as port:
        workers._answer("1", port, "a secret")  # says nothing: there is nobody to hear it


def test_nobody_listens_any_more() -> None:
    pytest.importorskip("pyspark")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    workers._answer("1", port, "a secret")


def test_steps_are_planned_here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, processes = workers._answer, list[str]()

    def counted(process: str, where: str, secret: str) -> None:
        processes.append(process)
        answer(process, where, secret)

    monkeypatch.setattr(workers, "_answer", counted)
    rows: list[int] = []
    started = count(spark).start(
        lambda row: rows.append(row["n"]), rows=True, checkpoint=tmp_path / "checkpoint"
    )
    started.wait()
    assert rows == [1]
    assert processes
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def test_a_step_that_cannot_begin_ends_the_query(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such state")

    monkeypatch.setattr(StageStep, "init", fail)
    with pytest.raises(ps.PenstockError):
        count(spark).start(lambda _: None, checkpoint=tmp_path / "checkpoint").wait()
