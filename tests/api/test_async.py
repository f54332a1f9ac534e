"""Asynchronous rows in, asynchronous rows out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import penstock as ps
from penstock.io.formats.rows import ROWS_A_BATCH
from tests.waiting import LONGEST, wait_for

SCHEMA = "k STRING, t INT"
COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"


async def numbers(count: int = 25) -> AsyncIterator[dict[str, Any]]:
    for t in range(count):
        if t % 7 == 0:
            await asyncio.sleep(0)
        yield {"k": "a", "t": t}


def database(source: object) -> ps.Database:
    db = ps.connect()
    db.stream("s", source, schema=SCHEMA, progress=ps.progress("t", ordered=True))
    return db


def ask(db: ps.Database, sql: str = COUNT) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def test_collected_like_any_other_source() -> None:
    query = ask(database(numbers()))
    assert query.collect().column("n").to_pylist() == [10, 10, 5]
    assert query.account.read == 25


def test_a_function_that_makes_generators_can_be_read_again() -> None:
    db = database(numbers)
    for _ in range(2):
        assert ask(db).collect().column("n").to_pylist() == [10, 10, 5]


def test_a_generator_can_be_read_once() -> None:
    db = database(numbers())
    ask(db).collect()
    with pytest.raises(ps.SourceError, match="have been read already"):
        ask(db).collect()


def test_the_reference_engine_reads_it_too() -> None:
    db = ps.connect("reference")
    db.stream("s", numbers(), schema=SCHEMA, progress=ps.progress("t", ordered=True))
    assert ask(db).collect().column("n").to_pylist() == [10, 10, 5]


def test_a_schema_is_needed() -> None:
    with pytest.raises(ps.SourceError, match="do not show their columns"):
        ps.connect().stream("s", numbers())


def test_explain() -> None:
    assert "source: ASYNC (async_generator)" in ask(database(numbers())).explain()


@pytest.mark.parametrize("count", [0, 1, ROWS_A_BATCH, 3 * ROWS_A_BATCH + 1])
def test_every_row_comes_through(count: int) -> None:
    assert ask(database(numbers(count)), "SELECT t FROM s").collect().num_rows == count


def test_a_source_that_breaks_off() -> None:
    async def broken() -> AsyncIterator[tuple[str, int]]:
        yield ("a", 1)
        raise OSError("line is down")

    with pytest.raises(ps.SourceError, match=r"broke off after item 1: OSError: line is down"):
        ask(database(broken())).collect()


def test_bad_rows_are_kept_aside() -> None:
    async def mixed() -> AsyncIterator[Any]:
        for row in ({"k": "a", "t": 1}, "nonsense", {"k": "b", "t": "x"}, {"k": "c", "t": 2}):
            await asyncio.sleep(0)
            yield row

    query = ask(database(mixed()), "SELECT k FROM s")
    assert query.collect().column("k").to_pylist() == ["a", "c"]
    assert query.rejected.column("row").to_pylist() == [2, 3]
    assert query.account.read == 4


# --- on a loop -----------------------------------------------------------------------------------


def test_run_async_on_the_loop_of_the_program() -> None:
    """The rows come from a queue of the program's loop, and the sink puts to another one."""

    async def main() -> tuple[list[int], Any]:
        given: asyncio.Queue[int | None] = asyncio.Queue()
        results: asyncio.Queue[int] = asyncio.Queue()

        async def rows() -> AsyncIterator[tuple[str, int]]:
            while (t := await given.get()) is not None:
                yield ("a", t)

        async def sink(row: dict[str, Any]) -> None:
            await results.put(row["n"])

        running = asyncio.create_task(ask(database(rows())).run_async(sink, rows=True))
        for t in (1, 2, 15):
            given.put_nowait(t)
        first = await results.get()  # while the source is still open
        given.put_nowait(None)
        account = await running
        return [first, results.get_nowait()], account

    found, account = asyncio.run(main())
    assert found == [2, 1]
    assert account.read == 3


def test_rows_for_async_for() -> None:
    async def main() -> list[int]:
        return [row["n"] async for row in ask(database(numbers())).stream()]

    assert asyncio.run(main()) == [10, 10, 5]


def test_leaving_an_endless_stream() -> None:
    closed = []

    async def endless() -> AsyncIterator[tuple[str, int]]:
        t = 0
        try:
            while True:
                yield ("a", t)
                t += 1
        finally:
            closed.append(t)

    async def main() -> list[int]:
        found = []
        rows = ask(database(endless())).stream()
        async for row in rows:
            found.append(row["n"])
            if len(found) == 100:
                break
        await rows.aclose()  # type: ignore[attr-defined]
        return found

    assert asyncio.run(main()) == [10] * 100
    assert len(closed) == 1


def test_cancelling_a_run() -> None:
    async def silent() -> AsyncIterator[tuple[str, int]]:
        yield ("a", 1)
        await asyncio.sleep(3600)

    async def main() -> None:
        started = asyncio.Event()
        query = ask(database(silent()), "SELECT t FROM s")
        task = asyncio.create_task(query.run_async(lambda batch: started.set()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_coroutine_that_fails() -> None:
    async def broken(batch: Any) -> None:
        raise ValueError("no room")

    with pytest.raises(ps.RunError, match=r"the callback .*broken failed: ValueError: no room"):
        asyncio.run(ask(database(numbers())).run_async(broken))


def test_two_live_sources_side_by_side() -> None:
    """Each says something only after the other one has: nobody may wait for the end of one."""

    async def main() -> list[int]:
        turns = [asyncio.Event(), asyncio.Event()]

        async def rows(mine: int) -> AsyncIterator[tuple[str, int]]:
            for t in range(5):
                yield ("ab"[mine], 10 * t)
                turns[mine].set()
                await turns[1 - mine].wait()
                turns[1 - mine].clear()
            turns[mine].set()

        db = ps.connect()
        for number, name in enumerate("sr"):
            db.stream(name, rows(number), schema=SCHEMA, progress=ps.progress("t", ordered=True))
        sql = (
            "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t]"
            " FROM (SELECT t FROM s UNION ALL SELECT t FROM r)"
        )
        return [row["n"] async for row in ask(db, sql).stream()]

    assert asyncio.run(main()) == [2] * 5


# --- beside the program --------------------------------------------------------------------------


def queued(given: asyncio.Queue[int | None]) -> Callable[[], AsyncIterator[tuple[str, int]]]:
    async def rows() -> AsyncIterator[tuple[str, int]]:
        while (t := await given.get()) is not None:
            yield ("a", t)

    return rows


async def until(holds: Callable[[], object]) -> None:
    """Without holding up the loop."""
    await asyncio.to_thread(wait_for, holds)


@pytest.mark.parametrize("declared", ["on the loop", "before it"])
@pytest.mark.parametrize("way", ["live", "start"])
def test_rows_of_a_queue_are_read_on_its_loop(declared: str, way: str) -> None:
    found: list[int] = []
    given: list[asyncio.Queue[int | None]] = []

    async def rows() -> AsyncIterator[tuple[str, int]]:
        while (t := await given[0].get()) is not None:
            yield ("a", t)

    async def main(db: ps.Database) -> None:
        given.append(asyncio.Queue())
        if declared == "on the loop":
            db = database(rows())
        if way == "live":
            live = db.live()
            query = live.sql("SELECT t FROM s", lambda row: found.append(row["t"]), rows=True)
            assert isinstance(query, ps.LiveQuery)
            for wait in (query.wait, live.wait):
                with pytest.raises(ps.EngineError, match="hold up the event loop"):
                    wait(timeout=LONGEST)
        else:
            started = ask(db, "SELECT t FROM s").start(
                lambda row: found.append(row["t"]), rows=True
            )
            with pytest.raises(ps.EngineError, match="hold up the event loop"):
                started.wait()
        for t in range(3):
            await asyncio.sleep(0.01)  # so that it waits for the next one
            given[0].put_nowait(t)
        await until(lambda: found == [0, 1, 2])
        given[0].put_nowait(None)
        if way == "live":
            assert await asyncio.to_thread(live.wait, timeout=LONGEST)
            live.stop()
        else:
            assert (await asyncio.to_thread(started.wait)).read == 3

    asyncio.run(main(database(rows())))


def test_a_live_engine_that_is_stopped_on_the_loop_of_its_rows() -> None:
    closed: list[bool] = []

    async def rows() -> AsyncIterator[tuple[str, int]]:
        try:
            yield ("a", 1)
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def main() -> None:
        found: list[int] = []
        with database(rows()).live() as live:
            live.sql("SELECT t FROM s", lambda row: found.append(row["t"]), rows=True)
            await until(lambda: found == [1])
        while not closed:
            await asyncio.sleep(0.005)

    asyncio.run(main())


@pytest.mark.parametrize("way", ["live", "start"])
def test_a_queue_that_another_thread_fills_is_refused(way: str) -> None:
    """It would not wake the reader, who would wait for ever."""
    given: asyncio.Queue[int | None] = asyncio.Queue()
    query = ask(db := database(queued(given)()), "SELECT t FROM s")
    waits = lambda: bool(given._getters)  # type: ignore[attr-defined]  # noqa: E731
    if way == "live":
        with db.live() as live:
            asked = live.sql("SELECT t FROM s")
            assert isinstance(asked, ps.LiveQuery)
            wait_for(waits)
            given.put_nowait(1)
            with pytest.raises(ps.RunError, match="another thread or event loop sets"):
                asked.wait(timeout=LONGEST)
    else:
        started = query.start(lambda _: None)
        wait_for(waits)
        given.put_nowait(1)
        with pytest.raises(ps.SourceError, match="another thread or event loop sets"):
            started.wait()


def test_a_loop_that_ends_is_no_end_of_its_stream() -> None:
    found: list[int] = []
    given: list[Any] = []

    async def rows() -> AsyncIterator[tuple[str, int]]:
        yield ("a", 1)
        await asyncio.Event().wait()

    async def main() -> None:
        live = database(rows()).live()
        given.append((live, live.sql(COUNT, lambda row: found.append(row["n"]), rows=True)))
        await until(lambda: live.status()[0].account.read == 1)

    asyncio.run(main())
    live, query = given[0]
    with pytest.raises(ps.RunError, match="its event loop has ended"):
        query.wait(timeout=LONGEST)
    assert not found, "the window is not complete"
    live.stop()


def test_rows_that_are_cancelled_have_not_ended() -> None:
    async def rows() -> AsyncIterator[tuple[str, int]]:
        yield ("a", 1)
        raise asyncio.CancelledError

    with pytest.raises(ps.SourceError, match="broke off after item 1: its task was cancelled"):
        ask(database(rows())).collect()
