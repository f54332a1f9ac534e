"""Queries that come and go on a running engine, and fail each for itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps
from penstock.errors import EngineError, SourceError
from penstock.io.sinks.sink import Callback, Collected
from penstock.local.live.engine import LiveEngine
from penstock.model.clock import ManualClock
from penstock.runs.answer import IsolatedOutlet
from penstock.runs.lookup_tables import Tables
from tests.local.live.scripted import speak
from tests.local.scheduling.test_scheduler import Spoken
from tests.planning import in_process
from tests.waiting import LONGEST, join

COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA v] FROM a"

THREADS = [1]  # of the engines that tests make


@pytest.fixture(autouse=True, params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    THREADS.append(request.param)
    yield
    THREADS.pop()


class Live:
    """An engine over live streams of numbers that a test speaks."""

    def __init__(self, *streams: str, **options: Any) -> None:
        self.db = ps.connect(clock=ManualClock())
        self.engine = LiveEngine(ManualClock(), **{"threads": THREADS[-1], **options})
        self.sources = {name: Spoken() for name in streams}
        for name, source in self.sources.items():
            progress = ps.progress("v", delay=0)
            self.db.stream(name, [], schema={"v": "INT"}, progress=progress)
            speak(self.db, name, source)
        self.rows: dict[str, Collected] = {}

    def add(self, name: str, sql: str, sink: Any = None) -> IsolatedOutlet:
        query = self.db.sql(sql)
        assert isinstance(query, ps.Query)
        plan = in_process(query.plan)
        self.rows[name] = Collected()
        outlet = IsolatedOutlet(plan.query, sink or self.rows[name])
        self.engine.add(name, plan, outlet)
        return outlet

    def say(self, name: str, *values: int) -> None:
        """And wait until it has been heard by all."""
        read = self._read(name)
        self.sources[name].said.put(list(values))
        while self._read(name) < read + len(values) or self._busy():
            pass

    def _busy(self) -> bool:
        return self.engine.ask(lambda: any(each.busy for each in self.engine._graph.components))

    def _read(self, name: str) -> int:
        return self.engine.ask(
            lambda: sum(
                each.ingest.read
                for each in self.engine._graph.sources
                if each.ingest.stream.name == name
            )
        )

    def end(self) -> None:
        for source in self.sources.values():
            source.said.put(None)

    def values(self, name: str) -> list[Any]:
        return [next(iter(row.values())) for row in self.rows[name].table.to_pylist()]

    def states(self) -> dict[str, str]:
        return {each.name: each.state for each in self.engine.status()}

    def __enter__(self) -> Live:
        self.engine.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.engine.stop()


def test_each_query_gets_what_comes_while_it_is_there() -> None:
    with Live("a") as live:
        live.add("all", "SELECT v FROM a")
        live.say("a", 1, 2)
        live.add("even", "SELECT v FROM a WHERE v % 2 = 0")
        live.add("late", "SELECT v FROM a")
        live.say("a", 3, 4)
        account = live.engine.drop("even")
        live.say("a", 6)
        assert (account.read, live.values("even")) == (2, [4])
        assert (live.values("all"), live.values("late")) == ([1, 2, 3, 4, 6], [3, 4, 6])
        assert live.states() == {"all": "running", "late": "running"}


def test_a_query_ends_with_its_streams() -> None:
    with Live("a", "b") as live:
        live.add("a", COUNT)
        live.add("b", COUNT.replace("FROM a", "FROM b"))
        live.say("a", 1, 2, 12)
        assert [each.open_windows for each in live.engine.status()] == [1, 0]
        live.sources["a"].said.put(None)
        assert live.engine.wait("a", timeout=LONGEST)
        assert live.states() == {"a": "ended", "b": "running"}
        assert live.rows["a"].table.column("n").to_pylist() == [2, 1]
        assert live.engine.drop("a").read == 3


def test_windows_of_a_newcomer_begin_with_it() -> None:
    with Live("a") as live:
        live.add("first", COUNT)
        live.say("a", 1, 2, 3)
        live.add("second", COUNT)
        live.say("a", 4, 12)
        assert live.rows["first"].table.column("n").to_pylist() == [4]
        assert live.rows["second"].table.column("n").to_pylist() == [1]


def test_streams_that_can_be_read_again_are_read_from_their_beginning() -> None:
    with Live() as live:
        rows = [{"v": value} for value in range(25)]
        live.db.stream("a", rows, progress=ps.progress("v", delay=0))
        live.add("first", COUNT)
        assert live.engine.wait("first", timeout=LONGEST)
        live.add("second", COUNT)
        assert live.engine.wait(timeout=LONGEST)
        for name in ("first", "second"):
            assert live.rows[name].table.column("n").to_pylist() == [10, 10, 5]


# --- failures ------------------------------------------------------------------------------------


class Throwing:
    """Fails at the value 13, and leaves the program at 17."""

    def init(self) -> int:
        return 0

    def accumulate(self, state: int, column: Any) -> int:
        if 13 in column.to_pylist():
            raise ValueError("thirteen")
        if 17 in column.to_pylist():
            raise SystemExit("seventeen")
        return state + len(column)

    def merge(self, one: int, other: int) -> int:
        return one + other

    def finish(self, state: int) -> int:
        return state


def thirteen(row: dict[str, int]) -> None:
    if row["v"] == 13:
        raise ValueError("thirteen")


def test_who_fails_stops_alone() -> None:
    with Live("a") as live:
        live.db.aggregate("fussy", Throwing(), returns="BIGINT", arguments=["INT"])
        live.add("good", "SELECT v FROM a WHERE v > 0")
        live.add("windows", COUNT)
        live.add("sink", "SELECT v FROM a WHERE v > 0", Callback(thirteen, rows=True))
        live.add("aggregate", COUNT.replace("count(*)", "fussy(v)"))
        live.add("expression", "SELECT v / (v - 13) AS v FROM a WHERE v > 0")
        live.add("also good", "SELECT v FROM a WHERE v > 0")
        live.say("a", 1, 2)
        live.say("a", 13, 14)
        live.say("a", 25)
        states = live.states()
        failed = {name for name, state in states.items() if state == "failed"}
        assert failed >= {"sink", "aggregate"}
        assert states["good"] == states["also good"] == states["windows"] == "running"
        assert live.values("good") == live.values("also good") == [1, 2, 13, 14, 25]
        assert live.rows["windows"].table.column("n").to_pylist() == [2, 2]
        assert "thirteen" in str(live.engine.error("sink"))
        assert "thirteen" in str(live.engine.error("aggregate"))
        live.engine.drop("sink")
        live.add("sink", "SELECT v FROM a")
        live.say("a", 26)
        assert live.values("sink") == [26]


def test_whoever_wants_to_leave_the_program_stops_alone() -> None:
    with Live("a") as live:
        live.db.aggregate("fussy", Throwing(), returns="BIGINT", arguments=["INT"])
        live.add("good", COUNT)
        live.add("leaving", COUNT.replace("count(*)", "fussy(v)"))
        live.add("also good", "SELECT v FROM a WHERE v > 0")
        live.say("a", 1, 2)
        live.say("a", 17)
        live.say("a", 25)
        states = live.states()
        assert states == {"good": "running", "leaving": "failed", "also good": "running"}
        assert live.rows["good"].table.column("n").to_pylist() == [2, 1]
        assert live.values("also good") == [1, 2, 17, 25]


def test_an_engine_that_has_broken_down_says_why_and_takes_nothing_on(monkeypatch: Any) -> None:
    live = Live("a", "b")
    live.engine.start()
    live.add("one", "SELECT v FROM a")
    live.add("other", "SELECT v FROM b")
    monkeypatch.setattr(live.engine._run, "deliver", _break_down)
    live.sources["a"].said.put([1])
    assert live.engine.wait(timeout=LONGEST)
    join(live.engine._thread)
    assert live.states() == {"one": "failed", "other": "failed"}
    with pytest.raises(EngineError, match="has stopped, because of AssertionError: a mistake"):
        live.add("late", "SELECT v FROM a")
    with pytest.raises(AssertionError, match="a mistake"):
        live.engine.stop()


def _break_down(*_: object) -> None:
    raise AssertionError("a mistake of ours")


def test_a_source_that_breaks_off_stops_those_that_read_it() -> None:
    with Live("a", "b") as live:
        live.add("a", "SELECT v FROM a")
        live.add("b", "SELECT v FROM b")
        live.add("both", "SELECT v FROM a UNION ALL SELECT v FROM b")
        live.say("a", 1)
        live.sources["a"].said.put(SourceError("the line is dead"))
        assert live.engine.wait("both", timeout=LONGEST)
        assert live.states() == {"a": "failed", "b": "running", "both": "failed"}
        live.say("b", 7)
        assert live.values("b") == [7]
        assert live.values("both") == [1]


def test_a_callback_cannot_change_the_engine() -> None:
    with Live("a") as live:
        found: list[str] = []

        def change(row: object) -> None:
            try:
                live.engine.drop("q")
            except EngineError as error:
                found.append(error.message)

        live.add("q", "SELECT v FROM a", Callback(change))
        live.say("a", 1)
        assert len(found) == 1


# --- how it is worked on -------------------------------------------------------------------------


def test_altering() -> None:
    with Live("a") as live:
        live.add("q", COUNT)
        for setting, value in (("SHARE", "2.5"), ("strategy", "bfs 3"), ("ets", "none")):
            live.engine.alter("q", setting, value)
        (component,) = live.engine.ask(lambda: live.engine._graph.components)
        assert component.share == 2.5
        assert component.enabling is not None
        assert all(node.transition.startswith("BFS") for node in component.nodes)
        for setting, value in (("SHARE", "much"), ("share", "-1"), ("colour", "red")):
            with pytest.raises(EngineError):
                live.engine.alter("q", setting, value)
        with pytest.raises(EngineError, match="no query called"):
            live.engine.alter("p", "share", "1")


def test_parts_of_a_query_are_worked_on_in_ways_of_their_own() -> None:
    with Live("a", "b") as live:
        live.add("q", "SELECT v FROM a WHERE v > 1 UNION ALL SELECT v FROM b WHERE v > 2")
        live.add("p", "SELECT v + 1 AS w FROM a")
        before = live.engine.state_table("p")
        table = live.engine.state_table("q")
        union = next(row.state for row in table.rows if row.state.startswith("Union"))
        live.engine.alter("q", "strategy", f"dfs; bfs 3 at {union}")
        rules = {row.state: row.cells()[-1] for row in live.engine.state_table("q").rows}
        assert rules.pop(union) == "BFS-Sink, k = 3"
        assert all(rule.startswith("DFS-") for rule in rules.values())
        filters = [name for name in rules if name.startswith("Filter")]
        live.engine.alter("q", "breaks", ", ".join(filters))
        rows = {row.state: row for row in live.engine.state_table("q").rows}
        assert {rows[name].successors for name in filters} == {()}, "the scheduler goes on there"
        assert live.engine.state_table("p") == before, "others are worked on as they were"
        whole = live.engine.state_table()
        assert {row.state for row in before.rows} < {row.state for row in whole.rows}
        live.say("a", 1, 2, 3)
        live.say("b", 1, 2, 3)
        assert sorted(live.values("q")) == [2, 3, 3]
        live.engine.alter("q", "breaks", "")
        assert live.engine.state_table("q").rows[-1].predecessors != ()
        for setting, value in (("breaks", "Union"), ("strategy", "bfs at Union")):
            with pytest.raises(EngineError, match=f"has no operator called 'Union'(.|\n)*{union}"):
                live.engine.alter("q", setting, value)


def test_what_the_graph_says() -> None:
    with Live("a") as live:
        live.add("q", COUNT.replace("FROM a", "FROM a WHERE v > 1"))
        live.say("a", 1, 2, 12)
        status = live.engine.graph_status()
        (kept,) = [node for node in status.nodes if node.operator == "Filter"]
        assert kept.selectivity == pytest.approx(2 / 3)
        assert kept.time_per_tuple is not None
        assert ("a", kept.name) in {(arc.begin, arc.end) for arc in status.arcs}
        assert [each.stream for each in status.sources] == ["a"]


def test_many_threads_change_it_at_once() -> None:
    with Live("a") as live:

        def come_and_go(number: int) -> None:
            for turn in range(5):
                live.add(f"{number}.{turn}", f"SELECT v FROM a WHERE v > {number}")
                live.engine.drop(f"{number}.{turn}")

        live.add("q", "SELECT v FROM a")
        threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for value in range(20):
            live.sources["a"].said.put([value])
        for thread in threads:
            join(thread)
        live.end()
        assert live.engine.wait("q", timeout=LONGEST)
        assert live.values("q") == list(range(20))


# --- pausing -------------------------------------------------------------------------------------


def test_a_paused_query_reads_no_further_and_loses_nothing() -> None:
    with Live("a", "b") as live:
        live.add("p", "SELECT v FROM a")
        live.add("q", "SELECT v FROM b")
        live.say("a", 1)
        live.engine.alter("p", "paused", "TRUE")
        live.sources["a"].said.put([2, 3])
        live.say("b", 7)
        assert live.states() == {"p": "paused", "q": "running"}
        assert (live.values("p"), live.values("q")) == ([1], [7])
        assert not live.engine.wait("p", timeout=0.01)
        with pytest.raises(EngineError, match="a is held, because query p is paused"):
            live.add("r", "SELECT v FROM a")
        live.engine.pause(["p"], False)
        live.end()
        assert live.engine.wait(timeout=LONGEST)
        assert live.values("p") == [1, 2, 3]


def test_queries_that_share_a_reading_are_paused_together() -> None:
    with Live("a") as live:
        live.add("p", "SELECT v FROM a")
        live.add("q", COUNT)
        with pytest.raises(EngineError, match="query p reads a together with q") as refused:
            live.engine.alter("p", "paused", "true")
        assert refused.value.hint == "live.pause('p', 'q')"
        live.engine.pause(None, True)
        live.sources["a"].said.put([1, 12])
        assert live.states() == {"p": "paused", "q": "paused"}
        with pytest.raises(EngineError, match="resume together"):
            live.engine.alter("q", "paused", "false")
        live.engine.pause(["q", "p"], False)
        live.end()
        assert live.engine.wait(timeout=LONGEST)
        assert live.values("p") == [1, 12]
        with pytest.raises(EngineError, match="does not say whether to pause"):
            live.engine.alter("p", "paused", "maybe")


def test_others_read_what_can_be_read_again_past_a_query_that_is_paused() -> None:
    with Live() as live:
        rows = [{"v": value} for value in range(25)]
        live.db.stream("s", rows, progress=ps.progress("v", delay=0))
        live.engine.ask(lambda: _held(live))
        live.add("q", "SELECT v FROM s")
        assert live.engine.wait("q", timeout=LONGEST)
        assert (len(live.values("q")), live.states()["p"]) == (25, "paused")
        live.engine.alter("p", "paused", "false")
        assert live.engine.wait("p", timeout=LONGEST)
        assert live.values("p") == list(range(25))


def _held(live: Live) -> None:
    """A query that is paused before it has read anything."""
    plan = in_process(live.db.sql("SELECT v FROM s").plan)  # type: ignore[union-attr]
    live.rows["p"] = Collected()
    outlet = IsolatedOutlet(plan.query, live.rows["p"])
    live.engine._queries.add("p", plan, outlet, Tables(ManualClock()), None)
    live.engine._queries.pause(["p"], True)
