"""Enabling timestamps: none, every so often, or when somebody waits."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.errors import EngineError
from penstock.io.formats.rows import read_rows
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import nothing
from penstock.local.graph.source_node import SourceNode
from penstock.local.graph_options import Enabling, Scheduling
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.model.values import RowForm
from penstock.runs.answer import Outlet
from tests.local.live.scripted import Scripted, speak
from tests.planning import in_process

IN_ORDER = "SELECT v, ts FROM a UNION ALL SELECT v, ts FROM b EMIT IN ORDER"
WINDOWS = "SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA ts] FROM a"
SECOND = 1_000_000


class Live:
    """Two live streams with stamps of the clock, which a test feeds."""

    def __init__(self, ets: str, sql: str = IN_ORDER, carriage: str = "arcs") -> None:
        self.clock = ManualClock(1_000 * SECOND)
        db = ps.connect(clock=self.clock)
        for name in "ab":
            db.stream(
                name, [], schema={"v": "INT"}, progress=ps.progress("ts", timestamps="INTERNAL")
            )
            speak(db, name, Scripted((), self.clock))
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        self.rows = Collected()
        outlet = Outlet(query.plan, self.rows)
        scheduling = Scheduling.of(None, ets, carriage)
        plan = in_process(query.plan)
        self.run = LocalRun([plan], [outlet], self.clock, scheduling=scheduling)

    def say(self, number: int, *values: int) -> list[Any]:
        """Something comes; what has left so far."""
        scan = self.run.scans[number]
        rows = [{"v": value} for value in values]
        schema = scan.ingest.stream.input_schema
        self.run.feed(scan, read_rows(list(rows), schema, 0, scan.ingest.rejects, RowForm(schema)))
        return self.left()

    def left(self) -> list[Any]:
        return self.rows.table.to_pylist()

    def wait(self, seconds: float) -> list[Any]:
        """Time passes; the clock is looked at when the run wants it."""
        until = self.clock.at + int(seconds * SECOND)
        while (due := self.run.due()) is not None and due <= until:
            self.clock.advance(max(0, due - self.clock.at))
            self.run.look_at_clock()
        self.clock.advance(until - self.clock.at)
        return self.left()


@pytest.mark.parametrize("carriage", ["arcs", "punctuations"])
def test_on_demand_nobody_waits_for_an_empty_source(carriage: str) -> None:
    live = Live("on demand", carriage=carriage)
    assert [row["v"] for row in live.say(0, 1, 2)] == [1, 2]
    live.clock.advance(1)
    assert [row["v"] for row in live.say(1, 3)] == [1, 2, 3]
    assert [row["v"] for row in live.say(0, 4)] == [1, 2, 3, 4]  # at the same time


def test_without_any_rows_wait_for_the_other_source() -> None:
    live = Live("none")
    live.say(0, 1, 2)
    live.clock.advance(SECOND)
    assert live.say(0, 3) == []
    assert live.run.due() is None  # time alone will not help
    live.clock.advance(SECOND)
    assert [row["v"] for row in live.say(1, 4)] == [1, 2, 3]


def test_every_so_often() -> None:
    live = Live("100 milliseconds")
    live.say(0, 1)
    assert live.wait(0.05) == []
    assert [row["v"] for row in live.wait(0.06)] == [1]
    live.say(0, 2)
    assert [row["v"] for row in live.wait(1)] == [1, 2]


def test_the_clock_closes_windows() -> None:
    live = Live("on demand", WINDOWS)
    live.say(0, 1, 2)
    assert live.wait(9) == []
    assert [row["n"] for row in live.wait(3)] == [2]


def test_nothing_is_looked_for_where_nothing_waits() -> None:
    live = Live("on demand")
    assert live.run.due() is None
    live.say(0, 1)
    live.wait(1)
    assert live.left()
    assert live.run.due() is None


def test_skew_says_how_far_a_silent_stream_has_come() -> None:
    clock = ManualClock(100 * SECOND)
    db = ps.connect(clock=clock)
    for name, skew in (("a", None), ("b", "2 seconds")):
        progress = ps.progress("t", ordered=True, skew=skew)
        db.stream(name, [], schema={"t": "TIMESTAMP"}, progress=progress)
        speak(db, name, Scripted((), clock))
    query = db.sql("SELECT t FROM a UNION ALL SELECT t FROM b EMIT IN ORDER")
    assert isinstance(query, ps.Query)
    rows = Collected()
    run = LocalRun([in_process(query.plan)], [Outlet(query.plan, rows)], clock)
    first, second = run.scans

    def say(scan: SourceNode, second: int) -> int:
        times: list[object] = [{"t": f"1970-01-01T00:00:{second:02}Z"}]
        schema = scan.ingest.stream.input_schema
        run.feed(scan, read_rows(times, schema, 0, scan.ingest.rejects, RowForm(schema)))
        return rows.table.num_rows

    assert say(second, 10) == 0
    assert say(first, 20) == 1  # that of the second: 10
    clock.advance(11 * SECOND)
    run.look_at_clock()
    assert rows.table.num_rows == 1  # up to 10 + 11 - 2
    clock.advance(1 * SECOND)
    run.look_at_clock()
    assert rows.table.num_rows == 2
    assert second.ingest.low == 20 * SECOND
    assert str(progress) == "PROGRESS ON t ORDERED SKEW 2 SECONDS"


def test_idle_sources_are_looked_at_when_it_is_time() -> None:
    clock = ManualClock(0)
    db = ps.connect(clock=clock)
    for name in "ab":
        progress = ps.progress("t", delay="1 second", idle="30 seconds")
        db.stream(name, [], schema={"t": "TIMESTAMP"}, progress=progress)
        speak(db, name, Scripted((), clock))
    query = db.sql("SELECT t FROM a UNION ALL SELECT t FROM b EMIT IN ORDER")
    assert isinstance(query, ps.Query)
    rows = Collected()
    run = LocalRun([in_process(query.plan)], [Outlet(query.plan, rows)], clock)
    scan = run.scans[0]
    schema = scan.ingest.stream.input_schema
    run.feed(
        scan,
        read_rows([{"t": "1970-01-01T00:00:00Z"}], schema, 0, scan.ingest.rejects, RowForm(schema)),
    )
    run.feed(scan, nothing(schema))
    assert rows.table.num_rows == 0
    due = run.due()
    assert due == 30 * SECOND
    clock.advance(due)
    run.look_at_clock()
    while (due := run.due()) is not None and due < 40 * SECOND:
        clock.advance(max(0, due - clock.at))
        run.look_at_clock()
    assert rows.table.num_rows == 1


def test_what_is_said_about_it() -> None:
    assert str(Enabling.of("on demand")) == "on demand"
    assert str(Enabling.of("10 ms")) == "every 10,000 µs"
    with pytest.raises(EngineError, match="does not say when"):
        Enabling.of("often")
    with pytest.raises(EngineError, match="no strategy called"):
        ps.connect(strategy="fast")
    with pytest.raises(EngineError, match="not carried by"):
        ps.connect(carriage="arc")
    with pytest.raises(EngineError, match="no scheduler of ours"):
        ps.connect("reference", ets="none")
