"""Late tuples and rejected rows as DataFrames of their own."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.sources.rejects import REJECT_COLUMNS
from penstock.plan.properties import late_columns
from tests.spark.streaming import add_file, files_stream, total, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("link", pa.string()), ("bytes", pa.int32()), ("ts", pa.int32())])
COLUMNS = "link STRING, bytes INT, ts INT"
BATCHES = [
    [("a", 1, 1), ("b", 2, 3), ("a", 4, 22)],
    [("a", 8, 2), ("a", 16, None), ("b", 32, 31)],  # late, rejected
    [("b", 64, 50), ("b", 128, 9)],  # late
]
SUMS = "SELECT link, sum(bytes) AS bytes [RANGE 10, SLIDE 10, WA ts] FROM packets GROUP BY link"


def asked(
    engine: SparkSession | str, source: Any, sql: str = SUMS, columns: str | None = None
) -> ps.Query:
    db = ps.connect(engine, buckets=2) if not isinstance(engine, str) else ps.connect(engine)
    progress = ps.progress("ts", ordered=True)
    if columns is None:
        db.stream("packets", source, progress=progress)
    else:
        db.stream("packets", source, schema=columns, progress=progress)
    found = db.sql(sql)
    assert isinstance(found, ps.Query)
    return found


def by_definition(sql: str) -> ps.Query:
    """The same tuples in the order in which the stream has them."""
    return asked("reference", [row for batch in BATCHES for row in batch], sql, COLUMNS)


def in_some_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        SUMS,
        f"{SUMS} LATE AMEND FOR 15",
        f"SELECT max(bytes) AS most [RANGE 20, SLIDE 20, WA window_end] FROM ({SUMS}) AS sums",
    ],
)
def test_late_tuples_of_a_stream(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    stream = files_stream(spark, tmp_path / "in", SCHEMA, BATCHES)
    frame = asked(spark, stream, sql).late_dataframe()
    assert frame.isStreaming
    reference = by_definition(sql)
    assert frame.columns == late_columns(reference.plan).names
    found = written(frame, tmp_path / "checkpoint")
    assert in_some_order(found.rows) == in_some_order(reference.late.to_pylist())
    assert total(found.metrics) == {"read": 8, "late": 2, "rejected": 1, "rows": 2}


def test_late_tuples_have_a_checkpoint_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """What was promised before is known after a restart."""
    stream = files_stream(spark, tmp_path / "in", SCHEMA, BATCHES[:1])
    query = asked(spark, stream)
    assert written(query.late_dataframe(), tmp_path / "late").rows == []
    add_file(tmp_path / "in", 1, SCHEMA, BATCHES[1])
    (late,) = written(query.late_dataframe(), tmp_path / "late").rows
    assert (late["bytes"], late["late_bound"], late["missed_first"]) == (8, 22, 0)
    add_file(tmp_path / "in", 2, SCHEMA, BATCHES[2])
    with pytest.raises(Exception, match="gives late tuples alone"):  # of Spark's, with ours in it
        written(query.dataframe(), tmp_path / "late")


def test_rejected_rows_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    stream = files_stream(spark, tmp_path / "in", SCHEMA, BATCHES)
    frame = asked(spark, stream).rejected_dataframe()
    assert frame.isStreaming
    assert frame.columns == REJECT_COLUMNS.names
    found = written(frame, tmp_path / "checkpoint")
    (reject,) = found.rows
    assert reject["reason"] == "ts is NULL"
    assert reject["content"] == '{"link": "a", "bytes": 16, "ts": null}'
    assert total(found.metrics) == {"read": 8, "late": 0, "rejected": 1, "rows": 1}
    assert not (tmp_path / "checkpoint" / "state").exists()


def test_tuples_late_for_different_windows(spark: SparkSession, tmp_path: Path) -> None:
    """One DataFrame has those of all windows; what one of them has not is NULL.  A name that stands
    for two types is two columns."""
    stream = files_stream(spark, tmp_path / "in", SCHEMA, BATCHES)
    db = ps.connect(spark, buckets=2)
    db.stream("packets", stream, progress=ps.progress("ts", delay=0))
    narrow = "SELECT ts + 0.5 AS link, ts AS late_bound, ts FROM packets"
    query = db.sql(
        "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA ts] FROM packets UNION ALL "
        f"SELECT count(*) AS n [RANGE 10, SLIDE 10, WA ts] FROM ({narrow}) AS narrow"
    )
    assert isinstance(query, ps.Query)
    frame = query.late_dataframe()
    users = ["link", "link_1", "bytes", "ts", "late_bound"]
    assert frame.columns == [*users, "late_bound_1", "missed_first", "missed_last"]
    found = written(frame, tmp_path / "checkpoint").rows
    assert [type_of for name, type_of in frame.dtypes if "link" in name] == [
        *("string", "decimal(12,1)")
    ]
    assert in_some_order([tuple(row.values()) for row in found]) == in_some_order(  # type: ignore[arg-type, list-item]
        [
            ("a", None, 8, 2, None, 22, 0, 0),
            ("b", None, 128, 9, None, 50, 0, 0),
            (None, Decimal("2.5"), None, 2, 2, 22, 0, 0),
            (None, Decimal("9.5"), None, 9, 9, 50, 0, 0),
        ]
    )


# --- names that users may have -------------------------------------------------------------------


NAMES = ["_sign", "Late_Bound", "missed_first", "missed_last", "amended", "_penstock_read"]


def test_columns_that_are_called_like_those_of_late_tuples(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([*((name, pa.int32()) for name in NAMES), ("ts", pa.int32())])
    batches = [[(*range(6), 1), (*range(6), 22)], [(*range(10, 16), 2)]]
    stream = files_stream(spark, tmp_path / "in", schema, batches)
    counts = ", ".join(f"max({name}) AS {name}" for name in NAMES)
    sql = f"SELECT {counts} [RANGE 10, SLIDE 10, WA ts] FROM packets"
    query = asked(spark, stream, sql)
    rows = written(query.dataframe(), tmp_path / "rows").rows
    assert rows == [
        {"window_start": 0, "window_end": 10, **dict(zip(NAMES, range(6), strict=True))}
    ]
    frame = query.late_dataframe()
    (late,) = written(frame, tmp_path / "late").rows
    assert {name: late[name] for name in NAMES} == dict(zip(NAMES, range(10, 16), strict=True))
    ours = ["late_bound_1", "missed_first_1", "missed_last_1"]
    assert [late[name] for name in ours] == [22, 0, 0]
    assert frame.columns == [*NAMES, "ts", *ours]


def test_a_column_that_is_called_like_the_signs_beside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = files_stream(spark, tmp_path / "in", SCHEMA, BATCHES[:1])
    sql = "SELECT sum(bytes) AS _Sign [RANGE 10, SLIDE 10, WA ts] FROM packets LATE AMEND FOR 9"
    frame = asked(spark, stream, sql).dataframe()
    assert frame.columns == ["window_start", "window_end", "_Sign", "_sign_1"]
    assert {row["_sign_1"] for row in written(frame, tmp_path / "rows").rows} == {1}


def test_a_column_of_a_table_that_is_called_like_signs(spark: SparkSession) -> None:
    rows = [(1, -5), (12, 7)]
    table = spark.createDataFrame(rows, "ts int, _sign int")
    for sql in ("SELECT _sign FROM packets", "SELECT sum(_sign) AS _sign FROM packets GROUP BY ts"):
        query = asked(spark, table, sql)
        assert sorted(row["_sign"] for row in query.dataframe().collect()) == [-5, 7]
        assert sorted(query.collect().column("_sign").to_pylist()) == [-5, 7]


# --- tables --------------------------------------------------------------------------------------


def test_no_tuple_of_a_table_is_late(spark: SparkSession) -> None:
    rows = [row for batch in BATCHES for row in batch]
    query = asked(spark, spark.createDataFrame(rows, "link string, bytes int, ts int"))
    late = query.late_dataframe()
    assert not late.isStreaming
    assert late.columns == late_columns(query.plan).names
    assert late.collect() == []
    (reject,) = query.rejected_dataframe().collect()
    assert (reject.stream, reject.column) == ("packets", "ts")


def test_late_and_rejected_rows_of_penstocks_own_sources(spark: SparkSession) -> None:
    """Which are read in order; what does not fit is set aside before Spark sees it."""
    rows = [*(row for batch in BATCHES for row in batch), ("a", "many", 3)]
    query = asked(spark, rows, columns=COLUMNS)
    late = [row.asDict() for row in query.late_dataframe().collect()]
    assert in_some_order(late) == in_some_order(by_definition(SUMS).late.to_pylist())
    rejects = [row.asDict() for row in query.rejected_dataframe().collect()]
    assert in_some_order(rejects) == in_some_order(query.rejected.to_pylist())
    assert len(rejects) == 2


@pytest.mark.parametrize("late", ["", " LATE SIDE"])
def test_a_query_without_late_tuples(spark: SparkSession, late: str) -> None:
    sql = f"SELECT link FROM packets{late}"
    with pytest.raises(ps.EngineError, match="no tuple of this query can be late"):
        asked(spark, [("a", 1, 1)], sql, COLUMNS).late_dataframe()


def test_windows_over_tuples_and_results_together(spark: SparkSession, tmp_path: Path) -> None:
    """Those that are late for the sums, and those that are late for the windows above them."""
    both = "SELECT CAST(ts AS BIGINT) AS ts FROM packets UNION ALL SELECT window_end AS ts FROM "
    sql = f"SELECT count(*) AS n [RANGE 10, SLIDE 10, WA ts] FROM ({both}({SUMS}) AS s) AS both"
    stream = files_stream(spark, tmp_path / "in", SCHEMA, BATCHES)
    frame = asked(spark, stream, sql).late_dataframe()
    found = written(frame, tmp_path / "checkpoint")
    assert in_some_order(
        [(row["bytes"], row["ts"], row["ts_1"]) for row in found.rows]
    ) == in_some_order([(8, 2, None), (128, 9, None), (None, None, 2), (None, None, 9)])
    assert total(found.metrics) == {"read": 8, "late": 4, "rejected": 1, "rows": 4}


JOIN = (
    "SELECT a.bytes AS x, b.bytes AS y FROM packets AS a [RANGE 5], packets AS b [RANGE 3]"
    " WHERE a.link = b.link"
)


@pytest.mark.parametrize(
    ("sql", "late"),
    [
        (JOIN, 4),
        (JOIN.replace("a.link = b.link", "a.bytes < b.bytes"), 4),  # by slices of time
        (
            f"SELECT s.bytes AS x FROM ({SUMS}) AS s [RANGE 5, WA window_end],"
            " (SELECT link, CAST(ts AS BIGINT) AS t FROM packets) AS b [RANGE 5, WA t]"
            " WHERE s.link = b.link",
            4,
        ),
    ],
)
def test_tuples_late_for_a_join(spark: SparkSession, tmp_path: Path, sql: str, late: int) -> None:
    """Each once, although some go to several buckets."""
    stream = files_stream(spark, tmp_path / "in", SCHEMA, BATCHES)
    frame = asked(spark, stream, sql).late_dataframe()
    found = written(frame, tmp_path / "checkpoint")
    reference = by_definition(sql)
    # the bounds of different streams may have different types
    names = [name for name in reference.late.column_names if not name.startswith("late_bound")]
    expected = [tuple(str(row[name]) for name in names) for row in reference.late.to_pylist()]
    rows = [tuple(str(row[name]) for name in names) for row in found.rows]
    assert len(rows) == late
    assert sorted(rows) == sorted(expected)
    assert total(found.metrics) == {"read": 8, "late": late, "rejected": 1, "rows": late}


def test_types_of_late_tuples(spark: SparkSession) -> None:
    columns = (
        "b BOOLEAN, i INT, l BIGINT, d DOUBLE, c DECIMAL(9, 2), s STRING, x BINARY, y DATE,"
        " ts TIMESTAMP"
    )
    query = asked(
        spark,
        [],
        "SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA ts] FROM packets",
        columns,
    )
    found = [
        f"{each.name} {each.dataType.simpleString()}" for each in query.late_dataframe().schema
    ]
    assert found == [
        "b boolean",
        "i int",
        "l bigint",
        "d double",
        "c decimal(9,2)",
        "s string",
        "x binary",
        "y date",
        "ts timestamp",
        "late_bound timestamp",
        "missed_first bigint",
        "missed_last bigint",
    ]
