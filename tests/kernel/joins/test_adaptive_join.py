"""The Adaptive join changes its ways when it is busy, and back when it is not, without changing
what it gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

import penstock as ps
from penstock.errors import PlanError
from penstock.kernel.build import operator_for
from penstock.kernel.joins.ordered_joins import ALPHA, AdaptiveJoin, JoinLoad, JoinMode
from penstock.kernel.operator import Item, Measured, OperatorStatus
from penstock.kernel.state import MemoryStore
from penstock.model.clock import ManualClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.physical import OperatorKind
from tests.kernel.joins.ordered_streams import WINDOWS, Came, end, expected, feed, join_of, pairs
from tests.kernel.joins.simulated import SECOND, Timer, costing

NODE = join_of(WINDOWS[0])  # RANGE 6 on both sides


def running_on(timer: Timer, nanoseconds: int, alpha: float = ALPHA) -> AdaptiveJoin:
    found: AdaptiveJoin = costing(AdaptiveJoin(NODE, alpha, timer), timer, nanoseconds, 6)
    return found


def phase(begin: int, ticks: int, per_tick: int) -> list[Came]:
    """So many tuples of both streams in every tick, which is a second; the left stream is three
    ticks ahead of the right one."""
    found = []
    for tick in range(begin, begin + ticks):
        for _ in range(per_tick):
            found.append(Came(0, "a" if tick % 3 else "b", tick + 3, tick + 3))
            found.append(Came(1, "a" if tick % 2 else "b", tick, tick))
    return found


def at_pace(operator: AdaptiveJoin, timer: Timer, came: list[Came]) -> list[Item]:
    """Feed tuples when it is time for them, or as soon as the join has got so far."""
    made: list[Item] = []
    for each in came:
        timer.now = max(timer.now, each.bound * SECOND)
        made += feed(operator, each)
    return made


def test_it_switches_both_ways_and_drains_what_waits() -> None:
    timer = Timer()
    operator = running_on(timer, 1_000_000)  # a millisecond for two tuples
    slow, busy, slow_again = phase(0, 40, 2), phase(40, 40, 12), phase(80, 160, 2)
    made = at_pace(operator, timer, slow)
    assert operator.mode is JoinMode.SYNC_FILTER
    assert operator.measured.load is not None
    assert operator.measured.load < ALPHA  # 0.001 · 13 · 2 · 2, roughly
    made += at_pace(operator, timer, busy)
    assert operator.mode is JoinMode.FILTER_ORDER
    assert operator.metrics().counters["tuples waiting to be joined"] == 0
    assert operator.metrics().counters["results waiting for their turn"] > 0
    modes = []
    for each in slow_again:
        made += at_pace(operator, timer, [each])
        modes.append(operator.mode)
        if operator.mode is JoinMode.SYNC_FILTER:
            assert len(operator.held) == 0
    assert JoinMode.DRAINING in modes
    assert modes[-1] is JoinMode.SYNC_FILTER
    counters = operator.metrics().counters
    assert (counters["switches to Filter-Order"], counters["switches to Sync-Filter"]) == (1, 1)
    made += end(operator)
    found = pairs(made)
    assert sorted(found) == expected(NODE, [*slow, *busy, *slow_again])
    assert list(map(max, found)) == sorted(map(max, found))


def test_the_load_is_that_of_the_paper() -> None:
    """c·|w|·λ1·λ2, with |w| of 60 s, 1 and 10 tuples a second and c of half a millisecond."""
    load = JoinLoad()
    cost, window, rates = SECOND // 2000, 60, (1, 10)
    for tenth in range(1200):
        for port in (0, 1):
            if tenth % (10 // rates[port]) == 0:
                load.came(port, 1, tenth * SECOND // 10)
                load.joined(port, 1, cost * window * rates[1 - port])
    assert load.measure(120 * SECOND) == pytest.approx(0.3, rel=0.03)
    assert load.rates == pytest.approx([1, 10], rel=0.1)
    assert load.costs == pytest.approx([cost * 600, cost * 60])


def test_what_is_long_ago_does_not_count() -> None:
    load = JoinLoad()
    for second in range(60):
        load.came(0, 10, second * SECOND)
        load.joined(0, 10, SECOND // 2)
    assert load.measure(60 * SECOND) == pytest.approx(0.5, rel=0.12)
    for second in range(60, 260):
        load.came(0, 10, second * SECOND)
        load.joined(0, 10, SECOND // 100)
    assert load.measure(260 * SECOND) == pytest.approx(0.01, rel=0.1)


def test_a_burst_says_little_about_the_time() -> None:
    """A thousand tuples at once, once a second, keep a join busy for a tenth of the time."""
    load = JoinLoad()
    found = []
    for second in range(40):
        for number in range(1000):
            now = second * SECOND + number * 100_000
            load.came(0, 1, now)
            load.joined(0, 1, 100_000)
            found.append(load.measure(now + 100_000))
    known = [each for each in found if each is not None]
    assert min(known) > 0.05
    assert max(known) < 0.3
    assert known[-1] == pytest.approx(0.1, rel=0.2)


def test_nothing_is_known_before_some_tuples_have_been_joined() -> None:
    load = JoinLoad()
    assert load.measure(0) is None
    load.came(0, 100, 0)
    load.joined(0, 10, 5)
    assert load.measure(SECOND) is None
    load.joined(0, 90, SECOND)
    assert load.measure(SECOND) is not None
    soon = JoinLoad()
    soon.came(0, 100, 0)
    soon.joined(0, 100, 5)
    assert soon.measure(SECOND // 2) is None


@pytest.mark.parametrize("alpha", [0.05, 0.9])
def test_alpha_says_when(alpha: float) -> None:
    timer = Timer()
    operator = running_on(timer, 1_000_000, alpha)
    at_pace(operator, timer, phase(0, 30, 4))  # a load of about 0.2
    assert operator.mode is (JoinMode.FILTER_ORDER if alpha < 0.1 else JoinMode.SYNC_FILTER)


def test_alpha_is_a_setting() -> None:
    db = ps.connect("reference")
    for name in "lr":
        db.stream(name, [{"t": 1}], progress=ps.progress("t", delay=1))
    query = db.sql(
        "SELECT greatest(l.t, r.t) AS o FROM l [RANGE 5, WA t], r [RANGE 5, WA t] EMIT IN ORDER"
    )
    assert isinstance(query, ps.Query)
    for alpha in (0.3, 0.7):
        plan = physical_plan(query.plan, Settings(alpha=alpha))
        (node,) = [n for n in plan.root.walk() if n.operator is OperatorKind.ADAPTIVE_JOIN]
        operator = operator_for(node, ManualClock())
        assert isinstance(operator, AdaptiveJoin)
        assert operator.alpha == alpha
    for wrong in (-0.1, 1.0):
        with pytest.raises(PlanError, match="α"):
            AdaptiveJoin(NODE, wrong)
        with pytest.raises(PlanError, match="α"):
            replace(Settings(), alpha=wrong)


def test_status_shows_switches_and_they_outlive_a_restart() -> None:
    timer, store = Timer(), MemoryStore()
    operator = running_on(timer, 1_000_000)
    at_pace(operator, timer, phase(0, 20, 12))
    status = Measured(operator, "AdaptiveJoin").status()
    assert status.held.counters["switches to Filter-Order"] == 1
    assert status.held.counters["load in percent"] >= 30
    assert OperatorStatus.load(status.save()) == status
    both = status.plus(status)
    assert both.held.counters["switches to Filter-Order"] == 2
    operator.save(store)
    again = AdaptiveJoin(NODE, ALPHA, timer)
    again.load(store)
    assert again.mode is JoinMode.FILTER_ORDER
    assert again.metrics().counters["switches to Filter-Order"] == 1
    assert len(again.held) == len(operator.held)
