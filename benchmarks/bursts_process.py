"""A live engine under bursty load: python -m benchmarks.bursts_process SECONDS LOOKS

Bursts of up to 8,000 rows at once come on two streams, with silence between them, for so many
seconds; three queries fold, join and put them in order, and a fourth comes and goes all the time.
Prints, so many times, the seconds that have passed, the rows read so far and the memory in kB.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pyarrow as pa

import penstock as ps

KEYS, MOST = 500, 8_000
PAUSE = 0.2  # seconds at most between two bursts
WAIT = 30  # seconds at most until the first one
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.int64())])
QUERIES = (
    "SELECT k, count(*) AS n, sum(v) AS s [RANGE 60000, SLIDE 1000, WA t]"
    " FROM a WHERE v % 3 > 0 GROUP BY k",
    "SELECT a.k AS k, b.v AS v FROM a [RANGE 20, WA t], b [RANGE 20, WA t] WHERE a.k = b.k",
    "SELECT t, v FROM (SELECT t, v FROM a UNION ALL SELECT t, v FROM b) both"
    " WHERE v < 100 EMIT IN ORDER",
)
PASSING = "SELECT max(v) AS most [RANGE 5000, SLIDE 500, WA t] FROM b"


def bursts(until: float, seed: int) -> Iterator[pa.RecordBatch]:
    """A row for every millisecond that has passed, up to 30 of them out of order, many at once."""
    generator, pauses = np.random.default_rng(seed), random.Random(seed)
    next_ = 0
    while monotonic() < until:
        rows = int(MOST ** generator.random())
        times = np.arange(next_, next_ + rows) + generator.integers(0, 30, rows)
        next_ += rows
        columns = [generator.integers(0, KEYS, rows), generator.integers(0, 1000, rows), times]
        yield pa.RecordBatch.from_arrays([pa.array(each) for each in columns], schema=SCHEMA)
        sleep(pauses.random() * PAUSE)


def memory() -> int:
    """In kB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def rows_read(live: ps.Live) -> int:
    return sum(each.flow.rows_in for each in live.graph_status().nodes if each.operator == "scan")


def main(seconds: float, looks: int) -> None:
    db = ps.connect()
    stop = monotonic() + 2 * seconds + WAIT
    for seed, name in enumerate("ab"):
        promise = ps.progress("t", delay=30)
        db.stream(name, bursts(stop, seed), schema=SCHEMA, progress=promise)
    with db.live() as live:
        for sql in QUERIES:
            live.sql(sql, lambda _: None)
        begun = monotonic()
        while not rows_read(live) and monotonic() < begun + WAIT:
            sleep(0.05)
        begun = monotonic()
        for look in range(1, looks + 1):
            while monotonic() < begun + seconds * look / looks:
                live.sql(f"CREATE QUERY passing AS {PASSING}")
                sleep(min(1.0, seconds / looks / 4))
                live.sql("DROP QUERY passing")
            print(round(monotonic() - begun), rows_read(live), memory(), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
