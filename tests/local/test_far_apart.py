"""One row or one clause that stands for very many windows: they are given out little by little, or
refused with their number, and neither takes all of the memory there is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.source import Chunk
from tests.local.helpers import assert_same
from tests.reference.helpers import Stream, ask, counted, database
from tests.spark.without_spark import Given, WithoutSpark, rows_of

YEAR_9999 = 253_370_764_800_000_000
LANDMARK = "SELECT window_end, count(*) AS n [RANGE ALL, SLIDE 1 SECOND, WA t] FROM s"
ORDERED = ps.progress("t", ordered=True)
PUNCTUATED = ps.progress("t", punctuated=("p", "t"))
ENGINES = pytest.mark.parametrize("engine", ["local", "reference"])


def asked(engine: str, sql: str, rows: list[Any], schema: str, progress: Any) -> ps.Query:
    db = ps.connect(engine)
    db.stream("s", rows, schema=counted(schema), progress=progress)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


@ENGINES
@pytest.mark.parametrize("clause", ["", " LATE AMEND", " EMIT EARLY EVERY 1 SECOND"])
@pytest.mark.parametrize(("far", "windows"), [(YEAR_9999, "253,370,764,800"), (2**62, "4,611,")])
def test_a_tuple_in_the_far_future(engine: str, clause: str, far: int, windows: str) -> None:
    query = asked(engine, LANDMARK + clause, [(0,), (far,)], "t TIMESTAMP", ORDERED)
    given: list[Any] = []
    with pytest.raises(ps.RunError, match=f"{windows}.*hold the same tuples") as refused:
        query.run(given.append)
    assert given == []
    assert refused.value.hint is not None
    assert "FUTURE LIMIT" in refused.value.hint
    if far == YEAR_9999:
        assert "up to 9999-01-01" in refused.value.message


@ENGINES
def test_a_promise_in_the_far_future(engine: str) -> None:
    rows = [(0, False), (YEAR_9999, True)]
    query = asked(engine, LANDMARK, rows, "t TIMESTAMP, p BOOLEAN", PUNCTUATED)
    with pytest.raises(ps.RunError, match="253,370,764,800 windows"):
        query.collect()


@ENGINES
def test_a_promise_that_nothing_comes_any_more(engine: str) -> None:
    """The highest value there is, for windows that do not go on without tuples."""
    sql = "SELECT window_end, count(*) AS n [RANGE 2 SECONDS, SLIDE 1 SECOND, WA t] FROM s"
    rows = [(0, False), (2**63 - 1, True)]
    query = asked(engine, sql, rows, "t TIMESTAMP, p BOOLEAN", PUNCTUATED)
    assert query.collect().num_rows == 2


def test_inside_the_buckets_of_spark() -> None:
    query = ask(LANDMARK, s=Stream("t TIMESTAMP", [(0,), (YEAR_9999,)], ORDERED))
    job = WithoutSpark(query.plan, buckets=2)
    batch = rows_of(query.plan)["s"]
    with pytest.raises(ps.RunError, match="253,370,764,8"):
        job.run({"s": [Given([Chunk(batch)], ends=True)]})


@ENGINES
def test_the_future_limit_keeps_it_away(engine: str) -> None:
    progress = ps.progress("t", ordered=True, future_limit="1 day")
    now = 1_700_000_000_000_000
    query = asked(engine, LANDMARK, [(now,), (YEAR_9999,)], "t TIMESTAMP", progress)
    assert query.collect().num_rows == 1
    assert query.account.rejected == 1


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("RANGE 99999999999 WEEKS, SLIDE 1 DAY, WA t", "99999999999 WEEKS is longer than"),
        ("RANGE 1 DAY, SLIDE 99999999999 WEEKS, WA t", "99999999999 WEEKS is longer than"),
        ("RANGE ALL, SLIDE 99999999999 WEEKS, WA t", "99999999999 WEEKS is longer than"),
        ("RANGE 1 WEEK, SLIDE 1 MICROSECOND, WA t", "in 604,800,000,000 windows"),
        ("RANGE 100000000000 ROWS, SLIDE 1 ROW", "in 100,000,000,000 windows"),
        ("RANGE 99999999999999999999 ROWS, SLIDE 99999999999999999998 ROWS", "can be counted"),
    ],
)
def test_windows_that_are_refused_when_they_are_read(window: str, message: str) -> None:
    db = database(s=Stream("t TIMESTAMP", [], ORDERED))
    with pytest.raises(ps.BindError, match=message) as refused:
        db.sql(f"SELECT count(*) [{window}] FROM s")
    assert "^^^" in str(refused.value)
    assert refused.value.expected is not None
    assert "at most" in refused.value.expected


@pytest.mark.parametrize(
    "clause",
    [
        "ON t DELAY 99999999999 WEEKS",
        "ON t ORDERED IDLE AFTER 99999999999 WEEKS",
        "ON t ORDERED FUTURE LIMIT 99999999999 WEEKS",
    ],
)
def test_lengths_beyond_the_type(clause: str) -> None:
    with pytest.raises(ps.BindError, match="99999999999 WEEKS is longer than") as refused:
        ps.connect().sql(f"CREATE STREAM s (t TIMESTAMP) PROGRESS {clause}")
    assert "^^^" in str(refused.value)


@pytest.mark.parametrize(
    ("sql_type", "length"), [("DATE", "3000000000 DAYS"), ("INT", "2147483648")]
)
def test_lengths_beyond_narrow_types(sql_type: str, length: str) -> None:
    with pytest.raises(ps.BindError, match="longer than"):
        ps.connect().sql(f"CREATE STREAM s (t {sql_type}) PROGRESS ON t DELAY {length}")


def test_how_long_results_can_be_amended() -> None:
    db = database(s=Stream("t TIMESTAMP", [], ORDERED))
    with pytest.raises(ps.BindError, match="longer than") as refused:
        db.sql(f"{LANDMARK} LATE AMEND FOR 99999999999 WEEKS")
    assert "^^^" in str(refused.value)


@pytest.mark.parametrize("hint", ["WID", "ADAPTIVE", "BUFFERING"])
def test_algorithms_that_keep_every_window(hint: str) -> None:
    db = database(s=Stream("t TIMESTAMP", [], ORDERED))
    window = "RANGE 1 HOUR, SLIDE 1 MILLISECOND, WA t"
    with pytest.raises(ps.BindError, match=f"3,600,000 windows, each of which {hint} keeps"):
        db.sql(f"SELECT /*+ {hint} */ count(*) [{window}] FROM s")
    with pytest.raises(ps.BindError, match="each of which LATE AMEND or EMIT EARLY keeps"):
        db.sql(f"SELECT count(*) [{window}] FROM s LATE AMEND")


_MANY = """
import resource
import penstock as ps

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (240, 240))
windows = {
    "RANGE 10000 SECONDS, SLIDE 1 MILLISECOND, WA t": [(0,)],
    "RANGE ALL, SLIDE 1 SECOND, WA t": [(0,), (9_999_999_000_000,)],
    "RANGE 10000000 ROWS, SLIDE 1 ROW": [(0,)],
    "RANGE 320000000 ROWS, SLIDE 32 ROWS": [(0,)],
}
for window, rows in windows.items():
    for aggregate in ("count(*)", "max(t)"):
        db = ps.connect()
        schema = "t TIMESTAMP EPOCH MICROSECONDS"
        db.stream("s", rows, schema=schema, progress=ps.progress("t", ordered=True))
        sizes = []
        query = db.sql(f"SELECT {aggregate} [{window}] FROM s")
        query.run(lambda batch: sizes.append(batch.num_rows))
        assert sum(sizes) == 10_000_000, (window, sum(sizes))
        assert max(sizes) < 200_000, (window, max(sizes))
"""


def test_windows_that_are_alike_come_little_by_little() -> None:
    """The limits of the process are a safety net; without the laziness it would need many times
    as much."""
    found = subprocess.run(
        [sys.executable, "-c", _MANY], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


# --- windows of panes that are far apart are the same windows ------------------------------------

FAR = st.lists(st.integers(0, 40).map(lambda n: n * n * n), max_size=12)


@pytest.mark.parametrize("aggregate", ["count(*), sum(t)", "max(t), min(t)", "median(t)"])
@pytest.mark.parametrize(
    "window",
    [
        "RANGE 1000, SLIDE 7, WA t",
        "RANGE 1000, SLIDE 999, WA t",
        "RANGE 500, SLIDE 5, WA t",
        "RANGE ALL, SLIDE 13, WA t",
        "RANGE 50 ROWS, SLIDE 2 ROWS",
        "RANGE 320 ROWS, SLIDE 32 ROWS",
    ],
)
@given(times=FAR)
@settings(deadline=None, max_examples=5)
def test_far_apart_and_alike(window: str, aggregate: str, times: list[int]) -> None:
    assert_same(
        f"SELECT window_id, window_start, window_end, t % 2 AS k, {aggregate} [{window}] FROM s "
        "GROUP BY t % 2",
        s=Stream("t INT", [(time,) for time in times], ps.progress("t", delay=100)),
    )
