"""Subscribers of a live engine: each has a queue of its own, and only its query waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import EngineError, RunError, SinkError
from tests.local.live.scripted import speak
from tests.local.scheduling.test_scheduler import Spoken
from tests.waiting import LONGEST, join, wait_for


class Slow:
    """A function that is handed rows, and goes on when it is told."""

    def __init__(self) -> None:
        self.at_work = threading.Event()
        self.go_on = threading.Event()
        self.found: list[int] = []

    def __call__(self, row: dict[str, int]) -> None:
        self.at_work.set()
        assert self.go_on.wait(LONGEST)
        self.found.append(row["v"])


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.go_on.set()


@pytest.fixture
def sources() -> dict[str, Spoken]:
    return {"s": Spoken(), "r": Spoken()}


@pytest.fixture
def db(sources: dict[str, Spoken]) -> ps.Database:
    made = ps.connect()
    for name, source in sources.items():
        made.stream(name, [{"v": 1}], progress=ps.progress("v", delay=0))
        speak(made, name, source)
    return made


def listen(live: ps.Live, name: str, **options: Any) -> list[int]:
    found: list[int] = []
    live.subscribe(name, lambda row: found.append(row["v"]), rows=True, **options)
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kept", [False, True], ids=["", "checkpoint"])
def test_nobody_waits_for_a_slow_subscriber(
    db: ps.Database,
    sources: dict[str, Spoken],
    slow: Slow,
    kept: bool,
    threads: int,
    tmp_path: Path,
) -> None:
    """Neither queries, its own among them, nor who changes something, nor a save."""
    made = [db.sql("CREATE STREAM f (v INT) FROM VALUES (1), (2) PROGRESS ON v ORDERED")]
    assert made == [None]
    options: dict[str, Any] = {"checkpoint": tmp_path / "kept"} if kept else {}
    if kept:  # streams that come back have to be there, and nothing more
        options["trigger"] = "10 milliseconds"
    with db.live(threads=threads, **options) as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s; CREATE QUERY b AS SELECT v FROM s")
        live.sql("CREATE QUERY c AS SELECT v FROM r")
        live.subscribe("a", slow, rows=True)
        seen = [listen(live, name) for name in "abc"]
        sources["s"].said.put([1])
        assert slow.at_work.wait(LONGEST)
        sources["s"].said.put([2, 3])
        sources["r"].said.put([4])
        wait_for(lambda: seen == [[1, 2, 3], [1, 2, 3], [4]])
        live.sql("CREATE QUERY d AS SELECT v FROM f")
        assert live.wait("d", timeout=LONGEST)
        live.sql("DROP QUERY b")
        waiting = {each.name: each.waiting for each in live.status()}
        assert waiting == {"a": 3, "c": 0, "d": 0}
        assert {each.name: each.waiting for each in live.graph_status().answers}["a"] == 3
        slow.go_on.set()
        wait_for(lambda: slow.found == [1, 2, 3])


def test_a_full_queue_holds_up_its_query_and_no_other(
    db: ps.Database, sources: dict[str, Spoken], slow: Slow
) -> None:
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s; CREATE QUERY c AS SELECT v FROM r")
        live.subscribe("a", slow, rows=True, overload="block 4")
        other = listen(live, "c")
        sources["s"].said.put([0, 1, 2, 3])
        wait_for(lambda: live.status()[0].waiting == 4)
        for value in range(4, 20):
            sources["s"].said.put([value])
        sources["r"].said.put([1])
        wait_for(lambda: other == [1])
        assert live.status()[0].written == 4, "nothing more is read"
        assert "query a waits for a subscriber that has 4 rows to handle" in live.explain_stall("a")
        assert "waits for a subscriber" not in live.explain_stall("c")
        slow.go_on.set()
        wait_for(lambda: slow.found == list(range(20)))
        assert live.status()[0].dropped == 0


def test_a_query_that_was_held_up_may_go(
    db: ps.Database, sources: dict[str, Spoken], slow: Slow
) -> None:
    """What shares its stream goes on then."""
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s; CREATE QUERY b AS SELECT v FROM s")
        live.subscribe("a", slow, rows=True, overload="block 1")
        other = listen(live, "b")
        sources["s"].said.put([1])
        wait_for(lambda: other == [1])
        sources["s"].said.put([2])
        assert live.drop("a", drain=False).read == 1
        wait_for(lambda: other == [1, 2])


def test_a_subscriber_that_was_waited_for_may_leave(
    db: ps.Database, sources: dict[str, Spoken], slow: Slow
) -> None:
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s")
        leave = live.subscribe("a", slow, rows=True, overload="block 1")
        other = listen(live, "a")
        sources["s"].said.put([1])
        wait_for(lambda: other == [1])
        assert slow.at_work.wait(LONGEST)
        sources["s"].said.put([2])
        leave()
        wait_for(lambda: other == [1, 2])
        slow.go_on.set()
        live.stop()
        wait_for(lambda: slow.found == [1])  # what it had in hand


def test_the_oldest_rows_are_dropped_and_counted(
    db: ps.Database, sources: dict[str, Spoken], slow: Slow
) -> None:
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s")
        live.subscribe("a", slow, rows=True, overload="drop-oldest 5")
        everything = listen(live, "a")
        sources["s"].said.put([0])
        assert slow.at_work.wait(LONGEST)
        for first in range(1, 100, 3):
            sources["s"].said.put(list(range(first, first + 3)))
        wait_for(lambda: len(everything) == 100)
        (status,) = live.status()
        assert (status.written, status.dropped, status.waiting) == (100, 95, 5)
        shown = live.sql("SHOW QUERIES")
        assert isinstance(shown, ps.Explanation)
        assert shown.table().select(["rows", "waiting", "dropped"]).to_pylist() == [
            {"rows": 100, "waiting": 5, "dropped": 95}
        ]
        slow.go_on.set()
        wait_for(lambda: slow.found == [0, 96, 97, 98, 99])
        assert live.graph_status().answers[0].dropped == 95


@pytest.mark.parametrize("kept", [False, True], ids=["", "checkpoint"])
@pytest.mark.parametrize("drain", [True, False])
def test_who_stops_waits_for_subscribers(
    db: ps.Database, sources: dict[str, Spoken], slow: Slow, drain: bool, kept: bool, tmp_path: Path
) -> None:
    live = db.live(checkpoint=tmp_path / "kept" if kept else None)
    live.sql("CREATE QUERY a AS SELECT v FROM s")
    live.subscribe("a", slow, rows=True)
    sources["s"].said.put([1, 2, 3])
    wait_for(lambda: live.status()[0].waiting == 3)
    stopping = threading.Thread(target=live.stop, kwargs={"drain": drain}, daemon=True)
    stopping.start()
    if drain:
        wait_for(lambda: not live.active)
        assert stopping.is_alive()
    else:
        join(stopping)
    slow.go_on.set()
    join(stopping)
    if drain:
        assert slow.found == [1, 2, 3]
    else:
        wait_for(lambda: slow.found == [1])


@pytest.mark.parametrize("how", ["wait", "drop", "DROP QUERY"])
def test_who_waits_for_a_query_waits_for_its_subscribers(slow: Slow, how: str) -> None:
    db = ps.connect()
    db.stream("s", [{"v": v} for v in range(5)])
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s; ALTER QUERY a SET PAUSED TRUE")
        live.subscribe("a", slow, rows=True)
        live.resume("a")
        assert slow.at_work.wait(LONGEST)
        assert not live.wait("a", timeout=0.01)
        wait_for(lambda: live.status()[0].state == "ended")
        threading.Timer(0.05, slow.go_on.set).start()
        if how == "wait":
            assert live.wait("a", timeout=LONGEST)
        elif how == "drop":
            live.drop("a")
        else:
            live.sql("DROP QUERY a")
        assert slow.found == [0, 1, 2, 3, 4]


def test_the_sink_of_a_select_has_a_queue(
    db: ps.Database, sources: dict[str, Spoken], slow: Slow
) -> None:
    """Also one that is an object, which ends when it has got everything."""

    class Own:
        def __init__(self) -> None:
            self.said: list[str] = []

        def begin(self, schema: pa.Schema) -> None:
            self.said.append("begin")

        def write(self, batch: pa.RecordBatch) -> None:
            assert slow.go_on.wait(LONGEST)
            self.said.append(f"{batch.num_rows} rows")

        def flush(self) -> None:
            """Nothing."""

        def commit(self, epoch: int) -> None:
            self.said.append(f"commit {epoch}")

        def end(self) -> None:
            self.said.append("end")

    own = Own()
    with db.live() as live:
        first = live.sql("SELECT v FROM s", slow, rows=True)
        second = live.sql("SELECT v FROM r", own)
        assert isinstance(first, ps.LiveQuery)
        assert isinstance(second, ps.LiveQuery)
        sources["s"].said.put([1])
        sources["r"].said.put([1, 2])
        third = live.sql("SELECT v FROM s")
        assert isinstance(third, ps.LiveQuery)
        wait_for(lambda: [each.waiting for each in live.status()] == [1, 2, 0])
        assert first.stop(drain=False).read == 1
        slow.go_on.set()
        assert second.stop().read == 2
    assert own.said == ["begin", "2 rows", "commit 0", "end"]


def test_a_subscriber_that_fails_stops_its_query(
    db: ps.Database, sources: dict[str, Spoken]
) -> None:
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s; CREATE QUERY b AS SELECT v FROM s")
        live.subscribe("a", lambda row: 1 // (2 - row["v"]), rows=True)
        other = listen(live, "b")
        sources["s"].said.put([1, 2, 3])
        assert live.wait("a", timeout=LONGEST)
        sources["s"].said.put([4])
        wait_for(lambda: other == [1, 2, 3, 4])
        states = {each.name: (each.state, each.error) for each in live.status()}
        assert states["b"] == ("running", None)
        assert states["a"][0] == "failed"
        assert "division or modulo by zero" in (states["a"][1] or "")


@pytest.mark.parametrize("kept", [False, True], ids=["", "checkpoint"])
def test_a_subscriber_that_fails_when_its_query_has_ended(kept: bool, tmp_path: Path) -> None:
    db = ps.connect()
    db.stream("s", [{"v": v} for v in range(5)])
    go_on = threading.Event()

    def fail(row: dict[str, int]) -> None:
        assert go_on.wait(LONGEST)
        raise ValueError("no room")

    with db.live(checkpoint=tmp_path / "kept" if kept else None) as live:
        query = live.sql("SELECT v FROM s", fail, rows=True)
        assert isinstance(query, ps.LiveQuery)
        wait_for(lambda: live.status()[0].state == "ended")
        go_on.set()
        with pytest.raises(RunError, match="no room"):
            query.wait(timeout=LONGEST)
        assert live.status()[0].state == "failed"
        go_on.clear()
        query = live.sql("SELECT v FROM s", fail, rows=True)
        assert isinstance(query, ps.LiveQuery)
        wait_for(lambda: live.status()[1].state == "ended")
        threading.Timer(0.05, go_on.set).start()
        with pytest.raises(RunError, match="no room"):
            query.stop()


def test_a_subscriber_must_not_wait_for_itself(db: ps.Database, sources: dict[str, Spoken]) -> None:
    refused: list[str] = []
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s")

        def stop(row: dict[str, int]) -> None:
            with pytest.raises(EngineError, match="cannot change the engine") as caught:
                live.stop()
            refused.append(caught.value.message)

        live.subscribe("a", stop, rows=True)
        sources["s"].said.put([1])
        wait_for(lambda: refused)


def test_what_may_be_retracted_is_not_dropped(db: ps.Database) -> None:
    changes = "SELECT v, count(*) AS n FROM s GROUP BY v EMIT CHANGES"
    with db.live() as live:
        live.sql(f"CREATE QUERY a AS {changes}")
        with pytest.raises(SinkError, match="must not miss any"):
            live.subscribe("a", print, overload="drop-oldest")
        with pytest.raises(SinkError, match="must not miss any"):
            live.sql(changes, print, overload="drop-oldest 7")
        live.subscribe("a", print, overload="drop-oldest", of="rejected")
        assert [each.name for each in live.status()] == ["a"]


@pytest.mark.parametrize("overload", ["forget", "block 0", "drop-oldest 0", "drop-oldest x", ""])
def test_nonsense(db: ps.Database, overload: str) -> None:
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s")
        with pytest.raises(SinkError, match="when a subscriber is too slow"):
            live.subscribe("a", print, overload=overload)
        with pytest.raises(SinkError, match="when a subscriber is too slow"):
            live.sql("SELECT v FROM s", print, overload=overload)


def test_a_function_that_nobody_awaits(db: ps.Database) -> None:
    async def later(row: dict[str, int]) -> None:
        """Never called."""

    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s")
        with pytest.raises(SinkError, match="is asynchronous, and is not awaited"):
            live.subscribe("a", later)
