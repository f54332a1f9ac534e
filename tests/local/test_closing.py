"""A final run closes by a promise what the end of the streams would close, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import Scheduler
from penstock.model.clock import ManualClock
from penstock.plan.final_bounds import closing_reach
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Outlet
from tests.planning import in_process
from tests.queries import NAMES, bound, lines
from tests.reference.helpers import Stream, database


def prepared(query: QueryPlan) -> tuple[LocalRun, Collected]:
    rows = Collected()
    return LocalRun([in_process(query)], [Outlet(query, rows)], ManualClock(), resumable=True), rows


def ended(query: QueryPlan) -> pa.Table:
    run, rows = prepared(query)
    Scheduler(run).drive()
    return rows.table


def closed(query: QueryPlan) -> tuple[pa.Table, LocalRun]:
    run, rows = prepared(query)
    for scan in run.scans:
        for chunk in scan.chunks():
            run.feed(scan, chunk)
    run.close_all()
    return rows.table, run


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows(name: str) -> None:
    query = bound(name, 7).plan
    table, run = closed(query)
    assert lines(table) == lines(ended(query))
    by_promise = closing_reach(query) is not None
    assert by_promise == ("ended" not in run.closed.values())
    if by_promise:
        assert run.open_results(run.outlets[0]).count == 0
        assert not any(scan.ingest.ended for scan in run.scans)


def test_most_queries_can_go_on() -> None:
    found = [closing_reach(bound(name).plan) is not None for name in NAMES]
    assert sum(found) > len(found) / 2


A = [(1, 2), (2, 5), (1, 9), (3, 11)]
B = [(1, 4), (2, 5), (3, 1), (1, 12), (2, 30)]
DIFFERENCE = "SELECT k, changed_at FROM a [RANGE 6, WA t] EXCEPT ON (k) b [RANGE 3, WA t]"


def over_two_streams(sql: str) -> QueryPlan:
    promise = ps.progress("t", delay=5)
    db = database(a=Stream("k INT, t INT", A, promise), b=Stream("k INT, t INT", B, promise))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.plan


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM SEQUENCE(a THEN b MODE RECENT ON a.k = b.k)",
        "SELECT * FROM SEQUENCE(a THEN b MODE CHRONICLE WITHIN 7)",
        "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA a.t] FROM"
        " SEQUENCE(a THEN b MODE RECENT WITHIN 7)",
        "SELECT count(*) AS n [RANGE 9, SLIDE 4, WA b.t] FROM SEQUENCE(a THEN b MODE RECENT)",
        DIFFERENCE,
        "SELECT * FROM a EXCEPT ON (k) b [RANGE 4, WA t]",
        f"SELECT count(*) AS n [RANGE 5, SLIDE 3, WA changed_at] FROM ({DIFFERENCE})",
        f"SELECT count(*) AS n [RANGE ALL, SLIDE 3, WA changed_at] FROM ({DIFFERENCE})",
        f"SELECT DISTINCT k, changed_at FROM ({DIFFERENCE})",
        f"SELECT * FROM (SELECT k, changed_at AS t FROM ({DIFFERENCE})) d [RANGE 5]"
        " EXCEPT ON (k) b",
    ],
)
def test_sequences_and_differences_are_closed_by_a_promise(sql: str) -> None:
    query = over_two_streams(sql)
    table, run = closed(query)
    assert table.num_rows
    assert lines(table) == lines(ended(query))
    assert "ended" not in run.closed.values()
    assert run.open_results(run.outlets[0]).count == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM SEQUENCE(a THEN b MODE RECENT) LATE AMEND",
        f"SELECT count(*) AS n [RANGE 5 ROWS, SLIDE 3 ROWS] FROM ({DIFFERENCE})",
        "SELECT * FROM SEQUENCE((SELECT CAST(t * 2 AS INT) AS t FROM a) c THEN b MODE RECENT)",
    ],
)
def test_some_are_closed_by_the_end_alone(sql: str) -> None:
    query = over_two_streams(sql)
    table, run = closed(query)
    assert lines(table) == lines(ended(query))
    assert set(run.closed.values()) == {"ended"}
