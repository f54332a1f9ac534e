"""When operators are exchanged: what was seen, by how much others have to be better, and what is
written down."""

from __future__ import annotations

import logging
from dataclasses import replace
from time import perf_counter_ns
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import BindError, EngineError
from penstock.local.graph_options import Scheduling
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import Scheduler
from penstock.model.clock import ManualClock
from penstock.optimizer.join_order import put_together
from penstock.optimizer.join_statistics import JoinStatistics
from penstock.optimizer.lowering import lower
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.algorithms import Algorithm
from penstock.plan.join_trees import Joined, flat, left_deep
from penstock.plan.nodes.join import Join
from penstock.plan.nodes.node import Node
from penstock.plan.physical import OperatorKind, PhysicalPlan
from penstock.reference.engine import answer as definition
from penstock.runs import adaptation as adapting
from penstock.runs import adaptation as watched
from penstock.runs.adaptation import Adapting, can_change, sample
from penstock.runs.collected_answer import Gathered
from penstock.runs.run_options import Adaptation
from tests.planning import in_process
from tests.reference.helpers import bag, tuples

EAGER = Adaptation(margin=1.01, agreeing=1, rows=1, share=float("inf"))
DELAY = ps.progress("t", delay=3)


def stream(seed: int, before: tuple[int, int], after: tuple[int, int], rows: int) -> pa.Table:
    """Tuples over 400 ticks; from 200 on they have other numbers of keys in both columns."""
    generator = np.random.default_rng(seed)
    times = np.arange(rows) * 400 // rows
    keys = [
        generator.integers(0, 1 << 40, rows) % np.where(times < 200, one, other)
        for one, other in zip(before, after, strict=True)
    ]
    moved = times + generator.integers(0, 4, rows)
    order = np.argsort(moved, kind="stable")
    return pa.table({"a": keys[0][order], "b": keys[1][order], "t": times[order]})


def drifting(few: int = 500, many: int = 4, rows: int = 2400, words: str = "") -> ps.Query:
    db = ps.connect("local")
    for seed, name in enumerate("rsu"):
        table = stream(seed, (few, many), (many, few), rows if name == "r" else rows // 2)
        db.stream(name, table.to_batches(max_chunksize=max(1, rows // 40)), progress=DELAY)
    windows = "r [RANGE 10, WA t], s [RANGE 10, WA t], u [RANGE 10, WA t]"
    found = db.sql(f"SELECT r.t, s.t, u.t FROM {windows} WHERE r.a = s.a AND r.b = u.b {words}")
    assert isinstance(found, ps.Query)
    return found


def as_tree(query: ps.Query, tree: Joined) -> PhysicalPlan:
    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        return put_together(node, tree) if isinstance(node, Join) else node

    return lower(with_inputs(query.plan, change), Settings())


def run(plan: PhysicalPlan, adaptation: Adaptation) -> tuple[LocalRun, pa.Table]:
    gathered = Gathered(plan.query)
    made = LocalRun([plan], [gathered], ManualClock(), scheduling=Scheduling(adaptation=adaptation))
    Scheduler(made).drive()
    return made, gathered.answer(0).table


def test_a_drift_changes_the_plan_and_no_row(caplog: pytest.LogCaptureFixture) -> None:
    query = drifting()
    caplog.set_level(logging.INFO, "penstock")
    made, rows = run(as_tree(query, left_deep((0, 1, 2))), EAGER)
    _, expected = run(as_tree(query, flat(3)), replace(EAGER, on=False))
    assert rows.num_rows > 100
    assert bag(tuples(rows)) == bag(tuples(expected))
    last = made.adapting.decisions[-1]
    assert "(r u)" in last.after or "r: u s" in last.after, "which match seldom by then"
    assert last.time_after * 1.01 <= last.time_before
    assert "match in" in last.because
    assert str(last) in caplog.text
    (node,) = (each for each in made.stages if len(each.inputs) == 3)
    assert isinstance(node.node.logical, Join)
    assert node.node.logical.tree is not None
    assert node.node.logical.tree.named("rsu") in last.after


def test_what_is_found_out_once_is_no_part_of_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later looks need not wait until an operator has worked so much more."""
    passed, found_out = [0], watched.statistics_of

    def at_length(join: Join) -> JoinStatistics:
        passed[0] += 10**12
        return found_out(join)

    looked = Mock(side_effect=watched.better_join)
    monkeypatch.setattr(watched, "statistics_of", at_length)
    monkeypatch.setattr(watched, "better_join", looked)
    monkeypatch.setattr(adapting, "perf_counter_ns", lambda: perf_counter_ns() + passed[0])
    run(as_tree(drifting(), left_deep((0, 1, 2))), replace(EAGER, share=10.0))
    assert passed == [10**12]
    assert looked.call_count > 1


def test_rows_follow_tuples_while_plans_change() -> None:
    """Nothing is kept but tuples, and these look for others in another order."""
    plan = in_process(drifting(words="CONSISTENCY SERIAL").plan)
    made, rows = run(plan, EAGER)
    never, expected = run(plan, replace(EAGER, on=False))
    assert any("r: u s" in each.after for each in made.adapting.decisions)
    assert all(each.after.startswith("(r s u)") for each in made.adapting.decisions)
    assert not never.adapting.decisions
    assert bag(tuples(rows)) == bag(tuples(expected))


def test_never_if_it_is_switched_off() -> None:
    made, _ = run(as_tree(drifting(), left_deep((0, 1, 2))), replace(EAGER, on=False))
    assert made.adapting.looks == 0
    assert not made.adapting.decisions


def test_not_for_less_than_the_margin() -> None:
    made, _ = run(as_tree(drifting(), left_deep((0, 1, 2))), replace(EAGER, margin=1e6))
    assert made.adapting.looks > 2
    assert not made.adapting.decisions


def test_looks_have_to_agree() -> None:
    """One look alone decides nothing, so what comes and goes at once changes no plan."""
    first = left_deep((0, 1, 2))
    once, _ = run(as_tree(drifting(), first), EAGER)
    many, _ = run(as_tree(drifting(), first), replace(EAGER, agreeing=10_000))
    assert once.adapting.decisions
    assert not many.adapting.decisions


def test_looks_are_paid_for_by_work() -> None:
    made, _ = run(as_tree(drifting(), flat(3)), replace(EAGER, share=1e-9))
    assert made.adapting.looks == 0
    made, _ = run(as_tree(drifting(), flat(3)), replace(EAGER, rows=10**9))
    assert made.adapting.looks == 0


def test_a_look_that_finds_nothing_makes_the_next_one_no_cheaper() -> None:
    """It ends before anything is compared, and is repeated by what it has cost itself."""
    adapting = Adapting(Adaptation(share=0.5, rows=1), ManualClock())
    watched = Mock(looked=1_000, rests_until=0.0, total_work=2_000, worked=2_000, came=5)
    watched.look.return_value = None
    adapting.look([watched])
    assert (adapting.looks, watched.looked) == (1, 1_000)
    adapting.look([watched])
    assert adapting.looks == 1
    watched.total_work = watched.rests_until
    adapting.look([watched])
    assert adapting.looks == 2


@settings(deadline=None, max_examples=10)
@given(
    few=st.integers(1, 60),
    many=st.integers(1, 9),
    rows=st.integers(20, 80),
    margin=st.sampled_from([1.0, 1.2]),
    first=st.sampled_from([flat(3), left_deep((1, 0, 2)), left_deep((2, 1, 0))]),
)
def test_any_drift(few: int, many: int, rows: int, margin: float, first: Joined) -> None:
    query = drifting(few, many, rows)
    made, found = run(as_tree(query, first), replace(EAGER, margin=margin))
    assert made.adapting.looks
    assert bag(tuples(found)) == bag(tuples(definition(query.plan, ManualClock()).table))


# --- windows -------------------------------------------------------------------------------------


def counting(
    hint: str = "", seed: int = 1, slow: int = 600, fast: int = 600, at: int = 5
) -> ps.Query:
    """Tuples of three groups, a few out of order, in batches of 50: one a tick for `slow` ticks,
    and several for `fast` ticks."""
    db = ps.connect("local")
    generator = np.random.default_rng(seed)
    times = np.concatenate([np.arange(slow), slow + np.arange(fast * at) // at])
    moved = np.argsort(times + generator.integers(0, 4, len(times)), kind="stable")
    keys, values = (generator.integers(0, upto, len(times)) for upto in (3, 1000))
    table = pa.table({"k": keys, "v": values, "t": times[moved]})
    batches = table.to_batches(max_chunksize=50)
    # nothing is known of what a function makes
    db.stream("s", lambda: iter(batches), schema="k INT, v INT, t INT", progress=DELAY)
    made = "k, max(v) AS m, window_end AS e [RANGE 300, SLIDE 3, WA t]"
    found = db.sql(f"SELECT {hint} {made} FROM s GROUP BY k LATE SIDE")
    assert isinstance(found, ps.Query)
    return found


def test_windows_are_computed_by_what_is_seen() -> None:
    """A thousand groups, and batches of 65,536 rows, were assumed.  When few tuples come, it is
    better to keep them; when more come, to fold them into panes."""
    plan = in_process(counting().plan)
    made, rows = run(plan, Adaptation(rows=100, share=float("inf")))
    decided = made.adapting.decisions
    assert [(each.before, each.after) for each in decided] == [
        ("WID", "BUFFERING"),
        ("BUFFERING", "PANED"),
    ]
    for each in decided:
        assert each.time_after * 1.25 <= each.time_before
        assert "3 groups" in each.because
    (node,) = (each for each in made.stages if each.node.operator in _WINDOWS)
    assert node.node.operator is OperatorKind.PANED
    for name in ("WID", "BUFFERING", "PANED"):
        fixed, expected = run(in_process(counting(f"/*+ {name} */").plan), Adaptation())
        assert not fixed.adapting.decisions
        assert bag(tuples(rows)) == bag(tuples(expected))


@settings(deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 99),
    slow=st.integers(0, 100),
    fast=st.integers(0, 60),
    at=st.integers(1, 4),
    margin=st.sampled_from([1.0, 1.2]),
)
def test_any_drift_of_windows(seed: int, slow: int, fast: int, at: int, margin: float) -> None:
    query = counting("", seed, slow + 1, fast, at)
    _, rows = run(in_process(query.plan), replace(EAGER, margin=margin))
    assert bag(tuples(rows)) == bag(tuples(definition(query.plan, ManualClock()).table))


_WINDOWS = (
    OperatorKind.PANED,
    OperatorKind.WID,
    OperatorKind.ADAPTIVE,
    OperatorKind.TWO_LEVEL,
    OperatorKind.BUFFERING,
)


def test_what_somebody_has_asked_for_stays() -> None:
    for name in Algorithm:
        plan = in_process(counting(f"/*+ {name.name} */").plan)
        assert not any(can_change(node) for node in plan.root.walk())
    assert any(can_change(node) for node in in_process(counting().plan).root.walk())


# --- small things --------------------------------------------------------------------------------


def test_a_sample_is_of_all_batches() -> None:
    kept = [pa.record_batch({"v": np.arange(a, b)}) for a, b in ((0, 9000), (9000, 10_000))]
    found = sample(kept)
    assert found is not None
    values = found.column(0).to_numpy()
    assert len(values) == 4096
    assert 200 < (values >= 9000).sum() < 650
    assert sample([]) is None
    small = sample(kept[1:])
    assert small is not None
    assert small.num_rows == 1000


def test_a_margin_is_at_least_one() -> None:
    with pytest.raises(BindError, match="adapt is the float"):
        ps.connect("local", adapt=0.5)
    with pytest.raises(EngineError, match="no scheduler of ours"):
        ps.connect("reference", adapt=False)
