"""Columns that Penstock adds hide none of the user's, and keep their types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import PenstockError
from penstock.io.sinks.sink import Collected
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import Scheduler
from penstock.model.clock import ManualClock
from penstock.runs.answer import Outlet
from tests.local.helpers import assert_same, recut
from tests.planning import in_process
from tests.reference.helpers import Stream, ask, bag, database, tuples
from tests.spark.test_every_cut import run_in_cuts
from tests.spark.without_spark import WithoutSpark

OURS = ("late_bound", "missed_first", "missed_last", "amended", "_sign", "_bound t", "_bound s.t")
SCHEMA = "k STRING, " + ", ".join(f"`{name}` INT" for name in OURS) + ", t INT"
ROWS = [
    (k, *range(n, n + len(OURS)), t) for n, (k, t) in enumerate([("a", 12), ("b", 3), ("a", 25)])
]
STREAM = Stream(SCHEMA, ROWS, ps.progress("t", delay=2))
NAMES = ", ".join(f"`{name}`" for name in OURS)
SUMS = ", ".join(f"sum(`{name}`) AS `{name}`" for name in OURS)
SELECTS = (
    f"SELECT {NAMES}, t FROM s",
    f"SELECT DISTINCT {NAMES}, t FROM s",
    f"SELECT {SUMS} [RANGE 10, SLIDE 5, WA t] FROM s",
    f"SELECT {SUMS} [RANGE ALL, SLIDE 5, WA t] FROM s",
    f"SELECT {SUMS} [RANGE 2 ROWS, SLIDE 1 ROWS, WA rank(t)] FROM s",
    "SELECT `_sign`, t, count(*) AS `_bound x` FROM s GROUP BY `_sign`, t",
)
LATES = (" LATE SIDE", " LATE AMEND", " LATE AMEND FOR 5", " LATE SIDE EMIT IN ORDER")


@pytest.mark.parametrize("late", LATES)
@pytest.mark.parametrize("select", SELECTS)
def test_nothing_is_hidden(select: str, late: str) -> None:
    if "ORDER" in late and "t FROM" not in select:
        select = select.replace("SELECT", "SELECT window_end,") if "RANGE" in select else select
    if "ROWS" in select and "ORDER" in late:
        return
    sql = select + late
    assert_same(sql, s=STREAM)
    query = ask(sql, s=STREAM)
    query.collect()
    if query.late.num_rows:
        first = query.late.column_names
        assert {*OURS, "late_bound_1", "missed_first_1", "missed_last_1"} <= set(first)
        assert ("amended_1" in first) == ("FOR" in late)
    job = WithoutSpark(query.plan, 2) if "RANGE" in select or "GROUP" in select else None
    if job is not None:
        run_in_cuts(job, query, {"s": [(0, 1), (1, 3)]}, 1, set())
        assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect()))
        assert bag(tuples(job.received.late_table())) == bag(tuples(query.late))


def written(sql: str, cut: int | None, **streams: Stream) -> tuple[Collected, Collected]:
    db = database(**streams)
    recut(db, cut)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    rows, late = Collected(), Collected()
    Scheduler(
        LocalRun([in_process(query.plan)], [Outlet(query.plan, rows, late)], ManualClock())
    ).drive()
    return rows, late


def test_signs_have_a_name_of_their_own() -> None:
    rows, _ = written(f"{SELECTS[2]} LATE AMEND", 1, s=STREAM)
    assert rows.table.column_names[-1] == "_sign_1"
    assert "_sign" in rows.table.column_names
    table = ask(
        "SELECT `_sign`, t FROM s [RANGE 5] EXCEPT ON (k) r [RANGE 1]",
        s=STREAM,
        r=STREAM._replace(rows=[]),
    ).collect()
    assert table.column_names[-1] == "_sign_1"


def test_a_column_cannot_have_a_name_from_inside() -> None:
    with pytest.raises(PenstockError, match="cannot be called"):
        ps.connect("local").stream("s", pa.table({"\0sign": [1]}))


# --- late tuples of several operators ------------------------------------------------------------

BOTH = (
    "SELECT n FROM (SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s) AS p UNION ALL"
    " SELECT n FROM (SELECT count(*) AS n [RANGE 5 DAYS, SLIDE 5 DAYS, WA d] FROM r) AS q LATE SIDE"
)


def both(first: list[int], second: list[int]) -> dict[str, Stream]:
    from datetime import date

    days: list[Any] = [(date(2024, 1, day),) for day in second]
    return {
        "s": Stream("t INT", [(t,) for t in first], ps.progress("t", ordered=True)),
        "r": Stream("d DATE", days, ps.progress("d", ordered=True)),
    }


def test_late_tuples_keep_their_types() -> None:
    streams = both([12, 3], [20, 2])
    assert_same(BOTH, **streams)
    query = ask(BOTH, **streams)
    query.collect()
    types = {field.name: str(field.type) for field in query.late.schema}
    assert types["late_bound"] == "int32"  # of the stream that the query names first
    assert types["late_bound_1"] == "date32[day]"
    assert query.late.column("late_bound").to_pylist().count(12) == 1
    assert query.late.num_rows == 2


@pytest.mark.parametrize("rows", [([12, 3], [20, 2]), ([12], [20, 2]), ([12, 3], [20])])
def test_sinks_see_one_set_of_columns(rows: tuple[list[int], list[int]]) -> None:
    for cut in (1, None):
        _, late = written(BOTH, cut, **both(*rows))
        assert {str(batch.schema) for batch in late.batches} == {str(late.table.schema)}
        assert {"late_bound", "late_bound_1", "t", "d"} <= set(late.table.column_names)
