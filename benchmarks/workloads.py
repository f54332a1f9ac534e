"""The streams and queries that are measured.

A: count and sum per key over RANGE 600 s, SLIDE 10 s; B: the same over tumbling windows of 10 s;
S: single tuples through a filter, a projection and a sliding count per key.
Events come at 2,000 per second of event time, out of order by up to 3 s; keys are skewed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.plan.nodes.query import QueryPlan

EVENTS = 1_000_000
KEYS = 1_000
PER_SECOND = 2_000
JITTER = 3_000  # ms
SCHEMA = pa.schema([("k", pa.int64()), ("len", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
_SLICE = 1 << 20


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    range: int
    slide: int
    calls: str = "count(*) AS n, sum(len) AS bytes"
    source: str = "events"
    unit: str = "SECONDS"

    @property
    def sql(self) -> str:
        window = f"[RANGE {self.range} {self.unit}, SLIDE {self.slide} {self.unit}, WA ts]"
        return f"SELECT k, {self.calls} {window} FROM {self.source} GROUP BY k"

    def query(self, batches: object) -> QueryPlan:
        """The query over what an iterable of batches, read again for every run, holds."""
        db = ps.connect()
        db.stream("events", batches, schema=SCHEMA, progress=ps.progress("ts", delay="5 seconds"))
        query = db.sql(self.sql)
        assert isinstance(query, ps.Query)
        return query.plan


A = Workload("A: RANGE 600 s, SLIDE 10 s", 600, 10)
B = Workload("B: tumbling 10 s", 10, 10)
S = Workload(
    "S: single tuples",
    600,
    10,
    "count(*) AS n",
    "(SELECT k, ts, len * 8 AS bits FROM events WHERE len > 100) sent",
)


def events(count: int = EVENTS, seed: int = 1) -> pa.Table:
    return pa.Table.from_batches(list(slices(count, seed)), SCHEMA)


def slices(count: int, seed: int = 1, rows: int = _SLICE) -> Iterator[pa.RecordBatch]:
    """The events in slices that are made as they are asked for."""
    generator = np.random.default_rng(seed)
    for begin in range(0, count, rows):
        size = min(rows, count - begin)
        keys = (generator.random(size) ** 3 * KEYS).astype(np.int64)
        lengths = generator.integers(40, 1501, size)
        due = (begin + np.arange(size)) * 1000 // PER_SECOND
        stamps = (due + generator.integers(0, JITTER + 1, size)) * 1000
        columns = [pa.array(keys), pa.array(lengths), pa.array(stamps).cast(SCHEMA.field(2).type)]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def cut(table: pa.Table, rows: int) -> list[pa.RecordBatch]:
    """Batches of exactly that many rows, the last one apart."""
    whole = table.combine_chunks().to_batches()[0]
    return [whole.slice(begin, rows) for begin in range(0, whole.num_rows, rows)]
