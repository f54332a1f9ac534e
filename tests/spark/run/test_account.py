"""Where tuples go: at every cut between micro-batches, each one that was read is in a result, in a
window that is open, late, or rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.spark.run.streaming import Options, SparkRun
from tests.planning import on_spark
from tests.spark.helpers import Committed
from tests.spark.without_spark import Given, WithoutSpark, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s LATE SIDE"
DELAY = 4
TIMES = st.lists(st.one_of(st.integers(0, 60), st.none()), max_size=40)


class Places(NamedTuple):
    """How many tuples are where."""

    in_results: int
    late: int
    rejected: int


def by_definition(times: list[int | None], ended: bool) -> tuple[Places, int]:
    """After these tuples, and how many are in open windows."""
    bound = float("-inf")
    late = rejected = 0
    counted = []
    for time in times:
        if time is None:
            rejected += 1
            continue
        if _end(time) <= bound:
            late += 1
        else:
            counted.append(time)
        bound = max(bound, time - DELAY)
    closed = sum(ended or _end(time) <= bound for time in counted)
    return Places(closed, late, rejected), len(counted) - closed


def _end(time: int) -> int:
    return time // 10 * 10 + 10


def asked(times: list[int | None]) -> ps.Query:
    db = ps.connect("reference")
    rows = [(time,) for time in times]
    db.stream("s", rows, schema="t INT", progress=ps.progress("t", delay=DELAY))
    query = db.sql(SQL)
    assert isinstance(query, ps.Query)
    return query


def up_to(received: Committed, last: int) -> Places:
    """What has come out by the end of a micro-batch."""
    numbers = [number for number in received.rows if number <= last]
    return Places(
        sum(sum(batch.column("n").to_pylist()) for n in numbers for batch in received.rows[n]),
        sum(table.num_rows for n in numbers for table in received.late[n]),
        sum(len(received.rejects[n]) for n in numbers),
    )


def assert_accounts(times: list[int | None], cuts: list[int], received: Committed) -> None:
    """`cuts` are how many tuples had been read after each micro-batch before the last."""
    for number, cut in enumerate(cuts):
        expected, waiting = by_definition(times[:cut], ended=False)
        found = up_to(received, number)
        assert found == expected
        assert sum(found) + waiting == cut
    found = up_to(received, len(cuts))
    assert (found, 0) == by_definition(times, ended=True)
    assert sum(found) == len(times)


@settings(deadline=None, max_examples=60)
@given(times=TIMES, at_once=st.integers(1, 10))
def test_every_cut(times: list[int | None], at_once: int) -> None:
    query = asked(times)
    job = WithoutSpark(query.plan, 2)
    batch = rows_of(query.plan)["s"]
    cuts = []
    for begin in range(0, len(times), at_once):
        job.run({"s": [Given([Chunk(batch.slice(begin, at_once))])]})
        cuts.append(min(len(times), begin + at_once))
    job.run({"s": [Given([], ends=True)]})
    assert_accounts(times, cuts, job.received)
    assert job.tally.read == len(times)


def test_on_spark(spark: SparkSession) -> None:
    times = [1, 12, None, 7, 25, 3, 19, 31, 14, None, 38, 22, 45, 5, 41]
    query = asked(times)
    received = Committed()
    run = SparkRun([on_spark(query.plan)], spark, [received], Options(portions=5, buckets=2))
    run.start()
    run.wait()
    assert_accounts(times, [3, 6, 9, 12, 15], received)
    places, _ = by_definition(times, ended=True)
    account = run.account()
    assert (account.read, account.late, account.rejected) == (15, *places[1:])
    assert min(places) > 0


def test_open_windows_are_those_of_all_buckets() -> None:
    """Each once, however many buckets have tuples of it."""
    db = ps.connect("reference")
    rows = [(name, time) for time, name in enumerate("abcdefghijabcdefghij")]
    db.stream("s", rows, schema="k STRING, t INT", progress=ps.progress("t", delay=10))
    query = db.sql("SELECT k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k")
    assert isinstance(query, ps.Query)
    job = WithoutSpark(query.plan, 4)
    job.run({"s": [Given([Chunk(rows_of(query.plan)["s"])])]})
    assert job.tally.open_windows == 3  # those that end at 10, 15 and 20
    job.run({"s": [Given([], ends=True)]})
    assert job.tally.open_windows == 0
