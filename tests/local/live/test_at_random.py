"""Queries that come and go at random moments see what they are to see, whatever is changed
meanwhile: all of a stream that can be read again, and what comes while they are there of others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from time import monotonic
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import EngineError
from penstock.io.sinks.sink import Collected
from penstock.local.graph_options import Scheduling
from penstock.local.live.engine import LiveEngine
from penstock.model.clock import ManualClock
from penstock.runs.answer import IsolatedOutlet
from tests.local.helpers import recut
from tests.local.live.scripted import speak
from tests.local.live.told import Told
from tests.local.scheduling.test_every_strategy import QUERIES, ROWS, SCHEMA, STRATEGIES
from tests.planning import in_process
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples
from tests.waiting import LONGEST

ASKED = (
    *QUERIES,
    "SELECT k, count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s GROUP BY k",
    "SELECT k, count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM r GROUP BY k",
    "SELECT sum(v) AS total [RANGE 3 ROWS, SLIDE 1 ROW, WA row-num] FROM r",
    "SELECT v, t FROM s WHERE v > 1",
    "SELECT DISTINCT k, t FROM s",
)
TIMES = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.integers(-3, 5), st.integers(0, 3)),
    min_size=1,
    max_size=4,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), TIMES),
        st.tuples(st.just("add"), st.integers(0, len(ASKED) - 1)),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("strategy"), st.sampled_from(STRATEGIES)),
        st.tuples(st.just("break"), st.integers(0, 9)),
    ),
    max_size=12,
)


@dataclass
class Seen:
    """What a query was to see of the live stream, and what it has given out."""

    sql: str
    begin: int
    rows: Collected
    late: Collected
    end: int | None = None  # when it was dropped


class Story:
    def __init__(
        self, again: list[Row], carriage: str, ets: str, cut: int | None, threads: int
    ) -> None:
        self.source = Told()
        self.again = again
        self.db = database(s=self.stream([]), r=Stream(SCHEMA, again, ps.progress("t", delay=0)))
        speak(self.db, "s", self.source)
        recut(self.db, cut)
        speak(self.db, "s", self.source)
        scheduling = Scheduling.of("dfs", ets, carriage)
        self.engine = LiveEngine(ManualClock(), scheduling=scheduling, threads=threads)
        self.told: list[Row] = []
        self.seen: dict[str, Seen] = {}
        self.engine.start()
        self.add("SELECT k, v, t FROM s")  # somebody listens all the time

    def stream(self, rows: list[Row]) -> Stream:
        return Stream(SCHEMA, rows, ps.progress("t", delay=0))

    def add(self, sql: str) -> None:
        query = self.db.sql(sql)
        assert isinstance(query, ps.Query)
        plan = in_process(query.plan)
        seen = Seen(sql, len(self.told), Collected(), Collected())
        name = f"q{len(self.seen)}"
        self.seen[name] = seen
        self.engine.add(name, plan, IsolatedOutlet(plan.query, seen.rows, seen.late))

    def drop(self, number: int) -> None:
        names = [name for name, each in self.seen.items() if each.end is None][1:]
        if names:
            name = names[number % len(names)]
            self.seen[name].end = len(self.told)
            self.engine.drop(name)

    def say(self, rows: list[Row]) -> None:
        time = self.told[-1][2] if self.told else 0
        for key, value, later in rows:
            time += later
            self.told.append((key, value, time))
        self.source.said.put([*self.told[-len(rows) :]])
        until = monotonic() + 60
        while self.engine.status()[0].account.read < len(self.told):
            assert monotonic() < until, self.engine.status()[0]

    def change(self, what: str, value: Any) -> None:
        if what == "strategy":
            for name in self.running():
                try:
                    self.engine.alter(name, "strategy", value)
                except EngineError:
                    assert name not in self.running()  # it has ended meanwhile
        else:
            self.engine.ask(lambda: self.break_off(value))

    def break_off(self, number: int) -> None:
        graph = self.engine._graph
        names = [node.name for node in graph.nodes]
        graph.break_off([names[number % len(names)]])

    def running(self) -> list[str]:
        return [each.name for each in self.engine.status() if each.state == "running"]

    def check(self) -> None:
        self.source.said.put(None)
        assert self.engine.wait(timeout=LONGEST)
        assert {each.state for each in self.engine.status()} == {"ended"}
        self.engine.stop()
        for seen in self.seen.values():
            streams = {"s": self.stream(self.told[seen.begin : seen.end])}
            streams["r"] = Stream(SCHEMA, self.again, ps.progress("t", delay=0))
            expected = ask(seen.sql, **streams)
            found, wanted = (bag(tuples(each)) for each in (seen.rows.table, expected.collect()))
            if seen.end is None:
                assert found == wanted, seen.sql
                assert bag(tuples(seen.late.table)) == bag(tuples(expected.late))
            else:
                assert Counter(map(repr, found)) <= Counter(map(repr, wanted)), seen.sql


@given(
    ROWS,
    STEPS,
    st.sampled_from(("arcs", "punctuations")),
    st.sampled_from(("on demand", "none", "1 millisecond")),
    st.sampled_from((1, 3, None)),
    st.sampled_from((1, 2, 3)),
)
@settings(deadline=None, max_examples=40)
def test_at_random(
    again: list[Row],
    steps: list[tuple[str, Any]],
    carriage: str,
    ets: str,
    cut: int | None,
    threads: int,
) -> None:
    story = Story(again, carriage, ets, cut, threads)
    try:
        for what, value in steps:
            if what == "say":
                story.say(value)
            elif what == "add":
                story.add(ASKED[value])
            elif what == "drop":
                story.drop(value)
            else:
                story.change(what, value)
        story.check()
    finally:
        story.engine.stop()
