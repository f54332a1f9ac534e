"""`for row in query`: rows while they are released, in the thread of whoever asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import count, islice
from typing import Any

import pytest

import penstock as ps
from tests.waiting import LONGEST

COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"


def database(data: object, engine: str = "local", **progress: Any) -> ps.Database:
    db = ps.connect(engine)
    promise = ps.progress("t", **(progress or {"ordered": True}))
    db.stream("s", data, schema="t BIGINT", progress=promise)
    return db


def ask(db: ps.Database, sql: str = COUNT) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def test_an_endless_stream() -> None:
    closed = []

    def numbers() -> Iterator[tuple[int]]:
        try:
            for t in count():
                yield (t,)
        finally:
            closed.append(True)

    threads = threading.active_count()
    query = ask(database(numbers()))
    assert [row["n"] for row in islice(query, 5_000)] == [10] * 5_000
    assert closed == [True]
    assert threading.active_count() == threads
    assert query.account.read >= 50_000


def test_leaving_the_loop_closes_the_source() -> None:
    closed = []

    def numbers() -> Iterator[tuple[int]]:
        try:
            for t in count():
                yield (t,)
        finally:
            closed.append(True)

    for row in ask(database(numbers)):
        assert row["n"] == 10
        break
    assert closed == [True]


def test_an_endless_asynchronous_stream() -> None:
    closed = threading.Event()

    async def numbers() -> AsyncIterator[tuple[int]]:
        try:
            for t in count():
                yield (t,)
                await asyncio.sleep(0)
        finally:
            closed.set()

    assert [row["n"] for row in islice(ask(database(numbers())), 100)] == [10] * 100
    assert closed.wait(LONGEST)


def test_two_live_streams_read_side_by_side() -> None:
    async def numbers() -> AsyncIterator[tuple[int]]:
        for t in count():
            yield (t,)
            await asyncio.sleep(0)

    db = database(numbers())
    db.stream("r", numbers(), schema="t BIGINT", progress=ps.progress("t", ordered=True))
    both = COUNT.replace("FROM s", "FROM (SELECT t FROM s UNION ALL SELECT t FROM r)")
    assert [row["n"] for row in islice(ask(db, both), 20)] == [20] * 20


@pytest.mark.parametrize(
    "sql",
    [
        COUNT,
        "SELECT t FROM s WHERE t % 3 = 0",
        "SELECT t, count(*) AS n FROM s GROUP BY t EMIT IN ORDER",
        COUNT + " LATE SIDE",
        COUNT + " LATE AMEND",
        COUNT + " EMIT EARLY EVERY 1 SECOND",
    ],
)
@pytest.mark.parametrize("engine", ["local", "reference"])
def test_the_rows_are_those_of_the_answer(sql: str, engine: str) -> None:
    rows = [(t - 15 * (t % 7 == 0),) for t in range(300)]
    query = ask(database(rows, engine, delay=5), sql)
    found = list(query)
    if "LATE SIDE" in sql:  # before anything else is computed
        assert query.late.num_rows == query.account.late > 0
    assert found == list(query)
    assert found == query.collect().to_pylist()
    assert found == list(query)


def test_stamps_are_those_of_the_answer() -> None:
    """Nobody but the source looks at the clock."""

    def stamps(way: Any) -> list[Any]:
        db = ps.connect(clock=ps.ManualClock(step=1))
        db.stream("s", [{"a": 1}, {"a": 2}], progress=ps.progress("ts", timestamps="INTERNAL"))
        return [row["ts"] for row in way(ask(db, "SELECT ts FROM s"))]

    def by_run(query: ps.Query) -> list[Any]:
        rows: list[Any] = []
        query.run(rows.append, rows=True)
        return rows

    assert stamps(iter) == stamps(lambda query: query.collect().to_pylist()) == stamps(by_run)


def test_in_order_while_released() -> None:
    """The order holds over all that is released, although no loop waits for the end."""
    numbers = ((t + (30 if t % 5 == 0 else 0),) for t in count())
    query = ask(database(numbers, delay=40), "SELECT t FROM s EMIT IN ORDER")
    found = [row["t"] for row in islice(query, 20_000)]
    assert found == sorted(found)


def test_an_answer_that_is_there_is_not_computed_again() -> None:
    query = ask(database((t,) for t in range(100)))
    assert query.collect().num_rows == 10
    assert [row["n"] for row in query] == [10] * 10


def test_what_is_read_again_and_what_is_not() -> None:
    query = ask(database(lambda: ((t,) for t in range(100))))
    assert len(list(query)) == len(list(query)) == 10
    query = ask(database((t,) for t in range(100)))
    assert len(list(query)) == 10
    with pytest.raises(ps.SourceError, match="stream s has been read already"):
        list(query)


def test_two_loops_at_once_do_not_disturb_each_other() -> None:
    query = ask(database([(t,) for t in range(30_000)]))
    pairs = list(zip(query, query, strict=True))
    assert len(pairs) == 3_000
    assert all(left == right for left, right in pairs)


def test_failures_come_out_of_the_loop() -> None:
    def broken() -> Iterator[tuple[int]]:
        yield from ((t,) for t in range(20_000))
        raise OSError("the cable is out")

    found: list[int] = []
    query = ask(database(broken()))
    with pytest.raises(ps.SourceError, match="broke off after item 20000: OSError"):
        found.extend(row["n"] for row in query)
    assert found
    assert set(found) == {10}
    assert query.account.read >= 10 * len(found)
    with pytest.raises(ps.SourceError, match="broke off after item 20000: OSError"):
        list(query)

    points = ask(database([(1,)]), "SELECT abs(-9223372036854775807 - t) AS x FROM s")
    with pytest.raises(ps.RunError, match="too large for BIGINT") as caught:
        list(points)
    assert "^^^" in str(caught.value)


def test_an_exception_in_the_loop_is_the_programs_own() -> None:
    closed = []

    def numbers() -> Iterator[tuple[int]]:
        try:
            for t in count():
                yield (t,)
        finally:
            closed.append(True)

    with pytest.raises(ZeroDivisionError):
        any(row["n"] / 0 for row in ask(database(numbers())))
    assert closed == [True]
