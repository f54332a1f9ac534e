"""Random queries over all kinds of nodes, piled up, with conditions that tempt to be moved.

Every relation has the columns k, v and at, of which the last one progresses.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import Row, Stream, Table, database

SCHEMA = "k INT, v BIGINT, at BIGINT"
LENGTH = st.integers(0, 6)
CONDITIONS = (
    "TRUE",
    "{0}k = 1",
    "{0}v > 1 AND 1 < 2",
    "{0}k > 0 AND {0}v IS NOT NULL",
    "{0}at >= 5",
    "{0}at >= 3 AND {0}at < 2 * 6",
    "({0}k = 1 OR {0}v = 2)",
    "{0}k IS NULL",
    "CAST(least({0}v, 3) * 1000000000 AS INT) > 1",  # which fails for 3
)
BASE = st.sampled_from(["l", "r", "(SELECT k, v, at FROM l WHERE v > 0)", "hot", "cold"])
SPLIT = "SPLIT r INTO hot WHERE v > 1, cold OTHERWISE"
OF_ONE = (
    "(SELECT k, v, at FROM {0} a WHERE {c})",
    "(SELECT k, coalesce(v, 0) AS v, at FROM {0} a WHERE {c})",
    "(SELECT k + 0 AS k, v, at FROM {0} a)",
    "(SELECT DISTINCT k, v, at FROM {0} a WHERE {c})",
    "(SELECT DISTINCT ON (k) k, v, window_end AS at [RANGE 4, SLIDE 4, WA at] FROM {0} a)",
    "(SELECT k, count(v) AS v, window_end AS at [RANGE 4, SLIDE 2, WA at] FROM {0} a GROUP BY k)",
    "(SELECT DISTINCT k, max(v) AS v, window_end AS at [RANGE 6, SLIDE 3, WA at] FROM {0} a"
    " GROUP BY k HAVING {h})",
    "(SELECT k, min(v) AS v, window_end AS at [RANGE ALL, SLIDE 3, WA at] FROM {0} a GROUP BY k)",
    "(SELECT k, max(v) AS v, max(at) AS at, window_end AS w [RANGE 2 ROWS, SLIDE 1 ROW, PA k]"
    " FROM {0} a GROUP BY k HAVING {h})",
    "(SELECT 1 AS k, count(*) AS v, window_end AS at [RANGE 5, RATTR at, SLIDE 1 ROW] FROM {0} a)",
    "(SELECT k, max(v) AS v, at FROM {0} a GROUP BY k, at HAVING {h})",
    "(SELECT a.k AS k, w AS v, at FROM {0} a JOIN n ON a.k = n.k WHERE {c})",
    "(SELECT a.k AS k, w AS v, at FROM {0} a LEFT JOIN n ON a.k = n.k WHERE {c})",
    "(SELECT a.k AS k, v, at FROM {0} a ANTI JOIN n ON a.k = n.k)",
    "(SELECT k, v, at FROM {0} a WHERE k IN (SELECT k FROM n))",
    "(SELECT k, count(v) AS v, window_end AS at [SESSION GAP 2, WA at] FROM {0} a GROUP BY k)",
    "(SELECT k, sum(v) AS v, window_end AS at [RANGE 3 ROWS, SLIDE 2 ROWS, WA rank(at), PA k]"
    " FROM {0} a GROUP BY k)",
    "(SELECT DISTINCT ON (k) k, v, window_end AS at [RANGE 6, SLIDE 3, WA at] FROM {0} a"
    " ORDER BY at DESC)",
    "(SELECT a.k AS k, r.v AS v, a.at AS at FROM {0} a LEFT JOIN r AS OF a.at ON a.k = r.k)",
    "(SELECT a.k AS k, r.v AS v, r.at AS at"
    " FROM SEQUENCE({0} a THEN r MODE CHRONICLE WITHIN 4 KEEP SECOND ON a.k = r.k))",
    # the same twice, so that it can be computed once
    "(SELECT a.k AS k, b.v AS v, a.at AS at FROM {0} a [RANGE {1}], {0} b [RANGE {2}]"
    " WHERE a.k = b.k AND {a})",
    "(SELECT k, v, at FROM {0} p UNION ALL SELECT k, v, at FROM {0} p2 WHERE {c})",
    "(SELECT k, v, changed_at AS at FROM {0} a [RANGE {1}] EXCEPT ON (k) r [RANGE {2}, WA at])",
    "(SELECT k, v, changed_at AS at FROM l [RANGE {1}, WA at] EXCEPT ON (k) {0} a [RANGE {2}])",
    "(SELECT a.k AS k, r.v AS v, r.at AS at FROM SEQUENCE({0} a THEN r MODE RECENT ON a.k = r.k))",
    "(SELECT a.k AS k, r.v AS v, r.at AS at FROM SEQUENCE({0} a THEN r MODE CHRONICLE))",
    # rows beside each other
    "(SELECT k, sum(v) OVER (PARTITION BY k ORDER BY at RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)"
    " AS v, at FROM {0} a WHERE {c})",
    "(SELECT k, lead(v) OVER (PARTITION BY k ORDER BY at) AS v, at FROM {0} a)",
    "(SELECT k, v, at FROM (SELECT k, v, at, row_number() OVER (PARTITION BY at ORDER BY v DESC)"
    " AS n FROM {0} a) b WHERE n <= 1 AND {c})",
    "(SELECT k, v, at FROM (SELECT k, v, at, rank() OVER (PARTITION BY at, k ORDER BY v)"
    " AS n FROM {0} a) b WHERE n < 1 AND {c})",
    "(SELECT k, v, window_end AS at FROM WINDOWED({0} a [RANGE 6, SLIDE 3, WA at])"
    " ORDER BY v DESC NULLS LAST LIMIT 1 BY window_end, k)",
    # one tuple becomes several
    "(SELECT k, u.x AS v, at FROM {0} a CROSS JOIN UNNEST(ARRAY[v, 1]) AS u(x) WHERE {c})",
    "(SELECT k, count(v) AS v, window_end AS at [RANGE 4, SLIDE 2, WA at] FROM {0} a"
    " GROUP BY ROLLUP (k))",
)
OF_TWO = (
    "({0} UNION ALL {1})",
    "(SELECT k, v, at FROM {0} a UNION ALL SELECT k, v, at FROM {1} b WHERE {c})",
    "(SELECT a.k AS k, r.v AS v, a.at AS at FROM {0} a [RANGE {2}], {1} b [RANGE {3}],"
    " r [RANGE 3, WA at] WHERE a.k = b.k AND b.k = r.k AND {a})",
    "(SELECT a.k AS k, b.v AS v, a.at AS at FROM {0} a [RANGE {2}, WA at] FULL JOIN"
    " {1} b [RANGE {3}, WA at] ON a.k = b.k)",
    "(SELECT a.k AS k, a.v AS v, a.at AS at FROM {0} a [RANGE {2}] ANTI JOIN {1} b [RANGE {3}]"
    " ON a.k = b.k AND a.v = b.v)",
    "(SELECT a.k AS k, b.v AS v, a.at AS at FROM {0} a [RANGE {2}], {1} b [RANGE {3}]"
    " WHERE a.k = b.k AND {a})",
    "(SELECT a.k AS k, b.v AS v, a.at AS at FROM {0} a [RANGE {2}], {1} b [RANGE {3}] WHERE {a})",
    "(SELECT a.k AS k, b.v AS v, a.at AS at FROM {0} a, {1} b"
    " WHERE b.at >= a.at - 2 AND b.at <= a.at + 3 AND a.k = b.k AND {a})",
    "(SELECT a.k AS k, b.v AS v, a.at AS at FROM {0} a [RANGE {2}] LEFT JOIN {1} b [RANGE {3}]"
    " ON a.k = b.k)",
    "(SELECT a.k AS k, a.v AS v, a.at AS at FROM {0} a [RANGE {2}] SEMI JOIN {1} b [RANGE {3}]"
    " ON a.k = b.k WHERE {a})",
)
TOPS = (
    "SELECT k, v, at FROM {0} q WHERE {c}",
    "SELECT k, v FROM {0} q WHERE {c} AND k = v",
    "SELECT k, count(*) AS n [RANGE 4, SLIDE 2, WA at] FROM {0} q WHERE {c} GROUP BY k HAVING {h}",
    "SELECT DISTINCT k, at FROM (SELECT k, at, v + 1 AS w FROM {0} p) q WHERE k = 1",
    # answers that never complete
    "SELECT k, count(*) AS n, max(v) AS m FROM {0} q WHERE {c} GROUP BY k HAVING {h} EMIT CHANGES",
    "SELECT n, count(*) AS m FROM (SELECT k, v, count(*) AS n FROM {0} q GROUP BY k, v) p"
    " WHERE k = 1 GROUP BY n EMIT CHANGES",
    "SELECT a.k, a.v, r.v AS w FROM {0} a LEFT JOIN r ON a.k = r.k WHERE {a} EMIT CHANGES",
    "SELECT k, v, lag(v) OVER (PARTITION BY k ORDER BY at) AS w FROM {0} q WHERE {c} EMIT CHANGES",
    "SELECT k, v, n FROM (SELECT k, v, at, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n"
    " FROM {0} q) p WHERE n <= 2 AND {c} EMIT CHANGES",
    "SELECT k, m FROM (SELECT k, max(v) AS m FROM {0} q WHERE {c} GROUP BY k) p"
    " ORDER BY m DESC LIMIT 2 EMIT CHANGES",
)
HAVING = ("k = 1", "k > 0 AND max(v) > 1", "max(v) IS NOT NULL AND 1 = 1")
ROWS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, None]), st.sampled_from([0, 1, 2, 3, None]), st.integers(0, 15)
    ),
    max_size=8,
)


def _made(texts: tuple[str, ...], *below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    condition = st.sampled_from(CONDITIONS)
    return st.builds(
        lambda text, *given, c, a, h: text.format(
            *given, c=c.format(""), a=a.format("a."), h=h
        ).replace("WHERE k ", "WHERE a.k " if " JOIN n " in text else "WHERE k "),
        st.sampled_from(texts),
        *below,
        c=condition,
        a=condition,
        h=st.sampled_from(HAVING),
    )


def _above(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return _made(OF_ONE, below, LENGTH, LENGTH) | _made(OF_TWO, below, below, LENGTH, LENGTH)


QUERIES = _made(TOPS, st.recursive(BASE, _above, max_leaves=4))


def each_alone() -> Iterator[str]:
    """Every kind of query once, over plain streams."""
    filled = {"c": "TRUE", "a": "TRUE", "h": "k = 1"}
    for text in OF_ONE:
        yield TOPS[0].format(text.format("l", 3, 3, **filled), **filled)
    for text in OF_TWO:
        yield TOPS[0].format(text.format("l", "r", 3, 3, **filled), **filled)
    for text in TOPS:
        yield text.format("l", **filled)


def relations(left: list[Row], right: list[Row], delay: int) -> dict[str, Stream | Table]:
    promise = ps.progress("at", delay=delay)
    return {
        "l": Stream(SCHEMA, left, promise),
        "r": Stream(SCHEMA, right, promise),
        "n": Table("k INT, w BIGINT", [(1, 5), (1, None), (2, 7), (None, 1)]),
    }


def ask_any(sql: str, left: list[Row], right: list[Row], delay: int, late: str = "") -> ps.Query:
    """A query over these, and over the parts of one that is split; `late` is what becomes of late
    tuples."""
    db = database(**relations(left, right, delay))
    db.sql(SPLIT)
    text, *changes = sql.partition(" EMIT CHANGES")
    query = db.sql(f"{text} {late}{''.join(changes)}")
    assert isinstance(query, ps.Query)
    return query
