"""A final run closes what is open by a promise where one is enough: then the rows are those of an
end of the streams, whatever the query."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.sources.files import FileSource
from penstock.io.sources.source import Chunk
from penstock.plan.algorithms import Algorithm
from penstock.plan.final_bounds import closing_reach
from penstock.plan.nodes.query import QueryPlan
from penstock.spark.run.job_results import RunTotals
from penstock.spark.sources.stream_inputs import streams_of
from penstock.spark.stages import Stage, paths_of
from tests.planning import on_spark
from tests.queries import NAMES, bound
from tests.reference.helpers import bag, tuples
from tests.spark.without_spark import Given, WithoutSpark, rows_of


def is_closed_by_a_promise(name: str) -> bool:
    query = bound(name).plan
    in_one = not any(isinstance(s.source, FileSource) for s in streams_of(query).values())
    (*_, path) = paths_of(on_spark(query).root)
    return in_one and isinstance(path.leaf, Stage) and closing_reach(query) is not None


def closed(query: QueryPlan) -> WithoutSpark:
    """All rows in one micro-batch, and the promise in the next."""
    job = WithoutSpark(query, 2)
    rows = rows_of(query)
    job.run({name: [Given([Chunk(batch)])] for name, batch in rows.items()})
    high = RunTotals(0, job.tally, job.tally).high
    assert high is not None
    job.restart()
    promise = high + (closing_reach(query) or 0)
    job.run({name: [Given([], promise=promise)] for name in rows})
    return job


def test_fixtures() -> None:
    names = [name for name in NAMES if is_closed_by_a_promise(name)]
    assert len(names) > 50
    for name in names:
        query = bound(name)
        job = closed(query.plan)
        assert job.tally.open_windows == 0, name
        assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect())), name


@pytest.mark.parametrize("algorithm", [*Algorithm])
@pytest.mark.parametrize(("range_", "slide"), [(10, 10), (10, 4), (3, 7), (1, 1)])
def test_algorithms(algorithm: Algorithm, range_: int, slide: int) -> None:
    db = ps.connect("reference")
    rows = [(name, time) for time, name in enumerate("abcabcaabbccabc")]
    db.stream("s", rows, schema="k STRING, t INT", progress=ps.progress("t", delay=2))
    window = f"[RANGE {range_}, SLIDE {slide}, WA t]"
    query = db.sql(f"SELECT /*+ {algorithm.name} */ k, count(*) AS n {window} FROM s GROUP BY k")
    assert isinstance(query, ps.Query)
    job = closed(query.plan)
    assert job.tally.open_windows == 0
    assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect()))


def test_files_that_progress_apart() -> None:
    """One that has come to its end holds nothing back, and those of a later run are no newcomers to
    each other."""
    db = ps.connect("reference")
    *_, query = db.script(
        "CREATE STREAM s (t INT) FROM FILES '*.none' FORMAT CSV PROGRESS ON t ORDERED PER FILE;"
        "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"
    )
    assert isinstance(query, ps.Query)
    job = WithoutSpark(query.plan, 1)

    def file(name: str, *times: int) -> Chunk:
        return Chunk(pa.RecordBatch.from_pydict({"t": pa.array(times, pa.int32())}), name)

    files = [file("a", 1, 12), file("b", 3, 24)]
    job.run({"s": [Given(files, joins="ab", leaves="ab")]})
    assert job.received.table(query.plan).column("window_end").to_pylist() == [10, 20]
    job.restart()
    files = [file("c", 31, 55), file("d", 25, 38)]
    job.run({"s": [Given(files, joins="cd", leaves="cd")]})
    assert job.tally.late == 0
    ends = job.received.table(query.plan).column("window_end").to_pylist()
    assert ends == [10, 20, 30]
