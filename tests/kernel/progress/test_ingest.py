"""Entering the system: what is rejected, stamped and marked, beside what the reference does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import SourceError
from penstock.io.sources.rejects import RejectLog
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, Progress
from penstock.kernel.progress.ingest import Ingest
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.plan.nodes.node import Scan
from tests.local.helpers import CUTS, locally, recut
from tests.planning import in_process
from tests.reference.helpers import Stream, bag, database, tuples

SECOND = 1_000_000


def ingested(
    stream: Stream, cut: int | None = None, clock: ManualClock | None = None
) -> tuple[list[Item], RejectLog]:
    db = database(s=stream)
    recut(db, cut)
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    scan = next(node for node in query.plan.walk() if isinstance(node, Scan))
    log = RejectLog()
    return list(Ingest(scan, clock or ManualClock(), log).items()), log


def rows(items: list[Item]) -> list[tuple[Any, ...]]:
    batches = [item for item in items if isinstance(item, Batch)]
    return [row for batch in batches for row in tuples(pa.Table.from_batches([batch.rows]))]


def bounds(items: list[Item], column: str = "s.t") -> list[Any]:
    return [item.bounds.get(column) for item in items if isinstance(item, Progress)]


def stream(given: list[Any], **progress: Any) -> Stream:
    return Stream("k STRING, t INT", given, ps.progress("t", **progress))


# --- progress ------------------------------------------------------------------------------------


def test_batches_are_followed_by_the_progress_they_make_and_all_by_the_end() -> None:
    items, _ = ingested(stream([("a", 5), ("b", 9), ("c", 7)], delay=3), cut=1)
    assert rows(items) == [("a", 5), ("b", 9), ("c", 7)]
    assert bounds(items) == [2, 6, None]  # said once
    last = items[-1]
    assert isinstance(last, Progress)
    assert last.ended
    assert [item.ended for item in items if isinstance(item, Progress)] == [False] * 2 + [True]
    assert last.high == {"s.t": 9}


def test_only_tuples_that_broke_a_promise_are_marked() -> None:
    items, _ = ingested(stream([("a", 9), ("b", 5), ("c", 6), ("d", 20)], delay=3))
    batch = items[0]
    assert isinstance(batch, Batch)
    assert batch.broken is not None
    assert batch.broken["s.t"].to_pylist() == [None, 6, None, None]
    items, _ = ingested(stream([("a", 9), ("c", 6)], delay=3))
    assert isinstance(items[0], Batch)
    assert items[0].rows.schema.names == ["s.k", "s.t"]


def test_a_stream_without_progress() -> None:
    items, _ = ingested(Stream("k STRING, t INT", [("a", 5), ("b", None)]), cut=1)
    assert rows(items) == [("a", 5), ("b", None)]
    assert items[-1] == Progress(ended=True)


def test_no_rows_at_all() -> None:
    items, _ = ingested(stream([], delay=3))
    assert items == [Progress(ended=True)]


def test_a_stream_without_a_source() -> None:
    db = ps.connect("reference")
    db.sql("CREATE STREAM s (t INT) PROGRESS ON t ORDERED")
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    with pytest.raises(SourceError, match="no source"):
        answer(in_process(query.plan), ManualClock())


# --- rejects -------------------------------------------------------------------------------------


def same_rejects(
    given: Stream, cut: int | None, clock: ManualClock, sql: str = "SELECT * FROM s"
) -> list[Any]:
    """The rejects of both engines, which are the same."""
    query = database(clock=ManualClock(clock.at, clock.step), s=given).sql(sql)
    assert isinstance(query, ps.Query)
    found = locally(sql, cut, clock, s=given)
    expected = tuples(query.rejected)
    assert tuples(found.rejects.table()) == expected
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    return expected


@pytest.mark.parametrize("cut", CUTS)
def test_tuples_without_a_time(cut: int | None) -> None:
    given = stream([("a", 1), ("b", None), (None, 2), ("c", None)], delay=3)
    found = same_rejects(given, cut, ManualClock())
    assert [(each[3], each[5]) for each in found] == [(2, "t is NULL"), (4, "t is NULL")]


@pytest.mark.parametrize("cut", CUTS)
def test_rows_are_counted_with_those_that_could_not_be_read(cut: int | None) -> None:
    given = stream(
        [{"k": "a", "t": 1}, {"k": "b", "t": "x"}, {"k": "c", "t": None}, {"k": "d", "t": 2}],
        ordered=True,
    )
    found = same_rejects(given, cut, ManualClock())
    assert sorted(each[3] for each in found) == [2, 3]


@pytest.mark.parametrize("cut", CUTS)
def test_tuples_from_the_future(cut: int | None) -> None:
    given = Stream(
        "k INT, ts TIMESTAMP",
        [(0, 10 * SECOND), (1, 16 * SECOND), (2, 15 * SECOND), (3, None), (4, 11 * SECOND)],
        ps.progress("ts", delay="2 seconds", future_limit="5 seconds"),
    )
    found = same_rejects(given, cut, ManualClock(at=10 * SECOND))
    assert [(each[0], each[3]) for each in found] == [
        ("too far in the future", 2),
        ("no progress value", 4),
    ]


@pytest.mark.parametrize("cut", CUTS)
def test_what_is_rejected_promises_nothing(cut: int | None) -> None:
    given = Stream(
        "ts TIMESTAMP",
        [(10 * SECOND,), (10**6 * SECOND,), (9 * SECOND,)],
        ps.progress("ts", ordered=True, future_limit="1 second"),
    )
    items, _ = ingested(given, cut, ManualClock(at=10 * SECOND))
    assert bounds(items, "s.ts")[-2] == 10 * SECOND
    assert isinstance(items[-1], Progress)
    assert items[-1].high == {"s.ts": 10 * SECOND}


def test_a_strict_run_stops_at_a_reject() -> None:
    db = database(s=stream([("a", None)], delay=3))
    query = db.sql("SELECT * FROM s")
    assert isinstance(query, ps.Query)
    with pytest.raises(SourceError, match="t is NULL"):
        answer(in_process(query.plan), ManualClock(), strict=True)


# --- stamps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", CUTS)
def test_internal_stamps_are_the_clock_of_each_tuple(cut: int | None) -> None:
    given = Stream("k INT", [(1,), (2,), (3,)], ps.progress("ts", timestamps="INTERNAL"))
    items, _ = ingested(given, cut, ManualClock(at=100, step=7))
    assert rows(items) == [(1, 100), (2, 107), (3, 114)]
    assert bounds(items, "s.ts")[-2] == 114


@pytest.mark.parametrize("cut", CUTS)
def test_internal_stamps_in_windows(cut: int | None) -> None:
    given = Stream("k INT", [(n,) for n in range(10)], ps.progress("ts", timestamps="INTERNAL"))
    sql = "SELECT count(*) AS n [RANGE 4 SECONDS, SLIDE 2 SECONDS, WA ts] FROM s"
    found = locally(sql, cut, ManualClock(step=SECOND), s=given)
    assert [row["n"] for row in found.table.to_pylist()] == [2, 4, 4, 4, 4, 2]


# --- punctuations --------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", CUTS)
def test_punctuations_are_not_data(cut: int | None) -> None:
    given = stream(
        [("d", 3), ("p", 5), ("d", 4), ("d", 8), ("p", 1), ("p", None), ("d", None), ("d", 6)],
        punctuated=("k = 'p'", "t"),
    )
    items, log = ingested(given, cut)
    assert [row[:2] for row in rows(items)] == [("d", 3), ("d", 4), ("d", 8), ("d", 6)]
    assert bounds(items)[-2] == 5
    assert [each.reason for each in log] == ["a punctuation without a bound", "t is NULL"]
    same_rejects(given, cut, ManualClock())


def test_a_batch_of_punctuations_alone() -> None:
    items, _ = ingested(stream([("p", 5), ("p", 7)], punctuated=("k = 'p'", "t")), cut=1)
    assert rows(items) == []
    assert bounds(items) == [5, 7, None]
    assert isinstance(items[-1], Progress)
    assert items[-1].high == {"s.t": 6}  # whatever lies below the bound has been passed


# --- sub-sources ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", CUTS)
def test_per_file(tmp_path: Path, cut: int | None) -> None:
    """All files are known from the start, so none of the first one's windows leave early."""
    (tmp_path / "a.csv").write_text("v,t\n1,5\n2,30\n3,7\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("v,t\n4,6\n5,\n6,28\n7,2\n", encoding="utf-8")
    text = (
        "CREATE STREAM s (v INT, t INT) FROM FILES '*.csv' PROGRESS ON t DELAY 3 PER FILE;"
        "SELECT sum(v) AS v [RANGE 10, SLIDE 5, WA t] FROM s LATE SIDE"
    )
    db = ps.connect("reference", base=tmp_path)
    results = []
    for result in db.script(text):
        results.append(result)
        recut(db, cut)
    query = results[-1]
    assert isinstance(query, ps.Query)
    found = answer(in_process(query.plan), ManualClock())
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    late = [row[:2] for row in tuples(found.late)]
    assert sorted(late) == sorted(row[:2] for row in tuples(query.late)) == [(3, 7), (7, 2)]
    assert tuples(found.rejects.table()) == tuples(query.rejected)


@pytest.mark.parametrize("cut", CUTS)
def test_per_expression(cut: int | None) -> None:
    given = stream([("a", 10), ("b", 2), ("a", 20), (None, 1), ("b", 11)], delay=1, per="k")
    items, _ = ingested(given, cut)
    assert bounds(items)[-2] == 9
