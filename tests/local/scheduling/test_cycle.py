"""The cycle: who is executed after whom, and what that means for how long tuples take."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.sinks.sink import Callback
from penstock.io.sources.source import Chunk
from penstock.local.graph.node import GraphNode
from penstock.local.graph_options import Scheduling
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.runs.answer import Outlet
from tests.planning import in_process

SCHEMA = pa.schema([("v", pa.int64())])
SIMPLE_UNION = "SELECT v FROM a WHERE v >= 0 UNION ALL SELECT v FROM b WHERE v >= 0"


def prepared(
    sql: str, strategy: str, sink: Callable[[pa.RecordBatch], object], *streams: str
) -> tuple[LocalRun, list[str]]:
    """A run over streams that a test feeds, and which kinds of operators it executes."""
    db = ps.connect()
    for name in streams:
        db.stream(name, [], schema={"v": "BIGINT"})
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    outlet = Outlet(query.plan, Callback(sink, False))
    plan = in_process(query.plan)
    run = LocalRun([plan], [outlet], ManualClock(), scheduling=Scheduling.of(strategy))
    executed: list[str] = []
    run.graph.watch(lambda node: executed.append(_short(node)))
    return run, executed


def nowhere(batch: pa.RecordBatch) -> None:
    pass


def _short(node: GraphNode) -> str:
    return node.name.partition("-")[0]


def fed(run: LocalRun, count: int, chunk: int) -> None:
    """So many tuples at the first source at once, in chunks."""
    batch = pa.record_batch([pa.array(range(count), pa.int64())], schema=SCHEMA)
    scan = run.scans[0]
    for begin in range(0, count, chunk):
        run.deliver(scan, Chunk(batch.slice(begin, chunk)))
    run.work(run.graph.component_of(scan))


PATH = {
    "dfs 1": "a Filter Project Filter Project Filter Project",
    "dfs 2": "a Filter Project Filter Project",
    "dfs": "a Filter Project",
    "bfs 1": "a Filter Filter Filter Project Project Project",
    "bfs": "a Filter Project",
    "rr 1": "a Filter Filter Filter Project Project Project",
}


@pytest.mark.parametrize("strategy", PATH)
def test_a_path(strategy: str) -> None:
    run, executed = prepared("SELECT v + 1 AS w FROM a WHERE v >= 0", strategy, nowhere, "a")
    fed(run, 3, 3)
    assert " ".join(executed) == PATH[strategy]


def test_small_chunks_are_handled_together_when_there_are_many() -> None:
    run, executed = prepared("SELECT v + 1 AS w FROM a WHERE v >= 0", "dfs", nowhere, "a")
    fed(run, 100, 1)
    assert executed == ["a", "Filter", "Project"]


@pytest.mark.parametrize(("strategy", "per"), [("dfs 1", (1.0, 1.0)), ("bfs 1", (1.5, 0.5))])
@pytest.mark.parametrize("burst", [1, 10, 50])
def test_latencies_follow_the_formulas(strategy: str, per: tuple[float, float], burst: int) -> None:
    """(n + 1) c for depth-first, (1.5 n + 0.5) c for breadth-first, on the graph of figure 1."""
    cost, clock = 7, ManualClock()
    left: list[int] = []
    run, _ = prepared(
        SIMPLE_UNION, strategy, lambda batch: left.extend([clock.at] * batch.num_rows), "a", "b"
    )

    def taking_time(execute: Callable[[], int]) -> Callable[[], int]:
        def call() -> int:
            clock.advance(cost)  # before what it has made leaves
            return execute()

        return call

    for node in run.graph.nodes:
        if _short(node) in ("Filter", "Union"):
            setattr(node, "execute", taking_time(node.execute))  # noqa: B010
    fed(run, burst, burst)
    each, once = per
    assert sum(left) / burst == pytest.approx((each * burst + once) * cost)


def test_another_strategy_from_the_next_step_on() -> None:
    run, executed = prepared("SELECT v + 1 AS w FROM a WHERE v >= 0", "dfs 1", nowhere, "a")
    fed(run, 2, 2)
    run.graph.use(Scheduling.of("bfs 1").strategy)
    fed(run, 2, 2)
    assert " ".join(executed) == ("a Filter Project Filter Project a Filter Filter Project Project")


def test_behind_a_break_node_the_scheduler_goes_on() -> None:
    run, executed = prepared("SELECT v + 1 AS w FROM a WHERE v >= 0", "dfs 1", nowhere, "a")
    (filter_,) = [node.name for node in run.graph.nodes if _short(node) == "Filter"]
    run.graph.break_off([filter_])
    transitions = [row.transition for row in run.graph.table.rows]
    assert transitions == ["DFSk-Source", "DFSk-Sink", "DFSk-Source-Sink"]
    fed(run, 2, 2)
    assert " ".join(executed) == "a Filter Filter Project Project"
