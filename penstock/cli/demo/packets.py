"""Packets of simulated network links: each is behind, and out of order, in its own way."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        ("link", pa.string()),
        ("srcIP", pa.string()),
        ("len", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)
BEGIN = 1_769_860_800  # 2026-01-31 12:00:00, in seconds
_HOSTS = 200


@dataclass(frozen=True, slots=True)
class Link:
    """A simulated link. `rate` is in packets per second; a packet takes `lag` seconds and up to
    `disorder` more. No packet is sent while the link is `silent`, an interval in seconds."""

    name: str
    rate: int
    lag: float
    disorder: float
    silent: tuple[float, float] | None = None


LINKS = (
    Link("north", 1800, lag=0.5, disorder=2.0),
    Link("south", 1000, lag=0.5, disorder=4.0),
    Link("harbour", 500, lag=1.0, disorder=4.0, silent=(60, 130)),
    Link("satellite", 200, lag=4.0, disorder=4.0),
)


def portions(links: Sequence[Link], seconds: float, every: float, seed: int = 1) -> list[pa.Table]:
    """Make the packets that `links` send within `seconds`, in the order of their arrival, in
    portions of `every` seconds."""
    generator = np.random.default_rng(seed)
    sent, arrived, numbers = [], [], []
    for number, link in enumerate(links):
        times = np.sort(generator.random(int(link.rate * seconds)) * seconds)
        if link.silent is not None:
            begin, end = link.silent
            times = times[(times < begin) | (times >= end)]
        sent.append(times)
        arrived.append(times + link.lag + generator.random(len(times)) * link.disorder)
        numbers.append(np.full(len(times), number))
    arrival = np.concatenate(arrived)
    order = np.argsort(arrival)
    table = _table(links, np.concatenate(numbers)[order], np.concatenate(sent)[order], generator)
    cuts = np.arange(every, arrival.max(initial=0) + every, every)
    ends = np.searchsorted(arrival[order], cuts)
    return [
        table.slice(begin, end - begin)
        for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    ]


def _table(
    links: Sequence[Link], numbers: np.ndarray, sent: np.ndarray, generator: np.random.Generator
) -> pa.Table:
    hosts = pa.array([f"10.0.{host // 16}.{host % 16}" for host in range(_HOSTS)])
    host = (generator.random(len(sent)) ** 3 * _HOSTS).astype(np.int64)  # a few talk most
    names = pa.array([link.name for link in links])
    stamps = pa.array(((BEGIN + sent) * 1e6).astype(np.int64))
    columns = [
        names.take(pa.array(numbers)),
        hosts.take(pa.array(host)),
        pa.array(generator.integers(40, 1501, len(sent))),
        stamps.cast(SCHEMA.field("ts").type),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


# A directory that packets are written to: slowly while they are played, all at once afterwards.

_FIRST = 1_700_000_000  # Spark reads files by their time; any will do
COLUMNS = "link string, srcIP string, len bigint, ts timestamp"


class Recording:
    """Packets in a directory: portion by portion while they are played, all at once afterwards."""

    def __init__(self, folder: Path, portions: list[pa.Table], pause: float) -> None:
        """Make a recording with `pause` seconds between portions."""
        self._folder = folder
        self._live = folder / "live"
        self._live.mkdir()
        self._portions = portions
        self._pause = pause
        self._stop = threading.Event()

    @property
    def total(self) -> int:
        return sum(portion.num_rows for portion in self._portions)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read the packets while they are played, a portion in a micro-batch."""
        return _files(spark, self._live)

    def again(self, spark: SparkSession, cuts: int) -> DataFrame:
        """Read all packets again, in `cuts` micro-batches."""
        folder = self._folder / "again"
        folder.mkdir()
        packets = pa.concat_tables(self._portions)
        rows = -(-packets.num_rows // cuts)
        for number in range(cuts):
            self._add(packets.slice(number * rows, rows), folder, number)
        return _files(spark, folder)

    def begin(self) -> None:
        """Write the first portion."""
        self._add(self._portions[0], self._live, 0)

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Write the remaining portions, one after the other, until the block ends."""
        thread = threading.Thread(target=self._play, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _play(self) -> None:
        for number, portion in enumerate(self._portions[1:], start=1):
            if self._stop.wait(self._pause):
                return
            self._add(portion, self._live, number)

    def _add(self, packets: pa.Table, folder: Path, number: int) -> None:
        """Write a file, which appears at once and whole, and is newer than all others."""
        path = folder / f"{number:04}.parquet"
        written = self._folder / path.name
        pq.write_table(packets, written)
        moment = _FIRST + number
        os.utime(written, (moment, moment))
        written.replace(path)


def _files(spark: SparkSession, folder: Path) -> DataFrame:
    # one file at a time: of several, Spark would read the largest first, not the oldest
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))
