"""A checkpoint goes on with the plan that it was begun with, whichever rules there are by now."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import CheckpointError
from penstock.io.sinks.sink import Collected
from penstock.local.scheduling.scheduler import LocalJob
from penstock.model.clock import ManualClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.identity import identity
from penstock.plan.physical import Host, PhysicalPlan
from penstock.runs.answer import Outlet
from penstock.runs.run_options import RunOptions
from penstock.spark.run.job_checkpoint import as_begun, claim, identity_of
from tests.reference.helpers import Row, bag, tuples

COUNTS = "SELECT k, window_end AS e, count(*) AS n [RANGE 4, SLIDE 4, WA t] FROM s GROUP BY k"
TOP = f"SELECT k, max(n) AS m [RANGE 8, SLIDE 8, WA e] FROM ({COUNTS}) q GROUP BY k"
SQL = f"SELECT m FROM ({TOP}) p WHERE k = 1"
ROWS = [(n % 3, n // 2) for n in range(60)]


def query_over(folder: Path, rows: list[Row]) -> ps.Query:
    path = folder / f"{len(list(folder.glob('*.csv')))}.csv"
    path.write_text("k,t\n" + "".join(f"{k},{t}\n" for k, t in rows))
    db = ps.connect("local")
    db.sql(f"CREATE STREAM s (k INT, t INT) FROM FILES '{folder}/*.csv' PROGRESS ON t DELAY 3")
    query = db.sql(SQL)
    assert isinstance(query, ps.Query)
    return query


def run(
    query: ps.Query, checkpoint: Path, simplified: Collection[str] | None, again: bool = True
) -> tuple[LocalJob, list[Row]]:
    """A run planned by some rules, or as the checkpoint says if it may plan again."""

    def planned(_: int, rules: Collection[str] | None) -> PhysicalPlan:
        return physical_plan(query.plan, Settings(), rules)

    rows = Collected()
    options = RunOptions(checkpoint, final=False)
    job = LocalJob(
        [planned(0, simplified)],
        [Outlet(query.plan, rows)],
        ManualClock(),
        options=options,
        planned=planned if again else None,
    )
    job.drive()
    return job, tuples(rows.table)


@pytest.mark.parametrize("simplified", [(), None])
def test_in_process(tmp_path: Path, simplified: Collection[str] | None) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    begun, first = run(query_over(files, ROWS[:30]), checkpoint, simplified)
    query = query_over(files, ROWS[30:])
    later, rest = run(query, checkpoint, None)
    assert later.run.plans[0].simplified == begun.run.plans[0].simplified
    assert bool(begun.run.plans[0].simplified) is (simplified is None)
    _, in_one_go = run(query, tmp_path / "another", None)
    assert bag([*first, *rest]) == bag(in_one_go)
    assert first
    assert rest


def test_another_plan_is_refused_and_never_begins_anew(tmp_path: Path) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    run(query_over(files, ROWS[:30]), checkpoint, ())
    with pytest.raises(CheckpointError, match="put together in another way"):
        run(query_over(files, ROWS[30:]), checkpoint, None, again=False)


def test_identity_is_that_of_the_plan_as_it_was_asked_for(tmp_path: Path) -> None:
    query = query_over(tmp_path, ROWS).plan
    plain, simplified = (physical_plan(query, Settings(), rules) for rules in ((), None))
    assert simplified.simplified
    assert identity(plain.query) == identity(simplified.query) == identity(query)


def test_on_spark(tmp_path: Path) -> None:
    query = query_over(tmp_path, ROWS).plan
    settings = Settings(host=Host.SPARK)

    def planned(rules: Collection[str] | None) -> PhysicalPlan:
        return physical_plan(query, settings, rules)

    def of_query(number: int, rules: Collection[str]) -> PhysicalPlan:
        return planned(rules)

    own = tmp_path / "checkpoint"
    claim(own, identity_of([planned(())], 2, {}, live=False))
    assert as_begun([planned(None)], own, of_query)[0].root == planned(()).root
    claim(own, identity_of(as_begun([planned(None)], own, of_query), 2, {}, live=False))
    with pytest.raises(CheckpointError, match="simplified"):
        claim(own, identity_of([planned(None)], 2, {}, live=False))
