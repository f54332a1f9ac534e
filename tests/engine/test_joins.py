"""Joins on the local engine: the reference's rows and late tuples, however they are cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.state.chunks import MemoryStore
from tests.engine.helpers import locally, recut
from tests.engine.resumed import run_in_parts
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples

SCHEMA = "k STRING, x DOUBLE, n INT, t INT"
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
        st.integers(0, 3),
        st.integers(-20, 20) | st.sampled_from([-(2**31), 2**31 - 1, 100, 103]),
    ),
    max_size=16,
)
FROM = (
    "l [RANGE 5, WA t], r [RANGE 2, WA t]",
    "l [RANGE 0, WA t], r [RANGE 0, WA t]",
    "l, r [RANGE TUMBLING 4, WA t]",
    "l JOIN r ON r.t BETWEEN l.t - 3 AND l.t + 1",
    "l JOIN r ON r.t > l.t + 2 AND r.t <= l.t + 6",
)
WHERE = (
    "",
    "WHERE l.k = r.k",
    "WHERE l.k = r.k AND r.n = l.n",
    "WHERE l.x = r.x",
    "WHERE l.k = r.k AND l.x < r.n",
    "WHERE l.n < r.n OR l.k IS NULL",
    "WHERE l.k = r.k AND l.n = 1 AND r.n < 3",
)
SELECT = (
    "SELECT l.k, l.x, l.n, l.t, r.k, r.x, r.n, r.t FROM {source} {where}",
    "SELECT count(*) AS c, sum(r.n) AS s [RANGE 6, SLIDE 3, WA {side}.t] FROM {source} {where}",
    "SELECT l.t, r.t, count(*) AS c FROM {source} {where} GROUP BY l.t, r.t",
)
PROMISES = [{"ordered": True}, {"delay": 4}, {"delay": 60}, {"slack": 3}]
PROMISE = st.sampled_from(PROMISES).map(lambda given: ps.progress("t", **given))


@settings(deadline=None, max_examples=150)
@given(
    left=ROWS,
    right=ROWS,
    promises=st.tuples(PROMISE, PROMISE),
    select=st.sampled_from(SELECT),
    source=st.sampled_from(FROM),
    where=st.sampled_from(WHERE),
    side=st.sampled_from("lr"),
    cut=st.sampled_from((1, 7, None)),
    restart=st.sampled_from([None, 1, 3]),
)
def test_one_answer(
    left: list[Row],
    right: list[Row],
    promises: tuple[ps.Progress, ps.Progress],
    select: str,
    source: str,
    where: str,
    side: str,
    cut: int | None,
    restart: int | None,
) -> None:
    sql = select.format(source=source, where=where, side=side) + " LATE SIDE"
    streams = {
        "l": Stream(SCHEMA, left, promises[0]),
        "r": Stream(SCHEMA, right, promises[1]),
    }
    reference = ask(sql, **streams)
    expected, late = bag(tuples(reference.collect())), bag(tuples(reference.late))
    if restart is None:
        found = locally(sql, cut, **streams)
        assert bag(tuples(found.table)) == expected
        assert bag(tuples(found.late)) == late
        return
    db = database(**streams)
    recut(db, cut)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    store = MemoryStore()
    in_parts = run_in_parts(query.plan, restart, lambda: store)
    assert bag(tuples(in_parts.rows)) == expected
    assert (in_parts.late.num_rows if in_parts.late is not None else 0) == len(late)
