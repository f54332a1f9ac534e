"""How long it takes from handing a tuple over until its result is in a callback, if tuples come
alone, 1,000 a second: through a filter, a projection, a union and a sliding count.

Every tuple completes a window, and is the last that its result waits for.  Tuples come from another
thread, from a generator, from an asynchronous generator and from a socket, on the other side of
which is another process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import queue
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter_ns, process_time_ns, sleep
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result

RATE = 1_000  # tuples a second
MEDIAN, P99 = 200.0, 2_000.0  # µs
WARM = 200  # tuples that come first, and are not counted
SHARES = (50, 90, 99)
SCHEMA = {"t": "BIGINT"}
Times = npt.NDArray[np.float64]


SQL = (
    "SELECT window_end AS t, count(*) AS n [RANGE 100, SLIDE 1, WA t] FROM"
    " (SELECT t + 1 AS t FROM a WHERE t % 2 = 0"
    " UNION ALL SELECT t + 1 AS t FROM a WHERE t % 2 = 1) AS both"
)


class Sent:
    """Tuples with numbers, at their times, and when each was handed over."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.at = np.zeros(count, np.int64)
        self.begun = 0

    def wait(self, number: int) -> float:
        """Seconds until a tuple is due."""
        if not number:
            self.begun = perf_counter_ns() + 100_000_000  # everybody is awake by then
        due = self.begun + number * 1_000_000_000 // RATE
        return max(0.0, (due - perf_counter_ns()) / 1e9)

    def now(self, number: int) -> dict[str, int]:
        self.at[number] = perf_counter_ns()
        return {"t": number}


def from_a_thread(db: ps.Database, sent: Sent) -> None:
    rows: queue.SimpleQueue[dict[str, int] | None] = queue.SimpleQueue()

    def work() -> None:
        for number in range(sent.count):
            sleep(sent.wait(number))
            rows.put(sent.now(number))
        rows.put(None)

    db.stream("a", iter(rows.get, None), schema=SCHEMA, progress=ps.progress("t", ordered=True))
    threading.Thread(target=work, daemon=True).start()


def from_a_generator(db: ps.Database, sent: Sent) -> None:
    def rows() -> Iterator[dict[str, int]]:
        for number in range(sent.count):
            sleep(sent.wait(number))
            yield sent.now(number)

    db.stream("a", rows(), schema=SCHEMA, progress=ps.progress("t", ordered=True))


def from_an_asynchronous_generator(db: ps.Database, sent: Sent) -> None:
    async def rows() -> AsyncIterator[dict[str, int]]:
        for number in range(sent.count):
            await asyncio.sleep(sent.wait(number))
            yield sent.now(number)

    db.stream("a", rows(), schema=SCHEMA, progress=ps.progress("t", ordered=True))


def from_a_socket(db: ps.Database, sent: Sent) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    processes = multiprocessing.get_context("spawn")
    times = processes.RawArray("q", sent.count)
    sent.at = np.frombuffer(times, np.int64)
    with listening:
        processes.Process(target=speak, args=(listening, times), daemon=True).start()
    db.sql(f"CREATE STREAM a (t BIGINT) FROM SOCKET '127.0.0.1:{port}' PROGRESS ON t ORDERED")


def speak(listening: socket.socket, times: Any) -> None:
    """The other side of the socket."""
    sent = Sent(len(times))
    sent.at = np.frombuffer(times, np.int64)
    with listening, listening.accept()[0] as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(sent.count):
            sleep(sent.wait(number))
            connection.sendall(json.dumps(sent.now(number)).encode() + b"\n")


SOURCES: dict[str, Callable[[ps.Database, Sent], None]] = {
    "another thread": from_a_thread,
    "generator": from_a_generator,
    "asynchronous generator": from_an_asynchronous_generator,
    "socket": from_a_socket,
}


def run(quick: bool = False) -> Result:
    count = 300 if quick else 5_000
    found = {name: delivered(make, count) for name, make in SOURCES.items()}
    taken = {name: times for name, (times, _, _) in found.items()}
    rows = [
        {
            "from": name,
            **{f"p{share} µs": float(np.percentile(times, share)) for share in SHARES},
            "processor µs": processor,
        }
        for name, (times, processor, _) in found.items()
    ]
    bars = [
        Bar(f"a tuple alone from {row['from']}, {what}", limit, row[f"p{share} µs"], "µs")
        for row in rows
        for what, share, limit in (("median", 50, MEDIAN), ("99 %", 99, P99))
    ]
    agreed = agree({name: answer for name, (_, _, answer) in found.items()})
    title = f"From a source to a callback: {RATE:,} tuples a second, one by one"
    return Result("latency", title, rows, agreed, bars, partial(plot, taken))


def delivered(
    make: Callable[[ps.Database, Sent], None], count: int
) -> tuple[Times, float, pa.Table]:
    """Microseconds from handing over to the callback; those of the processor for each tuple, of
    whoever sends it as well; and all results."""
    sent = Sent(count + WARM)
    left = np.zeros(sent.count, np.int64)
    answers: list[pa.RecordBatch] = []

    def see(batch: pa.RecordBatch) -> None:
        now = perf_counter_ns()
        for end in batch.column("t").to_pylist():
            if end <= sent.count:  # the others end with the stream
                left[end - 1] = now
        answers.append(batch)

    db = ps.connect()
    make(db, sent)
    query = db.sql(SQL)
    assert isinstance(query, ps.Query)
    gc.collect()
    gc.freeze()
    begun = process_time_ns()
    try:
        query.run(see)
    finally:
        gc.unfreeze()
    processor = (process_time_ns() - begun) / 1000 / sent.count
    return (left - sent.at)[WARM:] / 1000, processor, pa.Table.from_batches(answers)


def plot(taken: dict[str, Times], path: Path) -> None:
    with plotting.figure(path, "A tuple alone, from its source to a callback") as (axis,):
        for name, times in taken.items():
            axis.plot(np.sort(times), np.linspace(0, 100, len(times)), label=name)
        axis.axvline(MEDIAN, color="0.5", linestyle="--", label="bar for the median")
        axis.axhline(50, color="0.8", linewidth=1)
        axis.set(xscale="log", xlabel="latency (µs)", ylabel="tuples that took less (%)")
        axis.legend()
