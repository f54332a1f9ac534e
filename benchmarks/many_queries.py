"""A thousand queries over one stream, each with a filter and a window of its own, in one process:
what a tuple that comes alone costs, and how long it takes until one more query is there, or gone,
while tuples come.

"narrow" filters let through one value each, "wide" ones half of everything on the average.  Adding
and dropping takes the parser, the optimizer and the graph; with a checkpoint, it is on disk as well
when it is done.  Some queries are watched: their answers are those that they have alone.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row

LIMIT = 50.0  # ms, to add or drop one
PER_TICK = 10  # tuples
SCHEMA = {"k": "BIGINT", "x": "BIGINT", "t": "BIGINT"}
KINDS = ("rows", "narrow", "wide")


def text(kind: str, number: int) -> str:
    range_, slide = 10 + number % 90, 1 + number % 10
    if kind == "rows":
        return f"SELECT x, t FROM s WHERE k = {number}"
    where = f"k = {number}" if kind == "narrow" else f"x >= {number}"
    window = f"RANGE {range_}, SLIDE {slide}, WA t"
    return f"SELECT window_end AS t, count(*) AS n, sum(x) AS x [{window}] FROM s WHERE {where}"


def tuples(count: int, values: int) -> pa.RecordBatch:
    random = np.random.default_rng(7)
    columns = [random.integers(0, values, count) for _ in "kx"]
    return pa.record_batch([*columns, np.arange(count) // PER_TICK], list(SCHEMA))


class Crowd:
    """A live engine with many queries, fed tuple by tuple: the next when one has been seen."""

    def __init__(self, kind: str, count: int, folder: str | None) -> None:
        self.kind, self.count = kind, count
        self.fed: list[pa.RecordBatch] = []
        self._coming: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        self._seen: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._db = ps.connect()
        stream(self._db, iter(self._coming.get, None))
        self.live = self._db.live(checkpoint=folder) if folder else self._db.live()
        self.live.sql("CREATE QUERY everything AS SELECT t FROM s")
        self.live.subscribe("everything", lambda _: self._seen.put(None))
        self.watched = sorted({0, 1, count // 2, count - 1})
        self.answers: dict[int, list[pa.RecordBatch]] = {each: [] for each in self.watched}
        for number in range(count):
            self.live.sql(f"CREATE QUERY q{number} AS {text(kind, number)}")
            if number in self.answers:
                self.live.subscribe(f"q{number}", self.answers[number].append)

    def feed(self, rows: pa.RecordBatch) -> None:
        for place in range(rows.num_rows):
            self.fed.append(rows.slice(place, 1))
            self._coming.put(self.fed[-1])
            self._seen.get()

    def cost(self, rows: pa.RecordBatch) -> float:
        """Of a tuple, in microseconds of the processor."""
        begun = process_time()
        self.feed(rows)
        self.live.status()  # everything has been handled by then
        return (process_time() - begun) / int(rows.num_rows) * 1e6

    def change(self, changes: int, rows: pa.RecordBatch) -> tuple[list[float], list[float]]:
        """Milliseconds until one more query is there, and until it is gone, while tuples come."""
        over = threading.Event()

        def feed() -> None:
            for place in range(rows.num_rows):
                if over.is_set():
                    break
                self.feed(rows.slice(place, 1))

        feeding = threading.Thread(target=feed)
        feeding.start()
        added, dropped = [], []
        for number in range(self.count, self.count + changes):
            sql = f"CREATE QUERY q{number} AS {text(self.kind, number)}"
            added.append(_milliseconds(partial(self.live.sql, sql)))
            dropped.append(_milliseconds(partial(self.live.drop, f"q{number}")))
        over.set()
        feeding.join()
        return added, dropped

    def end(self) -> pa.Table:
        """What those have got who were watched."""
        self._coming.put(None)
        self.live.wait()
        self.live.stop(final=True)
        answered = {each: own for each, own in self.answers.items() if own}
        return numbered({each: pa.Table.from_batches(own) for each, own in answered.items()})


def _milliseconds(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return (perf_counter() - begun) * 1e3


def stream(db: ps.Database, rows: object) -> None:
    db.stream("s", rows, schema=SCHEMA, progress=ps.progress("t", ordered=True))


def alone(kind: str, numbers: list[int], fed: list[pa.RecordBatch]) -> pa.Table:
    """What some queries get that run by themselves."""
    db = ps.connect()
    stream(db, pa.Table.from_batches(fed))
    found = {number: db.sql(text(kind, number)) for number in numbers}
    return numbered(
        {each: query.collect() for each, query in found.items() if isinstance(query, ps.Query)}
    )


def numbered(answers: dict[int, pa.Table]) -> pa.Table:
    return pa.concat_tables(
        table.append_column("query", pa.array([number] * table.num_rows, pa.int64()))
        for number, table in answers.items()
    )


def run(quick: bool = False) -> Result:
    queries, count, changes = (20, 100, 3) if quick else (1_000, 1_000, 40)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    bars: list[Bar] = []
    for kind in KINDS:
        for kept in (False, True):
            name = f"{kind}, with a checkpoint" if kept else kind
            with TemporaryDirectory() as folder:
                crowd = Crowd(kind, queries, folder if kept else None)
                fed = tuples(10 * count, queries)
                cost = crowd.cost(fed.slice(0, count))
                added, dropped = crowd.change(changes, fed.slice(count))
                answers = {"all": crowd.end(), "alone": alone(kind, crowd.watched, crowd.fed)}
            agreed |= {f"{name}: {who}": found for who, found in agree(answers).items()}
            rows.append(
                {
                    "queries": name,
                    "a tuple, µs": cost,
                    "of each query": cost / queries,
                    "add, ms": float(np.median(added)),
                    "add, most": max(added),
                    "drop, ms": float(np.median(dropped)),
                    "drop, most": max(dropped),
                }
            )
            for what, times in (("adding", added), ("dropping", dropped)):
                bars.append(Bar(f"{name}: {what} one of {queries:,}", LIMIT, max(times), "ms"))
    title = f"{queries:,} queries over one stream, tuples one by one"
    return Result("many_queries", title, rows, agreed, bars, partial(plot, rows))


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Many queries over one stream") as (axis,):
        names = [row["queries"] for row in rows]
        axis.barh(names, [row["of each query"] for row in rows])
        axis.set_xscale("log")
        axis.set_xlabel("µs of the processor for a tuple and a query")
