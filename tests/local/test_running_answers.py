"""EMIT CHANGES: what is left of the changes is the answer, at the end and whenever somebody looks.

Under every cut, order of arrival and restart; nothing is taken back that is not there; and a batch
changes the row of a group once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.state import MemoryStore
from penstock.runs.collected_answer import final_rows
from tests.local.helpers import recut
from tests.local.resumed import Part, run_in_parts
from tests.local.test_every_way import CALLS, SCHEMA
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples

GROUPED = "SELECT {keys}, {calls} FROM s GROUP BY {keys} EMIT CHANGES"
QUERIES = (
    GROUPED,
    "SELECT {calls} FROM s EMIT CHANGES",
    "SELECT DISTINCT k, x FROM s EMIT CHANGES",
    "SELECT n, {outer} FROM (SELECT k, s, x, count(*) AS n, max(y) AS y FROM s GROUP BY k, s, x) q"
    " GROUP BY n EMIT CHANGES",
    "SELECT y, n FROM (SELECT k, max(y) AS y, count(*) AS n FROM s GROUP BY k) q WHERE n > 1"
    " EMIT CHANGES",
    "SELECT DISTINCT n FROM (SELECT k, count(*) AS n FROM s GROUP BY k) q EMIT CHANGES",
    "SELECT k FROM s EXCEPT SELECT s AS k FROM r EMIT CHANGES",
    "SELECT k FROM s INTERSECT SELECT s AS k FROM r EMIT CHANGES",
    "SELECT a.k, a.x, b.x AS bx FROM s a JOIN r b ON a.k = b.k EMIT CHANGES",
    "SELECT a.k, a.x, b.s, b.x AS bx FROM s a LEFT JOIN r b ON a.k = b.k AND a.x < b.x"
    " EMIT CHANGES",
    "SELECT a.k, a.x, b.s, b.x AS bx FROM s a FULL JOIN r b ON a.x = b.x AND a.s = b.s"
    " EMIT CHANGES",
    "SELECT a.k, b.k AS bk FROM s a RIGHT JOIN r b ON a.y > b.y EMIT CHANGES",
    "SELECT k, x FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = s.k AND r.x <> s.x) EMIT CHANGES",
    "SELECT k, x FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = s.k) EMIT CHANGES",
    "SELECT a.k, a.n, b.m FROM (SELECT k, count(*) AS n FROM s GROUP BY k) a FULL JOIN"
    " (SELECT k, max(x) AS m FROM r GROUP BY k) b ON a.k = b.k AND n <> m EMIT CHANGES",
    "SELECT a.k, a.n FROM (SELECT k, count(*) AS n FROM s GROUP BY k) a WHERE EXISTS"
    " (SELECT 1 FROM (SELECT x % 3 AS z, count(*) AS n FROM r GROUP BY z) b WHERE a.n = b.n)"
    " EMIT CHANGES",
    "SELECT a.k, sum(b.x) AS total, min(b.s) AS least FROM s a LEFT JOIN r b ON a.k = b.k"
    " GROUP BY a.k EMIT CHANGES",
    # the first rows of all: few are kept of tuples that stay, and all that may be taken back
    "SELECT k, x, y FROM s ORDER BY x DESC, s LIMIT 3 EMIT CHANGES",
    "SELECT k, x, s FROM s ORDER BY y LIMIT 1 BY k EMIT CHANGES",
    "SELECT DISTINCT ON (k, s) k, s, x FROM s ORDER BY t DESC EMIT CHANGES",
    "SELECT k, x, y FROM s ORDER BY x DESC, s LIMIT 2 OFFSET 1 EMIT CHANGES",
    "SELECT k, n FROM (SELECT k, s, count(*) AS n FROM s GROUP BY k, s) q ORDER BY n"
    " LIMIT 1 OFFSET 1 BY k EMIT CHANGES",
    "SELECT s, ntile(2) OVER w AS part, cume_dist() OVER w AS share, lead(x) IGNORE NULLS OVER w AS"
    " next, count(*) OVER (PARTITION BY k ORDER BY x GROUPS 1 PRECEDING) AS n FROM s"
    " WINDOW w AS (PARTITION BY k ORDER BY x) EMIT CHANGES",
    "SELECT k, n, place FROM (SELECT *, rank() OVER (PARTITION BY n ORDER BY y DESC) AS place FROM"
    " (SELECT k, s, count(*) AS n, max(y) AS y FROM s GROUP BY k, s)) WHERE place <= 2"
    " EMIT CHANGES",
    "SELECT k, s, x, dense_rank() OVER (PARTITION BY s ORDER BY x) AS place, y FROM s"
    " QUALIFY place < 3 EMIT CHANGES",
    "SELECT s, x, lag(x) OVER w AS before, sum(x) OVER w AS total, count(*) OVER (PARTITION BY k)"
    " AS n FROM s WINDOW w AS (PARTITION BY s ORDER BY x DESC, k) EMIT CHANGES",
    "SELECT max(x) AS m, count(*) AS n FROM (SELECT k, x FROM s ORDER BY x LIMIT 2 BY k) q"
    " EMIT CHANGES",
    "SELECT a.k, b.x FROM (SELECT k, count(*) AS n FROM s GROUP BY k ORDER BY n DESC LIMIT 1) a"
    " JOIN (SELECT k, x FROM r ORDER BY x LIMIT 2 BY k) b ON a.k = b.k EMIT CHANGES",
    # what completes says its changes, too
    "SELECT k, count(*) AS n, max(x) AS m [RANGE 10, SLIDE 4, WA t] FROM s GROUP BY k LATE SIDE"
    " EMIT CHANGES",
    "SELECT t, {calls} FROM s GROUP BY t, k LATE SIDE EMIT CHANGES",
    "SELECT k, {calls} FROM s GROUP BY k LATE SIDE EMIT CHANGES KEEP FOR 5",
    "SELECT e % 3 AS e, max(n) AS m FROM (SELECT window_end AS e, count(*) AS n"
    " [RANGE 10, SLIDE 4, WA t] FROM s GROUP BY k) q GROUP BY e % 3 LATE SIDE EMIT CHANGES",
)
WHOLE = QUERIES[:28]  # whose answer so far is that over the tuples so far
OUTER = ("count(*)", "sum(x)", "max(y)", "min(s)", "avg(x)", "count(DISTINCT k)", "median(x)")
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, -1, 0, 1, 2]),
        st.sampled_from([None, 0.0, 0.1, 1e16, -1e16, float("inf"), float("nan")]),
        st.sampled_from([None, "", "a", "b"]),
        st.integers(-20, 30),
    ),
    min_size=1,
    max_size=16,
)


def written(query: str, calls: list[str], outer: list[str], keys: str) -> str:
    named = [", ".join(f"{c} AS a{n}" for n, c in enumerate(each)) for each in (calls, outer)]
    return query.format(calls=named[0], outer=named[1], keys=keys)


@settings(deadline=None, max_examples=120)
@given(
    rows=ROWS,
    others=ROWS,
    query=st.sampled_from(QUERIES),
    calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True),
    outer=st.lists(st.sampled_from(OUTER), min_size=1, max_size=3, unique=True),
    keys=st.sampled_from(["k", "k, s", "s, x"]),
    cut=st.sampled_from([1, 2, 5, None]),
    restart=st.sampled_from([1, 3, 1000]),
)
def test_the_changes_sum_up_to_the_answer(
    rows: list[Row],
    others: list[Row],
    query: str,
    calls: list[str],
    outer: list[str],
    keys: str,
    cut: int | None,
    restart: int,
) -> None:
    sql = written(query, calls, outer, keys)
    progress = ps.progress("t", delay=4)
    streams = {"s": Stream(SCHEMA, rows, progress), "r": Stream(SCHEMA, others, progress)}
    reference = ask(sql, **streams)
    db = database(**streams)
    recut(db, cut)
    bound = db.sql(sql)
    assert isinstance(bound, ps.Query)
    store = MemoryStore()
    found = run_in_parts(bound.plan, restart, lambda: store)
    assert bag(tuples(final_rows(found.rows, "_sign"))) == bag(tuples(reference.collect()))
    late = found.late
    assert bag(tuples(late) if late is not None else []) == bag(tuples(reference.late))


@settings(deadline=None, max_examples=50)
@given(
    rows=ROWS,
    others=ROWS,
    query=st.sampled_from(WHOLE),
    calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True),
    outer=st.lists(st.sampled_from(OUTER), min_size=1, max_size=3, unique=True),
    cut=st.sampled_from([1, 2, 5]),
)
def test_they_do_whenever_somebody_looks(
    rows: list[Row],
    others: list[Row],
    query: str,
    calls: list[str],
    outer: list[str],
    cut: int,
) -> None:
    sql = written(query, calls, outer, "k, s")
    given_rows = {"s": rows, "r": others}
    streams = {name: Stream(SCHEMA, each) for name, each in given_rows.items()}
    if "first(" in sql or "last(" in sql:
        streams = {
            name: each._replace(progress=ps.progress("t", delay=4))
            for name, each in streams.items()
        }
    db = database(**streams)
    recut(db, cut)
    bound = db.sql(sql)
    assert isinstance(bound, ps.Query)
    part = Part(bound.plan, MemoryStore())
    seen: Counter[Any] = Counter()
    read = dict.fromkeys(given_rows, 0)
    for scan, chunk in part._left():
        if chunk is None:
            part.run.end(scan)
            continue
        said = part.rows.table.num_rows
        part.run.feed(scan, chunk)
        changes = tuples(part.rows.table.slice(said))
        for *values, sign in changes:
            row = repr(bag([tuple(values)])[0])
            seen[row] += sign
            assert seen[row] >= 0, "taken back, and was not there"
        read[scan.ingest.stream.name] += chunk.batch.num_rows
        prefix = {
            name: stream._replace(rows=stream.rows[: read[name]])
            for name, stream in streams.items()
        }
        assert seen == Counter(map(repr, bag(tuples(ask(sql, **prefix).collect()))))
        if query == GROUPED:
            groups = Counter((*bag([values[:2]])[0], sign) for *values, sign in changes)
            assert set(groups.values()) <= {1}, "a group changed twice in a batch"


@pytest.mark.parametrize("rows", [5_000, 20_000])
def test_many_groups_that_go_again(rows: int) -> None:
    """Groups of an answer that changes come and go: nothing is left of those that are gone."""
    sql = (
        "SELECT total, count(*) AS n, min(k) AS least FROM"
        " (SELECT k, sum(x) AS total FROM s GROUP BY k) q GROUP BY total EMIT CHANGES"
    )
    stream = Stream("k INT, x INT", [(number % 7, number) for number in range(rows)])
    db = database(s=stream)
    recut(db, 1000)
    bound = db.sql(sql)
    assert isinstance(bound, ps.Query)
    store = MemoryStore()
    found = run_in_parts(bound.plan, 3, lambda: store)
    assert bag(tuples(final_rows(found.rows, "_sign"))) == bag(tuples(ask(sql, s=stream).collect()))
