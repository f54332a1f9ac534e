"""EMIT CHANGES against DuckDB: whenever somebody looks, the changes so far sum up to what DuckDB
answers over the tuples so far, with NULLs, duplicates and times below zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, cycle
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.kernel.state import MemoryStore
from penstock.local.graph.source_node import SourceNode
from tests.local.helpers import recut
from tests.local.resumed import Part
from tests.reference.helpers import Stream, database, tuples

Row = tuple[Any, ...]
SCHEMA = "n INT, k STRING, x INT, y DOUBLE, t INT"
TYPES = [pa.int32(), pa.string(), pa.int32(), pa.float64(), pa.int32()]
NAMES = ["n", "k", "x", "y", "t"]
FIRST = "row_number() OVER (PARTITION BY {by} ORDER BY {order})"

SAME = [  # in both languages
    "SELECT k, count(*) AS c, count(x) AS cx, sum(x) AS sx, min(x) AS lo, max(y) AS hi,"
    " avg(x) AS ax, count(DISTINCT x) AS dx, sum(x) FILTER (WHERE y > 0) AS fx,"
    " bool_or(x > 1) AS some FROM s GROUP BY k",
    "SELECT k, t, max(n) AS last FROM s WHERE x IS NOT NULL GROUP BY k, t HAVING count(*) > 1",
    "SELECT k, x, count(*) AS c FROM s GROUP BY GROUPING SETS ((k), (x), (k, x))",
    "SELECT c, count(*) AS groups, sum(sx) AS total FROM (SELECT k, count(*) AS c, sum(x) AS sx"
    " FROM s GROUP BY k) q GROUP BY c",
    "SELECT DISTINCT k, x FROM s",
    "SELECT DISTINCT c FROM (SELECT k, count(*) AS c FROM s GROUP BY k) q",
    "SELECT k FROM s UNION SELECT k FROM r",
    "SELECT k, x FROM s EXCEPT SELECT k, x FROM r",
    "SELECT k, x FROM s INTERSECT SELECT k, x FROM r",
    "SELECT s.n, r.n AS m FROM s JOIN r ON s.k = r.k AND s.x <= r.x",
    "SELECT s.n, r.n AS m FROM s LEFT JOIN r ON s.k = r.k AND s.t < r.t",
    "SELECT s.n, r.n AS m FROM s RIGHT JOIN r ON s.x = r.x AND s.y > r.y",
    "SELECT s.n, r.n AS m FROM s FULL JOIN r ON s.k = r.k AND s.x = r.x",
    "SELECT k, s.n, r.n AS m FROM s FULL JOIN r USING (k)",
    "SELECT s.n FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = s.k AND r.x > s.x)",
    "SELECT s.n FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = s.k)",
    "SELECT n FROM s WHERE k IN (SELECT k FROM r)",
    "SELECT k, count(m) AS c, sum(z) AS total FROM (SELECT s.k, r.n AS m, r.x AS z FROM s"
    " LEFT JOIN r ON s.k = r.k) q GROUP BY k",
    "SELECT a.k, c, d FROM (SELECT k, count(*) AS c FROM s GROUP BY k) a FULL JOIN"
    " (SELECT k, max(x) AS d FROM r GROUP BY k) b ON a.k = b.k",
    "SELECT n, x FROM s ORDER BY x NULLS LAST, n LIMIT 3",
    "SELECT n, x FROM s ORDER BY x DESC NULLS LAST, n DESC LIMIT 2 OFFSET 1",
    "SELECT n FROM s ORDER BY t, n OFFSET 2",
    "SELECT k, c FROM (SELECT k, count(*) AS c FROM s GROUP BY k) q ORDER BY c DESC, k NULLS LAST"
    " LIMIT 2",
    "SELECT n, sum(x) OVER w AS sx, rank() OVER w AS r, lag(x) OVER w AS before,"
    " lead(y, 2) OVER w AS later, ntile(2) OVER w AS half, cume_dist() OVER w AS share FROM s"
    " WINDOW w AS (PARTITION BY k ORDER BY t, n)",
    "SELECT n, count(*) OVER (PARTITION BY k) AS c, max(x) OVER (ORDER BY t GROUPS 1 PRECEDING)"
    " AS m, last_value(x IGNORE NULLS) OVER (ORDER BY t, n) AS latest FROM s",
    "SELECT n, dense_rank() OVER (PARTITION BY k ORDER BY x NULLS LAST) AS d FROM s QUALIFY d < 3",
    "SELECT c, rank() OVER (ORDER BY c DESC) AS place FROM"
    " (SELECT k, count(*) AS c FROM s GROUP BY k) q",
]
PAIRS = [
    (
        "SELECT n FROM s ORDER BY x NULLS FIRST, n LIMIT 2 BY k",
        f"SELECT n FROM s QUALIFY {FIRST.format(by='k', order='x NULLS FIRST, n')} <= 2",
    ),
    (
        "SELECT n, c FROM (SELECT k, x, count(*) AS c, max(n) AS n FROM s GROUP BY k, x) q"
        " ORDER BY c DESC, n LIMIT 1 OFFSET 1 BY k",
        "SELECT n, c FROM (SELECT k, x, count(*) AS c, max(n) AS n FROM s GROUP BY k, x) q"
        f" QUALIFY {FIRST.format(by='k', order='c DESC, n')} = 2",
    ),
    (
        "SELECT DISTINCT ON (k) n, k, x FROM s ORDER BY t DESC",
        f"SELECT n, k, x FROM s QUALIFY {FIRST.format(by='k', order='t DESC, n')} = 1",
    ),
    (
        "SELECT count(*) AS c, sum(x) AS sx, min(y) AS lo FROM s",
        "SELECT count(*) AS c, sum(x) AS sx, min(y) AS lo FROM s HAVING count(*) > 0",
    ),
    (
        "SELECT i, count(*) AS c FROM s CROSS JOIN UNNEST(ARRAY[x, n % 2]) AS u(i) GROUP BY i",
        "SELECT i, count(*) AS c FROM (SELECT unnest([x, n % 2]) AS i FROM s) GROUP BY i",
    ),
]
QUERIES = [*((each, each) for each in SAME), *PAIRS]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", None]),
        st.sampled_from([None, -1, 0, 1, 2]),
        st.sampled_from([None, 0.5, -2.25, 4.0]),
        st.integers(-9, 9),
    ),
    max_size=14,
)


@pytest.mark.parametrize(("sql", "in_duckdb"), QUERIES)
@settings(deadline=None, max_examples=6)
@given(
    rows=ROWS,
    others=ROWS,
    cut=st.sampled_from([1, 2, 3, 5, 14]),
    turns=st.lists(st.integers(0, 1), min_size=1, max_size=9),
)
def test_the_sum_of_changes(
    sql: str, in_duckdb: str, rows: list[Row], others: list[Row], cut: int, turns: list[int]
) -> None:
    streams = {
        name: Stream(SCHEMA, [(number, *row) for number, row in enumerate(each)])
        for name, each in (("s", rows), ("r", others))
    }
    db = database(**streams)
    recut(db, cut)
    query = db.sql(f"{sql} EMIT CHANGES")
    assert isinstance(query, ps.Query)
    part = Part(query.plan, MemoryStore())
    seen: Counter[str] = Counter()
    read = dict.fromkeys(streams, 0)
    with duckdb.connect() as connection:
        for scan, chunk in _in_turn(part, turns):
            said = part.rows.table.num_rows
            if chunk is None:
                part.run.end(scan)
            else:
                part.run.feed(scan, chunk)
                read[scan.ingest.stream.name] += chunk.batch.num_rows
            for *values, sign in tuples(part.rows.table.slice(said)):
                seen[repr(values)] += sign
                assert seen[repr(values)] >= 0, "taken back, and was not there"
            for name, stream in streams.items():
                connection.register(name, _table(stream.rows[: read[name]]))
            expected = connection.sql(in_duckdb).fetchall()
            assert +seen == Counter(repr(list(row)) for row in expected)


def _in_turn(part: Part, turns: list[int]) -> Iterator[tuple[SourceNode, Chunk | None]]:
    """What the streams have, one piece of one of them after the other."""
    left = [(scan, chain(scan.chunks(), [None])) for scan in part.run.scans]
    for turn in cycle(turns):
        scan, chunks = left[turn % len(left)]
        chunk = next(chunks)
        yield scan, chunk
        if chunk is None:
            left.pop(turn % len(left))
        if not left:
            return


def _table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(NAMES)
    arrays = [pa.array(each, of) for each, of in zip(columns, TYPES, strict=True)]
    return pa.table(arrays, names=NAMES)
