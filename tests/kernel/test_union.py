"""Meld, figure 8-2 of the thesis: tuples pass at once, and what is promised is what all inputs have
promised, said once; for single groups as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, Progress
from penstock.kernel.order import Merge
from penstock.kernel.progress import group_bounds as melded
from penstock.kernel.progress.group_bounds import GroupBounds
from penstock.kernel.state import MemoryStore
from penstock.kernel.stateless import Meld
from penstock.model.punctuation import BEGINNING
from penstock.plan.nodes.node import Union
from tests.local.helpers import recut
from tests.local.side_by_side import TURNS, punctuations, rows_of, run_interleaved
from tests.reference.helpers import Stream, bag, database, tuples

SCHEMA = "kind STRING, k STRING, x INT, t BIGINT"


def union(sql: str = "SELECT k, t FROM a UNION ALL SELECT k, t FROM b") -> Union:
    streams = {name: Stream(SCHEMA, [], ps.progress("t", delay=2)) for name in "ab"}
    query = database(**streams).sql(f"SELECT * FROM ({sql}) AS u")
    assert isinstance(query, ps.Query)
    return next(node for node in query.plan.walk() if isinstance(node, Union))


def names_of(node: Union) -> list[list[str]]:
    return [branch.schema.arrow.names for branch in node.branches]


def said(items: list[Item]) -> list[Any]:
    return [item.bounds.get("t", BEGINNING) for item in punctuations(items)]


def test_a_punctuation_is_the_lowest_of_both_and_said_once() -> None:
    """The example of section 8.2: R at 20, then S at 19, 20, 21 and 22."""
    node = union()
    (_, left), (_, right) = names_of(node)
    meld = Meld(node)
    assert said(meld.on_progress(0, Progress({left: 20}))) == []
    told = [said(meld.on_progress(1, Progress({right: bound}))) for bound in (19, 20, 21, 22)]
    assert told == [[19], [20], [], []]
    assert said(meld.on_progress(0, Progress({left: 25}))) == [22]
    assert said(meld.on_progress(1, Progress({right: 22}, ended=True))) == [25]
    (last,) = punctuations(meld.on_progress(0, Progress({}, ended=True)))
    assert last.ended


def test_tuples_pass_at_once() -> None:
    node = union()
    first, second = names_of(node)
    meld = Meld(node)
    for port, names in enumerate((first, second)):
        rows = pa.record_batch([pa.array(["v"]), pa.array([port], pa.int64())], names)
        assert rows_of(meld.on_batch(port, Batch(rows))) == [("v", port)]
    assert meld.metrics().rows == 0


# --- groups --------------------------------------------------------------------------------------


def of_groups(node: Union, port: int, low: Any, **bounds: int) -> Progress:
    key, attribute = names_of(node)[port]
    keys = pa.array(list(bounds), pa.string())
    groups = GroupBounds((key,), [keys], {attribute: np.array(list(bounds.values()))})
    return Progress({} if low is None else {attribute: low}, groups=groups if bounds else None)


def group_bounds(items: list[Item]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in punctuations(items):
        if item.groups is not None:
            assert item.groups.columns == ("k",)
            ticks = item.groups.bounds["t"].tolist()
            found |= dict(zip(item.groups.keys[0].to_pylist(), ticks, strict=True))
    return found


def test_a_bound_on_a_group_holds_when_all_inputs_have_promised_it() -> None:
    node = union()
    meld = Meld(node)
    assert group_bounds(meld.on_progress(0, of_groups(node, 0, None, v=10, w=5))) == {}
    assert group_bounds(meld.on_progress(1, of_groups(node, 1, None, v=7))) == {"v": 7}
    assert group_bounds(meld.on_progress(1, of_groups(node, 1, None, v=7))) == {}
    # a bound on all tuples of an input counts for each of its groups
    assert group_bounds(meld.on_progress(1, of_groups(node, 1, 6))) == {"w": 5}
    assert group_bounds(meld.on_progress(1, of_groups(node, 1, 20))) == {"v": 10}
    # what is not above the bound of the whole union is of no use
    assert group_bounds(meld.on_progress(0, of_groups(node, 0, 12, w=11))) == {}
    assert group_bounds(meld.on_progress(0, of_groups(node, 0, 12, w=15))) == {"w": 15}
    # an input that has ended holds nothing back
    assert group_bounds(meld.on_progress(0, of_groups(node, 0, 12, w=30))) == {"w": 20}
    assert group_bounds(meld.on_progress(1, Progress({}, ended=True))) == {"w": 30}


BOUNDS = st.dictionaries(st.sampled_from("vwxyz"), st.integers(0, 30), max_size=3)


@settings(deadline=None, max_examples=60)
@given(
    told=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), BOUNDS), max_size=15),
    restarts=st.booleans(),
)
def test_group_bounds_are_the_lowest_of_all_inputs(
    told: list[tuple[int, int, dict[str, int]]], restarts: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(melded, "_MANY_GROUPS", 2)
        patch.setattr(melded, "_GROUPS_A_BLOCK", 2)
        node, store = union(), MemoryStore()
        meld = Meld(node)
        low, highest = [0, 0], [dict[str, int](), dict[str, int]()]
        known: dict[str, int] = {}
        for port, bound, bounds in told:
            low[port] = max(low[port], bound)
            for group, tick in bounds.items():
                highest[port][group] = max(tick, highest[port].get(group, 0))
            found = group_bounds(meld.on_progress(port, of_groups(node, port, low[port], **bounds)))
            for group, tick in found.items():
                assert tick > max(known.get(group, 0), min(low))  # it has risen
            known |= found
            for group in "vwxyz":
                both = [max(low[p], highest[p].get(group, 0)) for p in (0, 1)]
                assert max(min(low), known.get(group, 0)) == min(both)
            if restarts:
                meld.save(store)
                meld = Meld(node)
                meld.load(store)


def test_group_bounds_of_a_column_that_is_gone_are_forgotten() -> None:
    node, store = union(), MemoryStore()
    meld = Meld(node)
    meld.on_progress(0, of_groups(node, 0, None, v=10))
    meld.save(store)
    narrow = union("SELECT x, t FROM a UNION ALL SELECT x, t FROM b")
    again = Meld(narrow)
    again.load(store)
    again.save(store)
    assert not [name for name in store.names() if name.startswith("groups/")]


ROWS = st.lists(
    st.tuples(
        st.sampled_from("ddp"),
        st.sampled_from(["v", "w", None]),
        st.integers(0, 3),
        st.integers(-5, 20),
    ),
    max_size=14,
)
RULES: list[dict[str, Any]] = [{}, {"delay": 3}, {"ordered": True}]
SELECTS = (
    "SELECT k, sum(x) AS s [RANGE 6, SLIDE 2, WA t] FROM ({union}) AS u GROUP BY k LATE SIDE",
    "SELECT /*+ WID */ k, max(x) AS s [RANGE 5, SLIDE 5, WA t] FROM ({union}) AS u GROUP BY k",
    "SELECT k, t, count(*) AS n FROM ({union}) AS u GROUP BY k, t LATE SIDE",
)
UNIONS = (
    "SELECT k, x, t FROM a UNION ALL SELECT k, x, t FROM b",
    "SELECT k, x, t + 1 AS t FROM a WHERE x > 0 UNION ALL SELECT k, x, t FROM b",
    "SELECT k, x, t FROM a UNION ALL SELECT k, x, t FROM c",
)


@settings(deadline=None, max_examples=80)
@given(
    rows=st.tuples(ROWS, ROWS),
    rule=st.sampled_from(RULES),
    select=st.sampled_from(SELECTS),
    united=st.sampled_from(UNIONS),
    turns=TURNS,
    every=st.sampled_from([None, 2, 3]),
)
def test_groups_of_a_union_are_those_of_the_reference(
    rows: tuple[list[Any], list[Any]],
    rule: dict[str, Any],
    select: str,
    united: str,
    turns: list[int],
    every: int | None,
) -> None:
    promise = {"punctuated": ("kind = 'p'", "t"), "punctuated_for": ["k"]}
    streams = {
        "a": Stream(SCHEMA, rows[0], ps.progress("t", **promise, **rule)),
        "b": Stream(SCHEMA, rows[1], ps.progress("t", **promise)),
        "c": Stream(SCHEMA, rows[1], ps.progress("t", delay=2)),
    }
    db = database(**streams)
    recut(db, 1)
    query = db.sql(select.format(union=united))
    assert isinstance(query, ps.Query)
    expected = query.collect()
    found = run_interleaved(query.plan, turns, every)
    assert bag(tuples(found.rows)) == bag(tuples(expected))
    assert bag(tuples(found.late) if found.late is not None else []) == bag(tuples(query.late))


def test_results_of_a_group_leave_as_soon_as_both_inputs_have_passed_them() -> None:
    promise = ps.progress("t", punctuated=("kind = 'p'", "t"), punctuated_for=["k"])
    first = [("d", "v", 1, 1), ("p", "v", 0, 10), ("d", "w", 2, 1)]
    second = [("d", "v", 4, 2), ("p", "v", 0, 10), ("d", "w", 8, 3)]
    db = database(a=Stream(SCHEMA, first, promise), b=Stream(SCHEMA, second, promise))
    recut(db, 1)
    query = db.sql(SELECTS[2].format(union=UNIONS[0]))
    assert isinstance(query, ps.Query)
    found = run_interleaved(query.plan)
    assert [bag(tuples(pa.Table.from_batches([each]))) for each in found.batches] == [
        [("v", 1, 1), ("v", 2, 1)],
        [("w", 1, 1), ("w", 3, 1)],
    ]


# --- moving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [False, True])
def test_a_union_moves_to_the_one_that_keeps_order_and_back(saved: bool) -> None:
    node = union()
    first, second = names_of(node)
    made: list[Item] = []
    kinds = [Meld, Merge, Meld]
    running: Meld = Meld(node)
    ticks = ([1, 5, 3, 9, 8, 12], [2, 2, 6, 7, 11, 10])
    for step in range(6):
        for port, names in enumerate((first, second)):
            tick = ticks[port][step]
            rows = pa.record_batch([pa.array([f"{port}"]), pa.array([tick], pa.int64())], names)
            made += running.on_batch(port, Batch(rows))
            low = min(ticks[port][step + 1 :], default=tick)
            made += running.on_progress(port, Progress({names[1]: low}))
        state = running.export()
        running = kinds[step % 3](node)
        running.adopt(state)
        if saved:
            store = MemoryStore()
            running.save(store)
            running = type(running)(node)
            running.load(store)
    for port in (0, 1):
        made += running.on_progress(port, Progress({}, ended=True))
    expected = [(f"{port}", tick) for port in (0, 1) for tick in ticks[port]]
    assert sorted(rows_of(made)) == sorted(expected)
    assert said(made)[:-1] == sorted(said(made)[:-1])
