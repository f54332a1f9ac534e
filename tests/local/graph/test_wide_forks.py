"""Many queries over one stream: each has the rows that it would have alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.kernel.stateless import FilterOperator
from penstock.local.graph.node import FEW
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.run import LocalRun
from penstock.local.status import graph_status
from penstock.model.clock import ManualClock
from penstock.runs.answer import Outlet
from tests.planning import in_process

SCHEMA = {"k": "BIGINT", "z": "STRING", "v": "BIGINT", "t": "BIGINT"}
ARROW = pa.schema([("k", pa.int64()), ("z", pa.string()), ("v", pa.int64()), ("t", pa.int64())])
CONDITIONS = (
    "k = {0}",
    "k > {0} AND k <= {0} + 2",
    "z = 'z{0}'",
    "k IN ({0}, {0} + 3)",
    "v >= {0}",
    "k = {0} OR v = {0}",
    "10 / (v - {0} + 100) > 0 AND k = {0}",
)
SHAPES = (
    "SELECT k, v, t FROM s WHERE {where}",
    "SELECT a.k, a.t FROM s AS a WHERE {where}",
    "SELECT count(*) AS n, sum(v) AS total [RANGE {range}, SLIDE {slide}, WA t] FROM s"
    " WHERE {where}",
    "SELECT /*+ PANED */ k, count(*) AS n [RANGE {range}, SLIDE {slide}, WA t] FROM s"
    " WHERE {where} GROUP BY k",
    "SELECT /*+ WID */ max(v) AS m [RANGE {range}, SLIDE {slide}, WA t] FROM s WHERE {where}",
    "SELECT k, t, count(*) AS n FROM s WHERE {where} GROUP BY k, t",
    "SELECT count(*) AS n [RANGE {range}, SLIDE {slide}, WA t2] FROM"
    " (SELECT t + 1 AS t2 FROM s WHERE {where})",
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    where = draw(st.sampled_from(CONDITIONS)).format(draw(st.integers(0, 6)))
    slide = draw(st.integers(1, 5))
    return draw(st.sampled_from(SHAPES)).format(
        where=where, slide=slide, range=slide * draw(st.integers(1, 3))
    )


ROW = st.fixed_dictionaries(
    {
        "k": st.one_of(st.none(), st.integers(0, 9)),
        "z": st.one_of(st.none(), st.integers(0, 9).map("z{}".format)),
        "v": st.one_of(st.none(), st.integers(0, 9)),
        "t": st.integers(0, 3),
    }
)


@dataclass
class Asked:
    """A query that comes before one batch, and leaves before another."""

    sql: str
    comes: int
    leaves: int


class Wide:
    """A run over a stream that cannot be read again, so whoever comes gets what follows."""

    def __init__(self, shares: bool) -> None:
        self.db = ps.connect(clock=ManualClock())
        self.db.stream("s", iter(()), schema=SCHEMA, progress=ps.progress("t", delay=2))
        self.run = LocalRun([], [], ManualClock())
        self._shares = shares
        self.answers: list[tuple[Outlet, Collected, Collected]] = []
        # so that the stream has begun, and is read on, whoever comes and goes
        self.add("SELECT k FROM s WHERE k = -1")

    def add(self, sql: str) -> int:
        query = self.db.sql(sql)
        assert isinstance(query, ps.Query)
        rows, late = Collected(), Collected()
        outlet = Outlet(query.plan, rows, late)
        plan = in_process(query.plan)
        if self._shares:
            self.run.add(plan, outlet)
        else:
            self.run.graph.add(plan, outlet)
        self.answers.append((outlet, rows, late))
        return len(self.answers) - 1

    def feed(self, rows: list[dict[str, Any]]) -> None:
        (scan,) = self.run.scans
        self.run.feed(scan, Chunk(pa.RecordBatch.from_pylist(rows, ARROW)))

    def answer(self, number: int) -> tuple[list[str], list[str], int]:
        outlet, rows, late = self.answers[number]
        return (
            sorted(map(str, rows.table.to_pylist())),
            sorted(map(str, late.table.to_pylist())),
            outlet.late,
        )

    def drop(self, number: int) -> int:
        return self.run.drop(self.answers[number][0]).read

    def end(self) -> None:
        (scan,) = self.run.scans
        self.run.end(scan)


def answered(asked: list[Asked], batches: list[list[dict[str, Any]]], shares: bool) -> list[Any]:
    """What each of the queries gets, all in one run."""
    wide, numbers, read = Wide(shares), dict[int, int](), dict[int, int]()
    for at in range(len(batches) + 1):
        for place, each in enumerate(asked):
            if each.leaves == at and place in numbers:
                read[place] = wide.drop(numbers[place])
            if each.comes == at < each.leaves:
                numbers[place] = wide.add(each.sql)
        if at < len(batches):
            wide.feed(batches[at])
    wide.end()
    return [
        (wide.answer(numbers[place]), read.get(place)) if place in numbers else None
        for place in range(len(asked))
    ]


@pytest.mark.parametrize("shares", [False, True])
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_queries_have_the_rows_that_they_have_alone(data: st.DataObject, shares: bool) -> None:
    batches = data.draw(st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=3, max_size=8))
    for number, rows in enumerate(batches):
        for row in rows:
            row["t"] += 3 * number  # forwards, with some disorder
    moments = st.integers(0, len(batches))
    asked = [
        Asked(sql, data.draw(moments) if late else 0, data.draw(moments) if late else 99)
        for sql, late in data.draw(
            st.lists(st.tuples(queries(), st.booleans()), min_size=FEW + 2, max_size=16)
        )
    ]
    together = answered(asked, batches, shares)
    for each, found in zip(asked, together, strict=True):
        assert answered([each], batches, False) == [found]


def test_filters_count_the_rows_that_were_kept_from_them() -> None:
    wide = Wide(shares=False)
    for number in range(2 * FEW):
        wide.add(f"SELECT v FROM s WHERE k = {number}")
    rows = [{"k": number, "z": None, "v": 1, "t": 1} for number in (3, 3, 5, 90)]
    for each in ([rows[0]], rows, rows[2:]):
        wide.feed(each)
    told = graph_status(wide.run.graph, {})
    filters = [each for each in told.nodes if each.operator == "Filter"]
    assert len(filters) == 2 * FEW + 1
    assert {each.flow.rows_in for each in filters} == {7}
    assert sorted(each.flow.rows_out for each in filters)[-2:] == [2, 3]


def test_only_filters_that_rows_are_for_are_called() -> None:
    wide = Wide(shares=False)
    for number in range(2 * FEW):
        wide.add(f"SELECT v FROM s WHERE k = {number}")
    wide.feed([{"k": 3, "z": None, "v": 1, "t": 1}])
    operators = [node for node in wide.run.graph.operators if isinstance(node, OperatorNode)]
    filters = [node for node in operators if isinstance(node.operator, FilterOperator)]
    assert [node.measured.flow.calls for node in filters].count(1) == 1
    assert sum(node.measured.flow.calls for node in filters) == 1


@pytest.mark.parametrize("shares", [False, True])
def test_only_windows_that_close_are_told_of_progress(shares: bool) -> None:
    wide = Wide(shares)
    for number in range(2 * FEW):
        wide.add(
            "SELECT /*+ PANED */ count(*) AS n [RANGE 100, SLIDE 100, WA t] FROM s"
            f" WHERE k <> {number}".replace("/*+ PANED */ " if shares else "", "")
        )
    row = {"k": 1, "z": None, "v": 1}
    wide.feed([row | {"t": 5}])
    kind = "WindowsOfPanes" if shares else "Paned"
    windows = [n for n in wide.run.graph.operators if n.node.operator.value == kind]
    assert len(windows) == 2 * FEW

    def calls() -> int:
        told = [node.measured.flow.calls for node in windows]
        tuples = [port.batches for node in windows for port in node.measured.ports.values()]
        return sum(told) - sum(tuples)

    before = calls()
    for time in range(6, 90):
        wide.feed([row | {"t": time}])
    assert calls() == before
    wide.feed([row | {"t": 150}])
    assert calls() == before + len(windows)
    window = str({"window_start": 0, "window_end": 100, "n": 85})
    assert [wide.answer(number + 1)[0] for number in (0, 1)] == [[window], []]
