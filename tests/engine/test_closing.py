"""A final run closes by a promise what the end of the streams would close, and nothing else."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from penstock.engine.driver import Driver
from penstock.engine.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.plan.closing import closing_reach
from penstock.plan.query import QueryPlan
from penstock.runs.outlet import Outlet
from penstock.sinks.sink import Collected
from tests.engine.test_local_engine import RUNNABLE, bound, lines
from tests.planning import in_process


def prepared(query: QueryPlan) -> tuple[LocalRun, Collected]:
    rows = Collected()
    return LocalRun([in_process(query)], [Outlet(query, rows)], ManualClock(), resumable=True), rows


def ended(query: QueryPlan) -> pa.Table:
    run, rows = prepared(query)
    Driver(run).drive()
    return rows.table


def closed(query: QueryPlan) -> tuple[pa.Table, LocalRun]:
    run, rows = prepared(query)
    for scan in run.scans:
        for chunk in scan.chunks():
            run.feed(scan, chunk)
    run.close_all()
    return rows.table, run


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_same_rows(name: str) -> None:
    query = bound(name, 7).plan
    table, run = closed(query)
    assert Counter(lines(table)) == Counter(lines(ended(query)))
    by_promise = closing_reach(query) is not None
    assert by_promise == ("ended" not in run.closed.values())
    if by_promise:
        assert run.open_results(run.outlets[0]).count == 0
        assert not any(scan.ingest.ended for scan in run.scans)


def test_most_queries_can_go_on() -> None:
    found = [closing_reach(bound(name, None).plan) is not None for name in RUNNABLE]
    assert sum(found) > len(found) / 2
