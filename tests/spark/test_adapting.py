"""Operators that are exchanged in the buckets of a stage, at the end of a micro-batch: no row is
lost or doubled, whatever the cut and the restarts are, and every decision is told."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import EngineError
from penstock.optimizer.sharing import share_panes
from penstock.plan.physical import OperatorKind
from penstock.runs.run_options import Adaptation
from penstock.spark.run.job_results import read_totals
from penstock.spark.run.streaming import Options, SparkRun
from tests.local.test_adapting import DELAY, EAGER, stream
from tests.planning import on_spark
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import Committed, CrashError
from tests.spark.test_every_cut import Cuts, run_in_cuts
from tests.spark.without_spark import MicroBatch, WithoutSpark, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOIN = (
    "SELECT r.t, s.t, u.t FROM r [RANGE 10, WA t], s [RANGE 10, WA t], u [RANGE 10, WA t]"
    " WHERE r.k = s.k AND s.k = u.k AND r.a = s.a AND r.b = u.b"
)


def drifting(few: int = 500, many: int = 4, rows: int = 2400) -> ps.Query:
    (found,) = queries_over_drift(few, many, rows, JOIN)
    return found


def queries_over_drift(few: int, many: int, rows: int, *texts: str) -> list[ps.Query]:
    """Which pairs match seldom changes in the middle; all three have a key in common."""
    db = ps.connect("local")
    for seed, name in enumerate("rsu"):
        table = stream(seed, (few, many), (many, few), rows if name == "r" else rows // 2)
        keys = pa.array(np.arange(table.num_rows) % 2)
        db.stream(name, table.append_column("k", keys), progress=DELAY)
    found = [db.sql(text) for text in texts]
    return [query for query in found if isinstance(query, ps.Query)]


def even_cuts(query: ps.Query, pieces: int) -> dict[str, Cuts]:
    sizes = {name: batch.num_rows for name, batch in rows_of(query.plan).items()}
    return {
        name: list(pairwise(size * place // pieces for place in range(pieces + 1)))
        for name, size in sizes.items()
    }


def decided(job: WithoutSpark) -> list[str]:
    return [str(each) for each in job.tally.decisions]


@pytest.mark.parametrize("buckets", [1, 2])
def test_a_drift_changes_operators_and_no_row(buckets: int) -> None:
    query = drifting()
    job = WithoutSpark(query.plan, buckets, adaptation=EAGER)
    run_in_cuts(job, query, even_cuts(query, 20), 1000, {7, 13})
    assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect()))
    told = decided(job)
    assert told
    assert all("Join of r, s, u, stage 1, bucket " in each and " -> " in each for each in told)
    assert any("match in" in each for each in told)


@settings(deadline=None, max_examples=15)
@given(
    few=st.integers(1, 60),
    many=st.integers(1, 9),
    rows=st.integers(20, 80),
    pieces=st.integers(1, 12),
    buckets=st.integers(1, 3),
    restarts=st.sets(st.integers(1, 11)),
)
def test_any_drift(
    few: int, many: int, rows: int, pieces: int, buckets: int, restarts: set[int]
) -> None:
    query = drifting(few, many, rows)
    job = WithoutSpark(query.plan, buckets, adaptation=replace(EAGER, margin=1.0))
    run_in_cuts(job, query, even_cuts(query, pieces), 10, restarts)
    assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect()))


def test_workers_take_turns() -> None:
    """Whoever has the bucket next goes on with what others have seen."""

    class Losing(WithoutSpark):
        def run(self, given: MicroBatch) -> None:
            self.lose_workers()
            super().run(given)

    query = drifting()
    job = Losing(query.plan, 2, adaptation=EAGER)
    run_in_cuts(job, query, even_cuts(query, 20), 1000, set())
    assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect()))
    assert decided(job)


def test_one_of_several_queries() -> None:
    """Each hears of what was decided for it, and none loses a row."""
    counts = "SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM r GROUP BY k"
    queries = queries_over_drift(500, 4, 2400, counts, JOIN)
    plans = share_panes([on_spark(query.plan) for query in queries])
    job = WithoutSpark(plans, 2, adaptation=EAGER)
    run_in_cuts(job, queries[1], even_cuts(queries[1], 20), 1000, {7, 13})
    for query, received in zip(queries, job.all_received, strict=True):
        assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    counting, joining = ([each.operator for each in tally.decisions] for tally in job.tallies)
    assert joining
    assert not set(counting) & set(joining)
    assert all(each.startswith("Join of r, s, u, stage 2, bucket ") for each in joining)


def test_never_if_it_is_switched_off() -> None:
    query = drifting()
    for adaptation in (None, replace(EAGER, on=False), replace(EAGER, margin=1e6)):
        job = WithoutSpark(query.plan, 2, adaptation=adaptation)
        run_in_cuts(job, query, even_cuts(query, 10), 1000, set())
        assert not decided(job)


def test_state_says_which_operator_it_is_of() -> None:
    query = drifting()
    job = WithoutSpark(query.plan, 1, adaptation=EAGER)
    run_in_cuts(job, query, even_cuts(query, 20), 1000, set())
    (bucket,) = job._buckets.values()
    (store,) = job._stores.values()
    kinds = (OperatorKind.MULTIWAY_JOIN, OperatorKind.CONTAINING_JOIN)
    assert bucket.node.operator in kinds
    assert bucket.config.identity.operator(store) == bucket.node.operator.value
    decided_on = bucket.node
    job.restart()
    again = job._bucket(job._configs()[0], 0)
    assert again.node.logical == decided_on.logical
    assert again.operator.metrics().rows == bucket.operator.metrics().rows


def test_on_spark(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also if a micro-batch after a decision fails, and comes again in another run."""
    caplog.set_level(logging.INFO, "penstock")
    query = drifting()
    received = Committed({5})
    options = Options(tmp_path, portions=8, buckets=2, final=True, adaptation=EAGER)

    def run() -> SparkRun:
        made = SparkRun([on_spark(query.plan)], spark, [received], options)
        made.start()
        return made

    first = run()
    with pytest.raises(CrashError):
        first.wait()
    told = first.decisions()
    assert told
    assert str(told[0]) in caplog.text
    second = run()
    second.wait()
    assert bag(tuples(received.table(query.plan))) == bag(tuples(query.collect()))
    (books,) = read_totals(tmp_path / "penstock", 1)
    assert books.all.decisions == [*told, *second.decisions()]


def test_users_say_when(spark: SparkSession) -> None:
    setting = ps.connect(spark, adapt=2.0).setting.on_spark
    assert setting.adaptation == Adaptation(margin=2.0)
    assert not ps.connect(spark, adapt=False).setting.on_spark.adaptation.on
    assert ps.connect(spark).setting.on_spark.adaptation.on
    with pytest.raises(EngineError, match="no scheduler of ours"):
        ps.connect(spark, adapt=2.0, strategy="dfs")
