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
    def __init__(self, folder: Path, portions: list[pa.Table]) -> None:
        self._folder = folder / "packets"
        self._folder.mkdir()
        self._aside = folder
        self._portions = portions
        self._stop = threading.Event()

    @property
    def total(self) -> int:
        return sum(portion.num_rows for portion in self._portions)

    def stream(self, spark: SparkSession, files_at_once: int | None = None) -> DataFrame:
        """The packets as Spark reads them; `files_at_once` is how many portions a micro-batch has,
        if it is not as many as there are."""
        reader = spark.readStream.schema(COLUMNS)
        if files_at_once is not None:
            reader = reader.option("maxFilesPerTrigger", files_at_once)
        return reader.parquet(str(self._folder))

    @contextmanager
    def playing(self) -> Iterator[None]:
        """The other portions, one a second, as long as somebody listens."""
        thread = threading.Thread(target=self._play, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def begin(self) -> None:
        """The first portion."""
        self._add(0)

    def _play(self) -> None:
        for number in range(1, len(self._portions)):
            if self._stop.wait(1):
                return
            self._add(number)

    def _add(self, number: int) -> None:
        """A file appears at once and whole, and is newer than all others."""
        path = self._folder / f"{number:04}.parquet"
        written = self._aside / path.name
        pq.write_table(self._portions[number], written)
        moment = _FIRST + number
        os.utime(written, (moment, moment))
        written.replace(path)
