"""Views, tables and functions of a Spark session, named in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import penstock as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = [("a", 10, 1), ("b", 20, 3), ("a", 30, 12), ("b", 40, 2), ("a", 50, 31)]
SUMS = "SELECT link, sum(bytes) AS bytes [RANGE 10, SLIDE 10, WA ts] FROM events GROUP BY link"
ENGINES = ("spark", "local", "reference")


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    events = spark.createDataFrame(EVENTS, "link string, bytes int, ts int")
    events.createOrReplaceTempView("events")
    spark.createDataFrame(
        [("a", "north"), ("b", "south")], "link string, side string"
    ).createOrReplaceTempView("sides")
    events.selectExpr("link", "bytes", "timestamp_seconds(ts) AS at").write.parquet(
        f"{tmp_path}/in"
    )
    timed = spark.readStream.schema("link string, bytes int, at timestamp").parquet(
        f"{tmp_path}/in"
    )
    timed.createOrReplaceTempView("timed")
    timed.withWatermark("at", "20 seconds").createOrReplaceTempView("watched")
    events.createOrReplaceGlobalTempView("everywhere")
    yield spark
    for name in ("events", "sides", "timed", "watched"):
        spark.catalog.dropTempView(name)
    spark.catalog.dropGlobalTempView("everywhere")


def rows(db: ps.Database, sql: str) -> list[str]:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return sorted(map(str, query.collect().to_pylist()))


def run(db: ps.Database, sql: str) -> list[str]:
    """Of a stream: everything that is there by now."""
    found: list[str] = []
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    query.run(lambda row: found.append(str(row)), rows=True)
    return sorted(found)


def refused(db: ps.Database, sql: str) -> str:
    with pytest.raises(ps.PenstockError) as caught:
        rows(db, sql)
    return str(caught.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_view_that_ends(session: SparkSession, engine: str) -> None:
    db = ps.connect(engine, spark=session)
    given = ps.connect("reference")
    named = [dict(zip(("link", "bytes", "ts"), each, strict=True)) for each in EVENTS]
    given.stream("events", named, progress=ps.progress("ts", delay=100))
    assert rows(db, SUMS) == rows(given, SUMS) != []
    joined = "SELECT side, bytes FROM events JOIN sides ON sides.link = events.link WHERE ts < 3"
    assert rows(db, joined) == ["{'side': 'north', 'bytes': 10}", "{'side': 'south', 'bytes': 40}"]
    counted = "SELECT count(*) AS n FROM global_temp.everywhere GROUP BY TUMBLE(everywhere.ts, 100)"
    assert rows(db, counted) == ["{'n': 5}"]


def test_a_view_that_goes_on(session: SparkSession) -> None:
    db = ps.connect(session)
    sums = "SELECT link, sum(bytes) AS bytes FROM watched GROUP BY window(at, '10 seconds'), link"
    expected = [("a", 10), ("a", 30), ("a", 50), ("b", 60)]
    expected_rows = sorted(str({"link": link, "bytes": n}) for link, n in expected)
    assert run(db, sums) == expected_rows  # withWatermark says how it progresses
    plain = "SELECT bytes FROM timed WHERE bytes > 30"
    assert run(db, plain) == ["{'bytes': 40}", "{'bytes': 50}"]
    without = refused(db, sums.replace("watched", "timed"))
    assert 'db.stream("timed", progress=ps.progress("at", delay="5 seconds"))' in without
    db.stream("timed", progress=ps.progress("at", delay="20 seconds"))
    assert run(db, sums.replace("watched", "timed")) == expected_rows
    local = ps.connect("local", spark=session)
    assert "can be read by the spark engine only" in refused(local, "SELECT * FROM watched")


def test_own_names_come_first_and_others_are_candidates(session: SparkSession) -> None:
    db = ps.connect(session)
    assert "events" in refused(db, "SELECT * FROM event")
    db.stream("events", [{"link": "own"}])
    assert rows(db, "SELECT * FROM events") == ["{'link': 'own'}"]
    assert "no stream, table" in refused(ps.connect("local"), "SELECT * FROM sides")
    assert "no stream, table" in refused(ps.connect(session, allow=[]), "SELECT * FROM sides")
    with pytest.raises(ps.BindError, match="no view of a Spark session"):
        db.stream("nothing", progress=ps.progress("ts", delay=5))


def registered(session: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    session.udf.register("shout", lambda text: None if text is None else text.upper() + "!")
    session.udf.register("twice", lambda x: x * 2, "bigint")

    @F.pandas_udf("double")  # type: ignore[call-overload, untyped-decorator]
    def half(x: pd.Series) -> pd.Series:
        return x / 2

    session.udf.register("half", half)
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION plus_one(x INT) RETURNS INT RETURN x + 1")


@pytest.mark.parametrize("engine", ENGINES)
def test_functions(session: SparkSession, engine: str) -> None:
    registered(session)
    db = ps.connect(engine, spark=session)
    plain = "SELECT shout(link) AS s, half(bytes) AS h, twice(ts) AS t FROM events WHERE ts > 5"
    expected: list[dict[str, Any]] = [
        {"s": "A!", "h": 15.0, "t": 24},
        {"s": "A!", "h": 25.0, "t": 62},
    ]
    assert rows(db, plain) == sorted(map(str, expected))
    windows = (
        "SELECT shout(link) AS s, twice(sum(twice(bytes))) AS n, sum(plus_one(bytes)) AS m"
        " [RANGE 40, SLIDE 40, WA ts] FROM events WHERE plus_one(ts) > 2 GROUP BY shout(link)"
    )
    expected = [
        {"window_start": 0, "window_end": 40, "s": "A!", "n": 320, "m": 82},
        {"window_start": 0, "window_end": 40, "s": "B!", "n": 240, "m": 62},
    ]
    assert rows(db, windows) == sorted(map(str, expected))


def test_what_only_spark_computes(session: SparkSession) -> None:
    registered(session)
    db = ps.connect(session)
    above = (
        "SELECT plus_one(n) AS n FROM (SELECT count(*) AS n [RANGE 9, SLIDE 9, WA ts] FROM events)"
    )
    assert "only Spark computes it" in refused(db, above)
    assert "Spark refuses plus_one" in refused(db, "SELECT plus_one(bytes, 1) AS n FROM events")
    assert "twice" in refused(db, "SELECT twicee(bytes) AS n FROM events")
