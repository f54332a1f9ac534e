"""Streams that are joined on Spark: DataFrames, restarts, tables of Spark, and what a checkpoint of
a join is of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import CheckpointError
from penstock.spark.session.worker_errors import failure
from tests.reference.helpers import Row, bag
from tests.spark.streaming import add_file, files_stream, total, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int32()), ("y", pa.int32()), ("t", pa.int64())])
COLUMNS = "k STRING, x INT, y INT, t BIGINT"
LEFT = [
    [("a", 1, 0, 1), ("b", 2, 0, 3), (None, 3, 0, 4)],
    [("a", 4, 0, 12), ("c", 5, 0, 9), ("b", 6, 0, 2)],  # the last one is late
    [("a", 7, 0, 30), ("b", 8, 0, 27), ("a", 9, 0, 60)],
]
RIGHT = [
    [("a", 10, 0, 2), ("c", 20, 0, 5)],
    [("a", 30, 0, 10), ("c", 40, 0, 12), ("b", 50, 0, 26)],
    [("b", 60, 0, 33), ("a", 70, 0, 61)],
]
KEYED = "SELECT l.k AS k, l.x AS x, r.x AS y FROM l [RANGE 5] {kind} JOIN r [RANGE 3] ON l.k = r.k"
BY_TIME = "SELECT l.x AS x, r.x AS y FROM l {kind} JOIN r ON r.t BETWEEN l.t - 2 AND l.t + 4"
ITSELF = "SELECT p.x AS x, q.x AS y FROM l AS p, l AS q WHERE q.t > p.t AND q.t < p.t + 5"
SUMS = (
    "SELECT l.k AS k, count(*) AS n, sum(r.x) AS z [RANGE 20, SLIDE 10, WA l.t]"
    " FROM l [RANGE 5], r [RANGE 3] WHERE l.k = r.k GROUP BY l.k"
)
QUERIES = [
    KEYED.format(kind=""),
    KEYED.format(kind="LEFT"),
    BY_TIME.format(kind=""),
    BY_TIME.format(kind="RIGHT"),
    ITSELF,
    SUMS,
    "SELECT l.x AS x, r.x AS y FROM SEQUENCE(l THEN r MODE RECENT ON l.k = r.k)",
]


def asked(engine: Any, left: Any, right: Any, sql: str, columns: str | None = None) -> ps.Query:
    db = ps.connect(engine) if isinstance(engine, str) else ps.connect(engine, buckets=2)
    for name, source in (("l", left), ("r", right)):
        promise = ps.progress("t", delay=6 if name == "l" else 4)
        if columns is None:
            db.stream(name, source, progress=promise)
        else:
            db.stream(name, source, schema=columns, progress=promise)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def by_definition(sql: str, batches: int = 3) -> ps.Query:
    rows = ([row for batch in given[:batches] for row in batch] for given in (LEFT, RIGHT))
    return asked("reference", *rows, sql, COLUMNS)


def rows_of(found: list[dict[str, Any]]) -> list[Row]:
    return [tuple(row.values()) for row in found]


class Files:
    """Both streams as files, each of which is a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._added = 0

    def add(self) -> None:
        for name, given in (("l", LEFT), ("r", RIGHT)):
            folder = self._folder / name
            folder.mkdir(exist_ok=True)
            add_file(folder, self._added, SCHEMA, given[self._added])
        self._added += 1

    def read(self, sql: str, buckets: int = 2) -> list[Row]:
        """The rows that come when a query goes on from its checkpoint."""
        streams = [files_stream(self._spark, self._folder / name, SCHEMA, []) for name in "lr"]
        db = ps.connect(self._spark, buckets=buckets)
        for name, stream, delay in zip("lr", streams, (6, 4), strict=True):
            db.stream(name, stream, progress=ps.progress("t", delay=delay))
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        return rows_of(written(query.dataframe(), self._folder / "checkpoint").rows)

    def refused(self, sql: str, buckets: int = 2) -> CheckpointError:
        with pytest.raises(Exception, match="CheckpointError") as caught:
            self.read(sql, buckets)
        found = failure(caught.value)
        assert isinstance(found, CheckpointError)
        return found


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sql", [KEYED.format(kind="LEFT"), BY_TIME.format(kind=""), SUMS])
def test_a_query_that_goes_on(files: Files, sql: str) -> None:
    """As a DataFrame, whose query is begun anew for every file.  What is open stays open."""
    found: list[Row] = []
    for _ in range(3):
        files.add()
        found += files.read(sql)
    expected = by_definition(sql).collect().to_pylist()
    assert set(found) <= {tuple(row.values()) for row in expected}
    assert len(found) == len(set(found))
    missing = [row for row in map(dict.values, expected) if tuple(row) not in found]
    assert len(missing) <= 2  # the last tuples may find a partner yet, the last windows are open


@pytest.mark.parametrize("sql", QUERIES)
def test_a_started_query(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    """Which ends, so everything closes; with late tuples and an account."""
    streams = [
        files_stream(spark, tmp_path / name, SCHEMA, given)
        for name, given in (("l", LEFT), ("r", RIGHT))
    ]
    found: list[dict[str, Any]] = []
    started = asked(spark, *streams, sql).start(found.append, rows=True)
    account = started.wait()
    reference = by_definition(sql)
    assert bag(rows_of(found)) == bag(rows_of(reference.collect().to_pylist()))
    assert account == reference.account


@pytest.mark.parametrize("sql", QUERIES)
def test_tables_of_spark(spark: SparkSession, sql: str) -> None:
    """Tables have no order in which a tuple could be late."""
    tables = [
        spark.createDataFrame(
            [row for batch in given for row in batch], "k string, x int, y int, t long"
        )
        for given in (LEFT, RIGHT)
    ]
    query = asked(spark, *tables, sql)
    expected = by_definition(f"{sql} LATE AMEND").collect()
    assert bag(map(tuple, query.dataframe().collect())) == bag(rows_of(expected.to_pylist()))
    assert query.account.late == 0


def test_what_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    streams = [
        files_stream(spark, tmp_path / name, SCHEMA, given)
        for name, given in (("l", LEFT), ("r", RIGHT))
    ]
    sql = BY_TIME.format(kind="")
    counted = total(written(asked(spark, *streams, sql).dataframe(), tmp_path / "here").metrics)
    account = by_definition(sql).account
    assert (counted["read"], counted["late"], counted["rejected"]) == (
        account.read,
        account.late,
        account.rejected,
    )
    assert counted["late"] == 1


# --- checkpoints ---------------------------------------------------------------------------------


def test_another_join_is_refused(files: Files) -> None:
    """Whatever else may not change, tests/plan/test_identity.py has."""
    files.add()
    files.read(KEYED.format(kind=""))
    files.add()
    left = files.refused(KEYED.format(kind="LEFT"))
    assert "belongs to another query" in left.message
    assert "+    kind LEFT" in left.message
    # the state has none of these, because the query did not look at them
    other = files.refused(KEYED.format(kind="").replace("r.x AS y", "r.y AS y"))
    assert "+join 1 keeps r.y INT" in other.message


def test_another_number_of_buckets_is_refused(files: Files) -> None:
    files.add()
    files.read(BY_TIME.format(kind=""))
    files.add()
    assert "was made with 2 buckets" in files.refused(BY_TIME.format(kind=""), 3).message


def test_names_may_change(files: Files) -> None:
    files.add()
    first = files.read("SELECT l.k AS k, r.x AS y FROM l [RANGE 5], r [RANGE 3] WHERE l.k = r.k")
    files.add()
    changed = "SELECT q.x AS z, p.k AS c FROM l AS p [RANGE 5], r AS q [RANGE 3] WHERE p.k = q.k"
    second = files.read(changed)
    expected = by_definition(KEYED.format(kind=""), 2).collect().to_pylist()
    found = [*first, *((k, y) for y, k in second)]
    assert bag(found) == bag((row["k"], row["y"]) for row in expected)
