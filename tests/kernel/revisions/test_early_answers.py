"""Early answers of operators whose results are final: what is left in the end is the reference's
answer, nothing is taken back that is not there, and what is said is right if nothing more comes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.state import MemoryStore
from penstock.plan.nodes.query import QueryPlan
from penstock.spark.sources.stream_inputs import streams_of
from tests.local.helpers import recut
from tests.local.resumed import run_in_parts
from tests.local.test_provisional import Running
from tests.local.test_revisions import seen
from tests.planning import in_process, on_spark
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples
from tests.spark.test_every_cut import cuts, run_in_cuts
from tests.spark.without_spark import MicroBatch, WithoutSpark

SCHEMA = "k STRING, x INT, t INT"
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3), st.integers(0, 25)),
    max_size=12,
)
ITEMS = "(SELECT k, x, changed_at AS t FROM s [RANGE 6] EXCEPT ON (k) r [RANGE 3]) AS d"
SELECTS = (
    "SELECT count(*) AS n, sum(x) AS z [RANGE 4 ROWS, SLIDE 3 ROWS] FROM s",
    "SELECT k, sum(x) AS z [RANGE 2 ROWS, SLIDE 1 ROWS, PA k] FROM s GROUP BY k",
    "SELECT count(*) AS n [RANGE 3 ROWS, SLIDE 2 ROWS, WA rank(t)] FROM s",
    "SELECT sum(x) AS z [RANGE 5, SLIDE 1 ROWS, WA t] FROM s",
    "SELECT k, count(*) AS n [SESSION GAP 3, MAX 9, WA t] FROM s GROUP BY k",
    "SELECT s.x, r.x AS y, r.t FROM SEQUENCE (s THEN r MODE RECENT ON s.k = r.k)",
    "SELECT s.x, r.x AS y FROM SEQUENCE (s THEN r MODE CHRONICLE WITHIN 7 KEEP BOTH)",
    "SELECT s.x, r.x AS y FROM s LEFT JOIN r AS OF s.t ON s.k = r.k",
    f"SELECT k, sum(x) AS z [RANGE 6, SLIDE 3, WA t] FROM {ITEMS} GROUP BY k",
    f"SELECT count(*) AS n, 12 / sum(x) AS z [RANGE ALL, SLIDE 4, WA t] FROM {ITEMS}",
    f"SELECT t, count(*) AS n FROM {ITEMS} GROUP BY t",
    f"SELECT sum(x) AS z [RANGE 2 ROWS, SLIDE 1 ROWS] FROM {ITEMS}",
    f"SELECT sum(x) AS z [RANGE 5, SLIDE 1 ROWS, WA t] FROM {ITEMS}",
    "SELECT k, t, sum(x) OVER (PARTITION BY k ORDER BY t) AS z, lead(x) OVER (ORDER BY t) FROM s",
    "SELECT k, x [RANGE 8, SLIDE 4, WA t] FROM s ORDER BY x DESC LIMIT 2",
)
CLAUSES = ("", " LATE AMEND", " LATE AMEND FOR 5")
EARLY = " EMIT EARLY EVERY 1 SECOND"
DELAYS = st.sampled_from([0, 4, 100])


def streams(s: list[Row], r: list[Row], delay: int) -> dict[str, Stream]:
    progress = ps.progress("t", delay=delay)
    return {"s": Stream(SCHEMA, s, progress), "r": Stream(SCHEMA, r, progress)}


def assert_reference(sql: str, given: dict[str, Stream], found: Callable[[], list[Row]]) -> None:
    """Rows, or an error."""
    try:
        expected = bag(tuples(ask(sql, **given).collect()))
    except ps.RunError as error:
        with pytest.raises(ps.RunError, match=re.escape(str(error).splitlines()[0])):
            found()
        return
    assert bag(found()) == expected


def plain(row: dict[str, Any]) -> Row:
    return tuple(row.values())


def left_of(said: Iterable[Row]) -> list[Row]:
    """What is left of signed rows; whatever is taken back is there."""
    there: Counter[Row] = Counter()
    for *row, sign in said:
        there[tuple(row)] += sign
        assert there[tuple(row)] >= 0
    return list(there.elements())


@settings(deadline=None, max_examples=100)
@given(
    s=ROWS,
    r=ROWS,
    select=st.sampled_from(SELECTS),
    clause=st.sampled_from(CLAUSES),
    delay=DELAYS,
    cut=st.sampled_from([1, 3, None]),
)
def test_in_process(
    s: list[Row], r: list[Row], select: str, clause: str, delay: int, cut: int | None
) -> None:
    given = streams(s, r, delay)
    sql = select + clause + EARLY
    assert_reference(sql, given, lambda: left_of(map(plain, seen(sql, Running(), cut, **given))))


@settings(deadline=None, max_examples=40)
@given(
    s=ROWS,
    r=ROWS,
    select=st.sampled_from(SELECTS),
    clause=st.sampled_from(CLAUSES),
    delay=DELAYS,
    every=st.integers(1, 5),
)
def test_after_restarts(
    s: list[Row], r: list[Row], select: str, clause: str, delay: int, every: int
) -> None:
    given = streams(s, r, delay)
    sql = select + clause + EARLY
    db = database(**given)
    recut(db, 1)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    store = MemoryStore()

    def found() -> list[Row]:
        return left_of(tuples(run_in_parts(query.plan, every, lambda: store, clock=Running()).rows))

    assert_reference(sql, given, found)


class Timed(WithoutSpark):
    """A second passes before every micro-batch, and after it the buckets look at the clock."""

    def run(self, given: MicroBatch) -> None:
        self.now += 1_000_000
        super().run(given)
        self.now += 1_000_000
        self.wake()


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    s=ROWS,
    r=ROWS,
    select=st.sampled_from(SELECTS),
    clause=st.sampled_from(CLAUSES),
    delay=DELAYS,
    restarts=st.sets(st.integers(1, 4)),
)
def test_on_spark(
    data: st.DataObject,
    s: list[Row],
    r: list[Row],
    select: str,
    clause: str,
    delay: int,
    restarts: set[int],
) -> None:
    given = streams(s, r, delay)
    sql = select + clause + EARLY
    query = ask(sql, **given)
    job = Timed(query.plan, 2, live=True)
    sizes = {"s": len(s), "r": len(r)}
    names = sorted(streams_of(query.plan))
    planned = {name: data.draw(cuts(sizes[name]), label=name) for name in names}

    def found() -> list[Row]:
        run_in_cuts(job, query, planned, 2, restarts)
        return tuples(job.received.table(query.plan))

    assert_reference(sql, given, found)


S: list[Row] = [("a", 1, 0), ("b", 2, 4), ("a", 3, 8), ("a", 1, 15)]
R: list[Row] = [("a", 9, 2), ("b", 8, 16)]


@pytest.mark.parametrize(
    ("select", "said"),
    [
        # windows of four rows, the last of which begins with the third tuple
        (SELECTS[0], ["+1 1", "-1 1", "+2 3", "-2 3", "+3 6", "+1 3", "-1 3", "+2 4"]),
        # a tuple is alone until one comes that it belongs to
        (
            SELECTS[6],
            ["+1 None", "-1 None", "+1 9", "+2 None", "+None 8", "+3 None", "-None 8", "+1 8"],
        ),
        # what becomes final as it was said is not said again
        (SELECTS[8], ["+b 2", "+b 2", "+a 3", "+a 3", "+a 1", "+a 1"]),
    ],
)
def test_what_is_said(select: str, said: list[str]) -> None:
    """A second passes with every tuple."""
    rows = seen(select + EARLY, Running(), 1, **streams(S, R, 4))
    found = []
    for row in rows:
        *_, one, other, sign = row.values()
        found.append(f"{'+' if sign > 0 else '-'}{one} {other}")
    assert found == said


REFUSED = {
    "SELECT k FROM s EXCEPT ON (k) r": "a difference",
    "SELECT DISTINCT t FROM (SELECT changed_at AS t FROM s EXCEPT ON (k) r) AS d": "DISTINCT over",
    "SELECT * FROM (SELECT k, changed_at AS at FROM s EXCEPT ON (k) r) AS d EXCEPT ON (k) r AS q": (
        "a difference"
    ),
}


@pytest.mark.parametrize("select", REFUSED)
@pytest.mark.parametrize("engine", [in_process, on_spark])
def test_items_of_differences_are_final(select: str, engine: Callable[[QueryPlan], Any]) -> None:
    what = f"{REFUSED[select]}.* has no early answers: its items say when tuples come and go"
    with pytest.raises(ps.EngineError, match=what):
        engine(ask(select + EARLY, **streams([], [], 0)).plan)
