"""The choice of a plan for a join: by rates, keys, windows and disorder."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import penstock as ps
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.optimizer.join_costs import JoinCosts
from penstock.optimizer.join_order import candidates, chosen
from penstock.optimizer.join_search import Search
from penstock.optimizer.join_statistics import JoinStatistics, statistics_of
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.join_properties import arranged
from penstock.plan.join_trees import Joined, flat, partitions, trees_of
from penstock.plan.nodes.join import Join
from penstock.plan.physical import Host, OperatorKind


def joined(rows: dict[str, int], keys: int = 10, delay: int = 0, hint: str = "") -> ps.Query:
    """Streams over 1,000 ticks, by one key, each with a window of 50 ticks."""
    db = ps.connect("local")
    for name, count in rows.items():
        table = pa.table(
            {
                "k": [n * 7919 % 10007 % keys for n in range(count)],
                "t": [n * 1000 // count for n in range(count)],
            }
        )
        batches = table.to_batches(max_chunksize=max(1, count // 200))
        db.stream(name, batches, progress=ps.progress("t", delay=delay))
    names = list(rows)
    where = " AND ".join(f"{a}.k = {b}.k" for a, b in pairwise(names))
    source = ", ".join(f"{name} [RANGE 50, WA t]" for name in names)
    query = db.sql(f"SELECT {hint} {names[0]}.k FROM {source} WHERE {where}")
    assert isinstance(query, ps.Query)
    return query


def join_of(query: ps.Query) -> Join:
    return next(node for node in query.plan.walk() if isinstance(node, Join))


def search_of(query: ps.Query) -> Search:
    join = join_of(query)
    return Search(JoinCosts(join, statistics_of(join)))


def test_what_is_known_of_streams_in_memory() -> None:
    query = joined({"a": 2000, "b": 400, "c": 1000}, keys=4, delay=6)
    found = statistics_of(join_of(query))
    assert [round(each.rate, 1) for each in found.inputs] == [2.0, 0.4, 1.0]
    assert [each.disorder for each in found.inputs] == [6, 6, 6]
    assert found.matching(frozenset([0, 1])) == pytest.approx(1 / 4, rel=0.1)
    assert found.matching(frozenset([0, 1, 2])) == pytest.approx(1 / 16, rel=0.1)


def test_expected_results_are_those_that_come() -> None:
    query = joined({"a": 2000, "b": 400, "c": 1000}, keys=4)
    costs = JoinCosts(join_of(query), statistics_of(join_of(query)))
    everybody = frozenset(range(3))
    expected = sum(costs.rate(i) * costs.combinations(everybody, i) for i in everybody) * 1000
    rows = answer(physical_plan(query.plan, Settings()), ManualClock()).table.num_rows
    assert expected == pytest.approx(rows, rel=0.15)


def test_tuples_look_for_the_rarest_partners_first() -> None:
    probes = search_of(joined({"a": 9000, "b": 3000, "c": 300})).flat().tree.probes
    assert probes[0] == (2, 1)
    assert probes[1] == (2, 0)
    assert probes[2] == (1, 0)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_nothing_is_better_than_what_is_found(size: int) -> None:
    rows = dict(zip("abcde", (5000, 300, 1200, 2500, 600), strict=True))
    search = search_of(joined({name: rows[name] for name in "abcde"[:size]}))
    best = search.containing()
    for tree in trees_of(range(size)):
        assert isinstance(tree, Joined)
        assert best.time <= search.time(tree) * (1 + 1e-9)
    assert search.pipeline().time >= best.time
    assert search.flat().time >= best.time
    assert search.time(best.tree) == pytest.approx(best.time)


def test_trees_that_cannot_be_better_are_left_out() -> None:
    """Of the operators for some of six streams, not even six tenths are looked at."""
    names = "abcdef"
    db = ps.connect("local")
    for number, name in enumerate(names):
        rows = 300 * (number + 1)
        keys = {f"k{n}": [each * 7919 % (40 * n + 9) for each in range(rows)] for n in range(6)}
        table = pa.table({**keys, "t": [n * 1000 // rows for n in range(rows)]})
        db.stream(name, table, progress=ps.progress("t", delay=3))
    where = " AND ".join(f"{a}.k{n} = {b}.k{n}" for n, (a, b) in enumerate(pairwise(names)))
    query = db.sql(f"SELECT a.t FROM {', '.join(f'{n} [RANGE 9]' for n in names)} WHERE {where}")
    assert isinstance(query, ps.Query)
    search, asked = search_of(query), 0
    of_operator = search._operator_time

    def counted(*given: Any) -> float:
        nonlocal asked
        asked += 1
        return of_operator(*given)

    with patch.object(search, "_operator_time", counted):
        search.containing()
    every = sum(
        sum(len(blocks) > 1 for blocks in partitions(some))
        for size in range(2, 7)
        for some in combinations(range(6), size)
    )
    assert 0 < asked < 0.6 * every


def test_many_inputs_are_put_together_without_trying_everything() -> None:
    rows = {name: 100 + 50 * n for n, name in enumerate("abcdefgh")}
    found = search_of(joined(rows)).containing()
    assert sorted(found.tree.leaves) == list(range(8))


def test_slow_streams_are_joined_before_a_fast_one_comes() -> None:
    """Down to static ones: a container that is hardly ever written pays."""
    query = joined({"a": 100, "b": 100, "c": 50}, keys=3)
    statistics = statistics_of(join_of(query))

    def with_rates(*rates: float) -> JoinStatistics:
        pairs = zip(statistics.inputs, rates, strict=True)
        return replace(statistics, inputs=tuple(replace(i, rate=rate) for i, rate in pairs))

    def best(*rates: float) -> str:
        costs = JoinCosts(join_of(query), with_rates(*rates))
        return Search(costs).containing().tree.named("abc")

    assert best(0.5, 0.5, 500) == "((a b) c)"
    assert best(50, 50, 0.5) != "((a b) c)"


def test_the_plan_changes_when_disorder_does() -> None:
    """The tuples of a stream that is late are seldom there when those of others come, so they are
    looked for first: whoever finds none is done."""
    query = joined({"a": 2000, "b": 1500, "c": 1000})
    ordered = statistics_of(join_of(query))
    late = replace(ordered.inputs[1], disorder=90.0, ahead=-45.0, spread=0.0, ends=())
    live = [replace(each, ahead=0.0, spread=0.0, ends=()) for each in ordered.inputs]
    in_order = replace(ordered, inputs=tuple(live))
    disordered = replace(ordered, inputs=(live[0], late, live[2]))
    orders = [
        Search(JoinCosts(join_of(query), each)).flat().tree.probes[0]
        for each in (in_order, disordered)
    ]
    assert orders == [(2, 1), (1, 2)]
    costs = [JoinCosts(join_of(query), each) for each in (in_order, disordered)]
    # the others are kept for as long as they may have to wait for it
    kept = [each.kept(frozenset([0])) for each in costs]
    assert kept[1] / kept[0] == pytest.approx((50 + 90 + 1) / (50 + 1))


# --- what may be chosen --------------------------------------------------------------------------


def test_intermediate_results_are_kept_in_process() -> None:
    query = joined({"a": 20, "b": 20, "c": 2000}, keys=3)
    (only,) = candidates(join_of(query), Settings(host=Host.SPARK))
    assert only.tree.is_flat
    plan = physical_plan(query.plan, Settings())
    (join,) = (n for n in plan.root.walk() if n.operator is OperatorKind.CONTAINING_JOIN)
    assert isinstance(join.logical, Join)
    assert join.logical.tree is not None
    assert join.logical.tree.named("abc") == "((a b) c)"
    assert [each.input.operator for each in join.ports] == [OperatorKind.READ] * 3


def test_a_hint_decides() -> None:
    rows = {"a": 20, "b": 20, "c": 2000}
    assert chosen(join_of(joined(rows, hint="/*+ MULTIWAY */")), Settings()).is_flat
    plan = physical_plan(joined(rows, hint="/*+ OA */").plan, Settings())
    kinds = [node.operator for node in plan.root.walk()]
    assert kinds.count(OperatorKind.OA_JOIN) == 2


def test_on_spark_tuples_without_a_common_key_are_joined_two_by_two() -> None:
    db = ps.connect("reference")
    for name in "abc":
        db.stream(name, [], schema="k INT, j INT, t INT", progress=ps.progress("t", delay=5))
    windows = ", ".join(f"{name} [RANGE 5, WA t]" for name in "abc")
    query = db.sql(f"SELECT a.k FROM {windows} WHERE a.k = b.k AND b.j = c.j")
    assert isinstance(query, ps.Query)
    plan = physical_plan(query.plan, Settings(host=Host.SPARK))
    assert [node.operator for node in plan.root.walk()].count(OperatorKind.OA_JOIN) == 2
    query = db.sql(f"SELECT a.k FROM {windows} WHERE a.k = b.k AND b.k = c.k")
    assert isinstance(query, ps.Query)
    plan = physical_plan(query.plan, Settings(host=Host.SPARK))
    (join,) = (n for n in plan.root.walk() if n.operator is OperatorKind.MULTIWAY_JOIN)
    assert [str(key) for port in join.ports for key in port.keys or ()] == ["a.k", "b.k", "c.k"]


def test_an_arranged_join_has_the_columns_and_conditions_of_the_whole() -> None:
    join = join_of(joined({"a": 20, "b": 20, "c": 20}))
    made = arranged(join, flat(3))
    assert made.schema == join.schema
    assert made.progress == join.progress
    assert made.probes == ((1, 2), (0, 2), (0, 1))
