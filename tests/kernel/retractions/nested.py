"""Random queries over signed items: differences, joins, unions and DISTINCT above each other."""

from __future__ import annotations

from hypothesis import strategies as st

LENGTH = st.integers(0, 6)
ITEMS_OF_L = "l [RANGE {}, WA t] EXCEPT ON (k) r [RANGE {}, WA t]"
BASE = st.builds(
    f"(SELECT k, v, changed_at AS at FROM {ITEMS_OF_L})".format,
    LENGTH,
    LENGTH,
)
OF_ONE = (
    "(SELECT k, v, at FROM {0} WHERE v = 1)",
    "(SELECT k, v, CAST(at * 0.5 AS INT) AS at FROM {0})",
    "(SELECT DISTINCT k, v, at FROM {0})",
    "(SELECT DISTINCT k, 1 AS v, at FROM {0})",
    "(SELECT k, v, changed_at AS at FROM {0} x [RANGE {1}] EXCEPT ON (v) o [RANGE {2}, WA t])",
    "(SELECT k, v, changed_at AS at FROM o [RANGE {1}, WA t] EXCEPT ON (k) {0} x [RANGE {2}])",
    "(SELECT x.k AS k, o.v AS v, x.at AS at FROM {0} x [RANGE {1}], o [RANGE {2}] WHERE x.k = o.k)",
    "(SELECT o.k AS k, x.v AS v, o.t AS at FROM o [RANGE {1}], {0} x [RANGE {2}] WHERE x.v <= o.v)",
    "({0} UNION ALL (SELECT k, v, t AS at FROM o))",
)
OF_TWO = (
    "({0} UNION ALL {1})",
    "(SELECT x.k AS k, y.v AS v, y.at AS at FROM {0} x [RANGE {2}], {1} y [RANGE {3}]"
    " WHERE x.k = y.k)",
    "(SELECT y.k AS k, x.v AS v, x.at AS at FROM {0} x [RANGE {2}], {1} y [RANGE {3}]"
    " WHERE x.at = y.at)",
    "(SELECT k, v, changed_at AS at FROM {0} x [RANGE {2}] EXCEPT ON (k, v) {1} y [RANGE {3}])",
)


def _above(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.builds(str.format, st.sampled_from(OF_ONE), below, LENGTH, LENGTH)
    return one | st.builds(str.format, st.sampled_from(OF_TWO), below, below, LENGTH, LENGTH)


ITEMS = st.recursive(BASE, _above, max_leaves=3)
SELECTS = (
    "SELECT k, v, at FROM {0}",
    "SELECT count(*) AS n, sum(v) AS s, max(at) AS hi [RANGE 6, SLIDE 2, WA at] FROM {0}",
    "SELECT k, count(*) AS n, max(v) AS s [RANGE ALL, SLIDE 3, WA at] FROM {0} GROUP BY k",
    "SELECT sum(v) AS s, min(at) AS lo [RANGE 5, RATTR at, SLIDE 1 ROW] FROM {0}",
    "SELECT CAST(at * 0.25 AS INT) AS u, v, count(*) AS n FROM {0}"
    " GROUP BY CAST(at * 0.25 AS INT), v",
)
QUERIES = st.builds(str.format, st.sampled_from(SELECTS), ITEMS)
