"""Processes that tests start and kill: drivers, and a standalone cluster on loopback."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyspark

import penstock as ps
from penstock.io.sinks.text import write_json_lines
from penstock.model.punctuation import sign_name
from penstock.plan.nodes.query import Late

DRIVER = Path(__file__).with_name("driver.py")
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
# Two streams: files that are sub-sources of their own, and rows of several keys under SLACK.
STREAMS = """
CREATE STREAM s (k STRING, x INT, t INT) FROM FILES 'data/*.jsonl' PROGRESS ON t DELAY 3 PER FILE;
CREATE STREAM r (k STRING, x INT, t INT) FROM VALUES {values} PROGRESS ON t SLACK 2 ROWS PER k;
CREATE TABLE names (k STRING, name STRING) FROM VALUES ('a', 'Ann'), ('a', 'Abe'), ('b', 'Bob');
"""
EXCHANGED = "join that is put together in other ways"  # which drivers do whenever they can
DISTURBED = {
    "windows": """
        SELECT k, count(*) AS n, sum(x) AS total [RANGE 10, SLIDE 5, WA t]
        FROM (SELECT k, x, t FROM s UNION ALL SELECT k, x, t FROM r) AS q GROUP BY k LATE SIDE""",
    "left join": """
        SELECT s.k AS k, s.x AS x, r.x AS y, s.t AS t
        FROM s [RANGE 6] LEFT JOIN r [RANGE 4] ON s.k = r.k LATE SIDE""",
    "band join": """
        SELECT s.x AS x, r.x AS y FROM s JOIN r ON r.t BETWEEN s.t - 2 AND s.t + 1 LATE SIDE""",
    "join and windows": """
        SELECT k, count(*) AS n [RANGE 10, SLIDE 5, WA t]
        FROM (SELECT s.k AS k, s.t AS t FROM s [RANGE 3], r [RANGE 3] WHERE s.k = r.k) AS q
        GROUP BY k LATE SIDE""",
    "sequence": """
        SELECT s.k AS k, s.x AS x, r.x AS y, r.t AS t
        FROM SEQUENCE (s THEN r MODE CHRONICLE ON s.k = r.k WITHIN 9 KEEP FIRST) LATE SIDE""",
    "difference": """
        SELECT k, x, t, changed_at FROM s [RANGE 9, WA t] EXCEPT ON (k) r [RANGE 2, WA t]
        LATE SIDE""",
    "table and windows": """
        SELECT name, count(*) AS n, sum(x) AS total [RANGE 10, SLIDE 5, WA t]
        FROM s LEFT JOIN names ON s.k = names.k GROUP BY name LATE SIDE""",
    "over": """
        SELECT k, x, t,
          sum(x) OVER (PARTITION BY k ORDER BY t RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) AS of_5,
          count(*) OVER (PARTITION BY k ORDER BY t RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS n
        FROM s LATE SIDE""",
    "running answers": """
        SELECT s.k AS k, count(*) AS n, sum(s.x) AS total, max(r.x) AS most
        FROM s LEFT JOIN r ON s.k = r.k AND s.t = r.t GROUP BY s.k EMIT CHANGES""",
    EXCHANGED: """
        SELECT r.x AS x, u.x AS y, w.x AS z, r.t AS t
        FROM r [RANGE 12], r AS u [RANGE 4], r AS w [RANGE 12]
        WHERE r.k = u.k AND u.k = w.k AND r.x % 9 = w.x % 9 AND r.x % 2 = u.x % 2 LATE SIDE""",
}


def write_disturbed(directory: Path, seed: int, asked: str = "windows") -> Path:
    """One of the queries over streams with stragglers and late tuples."""
    chance = random.Random(seed)

    def rows(size: int) -> Iterator[tuple[str, int, int]]:
        for number in range(size):
            yield chance.choice("abc"), chance.randrange(100), number + chance.randint(-12, 3)

    (directory / "data").mkdir(parents=True)
    for number in range(6):
        lines = [json.dumps({"k": k, "x": x, "t": t}) for k, x, t in rows(60)]
        lines[chance.randrange(60)] = '{"k": "a", "x": "no number", "t": 1}'
        lines[chance.randrange(60)] = '{"k": "a", "x": 1, "t": null}'
        path = directory / "data" / f"{number}.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    query = directory / "disturbed.sql"
    values = ", ".join([*map(str, rows(100)), "('a', 1, NULL)"])
    query.write_text(STREAMS.format(values=values) + DISTURBED[asked], encoding="utf-8")
    return query


def lines_of(table: pa.Table) -> list[str]:
    out = io.StringIO()
    write_json_lines(table, out)
    return sorted(json.dumps(json.loads(line)) for line in out.getvalue().splitlines())


def written(place: Path, items: bool = False) -> Counter[str]:
    """The rows in a directory of files, or in one file, without those that were taken back; items
    of a difference with their signs."""
    found: Counter[str] = Counter()
    one = place.with_suffix(".jsonl")
    for path in [one] if one.exists() else sorted(place.glob("part-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            sign = 1 if items else row.pop(sign_name([]), 1)
            found[json.dumps(row)] += sign
    assert min(found.values(), default=0) >= 0
    return +found


class Differences(NamedTuple):
    """How many rows of an undisturbed run are not there, and how many are there too often."""

    lost: int = 0
    doubled: int = 0

    def plus(self, expected: Counter[str], found: Counter[str]) -> Differences:
        lost, doubled = expected - found, found - expected
        return Differences(self.lost + lost.total(), self.doubled + doubled.total())


def differences(query: Path, directory: Path) -> Differences:
    """From what the reference engine says: rows, late tuples and rejected ones."""
    *_, asked = ps.connect("reference", base=query.parent).script(query.read_text("utf-8"))
    assert isinstance(asked, ps.Query)
    tables = {"rows": asked.collect(), "rejected": asked.rejected}
    if asked.plan.late is not Late.DROP:
        tables["late"] = asked.late
    found = Differences()
    for side, table in tables.items():
        expected = Counter(lines_of(table))
        items = asked.plan.signed and side == "rows"
        found = found.plus(expected, written(directory / query.stem / side, items))
    return found


def assert_reference(query: Path, directory: Path) -> None:
    assert differences(query, directory) == Differences(0, 0)


class Driver:
    def __init__(
        self,
        master: str,
        portions: int,
        directory: Path,
        *queries: Path,
        sinks: str = "directory",
    ) -> None:
        """`sinks` is what driver.py calls them."""
        command = [sys.executable, str(DRIVER), master, str(portions), sinks, str(directory)]
        self._errors = (directory.parent / "driver.log").open("a")
        self.process = subprocess.Popen(
            [*command, *map(str, queries)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def hear(self, words: str) -> bool:
        """Wait for a line; whether it came before the process ended."""
        assert self.process.stdout is not None
        return any(line.startswith(words) for line in self.process.stdout)

    def kill(self) -> None:
        """With its Java half, as if the machine were gone."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self._done()

    def wait(self) -> None:
        ended = self.hear("ended")
        assert self._done() == 0
        assert ended

    def _done(self) -> int:
        code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
        return code


class Cluster:
    """A master and two workers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self._port))
        _await_listener(self._port)
        for number in range(2):
            room = ["--cores", "1", "--memory", "1g"]
            place = ["--work-dir", str(self._directory / str(number))]
            worker = self._start("worker.Worker", "--host", "127.0.0.1", *room, *place, self.master)
            self._workers.append(worker)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", "--webui-port", "0"]
        with (self._directory / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                [*command, *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            )
        self._processes.append(process)
        return process

    def kill_worker(self) -> None:
        """With the executors that it started."""
        _kill(self._workers.pop())

    def stop(self) -> None:
        for process in self._processes:
            _kill(process)


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    directory.mkdir()
    started = Cluster(directory)
    try:
        started.start()
        yield started
    finally:
        started.stop()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _await_listener(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the master did not start"
            time.sleep(0.1)
