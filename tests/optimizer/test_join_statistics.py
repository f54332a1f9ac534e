"""What tuples meet when they come, as it is played through beforehand: the steps of every plan are
those that are counted when it runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.joins.probes import WindowIndex
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.optimizer.join_costs import JoinCosts
from penstock.optimizer.join_order import put_together
from penstock.optimizer.join_search import Search
from penstock.optimizer.join_statistics import InputStatistics, encounters, statistics_of
from penstock.optimizer.lowering import lower
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.join_trees import Joined, flat
from penstock.plan.nodes.join import Join
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan


def stream(name: str, *ends: int, disorder: float = 0.0) -> InputStatistics:
    return InputStatistics(name, 1.0, disorder, batch=10, begin=ends[0] - 10, ends=ends)


def test_the_one_that_has_promised_least_is_read_next() -> None:
    first, second = encounters([stream("a", 10, 20, 30), stream("b", 12, 18, 31)])
    # a up to 10, b up to 12, a to 20, because 10 < 12; b to 18 and to 31, and then a again
    assert sorted(set(first.reached[1])) == [-np.inf, 12, 31]
    assert sorted(set(second.reached[0])) == [10, 20]
    assert (second.promised[0] == second.reached[0]).all()
    assert first.times.min() > 0
    assert first.times.max() < 30


def test_what_has_been_read_promises_everything() -> None:
    _, second = encounters([stream("a", 10), stream("b", 12, 18)])
    assert sorted(set(second.promised[0])) == [10, np.inf]


def test_disorder_makes_promises_lower_and_tuples_older() -> None:
    given = stream("a", 100, 200, disorder=40)
    first, second = encounters([given, stream("b", 100, 200)])
    assert 50 < first.times.min() < 90
    # b is read after each batch of a, and whatever a promises is 40 behind
    assert sorted(set(second.promised[0])) == [60, 160]
    assert 60 < second.reached[0].min() < second.reached[0].max() < 200


def joined(rates: dict[str, int], batch: int, window: int) -> QueryPlan:
    db = ps.connect("local")
    generator = np.random.default_rng(3)
    for name, rate in rates.items():
        size = rate * 40
        table = pa.table(
            {
                "a": generator.integers(0, 12, size),
                "b": generator.integers(0, 30, size),
                "t": np.sort(generator.integers(0, 4000, size)),
            }
        )
        batches = table.to_batches(max_chunksize=rate * batch)
        db.stream(name, batches, progress=ps.progress("t", ordered=True))
    windows = ", ".join(f"{name} [RANGE {window}, WA t]" for name in rates)
    query = db.sql(f"SELECT r.t FROM {windows} WHERE r.a = s.a AND s.b = u.b")
    assert isinstance(query, ps.Query)
    return query.plan


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is done in joins of several inputs."""
    found: Counter[str] = Counter()
    find, record = WindowIndex.find, WindowIndex.record

    def counting_find(self: WindowIndex, codes: Any, lows: Any, highs: Any) -> Any:
        partners = find(self, codes, lows, highs)
        found["asked"] += len(codes)
        found["found"] += sum(each.size for each in partners)
        return partners

    def counting_record(self: WindowIndex, given: Any, ticks: Any) -> None:
        found["recorded"] += len(ticks)
        record(self, given, ticks)

    monkeypatch.setattr(WindowIndex, "find", counting_find)
    monkeypatch.setattr(WindowIndex, "record", counting_record)
    return found


@pytest.mark.parametrize("probes", [((1, 2), (0, 2), (1, 0)), ((1, 2), (2, 0), (1, 0))])
@pytest.mark.parametrize(("batch", "window"), [(1, 300), (5, 90), (8, 20)])
def test_the_steps_that_are_expected_are_those_that_are_taken(
    counted: Counter[str], probes: tuple[tuple[int, ...], ...], batch: int, window: int
) -> None:
    query = joined({"r": 20, "s": 30, "u": 10}, batch, window)
    (join,) = (node for node in query.walk() if isinstance(node, Join))
    tree = flat(3, probes)
    assert isinstance(tree, Joined)

    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        return put_together(node, tree) if isinstance(node, Join) else node

    answer(lower(with_inputs(query, change), Settings()), ManualClock())
    expected = Search(JoinCosts(join, statistics_of(join))).total(tree) * 4000
    assert expected.recorded == pytest.approx(counted["recorded"], rel=0.05)
    assert expected.asked == pytest.approx(counted["asked"], rel=0.2)
    assert expected.found == pytest.approx(counted["found"], rel=0.2)
