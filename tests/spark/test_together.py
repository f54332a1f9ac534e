"""Several queries as one job on Spark: each has the rows, late tuples and counts that it has alone,
whatever the cut into micro-batches and the restarts.  Streams are read once, and panes shared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.api.spark_execution import run_together
from penstock.errors import CheckpointError
from penstock.kernel.windows import pane_parts
from penstock.optimizer.sharing import share_panes
from penstock.plan.nodes.query import Late
from penstock.runs.run_options import Adaptation
from penstock.spark.run.job import Job, in_steps
from penstock.spark.run.streaming import Options, SparkRun
from penstock.spark.sources.dataframe import Sources
from penstock.spark.sources.stream_inputs import batch_sources
from penstock.spark.stages import Stage
from tests.local.test_adapting import EAGER
from tests.local.test_shared_panes import QUERY
from tests.planning import on_spark
from tests.reference.helpers import Row, bag, tuples
from tests.spark.helpers import Committed, CrashError
from tests.spark.test_every_cut import OTHERS, SCHEMA, Cuts, cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", None]),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([None, 0, 1, 2, 7]),
        st.one_of(st.integers(-5, 40), st.integers(0, 25), st.none()),
    ),
    max_size=30,
)
RULES: list[dict[str, Any]] = [
    {"delay": 0},
    {"delay": 4},
    {"delay": 15},
    {"slack": 2},
    {"delay": 4, "per": "p"},
    {"punctuated": ("x = 7", "t - 2")},
]
# the row windows among them follow the order of arrival, which micro-batches of one task keep
ANY = [text for text in OTHERS if " r)" not in text] + [
    "SELECT k, x FROM s WHERE x > 1",
    "SELECT a.k AS k, a.n AS n, b.n AS before FROM"
    " (SELECT k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k) AS a,"
    " (SELECT k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k) AS b"
    " WHERE a.k = b.k AND a.window_end = b.window_end",
]
SHARING = QUERY.map(lambda text: text.replace(" LATE SIDE", ""))


def database(rows: list[Row], rule: dict[str, Any], engine: str = "reference") -> ps.Database:
    db = ps.connect(engine, strict=False)
    schema = SCHEMA.replace("link", "p")
    db.stream("s", rows, schema=schema, progress=ps.progress("t", **rule))
    return db


def queries_over(db: ps.Database, *texts: str) -> list[ps.Query]:
    found = [db.sql(text) for text in texts]
    return [query for query in found if isinstance(query, ps.Query)]


def stages_of(job: Job) -> list[Stage]:
    return [config.stage for config in job.configs(job.ends)]


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    texts=st.lists(
        st.one_of(QUERY, SHARING, SHARING, st.sampled_from(ANY)), min_size=2, max_size=6
    ),
    rows=ROWS,
    rule=st.sampled_from(RULES),
    buckets=st.integers(1, 3),
    at_once=st.sampled_from([1, 7, 100]),
    by_cell=st.booleans(),
    adaptation=st.sampled_from([None, EAGER]),
)
def test_whatever_the_cut(
    data: st.DataObject,
    texts: list[str],
    rows: list[Row],
    rule: dict[str, Any],
    buckets: int,
    at_once: int,
    by_cell: bool,
    adaptation: Adaptation | None,
) -> None:
    queries = queries_over(database(rows, rule), *texts)
    plans = share_panes([on_spark(query.plan) for query in queries])
    places: Cuts = data.draw(cuts(len(rows)))
    restarts = data.draw(st.sets(st.integers(0, len(places))))
    job = WithoutSpark(plans, buckets, adaptation=adaptation)
    event(f"{sum(len(stage.parts) for stage in stages_of(job._job))} share")
    with patch.object(pane_parts, "_SPARSE", 1000 if by_cell else 0):
        run_in_cuts(job, queries[0], {"s": places}, at_once, restarts)
    for query, received, tally in zip(queries, job.all_received, job.tallies, strict=True):
        assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect())), query
        account = query.account
        assert (tally.read, tally.late) == (account.read, account.late)
        assert tally.rejected == account.rejected
        if query.plan.late is not Late.DROP:
            assert bag(tuples(received.late_table())) == bag(tuples(query.late))


SELECT = "SELECT k, {2} AS v [RANGE {0}, SLIDE {1}, WA t] FROM s WHERE x > {3} GROUP BY k"
WINDOWS = (
    SELECT.format(20, 10, "sum(x)", 1),
    SELECT.format(40, 20, "max(x)", 3),
    SELECT.format(30, 10, "count(*)", 0),
    "SELECT k, x FROM s WHERE x > 5",
    "SELECT DISTINCT t, k FROM s",
    "SELECT max(v) AS most [RANGE 40, SLIDE 40, WA window_start]"
    f" FROM ({SELECT.format(20, 20, 'count(*)', 0)}) AS q",
)
MANY: list[Row] = [
    (None, "abc"[n % 3], n % 7, None if n == 50 else n + 7 * (n % 3)) for n in range(400)
]


def test_one_stage_for_all_that_share() -> None:
    queries = queries_over(database([], {"delay": 5}), *WINDOWS)
    plans = share_panes([on_spark(query.plan) for query in queries])
    job = Job(plans, Sources({}, {}), 4)
    configs = job.configs(job.ends)
    row = in_steps(configs)
    assert [len(place) for place in row] == [2, 1]  # panes and rows told apart, then windows
    (shared,) = [config for config in configs if config.stage.parts]
    assert len(shared.stage.parts) == len(shared.destinations) == 4
    (reading,) = job._readings(configs)
    assert len(reading.ends) == 1


def test_streams_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    queries = queries_over(database(MANY, {"delay": 5}), *WINDOWS)
    plans = share_panes([on_spark(query.plan) for query in queries])
    sources = batch_sources([query.plan for query in queries], spark, tmp_path, strict=False)
    frame = Job(plans, sources, 2).packed()
    executed = frame._jdf.queryExecution().analyzed().toString()
    assert executed.count("MapInArrow") == 1
    assert executed.count("FlatMapGroupsInArrow") == 2


class Several:
    """Some queries in one run on Spark, perhaps in several parts."""

    def __init__(self, spark: SparkSession, checkpoint: Path, *texts: str) -> None:
        self.queries = queries_over(database(MANY, {"delay": 5}), *texts)
        self._spark = spark
        self._checkpoint = checkpoint
        self.received = [Committed() for _ in self.queries]

    def run(self, final: bool = True) -> SparkRun:
        options = Options(self._checkpoint, portions=4, buckets=2, final=final)
        plans = [on_spark(query.plan) for query in self.queries]
        run = SparkRun(plans, self._spark, self.received, options)
        run.start()
        run.wait()
        return run


def test_in_portions_and_after_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    several = Several(spark, tmp_path, *WINDOWS)
    several.received[1].fails_at = {2}  # when others have committed the micro-batch
    with pytest.raises(CrashError):
        several.run()
    for received in several.received:
        received.lose()
    run = several.run()
    for number, query in enumerate(several.queries):
        rows = several.received[number].table(query.plan)
        assert bag(tuples(rows)) == bag(tuples(query.collect())), query
        assert run.total(number) == query.account
    assert 0 < run.progress().read < len(MANY)  # some had been read before


def test_other_queries_do_not_go_on(spark: SparkSession, tmp_path: Path) -> None:
    Several(spark, tmp_path, *WINDOWS[:2]).run(final=False)
    with pytest.raises(CheckpointError, match="is of 2 queries, and 3 queries would go on"):
        Several(spark, tmp_path, *WINDOWS[:3]).run()
    with pytest.raises(CheckpointError, match="is of 2 queries, and one query would go on"):
        Several(spark, tmp_path, WINDOWS[0]).run()
    with pytest.raises(CheckpointError, match="has of query 2 of 2 belongs to another query"):
        Several(spark, tmp_path, WINDOWS[0], WINDOWS[2]).run()
    several = Several(spark, tmp_path, *WINDOWS[:2])
    several.run()
    assert several.received[0].table(several.queries[0].plan).num_rows


def test_checkpoints_of_before(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "0" / "penstock").mkdir(parents=True)
    (tmp_path / "0" / "penstock" / "query.json").write_text("{}")
    with pytest.raises(CheckpointError, match="a directory for every query"):
        Several(spark, tmp_path, *WINDOWS[:2]).run()


def test_what_is_one_job(spark: SparkSession) -> None:
    """Views of the session are looked up for every query, and are one stream all the same; tables
    are read as a whole, and what has one name but is something else is apart."""
    spark.readStream.format("rate").load().createOrReplaceTempView("ticks")
    db = ps.connect(spark)
    db.stream("s", spark.createDataFrame([(1, 2)], "x int, t int"))
    other = ps.connect(spark)
    other.stream("s", spark.createDataFrame([(3, 4)], "x int, t int"))
    queries = [
        *queries_over(
            db, "SELECT value FROM ticks", "SELECT x FROM s", "SELECT timestamp FROM ticks"
        ),
        *queries_over(db, "SELECT t FROM s"),
        *queries_over(other, "SELECT t FROM s"),
    ]
    try:
        assert run_together([query.plan for query in queries]) == [[0, 2], [1, 3], [4]]
    finally:
        spark.catalog.dropTempView("ticks")


def test_a_database_runs_them(spark: SparkSession, tmp_path: Path) -> None:
    """Files, tables of Spark's and a checkpoint, as users have them."""
    known = queries_over(database(MANY, {"delay": 500}, "local"), *WINDOWS)
    expected = [bag(tuples(query.collect())) for query in known]
    db = ps.connect(spark, buckets=2)
    frame = spark.createDataFrame(MANY, "p string, k string, x int, t int")
    db.stream("s", frame, progress=ps.progress("t", delay=500))
    queries = queries_over(db, *WINDOWS)
    found: list[list[Row]] = [[] for _ in queries]
    sinks = [
        lambda batch, into=into: into.extend(tuple(row.values()) for row in batch.to_pylist())
        for into in found
    ]
    accounts = db.run(queries, sinks)
    assert [bag(rows) for rows in found] == expected
    assert accounts == [query.account for query in known]
