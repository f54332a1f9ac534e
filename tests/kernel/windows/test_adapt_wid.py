from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.windows.adapt_wid import AdaptWid, Thresholds
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.kernel.algorithms_helper import (
    CUTS,
    Row,
    Stream,
    defined,
    items,
    outcome,
    streams,
)

EAGER, LAZY = Thresholds(0, 0), Thresholds(float("inf"), float("inf"))


@given(streams(), st.sampled_from([Thresholds(), EAGER, LAZY, Thresholds(0.2, 0.15)]))
@settings(max_examples=40, deadline=None)
def test_answers_are_the_defined_ones(stream: Stream, thresholds: Thresholds) -> None:
    expected = defined(stream.node())
    for cut in CUTS:
        node = stream.node(cut)
        operator = AdaptWid(node, thresholds)
        assert outcome(operator, node) == expected
        assert operator.state_bytes().total == 0  # all windows are out
        assert not operator.volume.any()


@given(streams(), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_groups_may_turn_at_any_time(stream: Stream, seed: int) -> None:
    random = np.random.default_rng(seed)
    node = stream.node(3)

    class Erratic(AdaptWid):
        def threshold(self, groups: np.ndarray) -> np.ndarray:
            return random.choice([0.0, 2.0, float("inf")], len(groups))

    assert outcome(Erratic(node, Thresholds(1.0, 0.9)), node) == defined(node)


def skewed(small: float, seed: int = 1) -> list[Row]:
    """As table 6-2: for each window, groups of 1, about 15 and about 300 tuples."""
    random = Random(seed)
    rows: list[Row] = []
    total = 6000
    for begin in range(0, 400, 100):
        sizes = [1] * int(total * small) + [15] * int(total * 0.2 / 15)
        sizes += [300] * int(total * (0.8 - small) / 300)
        for number, size in enumerate(sizes):
            name = f"{number}" if size > 1 else f"{begin} {number}"
            for _ in range(size):
                rows.append((name, random.randrange(1500), 1.0, begin + random.randrange(100)))
    rows.sort(key=lambda row: row[3])
    return rows


def peaks(stream: Stream, cut: int = 500) -> tuple[int, int, int]:
    found = []
    for thresholds in (Thresholds(), EAGER, LAZY):
        node = stream.node(cut)
        operator = AdaptWid(node, thresholds)
        for item in items(node):
            list(feed(operator, item))
        found.append(operator.state_bytes().peak)
    return found[0], found[1], found[2]


def feed(operator: AdaptWid, item: object) -> object:
    if isinstance(item, Progress):
        return operator.on_progress(0, item)
    assert isinstance(item, Batch)
    return operator.on_batch(0, item)


@pytest.mark.parametrize("small", [0.01, 0.03, 0.05, 0.07, 0.09])
def test_takes_less_room_than_either(small: float) -> None:
    sliding = Stream(skewed(small), 100, 10, 0, 0, "count(*) AS n, sum(v) AS s", "k")
    adaptive, eager, lazy = peaks(sliding)
    assert adaptive < eager
    assert adaptive < lazy


@pytest.mark.parametrize("small", [0.01, 0.03, 0.05, 0.07, 0.09])
@pytest.mark.parametrize("slide", [100, 50, 20])
@pytest.mark.parametrize("aggregates", ["sum(v) AS s", "avg(x) AS a, max(v) AS m"])
def test_takes_hardly_more_room_than_the_better_one(
    small: float, slide: int, aggregates: str
) -> None:
    adaptive, eager, lazy = peaks(Stream(skewed(small), 100, slide, 0, 0, aggregates, "k"))
    assert adaptive <= 1.15 * min(eager, lazy)


def test_tuples_that_are_larger_than_their_partial_results_are_not_kept() -> None:
    rows: list[Row] = [(f"{t}", 1, 1.0, t) for t in range(100)]  # a tuple in each group
    node = Stream(rows, 10, 10, 0, 5, "sum(v) AS s", "k").node(5)
    operator = AdaptWid(node)
    for item in items(node):
        list(feed(operator, item))
        assert not operator.buffer
    assert outcome(AdaptWid(node), node) == defined(node)


def node_of(rows: list[Row], cut: int | None = None) -> WindowAggregate:
    return Stream(rows, 10, 1, 0, 0, "sum(v) AS s", "k").node(cut)


def test_groups_turn_eager_and_back_through_transition() -> None:
    busy: list[Row] = [("a", 1, 1.0, t) for t in range(20) for _ in range(20)]
    quiet: list[Row] = [("a", 1, 1.0, t) for t in range(20, 60, 5)]
    node = node_of(busy + quiet, 5)
    operator = AdaptWid(node)
    seen = []
    for item in items(node):
        list(feed(operator, item))
        if isinstance(item, Progress):
            has_slot = bool(operator.windows.slot[0] >= 0)
            state = ("lazy", "transition", "?", "eager")[2 * bool(operator.eager[0]) + has_slot]
            seen.append(state)
    steps = [seen[0], *(b for a, b in pairwise(seen) if a != b)]
    assert steps == ["lazy", "eager", "transition", "lazy"]
    assert outcome(AdaptWid(node), node) == defined(node)


def test_slots_are_used_again() -> None:
    rows: list[Row] = [
        (f"{t // 100}", 1, 1.0, t) for t in range(1000) for _ in range(10)
    ]  # one dense group after the other
    node = node_of(rows, 50)
    operator = AdaptWid(node)
    most = 0
    for item in items(node):
        list(feed(operator, item))
        most = max(most, len(operator.windows.owner))
    assert most <= 2


def test_skew_of_sources_raises_the_threshold() -> None:
    node = node_of([("a", 1, 1.0, t) for t in range(5)])
    plain, shifted = AdaptWid(node), AdaptWid(node, skew=lambda groups: np.full(len(groups), 7.0))
    for operator in (plain, shifted):
        list(feed(operator, next(iter(items(node)))))
    group = np.array([0])
    assert shifted.threshold(group) == plain.threshold(group) + 7.0


def test_open_time_of_windows_is_observed() -> None:
    stream = Stream([("a", 1, 1.0, t) for t in range(200)], 10, 1, 0, 30, "sum(v) AS s", "k")
    node = stream.node(1)
    operator = AdaptWid(node)
    assert operator.wed == 10
    for item in items(node):
        list(feed(operator, item))
    # a window opens with its first tuple, 30 behind which the promise is, and closes 10 + 30 later
    assert 65 <= operator.wed <= 75


def test_holistic_groups_stay_lazy() -> None:
    rows: list[Row] = [("a", 1, 1.0, t // 100) for t in range(1000)]
    node = Stream(rows, 5, 1, 0, 0, "median(v) AS m", "k").node(100)
    operator = AdaptWid(node)
    for item in items(node):
        list(feed(operator, item))
        assert not operator.windows.open
