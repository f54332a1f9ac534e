"""Paned-WID against the reference: windows of any ratio, every aggregate, late tuples, any cut."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import RunError
from penstock.functions.aggregate_functions import AGGREGATES, PAIR_STATISTICS
from penstock.kernel.batch import Batch
from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.operator import Progress
from penstock.kernel.windows import paned
from penstock.kernel.windows.paned import Paned
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.model.punctuation import BEGINNING
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.local.helpers import assert_same, late_rows, locally
from tests.planning import in_process
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples
from tests.reference.promises import RULES, Rule, random_rows, stream

# Every aggregate; the share of quantile and heavy_hitters is a power of two (see test_aggregates).
DIFFERENTIAL = (
    "count(*) AS a, count(x) AS b, sum(x) AS c, avg(y) AS d, sum(y) AS e, var_pop(y) AS f"
)
OTHERS = (
    "min(x) AS a, max(y) AS b, first(s) AS c, last(x) AS d, median(y) AS e,"
    " quantile(x, 0.25) AS g, top_k(s, 2) AS h, heavy_hitters(x, 0.25) AS i,"
    " count(DISTINCT x) AS j, sum(DISTINCT x) AS k, stddev_samp(y) AS l,"
    " sum(x) FILTER (WHERE x > 1) AS m, approx_quantile(y, 0.5) AS n, min(s) AS o,"
    " min_by(s, y) AS r, max_by(x, s) AS u,"
    " approx_top_k(y, 2) AS p, approx_heavy_hitters(s, 0.25) AS q,"
    " quantile_disc(s, 0.5) AS v"
)
LISTS = {
    "differential": DIFFERENTIAL,
    "others": OTHERS,
    "filtered": "sum(x) FILTER (WHERE y > 0.2) AS a, count(s) FILTER (WHERE x < 3) AS b",
    "one": "count(*) AS n",
}
SCHEMA = "k STRING, x INT, y DOUBLE, s STRING, t INT"
ROW = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([None, 0, 1, 2, 3, 2**31 - 1]),
    st.sampled_from([None, 0.0, 0.1, 0.2, 1e16, -1e16, 5e-324, float("inf"), float("nan")]),
    st.sampled_from([None, "", "u", "v"]),
    st.integers(-20, 30),
)
TUPLES = st.lists(ROW, max_size=14)
ROWS = st.integers(0, 10**6).map(random_rows)
RULE = st.sampled_from(list(RULES.values()))
LENGTH = st.integers(1, 12)
DELAY = st.sampled_from([0, 3, 10, 100])
few = settings(deadline=None, max_examples=25)


def windows(range_: int, slide: int) -> str:
    return f"[RANGE {range_}, SLIDE {slide}, WA t]"


def test_the_lists_name_every_aggregate() -> None:
    missing = {name for name in AGGREGATES if f"{name}(" not in DIFFERENTIAL + OTHERS}
    assert missing == {
        *("var_samp", "stddev_pop", "approx_count_distinct", "mode"),
        *("any_value", "bool_and", "bool_or", "string_agg", "histogram"),  # see test_every_way
        *("array_agg", "bit_and", "bit_or", "bit_xor", *PAIR_STATISTICS),
    }


@pytest.mark.parametrize("calls", LISTS.values(), ids=LISTS)
@few
@given(rows=TUPLES, range_=LENGTH, slide=LENGTH, delay=DELAY, keyed=st.booleans())
def test_any_ratio_and_any_cut(
    calls: str, rows: list[Row], range_: int, slide: int, delay: int, keyed: bool
) -> None:
    given_stream = Stream(SCHEMA, rows, ps.progress("t", delay=delay))
    keys, group = ("k, ", " GROUP BY k") if keyed else ("", "")
    sql = f"SELECT {keys}{calls} {windows(range_, slide)} FROM s{group} LATE SIDE"
    assert_same(sql, s=given_stream)


def test_mode_over_nothing_beside_mode_over_something() -> None:
    rows = [("a", None, None, None, 0), ("a", 3, None, None, 7)]
    sql = f"SELECT mode(x) AS m {windows(5, 5)} FROM s"
    assert_same(sql, s=Stream(SCHEMA, rows, ps.progress("t", delay=100)))


@few
@given(rows=ROWS, rule=RULE, per=st.booleans(), range_=LENGTH, slide=LENGTH)
def test_any_promise(rows: list[Row], rule: Rule, per: bool, range_: int, slide: int) -> None:
    """Each x is a power of two, so a sum says which tuples are in a window."""
    sql = f"SELECT k, sum(x) AS xs {windows(range_, slide)} FROM s GROUP BY k LATE SIDE"
    assert_same(sql, s=stream(rows, rule, per))


@few
@given(rows=TUPLES, random=st.randoms(use_true_random=False), range_=LENGTH, slide=LENGTH)
def test_permuted_arrivals_do_not_change_the_answer(
    rows: list[Row], random: Any, range_: int, slide: int
) -> None:
    """With a delay as long as the stream nothing is late, and every bit is the same."""
    calls = f"{DIFFERENTIAL}, max(y) AS top, median(y) AS middle"
    sql = f"SELECT k, {calls} {windows(range_, slide)} FROM s GROUP BY k"
    shuffled = random.sample(rows, len(rows))
    progress = ps.progress("t", delay=1000)
    one, other = (
        locally(sql, cut, s=Stream(SCHEMA, each, progress))
        for each, cut in ((rows, 7), (shuffled, 2))
    )
    assert bag(tuples(one.table)) == bag(tuples(other.table))
    assert not one.late
    assert not other.late


@few
@given(rows=TUPLES, origin=st.integers(-7, 7), range_=LENGTH, slide=LENGTH)
def test_any_origin(rows: list[Row], origin: int, range_: int, slide: int) -> None:
    sql = (
        f"SELECT k, count(*) AS n [RANGE {range_}, SLIDE {slide}, WA t, ORIGIN {origin}]"
        " FROM s GROUP BY k LATE SIDE"
    )
    assert_same(sql, s=Stream(SCHEMA, rows, ps.progress("t", delay=3)))


@few
@example(rows=[("a", 1, 0.1, "u", 0), ("b", 1, 0.1, "u", 30), ("c", 1, 0.1, "u", 5)])
@given(rows=TUPLES)
def test_after_a_filter_and_a_projection(rows: list[Row]) -> None:
    """The bounds that tuples broke go through both."""
    sql = (
        "SELECT z, count(*) AS n, max(w) AS top [RANGE 7, SLIDE 3, WA u] FROM"
        " (SELECT t + 2 AS u, k AS z, x * 2.0 AS w FROM s WHERE x >= 0 OR x IS NULL) q"
        " GROUP BY z LATE SIDE"
    )
    assert_same(sql, s=Stream(SCHEMA, rows, ps.progress("t", delay=2)))


@few
@given(rows=TUPLES, others=TUPLES, range_=LENGTH, slide=LENGTH)
def test_after_a_union(rows: list[Row], others: list[Row], range_: int, slide: int) -> None:
    sql = (
        f"SELECT k, count(*) AS n, sum(x) AS xs {windows(range_, slide)}"
        " FROM (SELECT * FROM s UNION ALL SELECT * FROM r) q GROUP BY k LATE SIDE"
    )
    progress = ps.progress("t", delay=2)
    assert_same(sql, s=Stream(SCHEMA, rows, progress), r=Stream(SCHEMA, others, progress))


@few
@given(rows=TUPLES, range_=LENGTH, slide=LENGTH)
def test_windows_over_windows(rows: list[Row], range_: int, slide: int) -> None:
    sql = (
        "SELECT max(n) AS top, count(*) AS groups [RANGE 12, SLIDE 4, WA window_end] FROM"
        f" (SELECT k, count(*) AS n {windows(range_, slide)} FROM s GROUP BY k) q"
    )
    assert_same(sql, s=Stream(SCHEMA, rows, ps.progress("t", delay=4)))


# --- by hand -------------------------------------------------------------------------------------

S = Stream("k STRING, v INT, t INT", [], ps.progress("t", delay=0))


def operator(sql: str) -> Paned:
    node = next(n for n in ask(sql, s=S).plan.walk() if isinstance(n, WindowAggregate))
    return Paned(node)


def batch(*rows: tuple[str | None, int | None, int]) -> Batch:
    k, v, t = zip(*rows, strict=True)
    types = [("s.k", pa.string()), ("s.v", pa.int32()), ("s.t", pa.int32())]
    arrays = [pa.array(c, each) for c, (_, each) in zip((k, v, t), types, strict=True)]
    return Batch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(types)))


def pushed(paned: Paned, bound: float, ended: bool = False) -> list[list[Any]]:
    progress = Progress({} if bound == BEGINNING else {"s.t": bound}, {}, ended)
    found: list[list[Any]] = []
    for item in paned.on_progress(0, progress):
        if isinstance(item, Batch):
            found += [list(row.values()) for row in item.rows.to_pylist()]
    return found


def test_a_window_leaves_when_the_bound_has_reached_its_end() -> None:
    paned = operator("SELECT count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s")
    assert list(paned.on_batch(0, batch(("a", 1, 3), ("a", 1, 7)))) == []
    assert pushed(paned, BEGINNING) == []
    assert pushed(paned, 4) == []
    assert pushed(paned, 5) == [[0, -5, 5, 1]]
    assert pushed(paned, 9) == []
    assert pushed(paned, 15) == [[1, 0, 10, 2], [2, 5, 15, 1]]
    assert pushed(paned, 1000) == []


def test_state_is_forgotten() -> None:
    """However long a stream, only the panes of open windows are kept."""
    for calls in ("count(*) AS n", "max(v) AS top", "median(v) AS middle"):
        paned = operator(f"SELECT k, {calls} [RANGE 6, SLIDE 2, WA t] FROM s GROUP BY k")
        for t in range(0, 400, 2):
            list(paned.on_batch(0, batch(("a", t, t), ("b", t, t + 1))))
            pushed(paned, t)
            assert len(paned.panes._panes) <= 5
            assert len(paned.panes._numbers) <= 5
            assert len(paned.panes._touched) <= 5  # although nobody saves
        pushed(paned, BEGINNING, ended=True)
        assert not paned.stragglers


def test_a_long_silence_costs_nothing() -> None:
    """Windows without tuples are skipped rather than counted through."""
    paned = operator("SELECT count(*) AS n [RANGE 4, SLIDE 1, WA t] FROM s")
    list(paned.on_batch(0, batch(("a", 1, 0))))
    assert len(pushed(paned, 2_000_000_000)) == 4
    list(paned.on_batch(0, batch(("a", 1, 2_000_000_000))))
    assert len(pushed(paned, BEGINNING, ended=True)) == 4


def test_groups_that_come_late_widen_open_panes() -> None:
    paned = operator(
        "SELECT k, count(*) AS n, sum(v) AS v [RANGE 4, SLIDE 2, WA t] FROM s GROUP BY k"
    )
    for number in range(40):
        list(paned.on_batch(0, batch((f"k{number}", number, number % 2))))
    found = pushed(paned, BEGINNING, ended=True)
    assert len(found) == 80
    assert all(row[4] == 1 and row[3] == f"k{row[5]}" for row in found)


def test_late_tuples_name_the_windows_that_they_missed() -> None:
    late = Stream("k STRING, v INT, t INT", [("a", 1, 20), ("b", 2, 9)], ps.progress("t", delay=8))
    found = locally("SELECT count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s LATE SIDE", s=late)
    assert late_rows(found) == [("b", 2, 9, 12, 1, 1)]
    assert [row["n"] for row in found.table.to_pylist()] == [1, 1, 1]


def test_a_batch_keeps_its_order_of_late_rows() -> None:
    rows = [("a", 1, 30), ("b", 2, 3), ("c", 3, 1), ("d", 4, 2)]
    late = Stream("k STRING, v INT, t INT", rows, ps.progress("t", delay=0))
    found = locally("SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s LATE SIDE", s=late)
    assert found.late.column(0).to_pylist() == ["b", "c", "d"]


# --- the ends of what there is --------------------------------------------------------------------


def test_a_window_that_ends_beyond_the_type() -> None:
    """The row is set aside where it enters."""
    rows = Stream("k STRING, t BIGINT", [("a", 2**63 - 1)], ps.progress("t", delay=0))
    found = locally("SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s", s=rows)
    assert found.table.num_rows == 0
    assert found.account.rejected == 1


@pytest.mark.parametrize("call", ["min(NULL)", "max(NULL)", "first(NULL)", "last(NULL)"])
def test_extremes_of_a_bare_null(call: str) -> None:
    rows = Stream("k STRING, t INT", [("a", 1)], ps.progress("t", delay=0))
    assert_same(f"SELECT {call} AS x [RANGE 5, SLIDE 5, WA t] FROM s", s=rows)


class Half:
    """An aggregate that keeps no promise about its result."""

    def init(self) -> float:
        return 0.5

    def accumulate(self, state: float, *columns: pa.Array) -> float:
        return state

    def merge(self, state: float, other: float) -> float:
        return max(state, other)

    def finish(self, state: float) -> float:
        return state


class Failing(Half):
    def accumulate(self, state: float, *columns: pa.Array) -> float:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("implementation", "message"), [(Half(), "returned 0.5"), (Failing(), "mine failed")]
)
def test_errors_of_python_aggregates(implementation: Half, message: str) -> None:
    db = database(s=Stream("v INT, t INT", [(1, 1)], ps.progress("t", delay=0)))
    db.aggregate("mine", implementation, returns="BIGINT", arguments=("INT",))
    query = db.sql("SELECT mine(v) AS x [RANGE 5, SLIDE 5, WA t] FROM s")
    assert isinstance(query, ps.Query)
    with pytest.raises(RunError, match=message):
        answer(in_process(query.plan), ManualClock())


# --- keys that are forgotten ---------------------------------------------------------------------


@pytest.mark.parametrize("calls", ["count(*), sum(v), avg(v)", "min(v), last(v)", "median(v)"])
@pytest.mark.parametrize("window", ["RANGE 4, SLIDE 4", "RANGE 12, SLIDE 4", "RANGE 10, SLIDE 3"])
@pytest.mark.parametrize("cut", [1, 7])
def test_groups_that_no_pane_holds_are_forgotten(
    calls: str, window: str, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ever new keys, and late tuples that refer to old ones, at batches small enough to matter."""
    monkeypatch.setattr(key_expiry, "MANY", 2)
    rng = Random(5)
    rows = [
        (f"k{(n + rng.randint(-6, 0)) // 3}", rng.randint(-9, 9), n + rng.randint(-9, 0))
        for n in range(160)
    ]
    assert_same(
        f"SELECT k, {calls} [{window}, WA t] FROM s GROUP BY k LATE SIDE",
        (cut,),
        s=Stream("k STRING, v INT, t INT", rows, ps.progress("t", delay=4)),
    )


def test_the_numbers_of_groups_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_expiry, "MANY", 8)
    most = 0

    class Watched(key_expiry.DeadKeys):
        def forget(self, *how: Any) -> None:
            nonlocal most
            super().forget(*how)
            most = max(most, len(self._folder.keys))

    monkeypatch.setattr(paned, "DeadKeys", Watched)
    rows = [(f"k{n}", 1, n) for n in range(500)]
    stream = Stream("k STRING, v INT, t INT", rows, ps.progress("t", ordered=True))
    locally("SELECT k, count(*) [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k", cut=5, s=stream)
    assert most < 30
