"""What users of Spark see: sessions, DataFrames, started queries, checkpoints, errors."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import penstock as ps
from penstock.errors import CheckpointError
from penstock.io.sinks.file_sinks import PartFiles
from penstock.io.sinks.output import OutputFormat
from penstock.kernel.state import FORMAT
from penstock.runs.answer import Account
from penstock.spark.run.query_frames import configure_state
from penstock.spark.session.session import PARTITIONS, PROVIDER, ROCKSDB
from tests.waiting import LONGEST, join, wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = [("a", 10, 1), ("b", 20, 3), ("a", 30, 12), ("b", 40, 2), ("a", 50, 31)]
COLUMNS = "link string, bytes int, ts int"
SQL = "SELECT link, sum(bytes) AS bytes [RANGE 10, SLIDE 10, WA ts] FROM packets GROUP BY link"
TIMED = "('a', 10, '2026-01-31 12:00:01'), ('b', 20, '2026-01-31 12:02:00')"
SUMS = [(0, 10, "a", 10), (0, 10, "b", 60), (10, 20, "a", 30), (30, 40, "a", 50)]


@pytest.fixture
def db(spark: SparkSession) -> ps.Database:
    return ps.connect(spark, buckets=2)


def query(db: ps.Database, sql: str = SQL) -> ps.Query:
    found = db.sql(sql)
    assert isinstance(found, ps.Query)
    return found


def as_stream(spark: SparkSession, directory: Path) -> DataFrame:
    """A streaming DataFrame over two files."""
    directory.mkdir()
    for number, rows in enumerate((ROWS[:3], ROWS[3:])):
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        schema = pa.schema([("link", pa.string()), ("bytes", pa.int32()), ("ts", pa.int32())])
        table = pa.table(columns, names=schema.names).cast(schema)
        pq.write_table(table, directory / f"{number}.parquet")
    return spark.readStream.schema(COLUMNS).parquet(str(directory))


# --- DataFrames in, DataFrames out ---------------------------------------------------------------


def test_a_table_gives_a_table(spark: SparkSession, db: ps.Database) -> None:
    db.stream("packets", spark.createDataFrame(ROWS, COLUMNS), progress=ps.progress("ts", delay=5))
    frame = query(db).dataframe()
    assert not frame.isStreaming
    assert sorted(map(tuple, frame.collect())) == SUMS
    assert query(db).account == Account(5, 0, 0)


def test_a_stream_gives_a_stream(spark: SparkSession, db: ps.Database, tmp_path: Path) -> None:
    stream = as_stream(spark, tmp_path / "in")
    db.stream("packets", stream, progress=ps.progress("ts", delay=5))
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    frame = query(db).dataframe()
    assert frame.isStreaming
    writer = frame.writeStream.format("memory").queryName("sums").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    found = sorted(map(tuple, spark.table("sums").collect()))
    assert found == SUMS[:3]  # nothing says that the stream has ended


AMENDED = "SELECT link, count(*) AS n [RANGE 10, SLIDE 10, WA ts] FROM packets GROUP BY link"


def test_a_table_of_amended_rows_has_the_last_ones(db: ps.Database) -> None:
    rows = [("a", 1, 1), ("a", 1, 30), ("a", 1, 2), ("b", 1, 3), ("a", 1, 60)]
    db.stream("packets", rows, schema=COLUMNS, progress=ps.progress("ts", delay=5))
    frame = query(db, f"{AMENDED} LATE AMEND FOR 100").dataframe()
    found = sorted(map(tuple, frame.collect()))
    assert found == [(0, 10, "a", 2), (0, 10, "b", 1), (30, 40, "a", 1), (60, 70, "a", 1)]


def test_a_stream_of_amended_rows_has_signs(
    spark: SparkSession, db: ps.Database, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, times in enumerate(([1, 30], [2, 60])):
        table = pa.table({"link": ["a", "a"], "ts": pa.array(times, pa.int32())})
        pq.write_table(table, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1e9 + number, 1e9 + number))
    reader = spark.readStream.schema("link string, ts int").option("maxFilesPerTrigger", 1)
    db.stream("packets", reader.parquet(str(folder)), progress=ps.progress("ts", delay=5))
    frame = query(db, f"{AMENDED} LATE AMEND FOR 100").dataframe()
    writer = frame.writeStream.format("memory").queryName("amended").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    found = sorted(map(tuple, spark.table("amended").collect()))
    first = (0, 10, "a")
    assert found == [(*first, 1, -1), (*first, 1, 1), (*first, 2, 1), (30, 40, "a", 1, 1)]


@pytest.mark.parametrize("master", ["local[2]", "spark://there"])
def test_a_session_that_has_not_chosen(master: str) -> None:
    """The session of these tests has chosen, so this is about one that only looks like it."""
    chosen: dict[str, str] = {}
    conf = SimpleNamespace(get=chosen.get, set=chosen.__setitem__)
    session: Any = SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(master=master))
    configure_state(session, 3)
    assert chosen.pop(PROVIDER) == ROCKSDB
    assert chosen == ({PARTITIONS: "3"} if master == "local[2]" else {})
    chosen |= {PROVIDER: ROCKSDB, PARTITIONS: "200"}
    configure_state(session, 3)
    assert chosen == {PROVIDER: ROCKSDB, PARTITIONS: "200"}
    chosen[PROVIDER] = "Other"
    with pytest.raises(ps.EngineError, match="the session keeps state with Other"):
        configure_state(session, 3)


def test_a_started_stream_closes_every_window(
    spark: SparkSession, db: ps.Database, tmp_path: Path
) -> None:
    stream = as_stream(spark, tmp_path / "in")
    db.stream("packets", stream, progress=ps.progress("ts", delay=5))
    rows: list[dict[str, Any]] = []
    started = query(db).start(rows.append, rows=True)
    assert started.wait() == Account(5, 0, 0)
    assert sorted(tuple(row.values()) for row in rows) == SUMS
    assert not started.active
    assert started.progress().rows == len(SUMS)


def test_in_one_line(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS, COLUMNS)
    found = ps.sql("SELECT bytes FROM {packets} WHERE link = 'b'", packets=frame).dataframe()
    assert sorted(row.bytes for row in found.collect()) == [20, 40]


def test_a_column_that_no_stream_can_have(spark: SparkSession, db: ps.Database) -> None:
    frame = spark.sql("SELECT INTERVAL '1' YEAR AS length")
    with pytest.raises(ps.BindError, match="interval year"):
        db.stream("s", frame)


# --- sinks ---------------------------------------------------------------------------------------


def test_a_directory_has_a_file_for_every_micro_batch(db: ps.Database, tmp_path: Path) -> None:
    db.stream("packets", _table(), progress=ps.progress("ts", delay=5))
    options = {"checkpoint": tmp_path / "checkpoint", "final": True}
    query(db).start(tmp_path / "out", **options).wait()  # type: ignore[arg-type]
    parts = sorted((tmp_path / "out").glob("part-*.parquet"))
    rows = [tuple(row.values()) for part in parts for row in pq.read_table(part).to_pylist()]
    assert sorted(rows) == SUMS
    # nothing is left to do
    query(db).start(tmp_path / "out", **options).wait()  # type: ignore[arg-type]
    assert sorted((tmp_path / "out").glob("part-*.parquet")) == parts


def test_a_file_goes_on(db: ps.Database, tmp_path: Path) -> None:
    db.stream("packets", _table(), progress=ps.progress("ts", delay=5))
    for final in (False, True):
        query(db).run(tmp_path / "out.jsonl", checkpoint=tmp_path / "checkpoint", final=final)
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert sorted(tuple(json.loads(line).values()) for line in lines) == SUMS


def test_a_micro_batch_that_comes_again_writes_its_file_again(tmp_path: Path) -> None:
    sink = PartFiles(tmp_path, OutputFormat.JSONL, "test")
    batch = pa.RecordBatch.from_pydict({"a": [1]})
    sink.begin(batch.schema)
    for _ in range(2):
        sink.write(batch)
        sink.commit(7)
    assert [path.read_text() for path in tmp_path.glob("part-*")] == ['{"a": 1}\n']
    sink.commit(7)  # and if it is empty this time
    assert list(tmp_path.glob("part-*")) == []


def test_a_named_query_has_its_name(db: ps.Database, spark: SparkSession) -> None:
    db.stream("packets", _table(), progress=ps.progress("ts", delay=5))
    db.sql("CREATE QUERY doubled AS SELECT bytes * 2 AS bytes FROM packets")
    started = db.query("doubled").start(lambda batch: None, trigger="1 hour")
    try:
        assert "doubled" in {each.name for each in spark.streams.active}
    finally:
        started.stop()


def test_a_sink_that_fails(db: ps.Database) -> None:
    db.stream("packets", _table(), progress=ps.progress("ts", delay=5))

    def fail(batch: pa.RecordBatch) -> None:
        raise ValueError("no more room")

    with pytest.raises(ps.PenstockError, match="no more room"):
        query(db).start(fail).wait()


# --- a run that goes on --------------------------------------------------------------------------


def test_a_run_stops_between_micro_batches(db: ps.Database, tmp_path: Path) -> None:
    """What is being handed over when somebody stops the run comes to its end, and nothing fails."""
    (tmp_path / "0.csv").write_text("link,bytes,ts\na,10,1\na,5,99\n")
    db.sql(
        f"CREATE STREAM packets (link STRING, bytes INT, ts INT) FROM FILES '{tmp_path}/*.csv'"
        " PROGRESS ON ts DELAY 0"
    )
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slowly(batch: pa.RecordBatch) -> None:
        begun.set()
        go_on.wait(LONGEST)
        ended.set()

    started = query(db).start(slowly, trigger="1 second")
    assert begun.wait(LONGEST)
    stopping = threading.Thread(target=started.stop)
    stopping.start()
    go_on.set()
    join(stopping)
    assert ended.is_set()
    started.wait()
    assert not started.active


def test_who_is_handed_rows_cannot_wait_for_his_query_but_may_stop_it(
    db: ps.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.run.streaming.PATIENCE", 10 * LONGEST)
    (tmp_path / "0.csv").write_text("link,bytes,ts\na,10,1\na,5,99\n")
    db.sql(
        f"CREATE STREAM packets (link STRING, bytes INT, ts INT) FROM FILES '{tmp_path}/*.csv'"
        " PROGRESS ON ts DELAY 0"
    )
    here, refused = threading.Event(), []

    def take(_: pa.RecordBatch) -> None:
        here.wait()
        with pytest.raises(ps.EngineError, match="cannot wait for its query") as caught:
            started.wait()
        refused.append(caught.value)
        started.stop()  # which does not wait for the rows that are being handed over

    started = query(db).start(take, trigger="1 second")
    here.set()
    started.wait()
    assert len(refused) == 1
    assert not started.active


def test_files_that_appear_later(db: ps.Database, tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text("link,bytes,ts\na,10,1\na,5,12\n")
    db.sql(
        f"CREATE STREAM packets (link STRING, bytes INT, ts INT) FROM FILES '{tmp_path}/*.csv'"
        " PROGRESS ON ts ORDERED"
    )
    rows: list[dict[str, Any]] = []
    started = query(db).start(rows.append, rows=True, trigger="200 milliseconds")
    try:
        # rows are handed over before it is known how far their micro-batch has come
        wait_for(lambda: "waits for its only source" in started.explain_stall())
        assert len(rows) == 1
        (tmp_path / "1.csv").write_text("link,bytes,ts\na,7,25\n")
        wait_for(lambda: len(rows) == 2)
    finally:
        started.stop()
        started.wait()
    assert [row["bytes"] for row in rows] == [10, 5]


def test_how_far_sources_have_come_is_said_as_in_process(db: ps.Database, tmp_path: Path) -> None:
    stream = f"CREATE STREAM packets (link STRING, bytes INT, ts TIMESTAMP) FROM VALUES {TIMED}"
    said = []
    for number, each in enumerate([ps.connect(), db]):
        each.sql(f"{stream} PROGRESS ON ts ORDERED PER link")
        asked = query(each, SQL.replace("RANGE 10, SLIDE 10", "RANGE TUMBLING 1 MINUTE"))
        started = asked.start(lambda batch: None, checkpoint=tmp_path / f"{number}")
        started.wait()
        said.append((started.progress().sources, started.explain_stall()))
    assert said[0] == said[1]
    ((source,), stall) = said[0]
    assert str(source) == (
        "packets up to 2026-01-31T12:00:01.000000Z, highest 2026-01-31T12:02:00.000000Z,"
        " waits for a"
    )
    assert "stream packets waits for a, which is 119 SECONDS behind" in stall


# --- checkpoints ---------------------------------------------------------------------------------


def test_the_checkpoint_of_another_query(db: ps.Database, tmp_path: Path) -> None:
    db.stream("packets", _table(), progress=ps.progress("ts", delay=5))
    query(db).start(lambda _: None, checkpoint=tmp_path).wait()
    other = query(db, SQL.replace("sum", "max"))
    with pytest.raises(CheckpointError, match="belongs to another query") as caught:
        other.start(lambda _: None, checkpoint=tmp_path)
    assert "sum(packets.bytes)" in str(caught.value)
    assert "max(packets.bytes)" in str(caught.value)


def test_the_checkpoint_of_another_dataframe(
    spark: SparkSession, db: ps.Database, tmp_path: Path
) -> None:
    """What Spark says is what Penstock says, and a few lines of Spark's own."""
    stream = as_stream(spark, tmp_path / "in")
    db.stream("packets", stream, progress=ps.progress("ts", delay=5))

    def write(sql: str) -> None:
        writer = query(db, sql).dataframe().writeStream.trigger(availableNow=True).format("noop")
        writer.option("checkpointLocation", str(tmp_path / "kept")).start().awaitTermination()

    write(SQL)
    path = tmp_path / "in" / "2.parquet"
    pq.write_table(pq.read_table(tmp_path / "in" / "0.parquet"), path)
    with pytest.raises(StreamingQueryException) as caught:
        write(SQL.replace("sum", "max"))
    said = str(caught.value)
    assert "CheckpointError: the state in Spark's checkpoint belongs to another query" in said
    assert "Traceback" not in said
    assert "File " not in said


@pytest.mark.parametrize("first", ["available-now", "1 second"])
def test_another_trigger_when_the_clock_counts(
    spark: SparkSession, tmp_path: Path, first: str
) -> None:
    db = ps.connect(spark, buckets=1)
    db.stream(
        "s", [], schema="t TIMESTAMP", progress=ps.progress("t", ordered=True, idle="1 second")
    )
    query = db.sql("SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA t] FROM s")
    assert isinstance(query, ps.Query)
    query.start(lambda _: None, checkpoint=tmp_path, trigger=first).stop()
    second = "1 second" if first == "available-now" else "available-now"
    with pytest.raises(CheckpointError, match="was made with"):
        query.start(lambda _: None, checkpoint=tmp_path, trigger=second)


def test_a_newer_format(db: ps.Database, tmp_path: Path) -> None:
    db.stream("packets", _table(), progress=ps.progress("ts", delay=5))
    identity = tmp_path / "penstock" / "query.json"
    identity.parent.mkdir()
    for text, message in (
        (json.dumps({"format": FORMAT + 1}), f"has format {FORMAT + 1}"),
        ("{", "is not what it should be"),
    ):
        identity.write_text(text)
        with pytest.raises(CheckpointError, match=message):
            query(db).start(lambda _: None, checkpoint=tmp_path)


def test_a_file_for_a_checkpoint(db: ps.Database, tmp_path: Path) -> None:
    db.stream("packets", _table(), progress=ps.progress("ts", delay=5))
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file is not a directory"):
        query(db).start(lambda _: None, checkpoint=tmp_path / "file")


@pytest.mark.parametrize("trigger", ["", "5", "5 parsecs", "soon", "0 seconds"])
def test_triggers_that_are_none(db: ps.Database, trigger: str) -> None:
    db.stream("packets", _table(), progress=ps.progress("ts", delay=5))
    with pytest.raises(ps.EngineError, match="is not a trigger"):
        query(db).start(lambda _: None, trigger=trigger)


def _table() -> pa.Table:
    columns = [pa.array(column) for column in zip(*ROWS, strict=True)]
    schema = pa.schema([("link", pa.string()), ("bytes", pa.int32()), ("ts", pa.int32())])
    return pa.table(columns, names=schema.names).cast(schema)
