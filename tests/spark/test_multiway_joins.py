"""Joins of several streams with a key in common, in the buckets of one stage, against the reference
engine: whatever the cut into micro-batches, the number of buckets and the restarts are."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.explain import explain_physical
from tests.planning import on_spark
from tests.reference.helpers import Row
from tests.spark.test_every_cut import cuts
from tests.spark.test_joins import ROWS, RULES, asked, run

WINDOWS = "s [RANGE 5], r [RANGE 3], s AS q [RANGE 4]"
SELECTS = [
    f"SELECT s.x AS x, r.x AS y, q.x AS z FROM {WINDOWS} WHERE s.k = r.k AND r.k = q.k",
    f"SELECT s.x AS x, r.t AS t FROM {WINDOWS} WHERE s.f = r.f AND q.f = s.f AND s.x <= q.x",
    "SELECT s.x AS x, r.x AS y, q.x AS z FROM s, r, s AS q WHERE r.t BETWEEN s.t - 1 AND s.t + 2"
    " AND q.t BETWEEN r.t AND r.t + 1 AND s.k = r.k AND r.k = q.k",
    "SELECT s.k AS k, count(*) AS n, sum(r.x) AS z [RANGE 10, SLIDE 5, WA s.t]"
    f" FROM {WINDOWS} WHERE s.k = r.k AND r.k = q.k GROUP BY s.k",
    f"SELECT s.t AS a, q.t AS b, count(*) AS n FROM {WINDOWS} WHERE s.k = r.k AND r.k = q.k"
    " GROUP BY s.t, q.t",
]


@settings(max_examples=25)
@given(
    data=st.data(),
    rule=st.sampled_from(RULES),
    select=st.sampled_from(SELECTS),
    late=st.sampled_from(["", " LATE SIDE", " LATE AMEND", " LATE AMEND FOR 5"]),
    s=ROWS,
    r=ROWS,
    buckets=st.sampled_from([1, 2, 3]),
    restarts=st.sets(st.integers(0, 3), max_size=2),
)
def test_every_cut(
    data: st.DataObject,
    rule: dict[str, Any],
    select: str,
    late: str,
    s: list[Row],
    r: list[Row],
    buckets: int,
    restarts: set[int],
) -> None:
    query = asked(select + late, rule, s, r)
    planned = {"s": data.draw(cuts(len(s))), "r": data.draw(cuts(len(r)))}
    run(query, planned, buckets, restarts)


def test_what_runs_in_the_buckets() -> None:
    shown = explain_physical(on_spark(asked(SELECTS[0], {"delay": 4}, [], []).plan))
    assert shown.count("MultiwayJoin: Join ON") == 1
    assert "port 2: tuples meet by q.k" in shown
