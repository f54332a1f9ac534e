"""What is told of the nodes and arcs of a graph, and of how long answers took."""

from __future__ import annotations

from time import perf_counter_ns

import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.local.graph.node import SMALL
from penstock.local.graph.source_node import SourceNode
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import Scheduler
from penstock.local.status import AnswerStatus, GraphStatus, graph_status
from penstock.model.clock import ManualClock
from penstock.runs.answer import Outlet
from tests.planning import in_process
from tests.reference.helpers import Stream, database

LONG_AGO = 1_000  # seconds: much longer than a test takes
ROWS = [{"k": number % 4, "t": number} for number in range(40)]
S = Stream("k INT, t INT", ROWS, ps.progress("t", ordered=True))
COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s WHERE k > 0"
PLAIN = "SELECT t FROM s WHERE k > 0"


def run_of(*queries: str, **streams: Stream) -> LocalRun:
    db = database(**streams)
    found = [db.sql(each) for each in queries]
    plans = [in_process(each.plan) for each in found if isinstance(each, ps.Query)]
    outlets = [Outlet(plan.query, Collected()) for plan in plans]
    return LocalRun(plans, outlets, ManualClock())


def status_of(run: LocalRun) -> GraphStatus:
    names = [f"q{number}" for number, _ in enumerate(run.outlets)]
    return graph_status(run.graph, dict(zip(run.outlets, names, strict=True)))


def came(run: LocalRun, name: str, seconds_ago: int, *times: int) -> None:
    """Rows of a stream that had arrived some time ago."""
    scan = next(each for each in run.scans if each.name == name)
    columns = {"k": [1] * len(times), "t": list(times)}
    batch = pa.record_batch(columns, schema=scan.ingest.stream.input_schema.arrow)
    arrived = perf_counter_ns() - seconds_ago * 1_000_000_000
    run.feed(scan, Chunk(batch, arrived=arrived))


def test_traffic_and_selectivity() -> None:
    run = run_of(COUNT, PLAIN, s=S)
    Scheduler(run).drive()
    told = status_of(run)
    scan, filtered = told.nodes[:2]
    assert (scan.operator, scan.flow.rows_in, scan.flow.rows_out) == ("scan", 40, 40)
    assert (filtered.operator, filtered.selectivity) == ("Filter", 0.75)
    assert filtered.queries == ("q0", "q1"), "both ask for the same rows"
    assert filtered.time_per_tuple is not None
    assert filtered.time_per_tuple > 0
    assert 0 < filtered.busy < 1
    counted, plain = told.answers
    assert (counted.rows, counted.latency.results) == (4, 4)
    assert (plain.rows, plain.latency.results) == (30, 30)
    assert set(counted.nodes) <= {each.name for each in told.nodes}


def test_what_waits_in_arcs() -> None:
    run = run_of(PLAIN, s=S)
    (scan,) = run.scans
    schema = scan.ingest.stream.input_schema
    count = SMALL + 1  # fewer are handed on at once
    for begin in (0, count):
        columns = {"k": [1] * count, "t": list(range(begin, begin + count))}
        run.deliver(scan, Chunk(pa.record_batch(columns, schema=schema.arrow)))
        scan.execute()
    (waiting, behind) = status_of(run).arcs
    assert (waiting.begin, waiting.waiting, waiting.peak) == ("s", 2 * count, 2 * count)
    assert (behind.begin, behind.waiting) == (waiting.end, 0)
    run.graph.drain()
    assert status_of(run).waiting == 0
    assert status_of(run).arcs[0].peak == 2 * count


def test_between_two_looks() -> None:
    run = run_of(PLAIN, s=S)
    came(run, "s", 0, 1, 2, 3)
    earlier = status_of(run)
    came(run, "s", 0, 4, 5)
    later = status_of(run)
    lately = later.since(earlier)
    assert [each.flow.rows_in for each in lately.nodes] == [2] * len(lately.nodes)
    assert lately.nodes[0].seconds < later.nodes[0].seconds
    assert later.node("nowhere") is None


def answer_of(run: LocalRun) -> AnswerStatus:
    (answer,) = status_of(run).answers
    return answer


def test_a_window_counts_from_the_arrival_of_what_closes_it() -> None:
    run = run_of("SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s", s=S)
    came(run, "s", 2 * LONG_AGO, 1, 2)
    came(run, "s", LONG_AGO, 12)
    latency = answer_of(run).latency
    assert latency.results == 1
    assert latency.mean is not None
    assert LONG_AGO <= latency.mean / 1e6 < 2 * LONG_AGO


@pytest.mark.parametrize("carriage", ["arcs", "punctuations"])
def test_rows_that_wait_for_others_count_from_their_own_arrival(carriage: str) -> None:
    db = ps.connect("local", carriage=carriage)
    for name in ("a", "b"):
        db.stream(name, [], schema=S.schema, progress=S.progress)
    query = db.sql("SELECT t FROM a UNION ALL SELECT t FROM b EMIT IN ORDER")
    assert isinstance(query, ps.Query)
    plan = query.setting.planned(query.plan)
    scheduling = query.setting.scheduling
    outlet = Outlet(plan.query, Collected())
    run = LocalRun([plan], [outlet], ManualClock(), scheduling=scheduling)
    came(run, "a", 2 * LONG_AGO, 1, 2)
    assert answer_of(run).latency.results == 0
    came(run, "b", 0, 5)
    latency = answer_of(run).latency
    assert latency.results == 2
    assert latency.mean is not None
    assert latency.mean / 1e6 >= 2 * LONG_AGO, "they were held until b came"


def test_a_started_query_tells_it() -> None:
    db = ps.connect("local")
    db.stream("s", ROWS, schema=S.schema, progress=S.progress)
    query = db.sql(PLAIN)
    assert isinstance(query, ps.Query)
    started = query.start(lambda _: None)
    started.wait()
    latency = started.progress().latency
    assert latency is not None
    assert latency.results == 30
    assert f"latency {latency}" in str(started.progress())
    told = started.graph_status()
    assert told.answers[0].latency == latency
    assert [each.stream for each in told.sources] == ["s"]


def test_sources_count_what_they_read() -> None:
    run = run_of(PLAIN, s=S)
    came(run, "s", 0, 1, 2)
    (scan,) = run.scans
    assert isinstance(scan, SourceNode)
    assert scan.flow.rows_in == scan.read == 2
