"""A live engine with a hundred queries to which nothing comes any more: how much of a core the
process takes.

All of them have open windows, and rows of a union wait to be in their place; with `SKEW`, the clock
may release them, so the engine looks at it now and then.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import penstock as ps
from benchmarks import plotting
from benchmarks.result import Bar, Result, Row

QUERIES = 100
LIMIT = 1.0  # % of a core
TUPLES = [{"v": number, "ts": 1_000_000 * (1_700_000_000 + number)} for number in range(40)]
SCHEMA = {"v": "BIGINT", "ts": "TIMESTAMP EPOCH MICROSECONDS"}
WINDOW = "[RANGE 1 HOUR, SLIDE 1 MINUTE, WA ts]"
FAR = {"skew": "1 day"}  # nothing is released while somebody looks
KINDS: dict[str, dict[str, Any]] = {
    "asynchronous rows": {},
    "an iterator": {},
    "asynchronous rows with SKEW": FAR,
    "asynchronous rows, two threads": {"threads": 2},
    "asynchronous rows, with a checkpoint": {"checkpoint": True},
}


def run(quick: bool = False) -> Result:
    queries, seconds = (3, 0.05) if quick else (QUERIES, 10.0)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for kind, options in KINDS.items():
        with TemporaryDirectory() as folder:
            share, agreed[kind] = _idle(kind, dict(options), queries, seconds, Path(folder))
        rows.append({"stream": kind, "% of a core": share})
    bars = [
        Bar(f"{queries} idle queries, {row['stream']}", LIMIT, row["% of a core"], "%")
        for row in rows
    ]
    title = f"{queries} queries over a stream that has fallen silent, for {seconds:g} s"
    return Result("idle", title, rows, agreed, bars, partial(plot, rows))


def _idle(
    kind: str, options: dict[str, Any], queries: int, seconds: float, folder: Path
) -> tuple[float, int]:
    """The share of a core, and how many windows all queries have open together."""
    db = ps.connect()
    skew = {"skew": options.pop("skew")} if "skew" in options else {}
    all_there = threading.Event()
    coming: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    source = iter(coming.get, None) if "iterator" in kind else _rows(all_there)
    progress = ps.progress("ts", delay="5 seconds", **skew)
    db.stream("s", source, schema=SCHEMA, progress=progress)
    if options.pop("checkpoint", False):
        options["checkpoint"] = folder / "kept"
    with db.live(**options) as live:
        union = "SELECT v, ts FROM s WHERE v < 9 UNION ALL SELECT v, ts FROM s WHERE v >= 9"
        live.sql(f"CREATE QUERY u AS {union} EMIT IN ORDER")
        for number in range(queries):
            where = f"WHERE v >= {number % 10}"
            live.sql(f"CREATE QUERY q{number} AS SELECT count(*) AS n {WINDOW} FROM s {where}")
        all_there.set()
        for each in TUPLES:
            coming.put(each)
        while live.status()[0].account.read < len(TUPLES):
            time.sleep(0.01)
        time.sleep(min(2.0, seconds))  # what follows from them is done by then, and saved
        open_windows = sum(each.open_windows for each in live.status())
        begun, used = time.perf_counter(), time.process_time()
        time.sleep(seconds)
        share = (time.process_time() - used) / (time.perf_counter() - begun)
        coming.put(None)
    return 100 * share, open_windows


async def _rows(all_there: threading.Event) -> AsyncIterator[dict[str, Any]]:
    while not all_there.is_set():
        await asyncio.sleep(0.01)
    for each in TUPLES:
        yield each
    await asyncio.sleep(3600)


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Queries that have nothing to do") as (axis,):
        axis.barh([row["stream"] for row in rows], [row["% of a core"] for row in rows])
        axis.axvline(LIMIT, color="0.5", linestyle="--")
        axis.invert_yaxis()
        axis.set(xlabel="processor time (% of a core)")
