"""The choice flips where the formulas say, gives way to hints, and changes no answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import PlanError
from penstock.kernel.windows.window_costs import prefers_eager
from penstock.optimizer.optimize import rewrite
from penstock.optimizer.rewrite import Settings
from penstock.optimizer.sizes import Sizes
from penstock.optimizer.window_choice import Class, cheapest, choose_algorithm, class_of, predict
from penstock.plan.algorithms import Algorithm, Choice, Estimate, Reason
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Sliding

STREAM = """CREATE STREAM s (k STRING, v INT, x DOUBLE, t BIGINT) PROGRESS ON t DELAY 5;
CREATE STREAM later (k STRING, v INT, t BIGINT) PROGRESS ON t ORDERED;"""
AGGREGATES = {
    "differential": "count(*), sum(v)",
    "fractions": "avg(x)",
    "distributive": "max(v)",
    "holistic": "median(v)",
}


def query(sql: str, budget: int = 10**9) -> ps.Query:
    database = ps.connect(state_budget=budget)
    database.sql(STREAM)
    found = database.sql(sql)
    assert isinstance(found, ps.Query)
    return found


def nodes(found: ps.Query) -> list[WindowAggregate]:
    return [node for node in found.plan.walk() if isinstance(node, WindowAggregate)]


def sliding(calls: str, range_: int, slide: int, hint: str = "") -> str:
    return f"SELECT {hint} k, {calls} [RANGE {range_}, SLIDE {slide}, WA t] FROM s GROUP BY k"


def chosen(
    calls: str, range_: int, slide: int, sizes: Sizes, budget: float = 1e12
) -> tuple[Algorithm, Reason]:
    (node,) = nodes(query(sliding(calls, range_, slide)))
    return cheapest(predict(node, sizes), budget)


def sizes(tuples: float, range_: int, groups: float = 100, batch: float = 65_536) -> Sizes:
    return Sizes(tuples, groups, tuples / range_, 0.0, batch, (), ())


# --- where it flips ------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", AGGREGATES.values(), ids=list(AGGREGATES))
def test_many_windows_that_overlap_share_panes(calls: str) -> None:
    algorithm, reason = chosen(calls, 3600, 1, sizes(10**6, 3600))
    assert (algorithm, reason) == (Algorithm.PANED, Reason.TIME)


@pytest.mark.parametrize("calls", AGGREGATES.values(), ids=list(AGGREGATES))
def test_panes_do_not_pay_if_nearly_every_tuple_has_its_own(calls: str) -> None:
    algorithm, _ = chosen(calls, 600_000, 599_999, sizes(10**5, 600_000))
    assert algorithm is Algorithm.WID


def test_tumbling_windows_of_an_aggregate_that_is_merged_at_a_price_have_no_panes() -> None:
    """One pane per window: the second case of section 6.2.3."""
    few = sizes(500, 10, groups=500)
    assert chosen("median(v)", 10, 10, few)[0] is Algorithm.WID
    assert chosen("median(v)", 1000, 10, sizes(50_000, 1000, groups=500))[0] is Algorithm.PANED


def test_panes_are_left_only_for_what_is_clearly_faster() -> None:
    close = tuple(Estimate(each, 100.0 + 5 * i, 0) for i, each in enumerate(reversed(Algorithm)))
    assert cheapest(close, 0) == (Algorithm.PANED, Reason.TIME)
    far = tuple(
        replace(each, time=200.0) if each.algorithm is Algorithm.PANED else each for each in close
    )
    assert cheapest(far, 0) == (Algorithm.WID, Reason.TIME)


# --- state ---------------------------------------------------------------------------------------


def test_state_above_the_budget_rules_an_algorithm_out() -> None:
    sparse = sizes(10**6, 3600, groups=10**5, batch=1000)
    unlimited = chosen("sum(v)", 3600, 1, sparse, budget=1e12)
    assert unlimited == (Algorithm.PANED, Reason.TIME)
    limited = chosen("sum(v)", 3600, 1, sparse, budget=10**9)
    assert limited == (Algorithm.BUFFERING, Reason.BUDGET)


def test_adaptive_is_the_last_resort() -> None:
    sparse = sizes(1_000, 3600, groups=10**6)
    assert chosen("max(v)", 3600, 1, sparse, budget=10) == (Algorithm.ADAPTIVE, Reason.STATE)


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.integers(1, 1000), st.integers(1, 1000))
@settings(max_examples=50, deadline=None)
def test_adaptive_keeps_the_smaller_of_both_as_condition_6_9_says(
    tuples: int, groups: int, range_: int, slide: int
) -> None:
    (node,) = nodes(query(sliding("max(v)", range_, max(1, min(slide, range_)))))
    assert isinstance(node.window, Sliding)
    given_sizes = sizes(tuples, range_, groups=groups)
    states = {each.algorithm: each.state for each in predict(node, given_sizes)}
    eager, lazy = states[Algorithm.WID], states[Algorithm.BUFFERING]
    assert states[Algorithm.ADAPTIVE] == min(eager, lazy)
    wed = range_ + given_sizes.batch / given_sizes.volume
    volume = tuples * wed / range_ / groups
    if abs(eager - lazy) > 1e-6 * lazy:
        assert prefers_eager(volume, 8 + 17, 32 + 8, wed, node.window.slide) == (eager < lazy)


@given(
    st.lists(st.tuples(st.floats(1, 1e9), st.floats(1, 1e9)), min_size=5, max_size=5),
    st.floats(1, 1e9),
)
def test_the_choice_is_about_the_fastest_that_the_budget_allows(
    numbers: list[tuple[float, float]], budget: float
) -> None:
    estimates = tuple(
        Estimate(algorithm, *each) for algorithm, each in zip(Algorithm, numbers, strict=True)
    )
    algorithm, reason = cheapest(estimates, budget)
    found = next(each for each in estimates if each.algorithm is algorithm)
    within = [each.time for each in estimates if each.state <= budget]
    if within:
        assert found.state <= budget
        assert found.time <= 1.25 * min(within)
    else:
        assert reason is Reason.STATE
        assert found.state == min(each.state for each in estimates)


def test_a_budget_is_not_negative() -> None:
    with pytest.raises(PlanError, match="budget"):
        Settings(-1)


# --- the rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_hint_is_followed_and_the_numbers_are_still_there(algorithm: Algorithm) -> None:
    found = query(sliding("sum(v)", 600, 10, f"/*+ {algorithm.name} */"), budget=0)
    (node,) = nodes(found)
    assert node.hint is node.algorithm is algorithm
    assert node.choice is not None
    assert node.choice.reason is Reason.HINT
    assert {each.algorithm for each in node.choice.estimates} == set(Algorithm)
    assert f"algorithm: {algorithm.name} ({algorithm.value}), by a hint, " in found.explain()


def test_what_revises_results_has_panes() -> None:
    sql = sliding("median(v)", 10, 10)
    for clause in ("LATE AMEND", "EMIT EARLY EVERY 1 SECOND"):
        (node,) = nodes(query(f"{sql} {clause}"))
        assert node.choice is not None
        assert (node.algorithm, node.choice.reason) == (Algorithm.PANED, Reason.REVISIONS)


def test_the_rule_is_pure_and_says_the_same_each_time() -> None:
    plan = query(sliding("sum(v)", 600, 10)).plan
    once = choose_algorithm(plan, Settings())
    assert once == plan
    (first,) = (n.choice for n in plan.walk() if isinstance(n, WindowAggregate))
    (second,) = (n.choice for n in once.walk() if isinstance(n, WindowAggregate))
    assert first == second


def test_every_sliding_window_of_a_plan_is_chosen_for_and_nothing_else() -> None:
    both = "(SELECT v, t FROM s) UNION ALL (SELECT v, t FROM later) AS u"
    inner = f"SELECT window_id, max(v) AS m [RANGE 20, SLIDE 10, WA t] FROM {both}"
    found = query(f"SELECT min(m) [RANGE 4, SLIDE 2, WA window_id] FROM ({inner}) AS q")
    assert [isinstance(node.choice, Choice) for node in nodes(found)] == [True, True]
    landmark = query("SELECT count(*) [RANGE ALL, SLIDE 10, WA t] FROM s")
    assert [node.choice for node in nodes(landmark)] == [None]
    plain = query("SELECT v FROM s WHERE v > 1").plan
    assert rewrite(plain, Settings()) is plain


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("count(*)", Class.COUNT),
        ("count(v)", Class.COUNT),
        ("sum(v)", Class.WHOLE),
        ("avg(v)", Class.WHOLE),
        ("sum(x)", Class.FRACTION),
        ("stddev(x)", Class.FRACTION),
        ("min(k)", Class.EXTREME),
        ("first(v)", Class.EXTREME),
        ("median(v)", Class.HOLISTIC),
        ("count(DISTINCT v)", Class.HOLISTIC),
    ],
)
def test_aggregates_have_classes(call: str, kind: Class) -> None:
    (node,) = nodes(query(sliding(call, 10, 10)))
    assert [class_of(each) for each in node.aggregates] == [kind]


# --- EXPLAIN, and the answer ---------------------------------------------------------------------


def test_explain_shows_state_where_it_decided() -> None:
    lines = query(sliding("max(v)", 3600, 1), budget=1000).explain().splitlines()
    (state,) = (line for line in lines if " state: " in line)
    assert "as none is within the budget of 1 kB; " in state
    assert not any(
        " state: " in line for line in query(sliding("max(v)", 9, 3)).explain().splitlines()
    )


ROWS = pa.table(
    {
        "k": ["a", "b", "a", "c", "b", "a"] * 20,
        "v": list(range(120)),
        "t": [i + (i * 7) % 5 for i in range(120)],
    }
)


@pytest.mark.parametrize("budget", [0, 10**9])
@pytest.mark.parametrize(("range_", "slide"), [(10, 10), (97, 96), (50, 1), (3, 20)])
@pytest.mark.parametrize("calls", ["count(*) AS n, sum(v) AS s", "max(v) AS m", "median(v) AS d"])
def test_what_is_chosen_gives_the_answer(calls: str, range_: int, slide: int, budget: int) -> None:
    answers = []
    for engine in ("reference", "local"):
        database = ps.connect(engine, state_budget=budget)
        database.stream("s", ROWS, progress=ps.progress("t", delay=5))
        found = database.sql(sliding(calls, range_, slide))
        assert isinstance(found, ps.Query)
        answers.append(Counter(map(str, found)))
    assert answers[0] == answers[1]
