"""Kills a run in this process's children at random moments, and runs it again until it is through.

A child is forked, so that nothing is imported again; its clock ends an epoch every few chunks, so
that a kill can fall anywhere between reading, writing, noting and committing.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet

import penstock as ps
import penstock.api.database  # otherwise every child would import it
import penstock.local.scheduling.scheduler
from tests.waiting import LONGEST

FILES = 24
ROWS = 300  # of each
STREAMS = """
CREATE STREAM parts (k STRING, v INT, t INT) FROM FILES 'data/*.csv' PROGRESS ON t DELAY 20;
CREATE STREAM log (k STRING, v INT, t INT) FROM FILES 'log.jsonl' PROGRESS ON t DELAY 20;
"""
QUERIES = {
    "windows": """
        SELECT k, count(*) AS n, sum(v) AS total [RANGE 60, SLIDE 20, WA t]
        FROM (SELECT k, v, t FROM parts UNION ALL SELECT k, v, t FROM log) AS both
        GROUP BY k LATE SIDE""",
    "join": """
        SELECT p.k AS k, p.v AS v, p.t AS t, l.t AS met
        FROM parts AS p [RANGE 40] LEFT JOIN log AS l [RANGE 90] ON p.v = l.v LATE SIDE""",
    "sequence": """
        SELECT p.k AS k, p.v AS v, p.t AS t, l.t AS met
        FROM SEQUENCE (parts AS p THEN log AS l MODE CHRONICLE ON p.v = l.v WITHIN 90 KEEP FIRST)
        LATE SIDE""",
    "difference": """
        SELECT k, v, t, changed_at FROM parts [RANGE 40, WA t] EXCEPT ON (v) log [RANGE 20, WA t]
        LATE SIDE""",
}


@dataclass
class Place:
    """Where the data is, and what goes where."""

    folder: Path
    rows: str
    late: str
    rejected: str
    seed: int
    asked: str = "windows"
    kills: int = 0
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.data = self.folder / "data"
        self.data.mkdir(parents=True)
        self.written = 0
        self.log_written = 0

    # --- data that comes bit by bit --------------------------------------------------------------

    def grow(self) -> bool:
        """One more file, and some more lines; whether there was more to come."""
        if self.written == FILES:
            return False
        number = self.written
        lines = ["k,v,t"]
        for row in range(ROWS):
            t = number * ROWS + row - (60 if self.random.random() < 0.02 else row % 7)
            value = "bad" if self.random.random() < 0.01 else str(self.random.randrange(100))
            lines.append(f"{self.random.choice('abc')},{value},{t}")
        beside = self.folder / "beside.csv"
        beside.write_text("\n".join(lines) + "\n")
        beside.replace(self.data / f"{number:03}.csv")
        with (self.folder / "log.jsonl").open("a") as log:
            for row in range(ROWS):
                value = '"bad"' if self.random.random() < 0.01 else str(row)
                log.write(f'{{"k": "log", "v": {value}, "t": {number * ROWS + row}}}\n')
        self.written += 1
        return True

    # --- runs ------------------------------------------------------------------------------------

    def run(self, final: bool = False) -> None:
        # every look at the clock is some time later: an epoch ends after a few chunks
        clock = ps.ManualClock(at=0, step=300_000)
        db = ps.connect(clock=clock, base=self.folder)
        query = db.sql(STREAMS + QUERIES[self.asked])
        assert isinstance(query, ps.Query)
        query.run(
            self.folder / self.rows,
            late=self.folder / self.late,
            rejected=self.folder / self.rejected,
            checkpoint=self.folder / "checkpoint",
            final=final,
        )

    def run_in_child(self, kill_after: float | None, final: bool = False) -> bool:
        """Whether the child came to its end."""
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(LONGEST, exit=True)  # nobody waits for ever
            try:
                self.run(final)
                os._exit(0)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
        status = _ended(child, kill_after)
        if os.WIFSIGNALED(status):
            self.kills += 1
            return False
        assert os.WEXITSTATUS(status) == 0, "the run failed"
        return True


def _ended(child: int, kill_after: float | None) -> int:
    """How a child has ended: by itself, or killed after so many seconds."""
    until = None if kill_after is None else time.monotonic() + kill_after
    while until is not None and time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    if until is not None:
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def contents(path: Path) -> Counter[str]:
    """The rows of a file, or of all files in a directory."""
    if path.is_dir():
        return sum((contents(each) for each in path.glob("part-*")), Counter())
    if path.suffix == ".parquet":
        return Counter(map(repr, pyarrow.parquet.read_table(path).to_pylist()))
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(lines[1:] if path.suffix == ".csv" else lines)


def killed_often(place: Place, kills: int) -> None:
    """Run until there have been so many kills and all data has come; then the last, final run."""
    place.grow()
    for _ in range(4):  # before anything has been saved, too
        place.run_in_child(place.random.uniform(0, 0.4))
    began = time.perf_counter()
    assert place.run_in_child(None)
    length = time.perf_counter() - began
    while True:
        more = place.grow() if place.kills * FILES >= kills * place.written else True
        if not more and place.kills >= kills:
            break
        began = time.perf_counter()
        if place.run_in_child(place.random.uniform(0, 1.3 * length)):
            # as long as it takes now, so that about as many are killed as are not
            length = time.perf_counter() - began
    for _ in range(3):
        place.run_in_child(place.random.uniform(0, 2 * length), final=True)
    assert place.run_in_child(None, final=True)
