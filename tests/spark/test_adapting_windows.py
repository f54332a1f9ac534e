"""Windows in buckets: tuples are folded before the shuffle as long as that makes them fewer, and
what comes as it is may be computed in another way.  No answer depends on either."""

from __future__ import annotations

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
from penstock.model.clock import ManualClock
from penstock.plan.nodes.query import Late
from penstock.plan.physical import OperatorKind
from penstock.reference.engine import answer as definition
from penstock.runs.run_options import Adaptation
from penstock.spark.run.streaming import Options, SparkRun
from penstock.spark.stateful.bucket import Bucket
from penstock.spark.tasks import paths
from penstock.spark.tasks.messages import Message, Packed
from tests.local.test_adapting import EAGER
from tests.planning import on_spark
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import Committed, CrashError
from tests.spark.test_adapting import decided
from tests.spark.test_every_cut import Cuts, cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLY = Adaptation(rows=50, share=float("inf"))
SUMS = "SELECT k, count(*) AS n, max(v) AS m [RANGE 90, SLIDE 3, WA t] FROM s GROUP BY k"


def tuples_of(
    few: int = 400, many: int = 100, at: int = 20, groups: int = 50, seed: int = 1
) -> pa.Table:
    """One tuple a tick for a `few` ticks, hardly two of them of a group; then several a tick, for
    `many` ticks, of two groups; some out of order, and some late."""
    generator = np.random.default_rng(seed)
    times = np.concatenate([np.arange(few), few + np.arange(many * at) // at])
    keys = generator.integers(0, np.where(times < few, groups, 2))
    moved = times - generator.integers(0, 3, len(times))
    moved[:: len(times) // 5 + 1] -= 20
    values = generator.integers(0, 1000, len(times))
    return pa.table({"k": keys, "v": values, "t": moved})


def few_then_many(late: str = "", **numbers: int) -> ps.Query:
    db = ps.connect("spark")
    db.stream("s", tuples_of(**numbers), progress=ps.progress("t", delay=3))
    found = db.sql(f"{SUMS} {late}")
    assert isinstance(found, ps.Query)
    return found


def by_time(few: int = 400, rows: int = 2400, pieces: int = 20) -> dict[str, Cuts]:
    """Micro-batches of as many tuples while there are few, and while there are many."""
    places = [few * each // pieces for each in range(pieces)]
    places += [few + (rows - few) * each // pieces for each in range(pieces + 1)]
    return {"s": list(pairwise(dict.fromkeys(places)))}


def ran(
    query: ps.Query,
    planned: dict[str, Cuts],
    adaptation: Adaptation | None,
    buckets: int = 2,
    restarts: frozenset[int] = frozenset(),
) -> WithoutSpark:
    job = WithoutSpark(query.plan, buckets, adaptation=adaptation)
    run_in_cuts(job, query, planned, 40, set(restarts))
    return job


def operators(job: WithoutSpark) -> set[OperatorKind]:
    return {each.node.operator for each in job._buckets.values()}


def assert_defined(query: ps.Query, job: WithoutSpark) -> None:
    expected = definition(query.plan, ManualClock())
    assert bag(tuples(job.received.table(query.plan))) == bag(tuples(expected.table))
    assert job.tally.late == expected.account.late
    if query.plan.late is not Late.DROP:
        assert bag(tuples(job.received.late_table())) == bag(tuples(expected.late))


def test_tuples_are_folded_while_that_makes_them_fewer() -> None:
    """Alone or almost alone in their panes, they go as they are, and are kept; then they come
    folded, and the bucket goes on with panes."""
    query = few_then_many()
    sent: list[tuple[bool, bool]] = []  # by micro-batch: whether rows went, and panes

    class Seeing(WithoutSpark):
        def _take_in(self, bucket: Bucket, messages: list[Message]) -> list[Packed]:
            sent.append((any(m.rows for m in messages), any(m.panes for m in messages)))
            return super()._take_in(bucket, messages)

    job = Seeing(query.plan, 1, adaptation=EARLY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "_BATCHES", 1)
        run_in_cuts(job, query, by_time(), 400, set())
    assert_defined(query, job)
    assert (sent[0], sent[-1]) == ((True, False), (False, True))
    first, last = (str(each) for each in job.tally.decisions)
    assert "WindowAggregate of s, stage 1, bucket 0, after" in first
    assert "PANED -> BUFFERING" in first
    assert "BUFFERING -> PANED (tuples come folded into panes)" in last
    assert operators(job) == {OperatorKind.PANED}


def test_windows_that_nobody_folds_before() -> None:
    """Late tuples that somebody asks for come as they are."""
    query = few_then_many(late="LATE SIDE")
    job = ran(query, by_time(), EARLY, 1)
    assert_defined(query, job)
    told = [(each.before, each.after) for each in job.tally.decisions]
    assert told == [("PANED", "BUFFERING"), ("BUFFERING", "PANED")]


def test_workers_and_runs_go_on_with_what_was_decided() -> None:
    query = few_then_many(many=0, late="LATE SIDE")
    planned = {"s": by_time(rows=400)["s"][:-1]}
    job = ran(query, planned, EARLY, 1, restarts=frozenset({17}))
    assert operators(job) == {OperatorKind.BUFFERING}
    assert len(decided(job)) == 1
    job.restart()
    again = job._bucket(job._configs()[0], 0)
    assert again.node.operator is OperatorKind.BUFFERING
    never = WithoutSpark(query.plan, 1)
    never._stores = job._stores
    assert never._bucket(never._configs()[0], 0).node.operator is OperatorKind.PANED


@settings(deadline=None, max_examples=25)
@given(
    data=st.data(),
    few=st.integers(1, 150),
    many=st.integers(0, 60),
    at=st.integers(1, 4),
    groups=st.integers(1, 30),
    late=st.sampled_from(["", "LATE SIDE"]),
    seed=st.integers(0, 99),
    gain=st.sampled_from([0, 1.25]),
    margin=st.sampled_from([1.0, 1.25]),
    buckets=st.integers(1, 3),
    restarts=st.frozensets(st.integers(1, 7)),
)
def test_any_drift_of_windows(
    data: st.DataObject,
    few: int,
    many: int,
    at: int,
    groups: int,
    late: str,
    seed: int,
    gain: float,
    margin: float,
    buckets: int,
    restarts: frozenset[int],
) -> None:
    query = few_then_many(late, few=few, many=many, at=at, groups=groups, seed=seed)
    planned = {"s": data.draw(cuts(few + many * at))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "_GAIN", gain)
        patch.setattr(paths, "_BATCHES", 2)
        patch.setattr(paths, "_WORTH_PANES", 2)
        job = ran(query, planned, replace(EAGER, margin=margin), buckets, restarts)
    assert_defined(query, job)


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Also if a micro-batch after a decision fails, and comes again in another run."""
    query = few_then_many(many=20, late="LATE SIDE")
    received = Committed({4})
    told = replace(EARLY, rows=20)
    options = Options(tmp_path, portions=12, buckets=1, final=True, adaptation=told)

    def run() -> SparkRun:
        made = SparkRun([on_spark(query.plan)], spark, [received], options)
        made.start()
        return made

    first = run()
    with pytest.raises(CrashError):
        first.wait()
    assert any(each.after == "BUFFERING" for each in first.decisions())
    second = run()
    second.wait()
    expected = definition(query.plan, ManualClock())
    assert bag(tuples(received.table(query.plan))) == bag(tuples(expected.table))
