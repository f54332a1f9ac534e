"""Pairs of signed items in windows, groups, DISTINCT and differences, against the reference engine,
however tuples come.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from tests.kernel.joins.interleaved import check
from tests.kernel.retractions.test_against_reference import (
    EVERY,
    LATE,
    PROMISE,
    RANGE,
    ROWS,
    TURNS,
    examples,
    streams,
    window,
)
from tests.reference.helpers import Row, tuples

ITEMS = "(SELECT k, v, x, changed_at FROM l {0} EXCEPT ON (k) r {1})"
TRUNCATED = (
    "(SELECT k, v, x, CAST(changed_at * 0.5 AS INT) AS changed_at FROM l {0} EXCEPT ON (k) r)"
)
DISTINCT = "(SELECT DISTINCT k, v, changed_at FROM l {0} EXCEPT ON (k) r {1})"
PLAIN_TOO = (
    "((SELECT k, v, changed_at FROM l {0} EXCEPT ON (k) r)"
    " UNION ALL (SELECT k, v, t AS changed_at FROM l))"
)
OTHER = "(SELECT k, v, changed_at FROM l {1} EXCEPT ON (v) o)"
COUNTED = "(SELECT k, count(*) AS v, window_end AS t [RANGE 4, SLIDE 2, WA t] FROM o GROUP BY k)"
# what is joined: pairs have columns d.k, d.v, d.changed_at, e.v and the time of the other, e.u
JOINS = [
    f"{ITEMS} d [RANGE 5], (SELECT k, v, t AS u FROM o) e [RANGE 3] WHERE d.k = e.k",
    f"{ITEMS} d [RANGE 4], (SELECT k, v, t AS u FROM o) e [RANGE 4] WHERE d.v < e.v",
    f"(SELECT k, v, t AS u FROM o) e [RANGE 9], {DISTINCT} d [RANGE 9] WHERE d.k = e.k",
    f"{TRUNCATED} d [RANGE 4], (SELECT k, v, t AS u FROM o) e [RANGE 9] WHERE d.k = e.k",
    f"{ITEMS} d [RANGE 9], (SELECT k, v, changed_at AS u FROM {OTHER}) e [RANGE 9] WHERE d.k = e.k",
    f"{ITEMS} d [RANGE 9], (SELECT k, v, changed_at AS u FROM {OTHER}) e [RANGE 2]"
    " WHERE d.v = e.v AND d.changed_at = e.u",
    f"{PLAIN_TOO} d [RANGE 6], (SELECT k, v, changed_at AS u FROM {OTHER}) e [RANGE 6]"
    " WHERE d.v = e.v",
    f"{ITEMS} d [RANGE 6], (SELECT k, v, t AS u FROM {COUNTED}) e [RANGE 6] WHERE d.k = e.k",
    f"{ITEMS} d [RANGE 6], (SELECT k, v, t AS u FROM o) e [RANGE 6], r [RANGE 4]"
    " WHERE d.k = e.k AND r.v = e.v",
    f"{ITEMS} d [RANGE 9], (SELECT k, v, changed_at AS u FROM {OTHER}) e [RANGE 9], r [RANGE 9]"
    " WHERE d.k = r.k AND r.v = e.v",
]
CALLS = (
    "count(*) AS c, sum(d.v) AS s, max(d.changed_at) AS hi, min(e.u) AS lo, first(e.v) AS f,"
    " last(d.changed_at) AS l"
)
PAIRS = "(SELECT d.k AS k, d.v AS v, d.changed_at AS at FROM {0})"
SELECTS = [
    f"SELECT {CALLS} [RANGE 6, SLIDE 2, WA d.changed_at] FROM {{0}}",
    f"SELECT {CALLS} [RANGE 6, SLIDE 6, WA e.u] FROM {{0}}",
    f"SELECT e.v, {CALLS} [RANGE 6, SLIDE 3, WA e.u] FROM {{0}} GROUP BY e.v",
    f"SELECT {CALLS} [RANGE ALL, SLIDE 3, WA e.u] FROM {{0}}",
    f"SELECT d.k, {CALLS} [RANGE ALL, SLIDE 4, WA d.changed_at] FROM {{0}} GROUP BY d.k",
    f"SELECT {CALLS} [RANGE 6, SLIDE 3, WA CAST(d.changed_at * 0.3 AS INT)] FROM {{0}}",
    f"SELECT {CALLS} [RANGE 5, RATTR e.u, SLIDE 1 ROW, SATTR row-num] FROM {{0}}",
    f"SELECT {CALLS} [RANGE 5, RATTR e.u, SLIDE 1 ROW, SATTR row-num, PA d.k] FROM {{0}}",
    f"SELECT {CALLS} FROM {{0}} GROUP BY CAST(d.changed_at * 0.25 AS INT), e.v",
    f"SELECT {CALLS} FROM {{0}} GROUP BY e.u, d.changed_at",
    f"SELECT DISTINCT k, at FROM {PAIRS}",
    f"SELECT k, count(*) AS c [RANGE 4, SLIDE 2, WA at] FROM (SELECT DISTINCT k, at FROM {PAIRS})"
    " GROUP BY k",
    f"SELECT count(*) AS c [RANGE 3 ROWS, SLIDE 2 ROWS] FROM (SELECT DISTINCT v, at FROM {PAIRS})",
    f"SELECT * FROM {PAIRS} p [RANGE 3] EXCEPT ON (k) r [RANGE 2, WA t]",
    f"SELECT * FROM l EXCEPT ON (v) {PAIRS} p",
    f"SELECT k, count(*) AS c, max(at) AS m [RANGE 5, SLIDE 2, WA changed_at]"
    f" FROM {PAIRS} p [RANGE 4] EXCEPT ON (k) r [RANGE 2, WA t] GROUP BY k",
    f"SELECT p.k, p.at, count(*) AS c FROM {PAIRS} p [RANGE 3], o [RANGE 3] WHERE p.k = o.k"
    " GROUP BY p.k, p.at",
    "SELECT d.k, d.changed_at, e.u FROM {0}",
]


@examples
@given(
    rows=st.tuples(ROWS, ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE),
    join=st.sampled_from(JOINS),
    select=st.sampled_from(SELECTS),
    late=LATE,
    turns=TURNS,
    every=EVERY,
)
def test_pairs(
    rows: Any,
    promises: Any,
    ranges: Any,
    join: str,
    select: str,
    late: str,
    turns: list[int],
    every: Any,
) -> None:
    relation = join.format(*map(window, ranges))
    check(f"{select.format(relation)} {late}", streams(rows, promises), turns, every)


STREAMS = """
CREATE STREAM l (k STRING, t INT) FROM VALUES ('a', 1) PROGRESS ON t ORDERED;
CREATE STREAM r (k STRING, t INT) FROM VALUES ('a', 4) PROGRESS ON t ORDERED;
CREATE TABLE m (k STRING, c INT) FROM VALUES ('a', 0), ('a', 1);
"""
LOOKED_UP = "(SELECT k, changed_at FROM l EXCEPT ON (k) r [RANGE 1, WA t]) d JOIN m ON d.k = m.k"


@pytest.mark.parametrize("engine", ["reference", "local"])
@pytest.mark.parametrize(
    ("select", "expected"),
    [
        # the tuple comes at 1 and 6, and goes at 4: what is left is what came last
        ("count(*) AS n, max(changed_at) AS at"
         " [RANGE 9, SLIDE 9, WA CAST(changed_at * 0.1 AS INT)] FROM {}", [(2, 6)]),
        # what comes beside one row of a table is not taken back by what goes beside the other
        ("count(*) AS n, max(c) AS c [RANGE 5, SLIDE 5, WA changed_at] FROM {}"
         " WHERE (changed_at + c) % 2 = 0", [(1, 1), (1, 0)]),
    ],
)  # fmt: skip
def test_beside_rows_of_a_table(engine: Any, select: str, expected: list[Row]) -> None:
    db = ps.connect(engine)
    *_, query = db.script(f"{STREAMS} SELECT {select.format(LOOKED_UP)}")
    assert isinstance(query, ps.Query)
    assert [row[2:] for row in tuples(query.collect())] == expected
