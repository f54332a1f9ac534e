"""Group-wise punctuation: the answers of the reference whatever is promised for which group, and
results of a group as soon as its windows are complete."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.rejects import RejectLog
from penstock.kernel.batch import Batch
from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.operator import Progress
from penstock.kernel.progress import group_bounds
from penstock.kernel.progress.ingest import Ingest
from penstock.kernel.state import MemoryStore
from penstock.kernel.windows.punctuated import PunctuatedPaned, PunctuatedWid
from penstock.model.clock import ManualClock
from penstock.plan.algorithms import Algorithm
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.local.helpers import assert_same, locally, recut
from tests.local.resumed import run_in_parts
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples

SCHEMA = "kind STRING, k STRING, g INT, x BIGINT, t INT"
RULES: list[dict[str, Any]] = [
    {},
    {"ordered": True},
    {"delay": 4},
    {"delay": 60},
    {"slack": 2},
    {"delay": 3, "per": "k"},
    {"delay": 3, "per": "g"},
    {"per": "g"},
]
CALLS = {
    "differential": "count(*) AS n, sum(x) AS s, avg(x) AS a",
    "others": "max(x) AS hi, first(x) AS f, median(x) AS m, count(DISTINCT x) AS d",
}
# Every kind of operator above a scan that is punctuated by group; each x says which row it is.
SELECTS = [
    *(
        f"SELECT /*+ {algorithm.name} */ {keys}{{calls}} [{window}, WA t] FROM s{group} LATE SIDE"
        for algorithm in Algorithm
        for window in ("RANGE 10, SLIDE 3", "RANGE 6, SLIDE 6", "RANGE 2, SLIDE 7")
        for keys, group in (("k, ", " GROUP BY k"), ("g, k, ", " GROUP BY g, k"))
    ),
    "SELECT {calls} [RANGE 6, SLIDE 2, WA t] FROM s",
    "SELECT g, {calls} [RANGE 6, SLIDE 2, WA t] FROM s WHERE x > 2 GROUP BY g",
    "SELECT upper(k) AS u, {calls} [RANGE 6, SLIDE 2, WA t] FROM s GROUP BY upper(k)",
    "SELECT j, h, {calls} [RANGE 6, SLIDE 2, WA u] FROM"
    " (SELECT k AS j, g AS h, x, t + 3 AS u FROM s WHERE x <> 4) AS q GROUP BY h, j",
    "SELECT k, {calls} [RANGE 6, SLIDE 2, WA t] FROM (SELECT k, x, t FROM s) AS q GROUP BY k",
    "SELECT k, {calls} [RANGE ALL, SLIDE 4, WA t] FROM s GROUP BY k",
    "SELECT k, {calls} [RANGE 4 ROWS, SLIDE 3 ROWS, WA rank(t)] FROM s GROUP BY k",
    "SELECT k, {calls} [RANGE 6, RATTR t, SLIDE 1 ROW, SATTR rank(t)] FROM s GROUP BY k",
    "SELECT k, t, {calls} FROM s GROUP BY k, t",
    "SELECT k, u, t, {calls} FROM (SELECT k, t, t + 2 AS u, x FROM s) AS q GROUP BY k, t, u",
    "SELECT t, {calls} FROM s GROUP BY t, g",
    "SELECT k, {calls} [RANGE 6, SLIDE 2, WA t] FROM s GROUP BY k LATE AMEND",
    "SELECT k, {calls} [RANGE 6, SLIDE 2, WA t] FROM s GROUP BY k EMIT IN ORDER",
    "SELECT k, {calls} [RANGE 6, SLIDE 2, WA t] FROM (SELECT * FROM s UNION ALL SELECT * FROM s)"
    " AS u GROUP BY k",
    "SELECT n, count(*) AS c [RANGE 9, SLIDE 3, WA window_end] FROM"
    " (SELECT k, count(*) AS n [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k) AS q GROUP BY n",
]
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ddp"),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1, 2]),
        st.integers(-12, 25),
    ),
    min_size=1,
    max_size=24,
).map(lambda rows: [(kind, k, g, 1 << n, t) for n, (kind, k, g, t) in enumerate(rows)])
STREAM = st.builds(
    lambda rows, rule, group: stream(rows, rule, group),
    ROWS,
    st.sampled_from(RULES),
    st.sampled_from([["k"], ["k"], ["g", "k"], ["g"]]),
)
few = settings(deadline=None, max_examples=40)


def stream(rows: list[Row], rule: dict[str, Any], group: list[str]) -> Stream:
    promise = ps.progress("t", punctuated=("kind = 'p'", "t"), punctuated_for=group, **rule)
    return Stream(SCHEMA, rows, promise)


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
@settings(deadline=None, max_examples=80)
@given(given_stream=STREAM, select=st.sampled_from(SELECTS))
@example(  # the last one is late for what is closed for a, and counts in what is not
    stream([("d", "a", 1, 1, 1), ("p", "a", 1, 2, 6), ("d", "a", 1, 4, 4)], {}, ["k"]),
    "SELECT k, {calls} [RANGE 10, SLIDE 3, WA t] FROM s GROUP BY k LATE SIDE",
)
def test_the_answer_is_that_of_the_reference(calls: str, given_stream: Stream, select: str) -> None:
    assert_same(select.format(calls=calls), s=given_stream)


@few
@given(
    given_stream=STREAM,
    select=st.sampled_from([select for select in SELECTS if "AMEND" not in select]),
    cut=st.sampled_from([1, 3, None]),
    every=st.sampled_from([1, 2, 5]),
)
def test_restarts_change_nothing(
    given_stream: Stream, select: str, cut: int | None, every: int
) -> None:
    sql = select.format(calls=CALLS["differential"])
    whole = ask(sql, s=given_stream)
    db = database(s=given_stream)
    recut(db, cut)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    store = MemoryStore()
    found = run_in_parts(query.plan, every, lambda: store)
    assert bag(tuples(found.rows)) == bag(tuples(whole.collect()))
    assert bag(tuples(found.late) if found.late is not None else []) == bag(tuples(whole.late))


@pytest.mark.parametrize(
    "select",
    [
        *(
            f"SELECT /*+ {algorithm} */ k, sum(x) AS s [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k"
            for algorithm in ("paned", "wid", "two_level")
        ),
        "SELECT k, t, sum(x) AS s FROM s GROUP BY k, t",
    ],
)
@pytest.mark.parametrize("rule", [{}, {"delay": 60}], ids=str)
def test_nothing_is_given_out_again_after_a_restart(select: str, rule: dict[str, Any]) -> None:
    """Panes are shared with groups that are still open, so what is out has to be remembered."""
    db = database(s=stream(EARLY, rule, ["k"]))
    recut(db, 1)
    query = db.sql(select)
    assert isinstance(query, ps.Query)
    store = MemoryStore()
    found = run_in_parts(query.plan, 1, lambda: store)
    assert found.parts > len(EARLY)
    assert bag(tuples(found.rows)) == bag(tuples(query.collect()))


@few
@given(given_stream=STREAM, select=st.sampled_from(SELECTS[:12]))
def test_forgetting_changes_nothing(given_stream: Stream, select: str) -> None:
    """Keys and bounds are given up whenever they can be, instead of when they are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_expiry, "MANY", 0)
        patch.setattr(group_bounds, "_MANY_BOUNDS", 0)
        for calls in CALLS.values():
            assert_same(select.format(calls=calls), s=given_stream)


# --- early ---------------------------------------------------------------------------------------

EARLY: list[Row] = [
    ("d", "a", 1, 1, 1),
    ("d", "b", 1, 2, 2),
    ("d", "a", 1, 4, 7),
    ("p", "a", 1, 0, 10),  # [0, 5) and [5, 10) close for a
    ("d", "b", 1, 8, 6),
    ("d", "a", 1, 16, 12),
    ("d", "b", 1, 32, 105),  # with DELAY 60: all windows up to 45
    ("p", "b", 1, 0, 200),
]


@pytest.mark.parametrize("algorithm", ["paned", "wid", "two_level"])
@pytest.mark.parametrize("calls", ["sum(x) AS s", "max(x) AS s"])
def test_windows_of_a_group_close_before_those_of_the_stream(algorithm: str, calls: str) -> None:
    sql = f"SELECT /*+ {algorithm} */ k, {calls} [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k"
    for rule, expected in (
        (
            {"delay": 60},
            [
                [("a", 0, 1), ("a", 5, 4)],
                [("a", 10, 16), ("b", 0, 2), ("b", 5, 8)],
                [("b", 105, 32)],
            ],
        ),
        (
            {},
            [
                [("a", 0, 1), ("a", 5, 4)],
                [("b", 0, 2), ("b", 5, 8), ("b", 105, 32)],
                [("a", 10, 16)],
            ],
        ),
    ):
        found = locally(sql, 1, s=stream(EARLY, rule, ["k"])).table
        batches = [
            sorted((row["k"], row["window_start"], row["s"]) for row in batch.to_pylist())
            for batch in found.to_batches()
        ]
        assert batches == expected


def test_groups_of_a_progressing_key_are_complete_early() -> None:
    sql = "SELECT k, t, sum(x) AS s FROM s GROUP BY k, t"
    found = locally(sql, 1, s=stream(EARLY, {}, ["k"])).table
    batches = [sorted(tuples(pa.Table.from_batches([each]))) for each in found.to_batches()]
    assert batches == [
        [("a", 1, 1), ("a", 7, 4)],
        [("b", 2, 2), ("b", 6, 8), ("b", 105, 32)],
        [("a", 12, 16)],
    ]


def test_a_group_by_more_than_what_is_punctuated_closes_early_too() -> None:
    sql = "SELECT k, g, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY g, k"
    rows = [*EARLY[:3], ("d", "a", 2, 64, 3), *EARLY[3:]]
    first = locally(sql, 1, s=stream(rows, {}, ["k"])).table.to_batches()[0].to_pylist()
    assert sorted((row["k"], row["g"], row["window_start"], row["n"]) for row in first) == [
        ("a", 1, 0, 1),
        ("a", 1, 5, 1),
        ("a", 2, 0, 1),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT g, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY g",
        "SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s",
        "SELECT upper(k) AS u, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY upper(k)",
    ],
)
def test_groups_of_other_keys_wait_for_the_stream(sql: str) -> None:
    found = locally(sql, 1, s=stream(EARLY, {}, ["k"])).table
    assert len(found.to_batches()) == 1  # at the end


def test_projections_hand_on_what_is_promised_for_groups_they_keep() -> None:
    inner = "SELECT k AS j, x, t + 5 AS u FROM s WHERE g = 1"
    sql = f"SELECT j, sum(x) AS s [RANGE 5, SLIDE 5, WA u] FROM ({inner}) AS q GROUP BY j"
    first = locally(sql, 1, s=stream(EARLY, {}, ["k"])).table.to_batches()[0]
    rows = [(row["j"], row["window_start"], row["s"]) for row in first.to_pylist()]
    assert sorted(rows) == [("a", 5, 1), ("a", 10, 4)]


# --- state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", [PunctuatedPaned, PunctuatedWid])
@pytest.mark.parametrize("calls", ["sum(x) AS s", "max(x) AS s"])
def test_what_is_out_for_all_groups_of_a_pane_is_not_kept(operator: Any, calls: str) -> None:
    """Groups come and go; the stream as a whole promises nothing."""
    rows: list[Row] = []
    for n in range(200):
        rows += [("d", f"k{n}", 1, n, n), ("d", f"k{n}", 1, n, n + 3), ("p", f"k{n}", 1, 0, 999)]
    db = database(s=stream(rows, {}, ["k"]))
    recut(db, 3)
    query = db.sql(f"SELECT k, {calls} [RANGE 10, SLIDE 2, WA t] FROM s GROUP BY k")
    assert isinstance(query, ps.Query)
    node = next(node for node in query.plan.walk() if isinstance(node, WindowAggregate))
    (scan,) = node.inputs
    running = operator(node)
    given_out = 0
    for item in Ingest(scan, ManualClock(), RejectLog(False)).items():  # type: ignore[arg-type]
        if not isinstance(item, Progress):
            list(running.on_batch(0, item))
        elif not item.ended:
            made = running.on_progress(0, item)
            given_out += sum(each.num_rows for each in made if isinstance(each, Batch))
            assert (running.panes if operator is PunctuatedPaned else running.windows).all() == []
    assert given_out == query.collect().num_rows > 1000


def test_bounds_below_that_of_the_stream_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_bounds, "_MANY_BOUNDS", 10)
    rows: list[Row] = []
    for n in range(300):
        rows += [("d", f"k{n}", 1, n, n), ("p", f"k{n}", 1, 0, n + 1)]
    db = database(s=stream(rows, {"delay": 5}, ["k"]))
    recut(db, 1)
    query = db.sql("SELECT k FROM s")
    assert isinstance(query, ps.Query)
    scan = next(node for node in query.plan.walk() if not node.inputs)
    ingest = Ingest(scan, ManualClock(), RejectLog(False))  # type: ignore[arg-type]
    store = MemoryStore()
    for chunk in ingest.chunks():
        list(ingest.on_chunk(chunk))
        ingest.save(store)
    kept = [name for name in store.names() if name.startswith("groups/keys/")]
    assert 0 < sum(len(store.get(name)[0]) for name in kept) <= 20
