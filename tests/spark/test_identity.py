"""Whose checkpoint it is: what may change about a query that goes on, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.errors import CheckpointError
from penstock.kernel.state import FORMAT, MemoryStore
from penstock.spark.run.streaming import Options, SparkRun
from penstock.spark.session.worker_errors import failure
from penstock.spark.stages import StateIdentity
from penstock.spark.tasks.buckets import keys_for, spark_hash
from tests.planning import on_spark
from tests.spark.helpers import Committed, CrashError
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "k string, x int, ts int"
COLUMNS = pa.schema([("k", pa.string()), ("x", pa.int32()), ("ts", pa.int32())])
WINDOW = "[RANGE 60, SLIDE 60, WA ts]"
SUMS = f"SELECT k, sum(x) AS total {WINDOW} FROM s GROUP BY k"
KEYS = [f"key {number}" for number in range(8)]


class Files:
    """A stream of small files that somebody writes, and queries as DataFrames that go on with it
    from one checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.input = folder / "in"
        self.input.mkdir()
        self.checkpoint = folder / "checkpoint"

    def add(self, *rows: tuple[str, int, int]) -> None:
        number = sum(1 for _ in self.input.iterdir())
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        table = pa.table(columns, names=COLUMNS.names).cast(COLUMNS)
        path = self.input / f"{number}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1e9 + number, 1e9 + number))

    def read(self, sql: str, buckets: int = 4, delay: int = 0) -> list[tuple[Any, ...]]:
        """The rows that come when the query goes on."""
        db = ps.connect(self.spark, buckets=buckets)
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        db.stream("s", reader.parquet(str(self.input)), progress=ps.progress("ts", delay=delay))
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        rows: list[tuple[Any, ...]] = []
        writer = query.dataframe().writeStream.trigger(availableNow=True)
        writer = writer.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
        writer.option("checkpointLocation", str(self.checkpoint)).start().awaitTermination()
        return sorted(rows)

    def refused(self, sql: str = SUMS, buckets: int = 4) -> CheckpointError:
        with pytest.raises(Exception, match="CheckpointError") as caught:
            self.read(sql, buckets)
        found = failure(caught.value)
        assert isinstance(found, CheckpointError)
        return found


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


# --- streaming DataFrames, which nothing but their state knows -----------------------------------


def test_the_state_of_another_query(files: Files) -> None:
    """All of them gave wrong rows, or an error that nobody understood."""
    files.add(*((key, 5, 10) for key in KEYS))
    assert files.read(SUMS) == []
    files.add(*((key, 5, 20) for key in KEYS), ("key 0", 1, 70))
    other = files.refused(SUMS.replace("60", "30"))
    assert "belongs to another query" in other.message
    assert "\n  -#1 windows [RANGE 60, SLIDE 60, WA s.ts]" in other.message
    assert "\n  +#1 windows [RANGE 30, SLIDE 30, WA s.ts]" in other.message
    assert other.expected == "the query that it was made by (lines with -)"
    assert other.hint == "another checkpoint, or delete the directory to start over"
    other = files.refused(SUMS.replace("sum(x)", "sum(1)"))
    assert "\n  -    sum(s.x) BIGINT\n  +    sum(1) BIGINT" in other.message
    other = files.refused(SUMS.replace("sum", "avg"))
    assert "\n  +    avg(s.x) DOUBLE" in other.message
    # nothing of it was committed
    assert files.read(SUMS) == [(0, 60, key, 10) for key in KEYS]


@pytest.mark.parametrize("buckets", [3, 7])
def test_another_number_of_buckets(files: Files, buckets: int) -> None:
    files.add(*((key, 5, 10) for key in KEYS))
    files.read(SUMS)
    files.add(*((key, 5, 20) for key in KEYS), ("key 0", 1, 70))
    other = files.refused(buckets=buckets)
    assert other.message.endswith(f"was made with 4 buckets, and now there are {buckets}")
    assert other.hint is not None
    assert other.hint.startswith("connect(…, buckets=4)")
    assert files.read(SUMS) == [(0, 60, key, 10) for key in KEYS]


def test_one_bucket_is_one_bucket(files: Files) -> None:
    """A query without keys does not care how many there could be."""
    total = f"SELECT sum(x) AS total {WINDOW} FROM s"
    files.add(("a", 1, 10), ("b", 2, 20))
    files.read(total)
    files.add(("a", 4, 30), ("a", 8, 70))
    assert files.read(total, buckets=3) == [(0, 60, 7)]


def test_another_algorithm(files: Files) -> None:
    files.add(("a", 1, 10))
    files.read(SUMS)
    files.add(("a", 2, 70))
    assert files.read(SUMS.replace("SELECT", "SELECT /*+ WID */")) == [(0, 60, "a", 1)]
    files.add(("a", 4, 75), ("a", 8, 130))
    assert files.read(SUMS.replace("SELECT", "SELECT /*+ BUFFERING */")) == [(60, 120, "a", 6)]
    files.add(("a", 16, 190))
    assert files.read(SUMS) == [(120, 180, "a", 8)]


def test_another_algorithm_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, name in enumerate(("WID", "PANED", "ADAPTIVE")):
        text = "".join(f"a,1,{ts}\n" for ts in range(number * 50, number * 50 + 50))
        (tmp_path / "in" / f"{number}.csv").write_text(f"k,x,ts\n{text}")
        db = ps.connect(spark, buckets=2)
        db.sql(
            f"CREATE STREAM s (k STRING, x INT, ts INT) FROM FILES '{tmp_path}/in/*.csv'"
            " PROGRESS ON ts DELAY 5"
        )
        query = db.sql(SUMS.replace("SELECT", f"SELECT /*+ {name} */"))
        assert isinstance(query, ps.Query)
        query.run(tmp_path / "out.jsonl", checkpoint=tmp_path / "checkpoint", final=number == 2)
    rows = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert [row["total"] for row in rows] == [60, 60, 30]


def test_what_may_change_about_a_dataframe(files: Files) -> None:
    """Names and the order of columns; lengths of promises."""
    files.add(("a", 1, 10), ("b", 2, 10))
    files.read(
        f"SELECT k, sum(x) AS total, count(*) AS n, max(x) AS top {WINDOW} FROM s GROUP BY k"
    )
    files.add(("a", 4, 20), ("b", 1, 70))
    other = f"SELECT max(r.x), count(*), r.k AS key, sum(r.x) {WINDOW} FROM s AS r GROUP BY r.k"
    assert files.read(other, delay=5) == [(0, 60, 2, 1, "b", 2), (0, 60, 4, 2, "a", 5)]


def test_names_between_two_stages(files: Files) -> None:
    """Where a stage has come is told to the next one by the names of its columns."""
    inner = f"SELECT window_end AS w, k, sum(x) AS total {WINDOW} FROM s GROUP BY k"
    outer = "SELECT sum({1}) AS all_ [RANGE 120, SLIDE 120, WA {0}] FROM ({2}) AS i"
    files.add(("a", 1, 10), ("b", 2, 70), ("a", 4, 110))
    assert files.read(outer.format("w", "total", inner)) == [(0, 120, 1)]
    renamed = "SELECT sum(x) AS t, k AS key, window_end AS e {} FROM s AS q GROUP BY k"
    files.add(("c", 8, 400))
    assert files.read(outer.format("e", "t", renamed.format(WINDOW))) == [(120, 240, 6)]


def test_the_first_bucket_has_one_key() -> None:
    for buckets in range(1, 40):
        keys = keys_for(buckets)
        assert keys[0] == 0
        assert sorted(spark_hash(key) % buckets for key in keys) == list(range(buckets))


OWN = StateIdentity(("#1 windows",), ("#1 PANED",), 1, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": FORMAT + 1}, f"has format {FORMAT + 1}"),
        ({"format": FORMAT - 1}, "made by an earlier version"),
        ({"stage": 2}, "is that of stage 2"),
        ({"buckets": 1}, "made with 1 bucket, and"),
        ({"plan": ["#1 groups"]}, "belongs to another query"),
        ({"algorithms": ["#1 WID"]}, "another algorithm"),
    ],
    ids=str,
)
def test_what_the_state_says(change: dict[str, Any], message: str) -> None:
    store = MemoryStore()
    assert not OWN.owns(store)
    OWN.write(store)
    assert OWN.owns(store)
    found = store.get("identity")
    assert found is not None
    store.put("identity", {**found, **change})
    with pytest.raises(CheckpointError, match=message):
        OWN.owns(store)


def test_state_that_does_not_say_whose_it_is() -> None:
    store = MemoryStore()
    store.put("told", {})
    with pytest.raises(CheckpointError, match="made by an earlier version of Penstock"):
        OWN.owns(store)


# --- queries that are started --------------------------------------------------------------------

ROWS = [(KEYS[n % 3], n, 10 * n) for n in range(24)]
EXPECTED = {
    (60 * window, key): sum(x for k, x, ts in ROWS if k == key and ts // 60 == window)
    for window in range(4)
    for key in KEYS[:3]
}


def started(
    sql: str = SUMS, progress: Any = None, rows: Any = ROWS, schema: str = SCHEMA
) -> ps.Query:
    db = ps.connect("spark")
    db.stream("s", rows, schema=schema, progress=progress or ps.progress("ts", delay=5))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def gone_on(spark: SparkSession, folder: Path, first: ps.Query, second: ps.Query) -> list[pa.Table]:
    """The rows of a query that fails in its third micro-batch of six, and of another one that goes
    on from there and closes what is open."""
    receivers = [Committed(fails_at={2}), Committed()]
    options = Options(folder / "checkpoint", portions=6, buckets=3)
    run = SparkRun([on_spark(first.plan)], spark, [receivers[0]], options)
    run.start()
    with pytest.raises(CrashError):
        run.wait()
    run = SparkRun([on_spark(second.plan)], spark, [receivers[1]], replace(options, final=True))
    run.start()
    run.wait()
    pairs = zip(receivers, (first, second), strict=True)
    return [receiver.table(query.plan) for receiver, query in pairs]


def test_names_and_columns_in_another_order(spark: SparkSession, tmp_path: Path) -> None:
    first = started(f"SELECT k, sum(x) AS total, count(*) AS n {WINDOW} FROM s GROUP BY k")
    sql = f"SELECT count(*), window_start AS w, sum(q.x) AS t, q.k {WINDOW} FROM s AS q GROUP BY k"
    tables = gone_on(spark, tmp_path, first, started(sql))
    assert [table.num_rows for table in tables] == [3, 9]  # windows are open while it goes on
    found = {(r["window_start"], r["k"]): (r["total"], r["n"]) for r in tables[0].to_pylist()}
    found |= {(r["w"], r["k"]): (r["t"], r["count(*)"]) for r in tables[1].to_pylist()}
    assert found == {place: (total, 2) for place, total in EXPECTED.items()}


@pytest.mark.parametrize(
    "progress",
    [
        ps.progress("ts", delay=50),
        ps.progress("ts", delay=0),
    ],
    ids=["longer", "shorter"],
)
def test_another_delay(spark: SparkSession, tmp_path: Path, progress: Any) -> None:
    tables = gone_on(spark, tmp_path, started(), started(progress=progress))
    assert _sums(*tables) == EXPECTED


def test_late_tuples_that_somebody_asks_for(spark: SparkSession, tmp_path: Path) -> None:
    """They are folded after the shuffle instead of before it, into the same panes."""
    tables = gone_on(spark, tmp_path, started(), started(f"{SUMS} LATE SIDE"))
    assert _sums(*tables) == EXPECTED


def test_a_tuple_that_another_delay_lets_in(spark: SparkSession, tmp_path: Path) -> None:
    """The bound never goes back: what it has passed is late, what it has not is in time."""
    rows = [*ROWS[:12], ("late", 1, 59), ("late", 1, 61), ("kept", 1, 125), *ROWS[12:23]]
    first = started(progress=ps.progress("ts", delay=0), rows=rows)
    # of four rows each, two micro-batches have been read: the bound is 70
    second = started(progress=ps.progress("ts", delay=30), rows=rows)
    found = _sums(*gone_on(spark, tmp_path, first, second))
    assert found.pop((120, "kept")) == 1
    assert (0, "late") not in found
    assert found.pop((60, "late")) == 1
    assert found == {**EXPECTED, (180, KEYS[2]): 20}


TIMES = "k string, x int, ts timestamp"
IN_TIME = [(k, x, f"1970-01-01T00:0{ts // 60}:{ts % 60:02}Z") for k, x, ts in ROWS]
BY_TIME = SUMS.replace("60", "60 SECONDS")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"idle": "1 second"}),
        ({"idle": "1 second"}, {"idle": "1 hour"}),
        ({"idle": "1 second"}, {}),
        ({"future_limit": "1 hour"}, {"future_limit": "2 hours"}),
    ],
    ids=str,
)
def test_other_limits(
    spark: SparkSession, tmp_path: Path, first: dict[str, str], second: dict[str, str]
) -> None:
    rows = [*IN_TIME[:23], ("k", 1, "2999-01-01T00:00:00Z"), IN_TIME[23]]
    promises = [ps.progress("ts", delay="5 s", **each) for each in (first, second)]
    queries = [started(BY_TIME, promise, rows, TIMES) for promise in promises]
    found = {
        (row["window_start"].timestamp(), row["k"]): row["total"]
        for table in gone_on(spark, tmp_path, *queries)
        for row in table.to_pylist()
    }
    if "future_limit" not in second:
        (far,) = found.keys() - EXPECTED.keys()
        assert found.pop(far) == 1
        # the stream has come so far that what comes then is late
        assert found == {**EXPECTED, (180, KEYS[2]): 20}
    else:
        assert found == EXPECTED


def test_what_a_changed_limit_rejects(spark: SparkSession, tmp_path: Path) -> None:
    rows = [*IN_TIME[:23], ("k", 1, "2999-01-01T00:00:00Z"), IN_TIME[23]]
    first = started(BY_TIME, ps.progress("ts", delay="5 s"), rows, TIMES)
    second = started(BY_TIME, ps.progress("ts", delay="5 s", future_limit="1 hour"), rows, TIMES)
    _, table = gone_on(spark, tmp_path, first, second)
    assert "k" not in table.column("k").to_pylist()
    assert table.num_rows == 9


def _sums(*tables: pa.Table) -> dict[tuple[int, str], int]:
    rows = [row for table in tables for row in table.to_pylist()]
    found = {(row["window_start"], row["k"]): row["total"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_another_slack(spark: SparkSession, tmp_path: Path) -> None:
    for number, (one, other) in enumerate([(2, 6), (6, 2), (6, 0)]):
        promises = [ps.progress("ts", slack=each) for each in (one, other)]
        queries = [started(progress=promise) for promise in promises]
        assert _sums(*gone_on(spark, tmp_path / str(number), *queries)) == EXPECTED


def test_data_from_somewhere_else(spark: SparkSession, tmp_path: Path) -> None:
    """Another directory and another trigger, in the middle of a stream."""
    places = [tmp_path / name for name in ("here", "there")]
    for place, rows in zip(places, (ROWS[:9], ROWS[9:]), strict=True):
        place.mkdir()
        text = "".join(f"{k},{x},{ts}\n" for k, x, ts in rows)
        (place / f"{place.name}.csv").write_text(f"k,x,ts\n{text}")
    rows_file = tmp_path / "rows.jsonl"  # a function could be given rows twice when it is stopped

    def found() -> list[dict[str, Any]]:
        lines = rows_file.read_text().splitlines() if rows_file.exists() else []
        return [json.loads(line) for line in lines]

    for place, trigger in zip(places, ("200 milliseconds", "available-now"), strict=True):
        db = ps.connect(spark, buckets=2)
        db.sql(
            f"CREATE STREAM s (k STRING, x INT, ts INT) FROM FILES '{place}/*.csv'"
            " PROGRESS ON ts DELAY 5"
        )
        query = db.sql(SUMS)
        assert isinstance(query, ps.Query)
        final = trigger == "available-now"
        checkpoint = tmp_path / "checkpoint"
        run = query.start(rows_file, checkpoint=checkpoint, trigger=trigger, final=final)
        if not final:
            wait_for(lambda: len(found()) == 3)
            run.stop()
        run.wait()
    assert {(row["window_start"], row["k"]): row["total"] for row in found()} == EXPECTED
    assert len(found()) == len(EXPECTED)


# --- the file beside the state -------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run = SparkRun([on_spark(started().plan)], spark, [Committed()], Options(folder, buckets=2))
    run.start()
    run.wait()
    return folder


def _edit(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        path.write_text(json.dumps(change(json.loads(path.read_text(encoding="utf-8")))))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_edit(lambda found: {**found, "buckets": 7}), "changed or is damaged"),
        (_edit(lambda found: {**found, "parts": {"s": ["x"]}}), "changed or is damaged"),
        (_edit(lambda found: {**found, "more": 1}), "changed or is damaged"),
        (_edit(lambda found: {**found, "format": FORMAT - 1}), "an earlier version"),
        (_edit(lambda found: {**found, "format": FORMAT + 1}), f"has format {FORMAT + 1}"),
        (_edit(lambda found: {"format": found["format"], "a": 1}), "not about a query"),
        (_edit(lambda _: [1]), "is not what it should be"),
        (lambda path: path.write_text(path.read_text()[:100]), "is not what it should be"),
        (lambda path: path.write_text(""), "is not what it should be"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "is not what it should be"),
        (lambda path: path.unlink(), "query.json is missing"),
    ],
)
def test_a_damaged_identity(
    finished: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    damage(tmp_path / "copy" / "penstock" / "query.json")
    with pytest.raises(CheckpointError, match=message) as caught:
        started().start(lambda _: None, checkpoint=tmp_path / "copy")
    assert caught.value.hint is not None


def test_an_identity_that_the_state_does_not_share(spark: SparkSession, tmp_path: Path) -> None:
    """The file says one thing and the state another: the state is believed, and what is said has
    neither Java nor traces in it."""
    options = Options(tmp_path / "checkpoint", portions=6, buckets=2)
    run = SparkRun([on_spark(started().plan)], spark, [Committed(fails_at={2})], options)
    run.start()
    with pytest.raises(CrashError):
        run.wait()
    other = started(SUMS.replace("sum", "max")).plan
    SparkRun([on_spark(other)], spark, [Committed()], Options(tmp_path / "other", buckets=2))
    beside = Path("penstock", "query.json")
    shutil.copy(tmp_path / "other" / beside, tmp_path / "checkpoint" / beside)
    run = SparkRun([on_spark(other)], spark, [Committed()], options)
    run.start()
    with pytest.raises(CheckpointError, match="belongs to another query") as caught:
        run.wait()
    assert "-    sum(s.x) BIGINT" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "java" not in str(caught.value)
