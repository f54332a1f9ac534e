"""A directory into which packets come: slowly while they are played, all at once afterwards."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST = 1_700_000_000  # Spark reads files by their time; any will do
COLUMNS = "link string, srcIP string, len bigint, ts timestamp"


class Recording:
    def __init__(self, folder: Path, portions: list[pa.Table], pause: float) -> None:
        """`pause` is how many seconds lie between portions."""
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
        """The packets while they are played, a portion in a micro-batch."""
        return _files(spark, self._live)

    def again(self, spark: SparkSession, cuts: int) -> DataFrame:
        """All packets at once, in so many micro-batches."""
        folder = self._folder / "again"
        folder.mkdir()
        packets = pa.concat_tables(self._portions)
        rows = -(-packets.num_rows // cuts)
        for number in range(cuts):
            self._add(packets.slice(number * rows, rows), folder, number)
        return _files(spark, folder)

    def begin(self) -> None:
        """The first portion."""
        self._add(self._portions[0], self._live, 0)

    @contextmanager
    def playing(self) -> Iterator[None]:
        """The other portions, one after the other, as long as somebody listens."""
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
        """A file that appears at once and whole, and is newer than all others."""
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
