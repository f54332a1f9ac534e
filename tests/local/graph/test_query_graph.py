"""The topology: queries come and go, equal parts are one, and parts that do not meet are apart."""

from __future__ import annotations

from typing import Any

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph.query_graph import QueryGraph
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.runs.answer import Outlet
from tests.local.live.scripted import Scripted, speak
from tests.planning import in_process

COUNT = "SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s WHERE v > 0 GROUP BY k"
BOTH = "SELECT k, t FROM s WHERE v > 0 UNION ALL SELECT k, t FROM r"
ROWS: list[dict[str, Any]] = [{"k": "a", "v": 1, "t": time} for time in (1, 12, 3, 25)]


class Graph:
    """A run over streams that a test feeds."""

    def __init__(self, *queries: str, live: bool = False) -> None:
        self.db = ps.connect(clock=ManualClock())
        for name in "srq":
            self.db.stream(name, ROWS, progress=ps.progress("t", delay=0))
            if live:
                speak(self.db, name, Scripted((ROWS,), ManualClock()))
        plans = [self.plan(sql) for sql in queries]
        self.late = [Collected() for _ in plans]
        self.outlets = [
            Outlet(plan.query, Collected(), late)
            for plan, late in zip(plans, self.late, strict=True)
        ]
        self.run = LocalRun(plans, self.outlets, ManualClock())

    def plan(self, sql: str) -> Any:
        query = self.db.sql(sql)
        assert isinstance(query, ps.Query)
        return in_process(query.plan)

    @property
    def graph(self) -> QueryGraph:
        return self.run.graph

    def kinds(self) -> list[str]:
        return sorted(node.node.operator.value for node in self.graph.operators)

    def feed(self, *streams: str) -> None:
        for name in streams:
            (scan,) = [each for each in self.run.scans if each.name == name]
            for chunk in scan.chunks():
                self.run.feed(scan, chunk)

    def written(self, number: int) -> int:
        return self.outlets[number].written


def test_equal_parts_are_one() -> None:
    count = COUNT.replace("SELECT", "SELECT /*+ PANED */")  # so that they do not share panes
    found = Graph(count, count.replace("count(*) AS n", "sum(v) AS n"), count)
    assert found.kinds().count("Filter") == 1
    assert found.kinds().count("Paned") == 2  # the first and the last do the same
    found.feed("s")
    assert found.written(0) == found.written(2) > 0
    assert [late.table.num_rows for late in found.late] == [1, 1, 1]  # everybody hears of it


def test_equal_branches_of_one_query_are_apart() -> None:
    found = Graph("SELECT k, t FROM s WHERE v > 0 UNION ALL SELECT k, t FROM s WHERE v > 0")
    assert found.kinds().count("Filter") == 2


def test_a_query_that_leaves_takes_what_nobody_else_needs() -> None:
    found = Graph(COUNT, BOTH)
    before = found.kinds()
    last = found.outlets[1]
    found.graph.drop(last)
    assert found.kinds() == Graph(COUNT).kinds()
    assert [source.name for source in found.run.scans] == ["s"]
    found.feed("s")
    assert found.written(0) > 0
    assert found.written(1) == 0
    found.graph.drop(found.outlets[0])
    assert (found.graph.nodes, found.graph.components) == ([], [])
    assert len(before) > 0


def test_a_query_that_comes_gets_what_follows() -> None:
    found = Graph(COUNT, live=True)
    found.feed("s")
    outlet = Outlet(found.plan(BOTH).query, Collected())
    found.graph.add(found.plan(BOTH), outlet)
    assert found.kinds().count("Filter") == 1  # it keeps nothing, so it is shared
    assert found.run.account(outlet).read == 0
    found.feed("s", "r")
    assert outlet.written == 8
    assert found.run.account(outlet).read == 8
    assert found.run.account(found.outlets[0]).read == 8


def test_it_hears_what_has_been_promised() -> None:
    found = Graph("SELECT k FROM s", live=True)
    found.feed("s")
    outlet = Outlet(found.plan(COUNT).query, Collected())
    found.graph.add(found.plan(COUNT), outlet)
    found.graph.drain()
    (source,) = found.run.scans
    (register,) = source.arcs
    assert list(register.last.bounds.values()) == [25]


def test_a_query_that_comes_gets_all_that_can_be_read_again() -> None:
    found = Graph(COUNT)
    found.feed("s")
    outlet = Outlet(found.plan(BOTH).query, Collected())
    found.graph.add(found.plan(BOTH), outlet)
    assert [source.name for source in found.run.scans] == ["s", "s 2", "r"]
    found.feed("s 2", "r")
    assert outlet.written == 8
    assert found.run.account(found.outlets[0]).read == 4
    found.graph.add(found.plan(BOTH), Outlet(found.plan(BOTH).query, Collected()))
    assert [source.name for source in found.run.scans] == ["s", "s 2", "r", "s 3", "r 2"]


def test_what_has_kept_something_is_not_shared_later() -> None:
    found = Graph(COUNT, live=True)
    found.feed("s")
    outlet = Outlet(found.plan(COUNT).query, Collected())
    found.graph.add(found.plan(COUNT), outlet)
    assert found.kinds().count("Paned") == 2
    names = [node.name for node in found.graph.nodes]
    assert len(names) == len(set(names))


def test_parts_that_do_not_meet_are_apart() -> None:
    found = Graph(COUNT, BOTH, "SELECT k FROM q")
    parts = [{source.name for source in each.sources} for each in found.graph.components]
    assert parts == [{"s", "r"}, {"q"}]
    found.graph.drop(found.outlets[1])
    parts = [{source.name for source in each.sources} for each in found.graph.components]
    assert parts == [{"s"}, {"q"}]


def test_names_say_what_is_computed() -> None:
    def names(*queries: str) -> set[str]:
        return {node.name for node in Graph(*queries).graph.nodes}

    aliased = COUNT.replace("FROM s", "FROM s AS other").replace("k,", "other.k,", 1)
    windows = {name for name in names(COUNT) if name.startswith("WindowAggregate")}
    assert windows < names(aliased)  # whatever columns are called
    assert windows < names(BOTH, COUNT)  # whoever else asks
    assert not windows < names(COUNT.replace("SLIDE 10", "SLIDE 5"))


def test_an_arc_leads_past_what_is_stateless() -> None:
    found = Graph(COUNT)
    (source,) = found.run.scans
    (window,) = source.arcs.values()
    assert isinstance(window, OperatorNode)
    assert window.node.operator.value == "Paned"
    (register,) = source.arcs
    (chunk,) = source.chunks()
    executed = []
    found.graph.watch(lambda node: executed.append(node.name.partition("-")[0]))
    found.run.feed(source, Chunk(chunk.batch.slice(0, 2)))
    assert executed == ["s", "Filter", "WindowAggregate", "Project"]  # where rows go, and no other
    assert list(register.last.bounds.values()) == [12]
    assert not register.active
    found.run.end(source)
    assert executed[4:] == ["s", "WindowAggregate", "Project"]
    assert register.last.ended
