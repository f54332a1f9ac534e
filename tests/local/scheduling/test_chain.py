"""Break nodes by memory: when many rows wait, those go on first that become fewer fastest."""

from __future__ import annotations

import pyarrow as pa

from penstock.io.sources.source import Chunk
from penstock.local.run import LocalRun
from penstock.local.strategies import Strategy
from tests.local.scheduling.test_cycle import SCHEMA, nowhere, prepared

TWO_WAYS = "SELECT v FROM a UNION ALL SELECT v FROM b WHERE v < 10"
ROWS = 100


def delivered(run: LocalRun, *names: str) -> None:
    """Rows that wait at sources."""
    scans = {scan.name: scan for scan in run.scans}
    batch = pa.record_batch([pa.array(range(ROWS), pa.int64())], schema=SCHEMA)
    for name in names:
        run.deliver(scans[name], Chunk(batch))


def worked(run: LocalRun, *names: str) -> None:
    delivered(run, *names)
    run.work(run.graph.component_of(run.scans[0]))


def test_few_rows_are_handled_as_they_come() -> None:
    run, executed = prepared(TWO_WAYS, f"chain {2 * ROWS}", nowhere, "a", "b")
    worked(run, "a", "b")
    assert executed == ["a", "Project", "Union", "b", "Filter", "Project", "Union"]
    assert not any(node.is_break for node in run.graph.nodes)


def test_many_rows_that_become_fewer_come_first() -> None:
    run, executed = prepared(TWO_WAYS, "chain 150", nowhere, "a", "b")
    worked(run, "a")  # both ways have been measured
    worked(run, "b")
    for scan in run.scans:
        scan.flow.nanoseconds = 1_000 * ROWS
    for node in run.graph.operators:
        cost = 100_000 if node.name.startswith("Union") else 1_000
        node.measured.flow.nanoseconds = cost * node.measured.flow.rows_in
    executed.clear()
    worked(run, "a", "b")
    # b and its filter leave a tenth of the rows, a and the union what there was for longer
    assert executed[:2] == ["b", "Filter"]
    assert [each for each in executed if each != "Project"][2:] == ["a", "Union", "Union"]
    assert not any(node.is_break for node in run.graph.nodes)  # nothing waits any more


def test_a_segment_ends_in_a_break_node() -> None:
    run, _ = prepared(TWO_WAYS, "chain 150", nowhere, "a", "b")
    worked(run, "b")
    for scan in run.scans:
        scan.flow.nanoseconds = 1
    for node in run.graph.operators:
        node.measured.flow.nanoseconds = 1_000_000 if node.name.startswith("Union") else 1
    component = run.graph.component_of(run.scans[0])
    assert component.memory is not None
    delivered(run, "a", "b")
    component.memory.look()
    filter_ = next(node for node in run.graph.nodes if node.name.startswith("Filter"))
    assert component.memory.active
    assert filter_.is_break
    row = next(row for row in run.graph.table.rows if row.state == filter_.name)
    assert (row.successors, row.transition) == ((), "Chain-Sink")
    run.graph.use(Strategy.of("dfs"))
    assert component.memory is None
    assert not filter_.is_break


def test_explain_says_what_memory_decides() -> None:
    run, _ = prepared(TWO_WAYS, "chain 1000", nowhere, "a", "b")
    assert str(run.graph.table).endswith("more than 1,000 rows wait: the steepest segment first")
