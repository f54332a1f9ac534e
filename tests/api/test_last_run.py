"""What a query knows of its last run, how much of it is kept, and what is said about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest

import penstock as ps
from penstock.io.sinks.sink import LIMIT
from penstock.runs.answer import Account

COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"
ROWS: list[Any] = [{"t": 1}, {"t": "x"}, {"t": 25}, {"t": None}, {"t": 3}, {"t": 40}]
ENGINES = ["local", "reference"]


class Counted:
    """Data that knows how often it was read."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows
        self.times = 0

    def __call__(self) -> Iterator[Any]:
        self.times += 1
        return iter(self.rows)


def database(data: object, engine: str = "local") -> ps.Database:
    db = ps.connect(engine)
    db.stream("s", data, schema="t INT", progress=ps.progress("t", ordered=True))
    return db


def ask(db: ps.Database, sql: str = COUNT) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def nothing(batch: Any) -> None:
    """Takes a batch."""


def run(query: ps.Query) -> None:
    query.run(nothing)


def run_async(query: ps.Query) -> None:
    asyncio.run(query.run_async(nothing))


def iterate(query: ps.Query) -> None:
    list(query)


def collect(query: ps.Query) -> None:
    query.collect()


def stream(query: ps.Query) -> None:
    async def main() -> None:
        async for _ in query.stream():
            pass

    asyncio.run(main())


@pytest.mark.parametrize("late", ["", " LATE SIDE", " LATE AMEND"])
@pytest.mark.parametrize("way", [run, run_async, iterate, collect, stream])
@pytest.mark.parametrize("engine", ENGINES)
def test_of_the_last_run_and_no_other(engine: str, way: Any, late: str) -> None:
    data = Counted(ROWS)
    query = ask(database(data, engine), COUNT + late)
    way(query)
    assert query.account == Account(6, 1, 2)
    assert query.late.column("t").to_pylist() == [3]
    assert query.rejected.column("row").to_pylist() == [2, 4]
    assert query.rejected.column("kind").to_pylist() == ["bad row", "no progress value"]
    assert data.times == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_after_the_answer_is_the_last_one(engine: str) -> None:
    data = Counted(ROWS)
    query = ask(database(data, engine))
    query.collect()
    data.rows = [{"t": 1}]
    query.run(nothing)
    assert query.account == Account(1, 0, 0)
    assert query.late.num_rows == query.rejected.num_rows == 0
    assert query.late.column_names == ["t", "late_bound", "missed_first", "missed_last"]
    assert data.times == 2
    assert query.collect().num_rows == 3  # which is still the answer


@pytest.mark.parametrize("engine", ENGINES)
def test_several_queries_in_one_pass(engine: str) -> None:
    db = database(iter(ROWS), engine)
    queries = [ask(db), ask(db, "SELECT t FROM s")]
    db.run(queries, [nothing, nothing])
    assert [query.account.late for query in queries] == [1, 0]
    assert [query.late.num_rows for query in queries] == [1, 0]
    assert [query.rejected.num_rows for query in queries] == [2, 2]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_went_to_sinks_is_not_here(engine: str) -> None:
    data = Counted(ROWS)
    query = ask(database(data, engine))
    query.run(nothing, late=nothing, rejected=nothing)
    for name, what in (("late", "the late tuples"), ("rejected", "the rejected rows")):
        with pytest.raises(ps.RunError) as caught:
            getattr(query, name)
        assert str(caught.value) == (
            f"{what} of the last run went to the sink that it was given\n"
            f"  expected: a run without {name}=…, which keeps them"
        )
    assert query.account == Account(6, 1, 2)
    assert data.times == 1


def test_a_run_that_fails_is_remembered_as_far_as_it_came() -> None:
    def broken() -> Iterator[Any]:
        yield from ROWS
        raise OSError("the cable is out")

    query = ask(database(broken()))
    with pytest.raises(ps.SourceError):
        query.run(nothing)
    assert query.account.read in (0, 6)  # the last rows may not have been taken in
    assert query.rejected.num_rows == query.account.rejected


def test_not_more_than_some(caplog: pytest.LogCaptureFixture) -> None:
    def rows() -> Iterator[Any]:
        yield {"t": 1_000_000}
        for n in range(2 * LIMIT):
            yield {"t": n}
            yield {"t": "x"}

    for late, kept in ((" LATE DROP", LIMIT), (" LATE SIDE", 2 * LIMIT)):
        query = ask(database(rows()), COUNT + late)
        query.run(nothing)
        caplog.clear()
        assert query.late.num_rows == kept
        assert query.rejected.num_rows == LIMIT
        assert query.account == Account(4 * LIMIT + 1, 2 * LIMIT, 2 * LIMIT)
        said = "the first 10,000 of 20,000 rejected rows"
        assert query.rejected.schema.metadata == {b"penstock": said.encode()}
        assert f"{said} are kept; give the run a sink for all of them" in caplog.text
        assert ("of 20,000 late tuples are kept" in caplog.text) == (kept == LIMIT)


def test_a_started_query_keeps_as_much() -> None:
    for late, kept in ((" LATE DROP", LIMIT), (" LATE SIDE", LIMIT + 5)):
        rows = [{"t": 1_000_000}, *({"t": n} for n in range(LIMIT + 5)), *[{"t": "x"}] * 5]
        started = ask(database(rows), COUNT + late).start(nothing)
        assert started.wait() == Account(LIMIT + 11, LIMIT + 5, 5)
        assert started.late.num_rows == kept
        assert started.rejected.num_rows == 5


def test_an_endless_stream_of_bad_rows() -> None:
    query = ask(database({"t": n if n % 2 else "x"} for n in count()), "SELECT t FROM s")
    assert len(list(islice(query, 5 * LIMIT))) == 5 * LIMIT
    assert query.rejected.num_rows == LIMIT


@pytest.mark.parametrize("way", [run, run_async, iterate, collect, stream])
@pytest.mark.parametrize("engine", ENGINES)
def test_rejected_rows_are_said_once(
    engine: str, way: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    query = ask(database([*ROWS, *({"t": "y"} for _ in range(1_500))], engine))
    way(query)
    query.rejected, query.late, query.account  # noqa: B018
    said = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert said == [
        ("INFO", "1 of 1,506 tuples were late"),
        (
            "WARNING",
            "1,502 of 1,506 rows were rejected (they are in query.rejected):\n"
            "  stream s: row 2, column t: the str 'x' is not an INT\n"
            + (
                "  stream s: row 7, column t: the str 'y' is not an INT\n"
                "  stream s: row 8, column t: the str 'y' is not an INT\n"
            )
            + "  … and 1,499 more\n"
            "most rows of s were rejected for its column t: is its type the right one?",
        ),
    ]


def test_nothing_is_said_where_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    query = ask(database([{"t": 1}]))
    query.run(nothing)
    query.collect()
    assert caplog.records == []
