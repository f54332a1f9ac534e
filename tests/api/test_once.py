"""Streams that can be read once: who shares a reading, and who is told that there is no other."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from tests.waiting import LONGEST, wait_for

COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"
UNION = "(SELECT t FROM s UNION ALL SELECT t + 5 AS t FROM s)"
ENGINES = ["local", "reference"]
SIZES = {"local": 10_000, "reference": 1_000}  # more than a batch, where there are batches


def generate(count: int = 10_000) -> Iterator[dict[str, int]]:
    for n in range(count):
        yield {"t": n // 100 + (3 if n % 7 == 0 else 0)}


def both(engine: str) -> tuple[Iterator[dict[str, int]], list[dict[str, int]]]:
    return generate(SIZES[engine]), list(generate(SIZES[engine]))


def database(data: object, engine: str = "local") -> ps.Database:
    db = ps.connect(engine)
    db.stream("s", data, schema="t BIGINT", progress=ps.progress("t", delay=1))
    return db


def ask(db: ps.Database, sql: str = COUNT) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


@pytest.mark.parametrize("engine", ENGINES)
def test_all_that_an_answer_offers_comes_from_one_reading(engine: str) -> None:
    query = ask(database(generate(SIZES[engine]), engine), COUNT + " LATE SIDE")
    query.explain()
    known = ask(database(list(generate(SIZES[engine])), engine), COUNT + " LATE SIDE")
    assert query.collect() == known.collect()
    assert query.late == known.late
    assert query.late.num_rows > 0
    assert query.rejected.num_rows == 0
    assert query.account == known.account
    assert list(query) == known.collect().to_pylist()


@pytest.mark.parametrize("engine", ENGINES)
def test_another_query_is_told(engine: str) -> None:
    db = database(generate(SIZES[engine]), engine)
    ask(db).collect()
    with pytest.raises(ps.SourceError, match="stream s has been read already"):
        ask(db).collect()


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_of_one_pass_share_the_reading(engine: str) -> None:
    db = database(generate(SIZES[engine]), engine)
    found: list[list[Any]] = [[], []]
    queries = [ask(db), ask(db, "SELECT max(t) AS last [RANGE 50, SLIDE 50, WA t] FROM s")]
    accounts = db.run(queries, [each.append for each in found], rows=True)
    assert [account.read for account in accounts] == [SIZES[engine]] * 2
    known = database(list(generate(SIZES[engine])), engine)
    for query, rows in zip(queries, found, strict=True):
        assert rows == ask(known, query.text).collect().to_pylist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT count(*) AS n, sum(t) AS s [RANGE 20, SLIDE 10, WA t] FROM {UNION} LATE SIDE",
        f"SELECT t, count(*) AS n FROM {UNION} GROUP BY t LATE SIDE",
        f"SELECT t FROM {UNION}",
    ],
)
def test_a_query_that_scans_twice_shares_the_reading(sql: str, engine: str) -> None:
    query, known = (ask(database(data, engine), sql) for data in both(engine))

    def rows(query: ps.Query) -> list[Any]:
        return sorted(tuple(row.values()) for row in query.collect().to_pylist())

    assert rows(query) == rows(known)
    assert sorted(map(str, query.late.to_pylist())) == sorted(map(str, known.late.to_pylist()))


@pytest.mark.parametrize(
    "data", [generate, generate(), list(generate())], ids=["function", "generator", "list"]
)
def test_windows_that_count_rows_over_a_stream_that_is_scanned_twice(data: Any) -> None:
    """All rows of one branch come before those of the other, or the query is refused."""
    sql = f"SELECT count(*) AS n, max(t) AS m [RANGE 3000 ROWS, SLIDE 3000 ROWS] FROM {UNION}"
    expected = ask(database(list(generate()), "reference"), sql).collect()
    query = ask(database(data), sql)
    if isinstance(data, Iterator):
        with pytest.raises(
            ps.EngineError, match=r"counts the rows of stream s .* several branches"
        ):
            query.collect()
    else:
        assert query.collect() == expected


def test_a_window_that_counts_rows_below_a_union() -> None:
    below = "SELECT count(*) AS n, max(t) AS m [RANGE 300 ROWS, SLIDE 300 ROWS] FROM s"
    sql = f"SELECT n, m FROM ({below}) UNION ALL SELECT n, m FROM ({below})"
    rows, known = (ask(database(data), sql).collect() for data in (generate(), list(generate())))
    order = [("n", "ascending"), ("m", "ascending")]
    assert rows.sort_by(order) == known.sort_by(order)


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_rows_of_a_shared_reading(engine: str) -> None:
    data = [{"t": 1}, {"t": "x"}, {"t": None}]
    db = database(iter(data), engine)
    queries = [ask(db), ask(db, "SELECT t FROM s")]
    accounts = db.run(queries, [lambda row: None] * 2)
    assert [(each.read, each.rejected) for each in accounts] == [(3, 2), (3, 2)]


# --- on a live engine ----------------------------------------------------------------------------


class Queue:
    """A queue of the program, and a function that takes rows from it."""

    def __init__(self) -> None:
        self.given: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.seen: dict[str, list[int]] = {name: [] for name in "abc"}

    def rows(self) -> Iterator[dict[str, int]]:
        while (t := self.given.get()) is not None:
            yield {"t": t}

    async def later(self) -> AsyncIterator[dict[str, int]]:
        while (t := await asyncio.to_thread(self.given.get)) is not None:
            yield {"t": t}

    def give(self, *values: int | None) -> None:
        for value in values:
            self.given.put(value)

    def ask(self, live: ps.Live, name: str) -> None:
        take = self.seen[name].append
        live.sql("SELECT t FROM s", lambda row: take(row["t"]), rows=True)


def named(live: ps.Live, queue: Queue, *names: str) -> None:
    """Queries that one script creates."""
    live.sql("; ".join(f"CREATE QUERY {name} AS SELECT t FROM s" for name in names))
    for name in names:
        take = queue.seen[name].append
        live.subscribe(name, lambda row, take=take: take(row["t"]), rows=True)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kept", [False, True], ids=["", "checkpoint"])
def test_a_third_query_takes_no_rows_of_a_function_away(
    kept: bool, threads: int, tmp_path: Path
) -> None:
    """Nobody knows whether it would give the same rows again, so it is not called again."""
    rows = Queue()
    db = database(rows.rows)
    with db.live(checkpoint=tmp_path / "kept" if kept else None, threads=threads) as live:
        named(live, rows, "a", "b")
        rows.give(1, 2)
        wait_for(lambda: rows.seen["a"] == rows.seen["b"] == [1, 2])
        with pytest.raises(ps.EngineError, match="stream s is being read already") as refused:
            rows.ask(live, "c")
        assert "replayable=True" in (refused.value.hint or "")
        with pytest.raises(ps.EngineError, match="stream s is being read already"):
            live.sql("CREATE QUERY c AS SELECT t FROM s")
        rows.give(3, 4, None)
        assert live.wait(timeout=LONGEST)
        wait_for(lambda: rows.seen["a"] == rows.seen["b"] == [1, 2, 3, 4])
        assert [each.name for each in live.status()] == ["a", "b"], "nothing is left of the third"


@pytest.mark.parametrize(
    "source", ["iterator", "function", "asynchronous", "asynchronous function"]
)
@pytest.mark.parametrize("kept", [False, True], ids=["", "checkpoint"])
def test_what_can_be_read_once_is_read_once_for_all(
    source: str, kept: bool, tmp_path: Path
) -> None:
    rows = Queue()
    db = ps.connect()
    once = {
        "iterator": rows.rows(),
        "function": rows.rows,
        "asynchronous": rows.later(),
        "asynchronous function": rows.later,
    }
    said = False if "function" in source else None
    db.stream("s", once[source], schema="t BIGINT", replayable=said)
    with db.live(checkpoint=tmp_path / "kept" if kept else None) as live:
        named(live, rows, "a", "b")
        rows.give(1)
        wait_for(lambda: rows.seen["a"] == rows.seen["b"] == [1])
        rows.ask(live, "c")  # what is not kept reads along with what is
        rows.give(2, 3, None)
        assert live.wait(timeout=LONGEST)
        wait_for(lambda: rows.seen == {"a": [1, 2, 3], "b": [1, 2, 3], "c": [2, 3]})


def test_a_function_that_is_replayable_is_called_for_every_query() -> None:
    calls: list[int] = []
    may_end = threading.Event()

    def rows() -> Iterator[dict[str, int]]:
        calls.append(1)
        yield from ({"t": t} for t in range(3))
        may_end.wait(LONGEST)

    db = ps.connect()
    db.stream("s", rows, schema="t BIGINT", replayable=True)
    seen = Queue()
    with db.live() as live:
        seen.ask(live, "a")
        wait_for(lambda: seen.seen["a"] == [0, 1, 2])
        seen.ask(live, "b")
        wait_for(lambda: seen.seen["b"] == [0, 1, 2])
        assert len(calls) == 2
        may_end.set()


def test_a_function_whose_reading_is_over_is_called_again() -> None:
    seen = Queue()
    with database(lambda: iter([{"t": 1}, {"t": 2}])).live() as live:
        for name in "ab":
            seen.ask(live, name)
            assert live.wait(timeout=LONGEST)
            wait_for(lambda name=name: seen.seen[name] == [1, 2])


def test_a_reading_that_waits_for_its_row_takes_none_from_the_next_one() -> None:
    """A query was dropped, but nobody can wake the program's queue."""
    rows = Queue()
    with database(rows.rows).live() as live:
        named(live, rows, "a")
        rows.give(1)
        wait_for(lambda: rows.seen["a"] == [1])
        live.drop("a")
        live.sql("CREATE QUERY b AS SELECT t FROM s")
        assert live.wait("b", timeout=LONGEST)
        assert "stream s is being read" in (live.status()[0].error or "")
        rows.give(None)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_two_runs_do_not_share_the_rows_of_a_function(asynchronous: bool) -> None:
    rows = Queue()
    db = database(rows.later if asynchronous else rows.rows)
    first = ask(db, "SELECT t FROM s").start(lambda row: rows.seen["a"].append(row["t"]), rows=True)
    rows.give(1)
    wait_for(lambda: rows.seen["a"] == [1])
    second = ask(db, "SELECT t FROM s").start(
        lambda row: rows.seen["b"].append(row["t"]), rows=True
    )
    with pytest.raises(ps.SourceError, match="stream s is being read"):
        second.wait()
    rows.give(2, 3, None)
    assert first.wait().read == 3
    assert rows.seen["a"] == [1, 2, 3]


def test_queries_of_one_script_see_the_same_rows() -> None:
    """No source is opened before all of them are there."""
    rows = Queue()
    rows.give(*range(100), None)
    with database(rows.rows()).live() as live:
        queries = [f"CREATE QUERY q{n} AS SELECT t + {n} AS t FROM s" for n in range(20)]
        live.sql("; ".join(queries))
        assert live.wait(timeout=LONGEST)
        assert [each.written for each in live.status()] == [100] * 20


@pytest.mark.parametrize("engine", ENGINES)
def test_both_sides_of_a_union_over_a_queue_share_its_rows(engine: str) -> None:
    rows = Queue()
    rows.give(1, 2, 3, None)
    found = ask(database(rows.rows, engine), f"SELECT t FROM {UNION}").collect()
    assert sorted(found.column("t").to_pylist()) == [1, 2, 3, 6, 7, 8]


def test_what_is_said_of_data_has_to_fit_it() -> None:
    db = ps.connect()
    for data, said in ((generate(), True), ([{"t": 1}], False), (pa.table({"t": [1]}), False)):
        with pytest.raises(ps.SourceError, match=r"can (be read once|always be read again)"):
            db.stream("s", data, schema="t BIGINT", replayable=said)
    db.stream("s", [{"t": 1}], replayable=True)


@pytest.mark.parametrize(
    ("given", "hint"), [(queue.Queue(), "iter(queue.get, None)"), (asyncio.Queue(), "queue.get()")]
)
def test_a_queue_is_no_table(given: object, hint: str) -> None:
    with pytest.raises(ps.SourceError, match="Queue is not a table") as refused:
        ps.connect().stream("s", given, schema="t BIGINT")
    assert hint in (refused.value.hint or "")
