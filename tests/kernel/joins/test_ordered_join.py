"""Every join that keeps results in order: the pairs that the window allows, in order, as early as
order and progress let them leave; and it moves to every other join between any two tuples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CheckpointError
from penstock.kernel.joins import ordered_joins
from penstock.kernel.joins.ordered_joins import OpibJoin
from penstock.kernel.joins.pairing import JoinState
from penstock.kernel.operator import Item, Movable
from penstock.kernel.state import MemoryStore
from penstock.plan.nodes.join import Join
from tests.kernel.joins.ordered_streams import (
    ALL,
    BY_BOTH,
    BY_FIRST,
    BY_SECOND,
    STEPS,
    WINDOWS,
    Came,
    Make,
    arrivals,
    end,
    expected,
    feed,
    join_of,
    pairs,
)
from tests.local.promising import Watched

ORDERS = [
    *((name, make, lambda pair: pair[0]) for name, make in BY_FIRST.items()),
    *((name, make, lambda pair: pair[1]) for name, make in BY_SECOND.items()),
    *((name, make, max) for name, make in BY_BOTH.items()),
]
SAME_ORDER: list[tuple[list[Make], Any]] = [
    (list(BY_FIRST.values()), lambda pair: pair[0]),
    (list(BY_SECOND.values()), lambda pair: pair[1]),
    (list(BY_BOTH.values()), max),
]


def watched(node: Join, make: Make, promised: list[Any]) -> Watched:
    types = {each.field.qualified: each.field.type for each in node.progress}
    return Watched(make(node), types, promised)


@pytest.mark.parametrize(("name", "make", "key"), ORDERS)
@settings(deadline=None, max_examples=60)
@given(steps=STEPS, skew=st.sampled_from([0, 0, 5, -5]), window=st.sampled_from(WINDOWS))
def test_all_pairs_in_order(
    name: str, make: Make, key: Any, steps: list[tuple[int, str, int]], skew: int, window: str
) -> None:
    node, came = join_of(window), arrivals(steps, skew)
    running = watched(node, make, [])
    made: list[Item] = []
    for each in came:
        made += feed(running, each)
    made += end(running)
    assert sorted(pairs(made)) == expected(node, came), name
    assert [key(pair) for pair in pairs(made)] == sorted(key(pair) for pair in pairs(made))
    assert running.metrics().rows == 0


@settings(deadline=None, max_examples=150)
@given(
    steps=STEPS,
    window=st.sampled_from(WINDOWS),
    moves=st.lists(st.sampled_from(ALL), min_size=1, max_size=6),
    every=st.integers(1, 4),
    saved=st.booleans(),
)
def test_pairs_do_not_depend_on_which_join_goes_on(
    steps: list[tuple[int, str, int]], window: str, moves: list[Make], every: int, saved: bool
) -> None:
    node, came = join_of(window), arrivals(steps)
    made = moving(node, came, moves, every, saved)
    assert sorted(pairs(made)) == expected(node, came)


@settings(deadline=None, max_examples=150)
@given(
    steps=STEPS,
    window=st.sampled_from(WINDOWS),
    order=st.sampled_from(SAME_ORDER),
    moves=st.lists(st.integers(0, 2), min_size=1, max_size=6),
    every=st.integers(1, 4),
    loads=st.lists(st.sampled_from([0.0, 0.9]), min_size=1, max_size=6),
)
def test_joins_of_one_order_keep_it_when_they_move(
    steps: list[tuple[int, str, int]],
    window: str,
    order: tuple[list[Make], Any],
    moves: list[int],
    every: int,
    loads: list[float],
) -> None:
    makes, key = order
    node, came = join_of(window), arrivals(steps)
    told = iter(loads * 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered_joins.JoinLoad, "measure", lambda *_: next(told))
        patch.setattr(ordered_joins, "_PATIENCE", 0)
        made = moving(node, came, [makes[each % len(makes)] for each in moves], every, False)
    assert sorted(pairs(made)) == expected(node, came)
    assert [key(pair) for pair in pairs(made)] == sorted(key(pair) for pair in pairs(made))


def moving(node: Join, came: list[Came], moves: list[Make], every: int, saved: bool) -> list[Item]:
    """All tuples, with the next join after every so many of them."""
    promised: list[Any] = []
    make = moves[0]
    running = watched(node, make, promised)
    made: list[Item] = []
    for number, each in enumerate(came):
        made += feed(running, each)
        if number % every == 0:
            state: JoinState = running.export()
            make = moves[(number // every + 1) % len(moves)]
            running = watched(node, make, promised)
            running.adopt(state)
            if saved:
                store = MemoryStore()
                running.save(store)
                running = watched(node, make, promised)
                running.load(store)
    return made + end(running)


def test_every_join_can_be_moved() -> None:
    for make in ALL:
        assert isinstance(make(join_of(WINDOWS[0])), Movable)


def test_a_save_writes_what_has_changed() -> None:
    """Tuples and results that wait are appended."""
    for make in (*BY_FIRST.values(), *BY_BOTH.values()):
        running, store = make(join_of(WINDOWS[0])), MemoryStore()
        for tick in range(30):
            feed(running, Came(0, "a", tick, -5))
            feed(running, Came(1, "a", tick, -5))
        running.save(store)
        before = dict(store.packed)
        feed(running, Came(0, "a", 31, -5))
        running.save(store)
        changed = {name for name, chunk in store.packed.items() if before.get(name) != chunk}
        assert len(changed) < len(store.packed)
        assert sum(len(store.packed[name]) for name in changed) < sum(map(len, before.values()))


def test_state_of_another_order_is_refused() -> None:
    running, store = BY_SECOND["OPIB"](join_of(WINDOWS[0])), MemoryStore()
    feed(running, Came(1, "a", 1, 0))
    running.save(store)
    with pytest.raises(CheckpointError, match="another order"):
        OpibJoin(join_of(WINDOWS[0]), 0).load(store)
    of_any_order = OpibJoin(join_of(WINDOWS[0]))
    of_any_order.load(store)
    assert of_any_order.order.ports == (1,)


# --- the examples of the Nile paper, figures 1, 3 and 4 ------------------------------------------

# Window 6; a, b and c are keys.  Stream S has b6 and c4 behind it, and a8 comes three ticks late.
HISTORY = [
    Came(0, "c", 4, 4),
    Came(0, "b", 6, 6),
    Came(1, "a", 1, 1),
    Came(1, "d", 2, 2),
    Came(1, "a", 5, 5),
]
LATER = [
    Came(1, "b", 9, 9),
    Came(1, "c", 10, 10),
    Came(0, "a", 8, 8),
    Came(0, "a", 12, 12),
]


@pytest.mark.parametrize("name", ["Sync-Filter", "Filter-Order"])
def test_results_leave_when_both_streams_have_come_as_far(name: str) -> None:
    running = BY_BOTH[name](join_of(WINDOWS[0]))
    for each in HISTORY:
        assert pairs(feed(running, each)) == []
    found = [pairs(feed(running, each)) for each in LATER]
    assert found == [[], [], [(8, 5)], [(6, 9), (4, 10)]]


def test_filter_order_joins_before_and_sync_filter_when_it_is_time() -> None:
    waiting = {}
    for name in ("Sync-Filter", "Filter-Order"):
        running = BY_BOTH[name](join_of(WINDOWS[0]))
        for each in (*HISTORY, *LATER[:2]):
            feed(running, each)
        waiting[name] = tuple(running.metrics().counters.values())
    assert waiting == {"Sync-Filter": (2, 0), "Filter-Order": (0, 2)}


def test_sync_filter_keeps_no_tuple_that_waits_in_the_window() -> None:
    running = BY_BOTH["Sync-Filter"](join_of(WINDOWS[0]))
    for each in (*HISTORY, *LATER[:3]):
        feed(running, each)
    assert running.metrics().counters["tuples waiting to be joined"] == 2  # b9 and c10


@pytest.mark.parametrize("port", [0, 1])
def test_opib_lets_tuples_wait_and_opob_results(port: int) -> None:
    by = BY_SECOND if port else BY_FIRST
    node = join_of(WINDOWS[0])
    for name, waiting in (("OPIB", (3, 0)), ("OPOB", (0, 9))):
        running = by[name](node)
        made: list[Item] = []
        for tick in (1, 2, 3):
            made += feed(running, Came(0, "a", tick, 1))
            made += feed(running, Came(1, "a", tick, 1))
        assert tuple(running.metrics().counters.values()) == waiting
        assert pairs(made) == []
        made += feed(running, Came(1 - port, "a", 9, 9))  # nothing below 3 has partners to come
        made += feed(running, Came(port, "b", 4, 4))
        assert [pair[port] for pair in pairs(made)] == sorted(pair[port] for pair in pairs(made))
        assert len(pairs(made)) == 10
