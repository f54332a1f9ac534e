"""State that moves: any algorithm goes on from the state of any other one, at any moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.kernel.aggregates import sketches as sketched
from penstock.kernel.batch import Batch
from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.operator import Item, Movable, Operator, Progress
from penstock.kernel.state import MemoryStore, pack
from penstock.kernel.windows.adapt_wid import AdaptWid, Thresholds
from penstock.kernel.windows.buffering import Buffering
from penstock.kernel.windows.open_windows import OpenPieces
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.panes import PaneShape, pane_shape
from penstock.kernel.windows.punctuated import PunctuatedPaned, PunctuatedTwoLevel, PunctuatedWid
from penstock.kernel.windows.two_level import LazyFlush, TwoLevel
from penstock.kernel.windows.wid import Wid
from penstock.model.clock import ManualClock
from penstock.model.punctuation import BEGINNING
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Sliding
from penstock.reference.engine import answer
from tests.kernel import driving
from tests.kernel.aggregates import test_python_states as python_states
from tests.kernel.algorithms_helper import Stream, defined, items, outcome, streams
from tests.kernel.switching import Switching

Algorithm = Callable[[WindowAggregate], Movable[OpenPieces]]


def eager(node: WindowAggregate) -> AdaptWid:
    return AdaptWid(node, Thresholds(0.0, 0.0))


def mixed(node: WindowAggregate) -> AdaptWid:
    return AdaptWid(node, Thresholds(0.2, 0.1))


def small(node: WindowAggregate) -> TwoLevel:
    return TwoLevel(node, slots=2, flush=LazyFlush(3))


ALGORITHMS: dict[str, Algorithm] = {
    "paned": Paned,
    "wid": Wid,
    "adaptive": AdaptWid,
    "two-level": TwoLevel,
    "buffering": Buffering,
}
VARIANTS: list[Algorithm] = [
    *ALGORITHMS.values(),
    *(eager, mixed, small, PunctuatedPaned, PunctuatedWid, PunctuatedTwoLevel),
]
CHAINS = st.lists(st.sampled_from(VARIANTS), min_size=2, max_size=6)
PAIRS = list(product(ALGORITHMS.values(), repeat=2))
PAIR_NAMES = [f"{one} to {other}" for one, other in product(ALGORITHMS, repeat=2)]
AHEAD: dict[str, Algorithm] = {
    **ALGORITHMS,
    "paned": PunctuatedPaned,
    "wid": PunctuatedWid,
    "two-level": PunctuatedTwoLevel,
}
PAIRS_AHEAD = list(product(AHEAD.values(), repeat=2))
DIFFERENTIAL = "count(*) AS n, avg(x) AS m"
OTHERS = (
    "last(v) AS l, max(k) AS text, median(v) AS mid, count(DISTINCT v) AS d,"
    " sum(v) FILTER (WHERE v > 0) AS s"
)
LISTS = (DIFFERENTIAL, OTHERS)
WINDOWS = ((7, 2), (6, 2), (4, 4), (2, 5))  # among them one that is no whole slides, one with gaps


def switching(algorithms: Sequence[Algorithm], node: WindowAggregate, **how: Any) -> Switching:
    return Switching([lambda make=make: make(node) for make in algorithms], **how)


def example(range_: int, slide: int, aggregates: str) -> Stream:
    """Negative ticks, disorder, tuples that are late for some of their windows, NULLs."""
    rows: list[Any] = [
        ("abc"[n * n % 3] if n % 7 else None, n % 5 - 2 if n % 4 else None, n / 4, n - n * 7 % 11)
        for n in range(16)
    ]
    rows = [(*row, t - 9) for *row, t in rows]
    return Stream(rows, range_, slide, 1, 2, aggregates, "k")


# --- every pair ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS, ids=PAIR_NAMES)
def test_once_at_every_item(pair: tuple[Algorithm, Algorithm]) -> None:
    for window, aggregates in zip(WINDOWS, LISTS * 2, strict=True):
        stream = example(*window, aggregates)
        expected = defined(stream.node())
        assert expected.late
        node = stream.node(3)
        for first in range(1, len(list(items(node)))):
            operator = switching(pair, node, every=1000, first=first)
            assert outcome(operator, node) == expected
            assert operator.switches == 1


@pytest.mark.parametrize("saved", [False, True], ids=["", "saved"])
@pytest.mark.parametrize("pair", PAIRS, ids=PAIR_NAMES)
def test_to_and_fro_after_every_item(pair: tuple[Algorithm, Algorithm], saved: bool) -> None:
    for window, aggregates in product(WINDOWS, LISTS):
        stream = example(*window, aggregates)
        node = stream.node(2)
        assert outcome(switching(pair, node, saved=saved), node) == defined(stream.node())


# --- from one to the next ------------------------------------------------------------------------


@given(streams(), CHAINS, st.integers(1, 5), st.integers(1, 9), st.booleans())
@settings(deadline=None, max_examples=80)
def test_from_one_to_the_next(
    stream: Stream, algorithms: list[Algorithm], every: int, first: int, saved: bool
) -> None:
    expected = defined(stream.node())
    for cut in (1, 7):
        node = stream.node(cut)
        operator = switching(algorithms, node, every=every, first=first, saved=saved)
        assert outcome(operator, node) == expected


@given(
    driving.ROWS,
    driving.PROMISE,
    st.sampled_from([driving.DIFFERENTIAL, driving.ALL]),
    st.sampled_from(["GROUP BY k", "GROUP BY k, i", "GROUP BY kind", ""]),
    st.tuples(st.integers(1, 12), st.integers(1, 7)),
    CHAINS,
    st.integers(1, 4),
    st.sampled_from([1, 2, 5]),
)
@settings(deadline=None, max_examples=80)
def test_whatever_was_promised(
    rows: list[driving.Row],
    promise: dict[str, Any],
    calls: str,
    by: str,
    window: tuple[int, int],
    algorithms: list[Algorithm],
    every: int,
    cut: int,
) -> None:
    """Among others for single groups, which then give out windows ahead of the stream; and no
    operator takes back what the one before has promised."""
    keys = by.removeprefix("GROUP BY")
    sql = f"SELECT {keys}{', ' * bool(keys)}{calls} [RANGE {window[0]}, SLIDE {window[1]}, WA t]"
    check(f"{sql} FROM s {by} LATE SIDE", driving.Stream(rows, promise), algorithms, every, cut)


def check(
    sql: str, stream: driving.Stream, algorithms: Sequence[Algorithm], every: int, cut: int
) -> None:
    plan = driving.planned(sql, stream, cut)
    found = answer(plan, ManualClock())
    expected = [driving.bag(driving.tuples(each)) for each in (found.table, found.late)]
    operators: driving.Operators = {
        WindowAggregate: lambda node: switching(algorithms, node, every=every)
    }
    assert list(driving.run(plan, operators)) == expected


@pytest.mark.parametrize("pair", PAIRS_AHEAD, ids=PAIR_NAMES)
def test_groups_that_are_ahead(pair: tuple[Algorithm, Algorithm]) -> None:
    """What a group has given out, no other operator gives out again."""
    rows: list[driving.Row] = [
        ("d" if n % 4 else "p", "ab"[n // 4 % 2], n, 1.0, n // 2) for n in range(40)
    ]
    promise = {"punctuated": ("kind = 'p'", "t"), "punctuated_for": ["k"]}
    for window in ("RANGE 5, SLIDE 2", "RANGE 4, SLIDE 4"):
        sql = f"SELECT k, sum(i) AS s, max(i) AS m [{window}, WA t] FROM s GROUP BY k LATE SIDE"
        for every in (1, 3):
            check(sql, driving.Stream(rows, promise), pair, every, cut=2)


def test_their_windows_are_cut_off() -> None:
    rows: list[driving.Row] = [
        ("d", "a", 1, 1.0, 0),
        ("d", "b", 1, 1.0, 0),
        ("p", "a", 0, 0.0, 4),
        ("d", "b", 1, 1.0, 5),
    ]
    promise = {"punctuated": ("kind = 'p'", "t"), "punctuated_for": ["k"]}
    sql = "SELECT k, count(*) AS n [RANGE 6, SLIDE 2, WA t] FROM s GROUP BY k"
    node = driving.planned(sql, driving.Stream(rows, promise), 4).input.inputs[0]
    given = list(driving.items(node.inputs[0], {}, ManualClock()))[:-1]
    for make in (PunctuatedPaned, PunctuatedWid, PunctuatedTwoLevel):
        operator = make(node)  # type: ignore[arg-type]
        assert len(driven(operator, given)) == 1
        state = operator.export()
        keys = state.keys[0].to_pylist()
        windows: dict[str, set[int]] = {"a": set(), "b": set()}
        for piece in state.pieces:
            for place in piece.partials["codes"]:
                windows[keys[place]] |= set(range(piece.first, piece.last + 1))
        assert windows == {"a": {2}, "b": {0, 1, 2, 3, 4}}


@pytest.mark.parametrize("pair", PAIRS, ids=PAIR_NAMES)
def test_keys_that_are_forgotten(
    pair: tuple[Algorithm, Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_expiry, "MANY", 2)
    rng = Random(5)
    rows: list[Any] = [
        (f"k{(n + rng.randint(-6, 0)) // 3}", rng.randint(-9, 9), 1.0, n + rng.randint(-9, 0))
        for n in range(60)
    ]
    for window, aggregates in zip(((4, 4), (12, 4), (10, 3)), (*LISTS, DIFFERENTIAL), strict=True):
        stream = Stream(rows, *window, 0, 4, aggregates, "k")
        node = stream.node(3)
        operator = switching(pair, node, every=7, saved=True)
        assert outcome(operator, node) == defined(stream.node())


# --- what aggregates keep ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", python_states.KINDS)
@given(python_states.ROWS, CHAINS, st.integers(1, 3), st.sampled_from([(9, 2), (12, 4), (5, 5)]))
@settings(deadline=None, max_examples=15)
def test_python_aggregates(
    kind: type[python_states.Pairs],
    rows: python_states.Rows,
    algorithms: list[Algorithm],
    every: int,
    window: tuple[int, int],
) -> None:
    """Also those that are subtracted and cannot save their states."""
    length = f"RANGE {window[0]}, SLIDE {window[1]}"
    plan = python_states.planned(kind(), rows, 2, python_states.FORMS, length)
    operators: driving.Operators = {
        WindowAggregate: lambda node: switching(algorithms, node, every=every, saved=True)
    }
    found = answer(plan, ManualClock())
    assert driving.run(plan, operators).rows == driving.bag(driving.tuples(found.table))


@pytest.mark.parametrize("pair", PAIRS, ids=PAIR_NAMES)
def test_sketches(pair: tuple[Algorithm, Algorithm], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sketch of different values is a function of the values; with few values, all results are
    exact."""
    monkeypatch.setattr(sketched, "LIMIT", 8)
    rows: list[Any] = [("ab"[n % 2], n * n % 97, float(n % 3), n // 3) for n in range(120)]
    aggregates = "approx_count_distinct(v) AS d, approx_quantile(x, 0.5) AS q, approx_top_k(x, 2)"
    stream = Stream(rows, 12, 3, 0, 5, f"{aggregates} AS t", "k")
    node = stream.node(9)
    expected = outcome(Wid(node), node)
    assert outcome(switching(pair, node, every=3, saved=True), node) == expected


# --- what is exchanged ---------------------------------------------------------------------------


def driven(operator: Operator, given: Sequence[Item]) -> list[Any]:
    found: list[Any] = []
    for item in given:
        if isinstance(item, Progress):
            found += operator.on_progress(0, item)
        else:
            assert isinstance(item, Batch)
            found += operator.on_batch(0, item)
    return [each.rows.to_pydict() for each in found if isinstance(each, Batch)]


@pytest.mark.parametrize("make", VARIANTS)
def test_an_export_changes_nothing(make: Algorithm) -> None:
    stream = example(7, 2, OTHERS)
    node = stream.node(2)
    given = list(items(node))
    operator = make(node)
    found = []
    for item in given:
        found += driven(operator, [item])
        assert pack(operator.export().save()) == pack(operator.export().save())
    rows = [tuple(row) for batch in found for row in zip(*batch.values(), strict=True)]
    assert sorted(map(repr, rows)) == sorted(map(repr, defined(stream.node()).rows))


@pytest.mark.parametrize("make", VARIANTS)
def test_nothing_is_the_beginning(make: Algorithm) -> None:
    stream = example(7, 2, OTHERS)
    node = stream.node(2)
    empty = make(node).export()
    assert (empty.pieces, empty.groups, empty.highest) == ((), 0, None)
    assert empty.released == BEGINNING
    operator = make(node)
    operator.adopt(empty)
    assert outcome(operator, node) == defined(stream.node())


@pytest.mark.parametrize("pair", PAIRS, ids=PAIR_NAMES)
def test_the_same_is_open(pair: tuple[Algorithm, Algorithm]) -> None:
    """And when the windows have closed that were open, nothing is left of what was adopted."""
    for window in WINDOWS:
        node = example(*window, OTHERS).node(2)
        given = list(items(node))
        one, other = (make(node) for make in pair)
        store = MemoryStore()
        driven(one, given[:11])
        other.adopt(one.export())
        assert other.open_results() == one.open_results()
        other.save(store)
        driven(other, given[11:])
        other.save(store)
        assert other.open_results().count == 0
        assert not other.export().pieces
        assert not [name for name in store.names() if name.startswith("adopted/")]


@pytest.mark.parametrize("make", [Paned, TwoLevel, Buffering])
def test_panes_stay_panes(make: Algorithm) -> None:
    """Only what is not in all windows of a pane is merged into every window by itself."""
    rows: list[Any] = [("a", 1, 1.0, t) for t in range(-9, 9)]
    for range_, slide in WINDOWS:
        node = Stream(rows, range_, slide, 0, 3, DIFFERENTIAL, "k").node(2)
        one, other = make(node), Paned(node)
        driven(one, list(items(node))[:-5])
        other.adopt(one.export())
        assert other.panes.numbered()
        assert not other.stragglers


@given(st.integers(1, 12), st.integers(1, 12), st.integers(-30, 30), st.integers(-20, 20))
def test_a_pane_for_an_interval(range_: int, slide: int, pane: int, released: int) -> None:
    shape = pane_shape(Sliding(range_, slide))
    first, last = shape.windows_of(pane)
    for window in range(first, last + 1):
        begin, end = shape.panes_of(window)
        assert begin <= pane < end
    cut = max(first, released)
    if cut <= last:
        found = shape.pane_in(cut, last, released)
        assert found is not None
        assert (max(shape.windows_of(found)[0], released), shape.windows_of(found)[1]) == (
            cut,
            last,
        )
    elif first > last:  # a gap
        assert np.all([not b <= pane < e for b, e in map(shape.panes_of, range(last, first + 1))])


def test_no_pane_for_others() -> None:
    assert PaneShape(per_window=4, per_slide=2).pane_in(3, 3, BEGINNING) is None


def test_slack_stays_where_it_is() -> None:
    node = example(7, 2, DIFFERENTIAL).node(2)
    with pytest.raises(PlanError, match="stands for no other algorithm"):
        Buffering(node, slack=3).export()
    with pytest.raises(PlanError, match="stands for no other algorithm"):
        Buffering(node, slack=3).adopt(Wid(node).export())
