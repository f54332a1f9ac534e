"""Batch jobs over tables of Spark's, which have no order: tasks read any of their rows in any turn,
every bucket takes all of its tuples in at once, and the rows are those of the reference."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.spark.stages import StageConfig, StreamPaths
from penstock.spark.stateful.step import at_once
from penstock.spark.tasks.ingest_tasks import IngestTask
from penstock.spark.tasks.messages import Packed, packed_batch
from penstock.spark.tasks.paths import TaskCache
from tests.reference.helpers import Row, Stream, Table, ask, bag, tuples
from tests.spark.test_every_cut import cuts
from tests.spark.test_joins import BY_TIME, IN_A_ROW, KEYED, OF_KINDS, ROWS, SCHEMA, SEVERAL
from tests.spark.without_spark import Given, WithoutSpark, rows_of

ITEMS = "(SELECT k, x, changed_at AS at FROM s [RANGE 6, WA t] EXCEPT ON (k) r [RANGE 3, WA t]) d"
SELECTS = [
    *KEYED,
    *BY_TIME,
    *OF_KINDS,
    *SEVERAL,
    *IN_A_ROW,
    "SELECT s.x AS x, r.x AS y FROM SEQUENCE (s THEN r MODE RECENT ON s.k = r.k KEEP SECOND)",
    "SELECT s.x AS x, r.x AS y FROM SEQUENCE (s THEN r MODE CHRONICLE WITHIN 7 KEEP BOTH)",
    "SELECT s.x AS x, r.x AS y FROM s LEFT JOIN r AS OF s.t ON s.k = r.k",
    f"SELECT * FROM {ITEMS}",
    f"SELECT k, count(*) AS n [RANGE 8, SLIDE 4, WA at] FROM {ITEMS} GROUP BY k",
    f"SELECT DISTINCT k, at FROM {ITEMS}",
    "SELECT DISTINCT ON (k) k, x [RANGE 10, SLIDE 4, WA t] FROM s",
    "SELECT s.x AS x, v FROM s LEFT JOIN names ON s.k = names.k",
    "SELECT v, count(*) AS n [RANGE 9, SLIDE 3, WA t] FROM s, names WHERE s.k = names.k GROUP BY v",
]


class AtOnce(WithoutSpark):
    def _ingesting(self, reading: StreamPaths, task: int, given: Given) -> Iterator[Packed]:
        caches = [TaskCache(path.config, path.number) for path in reading.paths]
        return IngestTask(reading, task, caches, in_order=False).run(iter(given.chunks))

    def _stage(self, config: StageConfig, packed: list[Packed]) -> list[Packed]:
        made: list[Packed] = []
        for key in sorted({each.bucket for each in packed}):
            table = pa.Table.from_batches([packed_batch(p for p in packed if p.bucket == key)])
            made += [Packed(**row) for row in at_once(config)((pa.scalar(key),), table).to_pylist()]
        return made


@settings(deadline=None, max_examples=150)
@given(
    data=st.data(),
    select=st.sampled_from(SELECTS),
    clause=st.sampled_from(["", " LATE SIDE", " LATE AMEND"]),
    s=ROWS,
    r=ROWS,
    buckets=st.integers(1, 4),
)
def test_every_partition(
    data: st.DataObject, select: str, clause: str, s: list[Row], r: list[Row], buckets: int
) -> None:
    progress = ps.progress("t", delay=1000)  # nothing is late
    query = ask(
        select + clause,
        s=Stream(SCHEMA, s, progress),
        r=Stream(SCHEMA, r, progress),
        names=Table("k STRING, v INT", [("a", 1), ("a", 2), (None, 3)]),
    )
    job = AtOnce(query.plan, buckets)
    given = {}
    for name, batch in rows_of(query.plan).items():
        order = data.draw(st.permutations(range(batch.num_rows)), label=name)
        rows = batch.take(pa.array(order, pa.int64()))
        parts = data.draw(cuts(len(order)), label="parts")
        given[name] = [Given([Chunk(rows.slice(begin, end - begin))]) for begin, end in parts]
    job.run(given)
    assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect()))
    assert job.tally.late == 0
