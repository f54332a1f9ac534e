"""A join of two files of 1 or 10 million events each: its memory does not follow their sizes,
because files are read in step.  The process is `join_memory_process.py`.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import plotting
from benchmarks.result import Bar, Result, Row

MILLION = 1_000_000
KEYS = 10_000
PER_SECOND = 1_000
JITTER = 3_000  # ms
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
_ROWS = 1 << 16  # of a row group


def run(quick: bool = False) -> Result:
    counts = (2_000, 4_000) if quick else (MILLION, 10 * MILLION)
    rows: list[Row] = []
    for count in counts:
        with TemporaryDirectory() as folder:
            files = [str(Path(folder) / f"{name}.parquet") for name in "ab"]
            for seed, file in enumerate(files):
                write(file, count, seed)
            command = [sys.executable, "-m", "benchmarks.join_memory_process", *files]
            root = Path(__file__).parents[1]
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        made, kilobytes = map(int, done.stdout.split())
        rows.append({"events of each": count, "rows": made, "MB": kilobytes / 1024})
    few, many = rows
    bars = [Bar("memory of a join at ten times the events", 1.3, many["MB"] / few["MB"])]
    agreed = {"few": few["rows"], "many": many["rows"]}
    title = "A join of two files: highest resident memory, results thrown away"
    return Result("join_memory", title, rows, agreed, bars, partial(plot, rows))


def write(file: str, count: int, seed: int) -> None:
    """Keys are uniform, and events out of order by up to 3 s."""
    generator = np.random.default_rng(seed)
    with pq.ParquetWriter(file, SCHEMA) as writer:
        for begin in range(0, count, _ROWS):
            size = min(_ROWS, count - begin)
            due = (begin + np.arange(size)) * 1000 // PER_SECOND
            stamps = (due + generator.integers(0, JITTER + 1, size)) * 1000
            keys, values = generator.integers(0, KEYS, size), generator.integers(0, 100, size)
            columns = [
                pa.array(keys),
                pa.array(values),
                pa.array(stamps).cast(SCHEMA.field(2).type),
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "A join of two files: memory follows the windows") as (axis,):
        names = [f"{row['events of each'] / 1e6:g} million" for row in rows]
        bars = axis.bar(names, [row["MB"] for row in rows], color="C2", width=0.5)
        axis.bar_label(bars, fmt="%.0f")
        axis.set(xlabel="events of each file", ylabel="highest resident memory (MB)")
