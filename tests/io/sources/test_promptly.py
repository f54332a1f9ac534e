"""Rows of iterators that fall silent: a burst is handed on to its last row, though nobody knows
when the next one comes, and whoever waits for it can be left alone."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.errors import SourceError
from penstock.io.formats.rows import ROWS_A_BATCH
from tests.waiting import join, wait_for

SOON = 60.0  # seconds; who waits for the next row waits for ever


class Bursts:
    """Rows that come at once, burst by burst, whenever a test lets the next one come."""

    def __init__(self, *bursts: list[Any]) -> None:
        self._bursts = bursts
        self._next = threading.Semaphore(0)
        self.threads: set[int] = set()

    def __call__(self) -> Iterator[Any]:
        for burst in self._bursts:
            for value in burst:
                self.threads.add(threading.get_ident())
                yield {"v": value}
            self._next.acquire()

    def go_on(self) -> None:
        self._next.release()

    def stream(self, name: str = "s", **options: Any) -> ps.Database:
        db = ps.connect(**options)
        db.stream(name, self, schema="v INT", progress=ps.progress("v", delay=0))
        return db


@pytest.fixture(params=["start", "live", "live on threads"])
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


def begin(way: str, db: ps.Database, sql: str, sink: Any) -> Any:
    if way == "start":
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        return query.start(sink, rows=True)
    live = db.live(threads=3 if way == "live on threads" else 1)
    live.sql(sql, sink, rows=True)
    return live


def test_the_last_rows_of_a_burst_do_not_wait_for_the_next(way: str) -> None:
    bursts = Bursts([*range(100)], [*range(100, 3 * ROWS_A_BATCH)], [3 * ROWS_A_BATCH])
    seen: list[int] = []
    running = begin(way, bursts.stream(), "SELECT v FROM s", lambda row: seen.append(row["v"]))
    for count in (100, 3 * ROWS_A_BATCH, 3 * ROWS_A_BATCH + 1):
        wait_for(lambda count=count: len(seen) == count, seconds=SOON)  # type: ignore[misc]
        bursts.go_on()
    running.wait()
    assert seen == [*range(3 * ROWS_A_BATCH + 1)]
    assert len(bursts.threads) == 1  # the iterator stays in one
    running.stop()


def test_a_silent_iterator_beside_others() -> None:
    """Both sources are read in threads, because one of them is asynchronous."""

    async def slow() -> Any:
        yield {"v": -1}
        await asyncio.to_thread(done.wait)

    bursts, done, seen = Bursts([1, 2, 3]), threading.Event(), []
    db = bursts.stream()
    db.stream("r", slow, schema="v INT")
    query = db.sql("SELECT v FROM s UNION ALL SELECT v FROM r")

    def hear(row: dict[str, int]) -> None:
        seen.append(row["v"])
        if len(seen) == 4:
            done.set()
            bursts.go_on()

    assert query.run(hear, rows=True).read == 4
    assert sorted(seen) == [-1, 1, 2, 3]


def test_a_run_beside_a_silent_iterator_can_be_stopped() -> None:
    bursts, seen = Bursts([1, 2, 3]), []
    started = begin("start", bursts.stream(), "SELECT v FROM s", lambda row: seen.append(row))
    wait_for(lambda: len(seen) == 3, seconds=SOON)
    started.stop()
    waiting = threading.Thread(target=started.wait)
    waiting.start()
    join(waiting, SOON)
    assert started.account.read == 3
    bursts.go_on()


def test_a_run_on_an_event_loop_can_be_cancelled_while_an_iterator_is_silent() -> None:
    bursts, seen = Bursts([1, 2, 3]), []

    async def work() -> None:
        query = bursts.stream().sql("SELECT v FROM s")
        task = asyncio.create_task(query.run_async(lambda row: seen.append(row), rows=True))
        while len(seen) < 3:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(work(), SOON))
    bursts.go_on()


def test_a_live_engine_stops_at_once_however_many_iterators_are_silent() -> None:
    bursts = [Bursts([1]) for _ in range(10)]
    db = ps.connect()
    for number, each in enumerate(bursts):
        db.stream(f"s{number}", each, schema="v INT")
    live = db.live()
    for number in range(10):
        live.sql(f"CREATE QUERY q{number} AS SELECT v FROM s{number}")
    wait_for(lambda: all(each.account.read == 1 for each in live.status()), seconds=SOON)
    live.drop("q3")
    stopping = threading.Thread(target=live.stop)
    stopping.start()
    join(stopping, SOON)  # although none of them says a word
    for each in bursts:
        each.go_on()


def test_a_row_that_does_not_fit_is_told_while_the_iterator_is_silent() -> None:
    bursts = Bursts([1, "two", 3])
    with bursts.stream().live() as live:
        live.sql("CREATE QUERY q AS SELECT v FROM s")
        wait_for(lambda: live.status()[0].account.rejected == 1, seconds=SOON)
        wait_for(lambda: live.status()[0].account.read == 3, seconds=SOON)
        bursts.go_on()


@pytest.mark.parametrize("strict_row", [1, 3])
def test_a_strict_run_fails_while_the_iterator_is_silent(strict_row: int, way: str) -> None:
    values: list[Any] = [1, 2, 3, 4]
    values[strict_row] = "no number"
    bursts = Bursts(values, [5])
    running = begin(way, bursts.stream(strict=True), "SELECT v FROM s", lambda row: None)
    if way == "start":
        with pytest.raises(
            SourceError, match=f"row {strict_row + 1}, column v: the str 'no number'"
        ):
            running.wait()
    else:
        assert running.wait(timeout=SOON)
        assert "'no number'" in str(running.error("select 1"))
        running.stop()
    bursts.go_on()
    bursts.go_on()


def test_rows_that_a_checkpoint_has_are_skipped_meanwhile(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"

    def on_checkpoint(*bursts: list[int]) -> list[int]:
        made = Bursts(*bursts)
        with made.stream().live(checkpoint=tmp_path / "kept") as live:
            if not live.status():
                live.sql(f"CREATE QUERY q AS SELECT v FROM s INTO '{output}'")
            wait_for(lambda: live.status()[0].account.read == len(bursts[-1]), seconds=SOON)
        made.go_on()
        return [json.loads(line)["v"] for line in output.read_text().splitlines()]

    assert on_checkpoint([1, 2, 3]) == [1, 2, 3]
    assert on_checkpoint([1, 2, 3, 4, 5]) == [1, 2, 3, 4, 5]


def test_rows_before_a_checkpoint_that_are_others_are_refused_meanwhile(tmp_path: Path) -> None:
    first, other = Bursts([1, 2, 3]), Bursts([1, 2, 4, 5])
    with first.stream().live(checkpoint=tmp_path / "kept") as live:
        live.sql("CREATE QUERY q AS SELECT v FROM s")
        wait_for(lambda: live.status()[0].account.read == 3, seconds=SOON)
    with other.stream().live(checkpoint=tmp_path / "kept") as live:
        assert live.wait("q", timeout=SOON)
        assert "are not those that were read" in str(live.error("q"))
    first.go_on()
    other.go_on()


def test_whatever_the_pauses_rows_are_complete_and_in_order(way: str) -> None:
    chance = random.Random(7)

    def rows() -> Iterator[dict[str, int]]:
        for value in range(2000):
            if chance.random() < 0.02:
                time.sleep(chance.choice((0.0002, 0.001, 0.009, 0.0101, 0.012)))
            yield {"v": value}

    db = ps.connect()
    db.stream("s", rows, schema="v INT")
    seen: list[int] = []
    running = begin(way, db, "SELECT v FROM s", lambda row: seen.append(row["v"]))
    running.wait()
    assert seen == [*range(2000)]
    running.stop()


def test_a_failure_comes_behind_the_rows_before_it(way: str) -> None:
    def rows() -> Iterator[dict[str, int]]:
        yield from ({"v": value} for value in range(5))
        wait_for(lambda: len(seen) == 5, seconds=SOON)  # handed on meanwhile
        raise OSError("the cable is out")

    db = ps.connect()
    db.stream("s", rows, schema="v INT")
    seen: list[int] = []
    running = begin(way, db, "SELECT v FROM s", lambda row: seen.append(row["v"]))
    if way == "start":
        with pytest.raises(SourceError, match="broke off after item 5: OSError"):
            running.wait()
    else:
        running.wait()
        assert "broke off after item 5" in str(running.error("select 1"))
    assert seen == [*range(5)]
    running.stop()
