"""A query that asks several times for one stream, by SPLIT or with itself, in process: rows, late
tuples and accounts of the reference, from one reading; and from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.local.checkpoint import Checkpoints
from tests.local.helpers import CUTS, examples, locally
from tests.reference.helpers import Stream, bag, database, tuples

SPLIT = "SPLIT s INTO hot WHERE n > 30, cold WHERE n < 10, mild OTHERWISE;"
COUNTS = "count(*) AS c [RANGE 10, SLIDE 5, WA t]"
BOTH = "(SELECT k, t FROM hot UNION ALL SELECT k, t FROM cold)"
QUERIES = {
    "join": "SELECT h.k, h.t, c.t FROM hot h JOIN cold c ON h.k = c.k"
    " AND c.t BETWEEN h.t - 2 AND h.t + 3 LATE SIDE",
    "outer": "SELECT h.k, h.t, c.t FROM hot h LEFT JOIN cold c ON h.k = c.k"
    " AND c.t BETWEEN h.t - 2 AND h.t + 3 LATE SIDE",
    "union": f"SELECT k, t FROM {BOTH}",
    "window of a union": f"SELECT k, {COUNTS} FROM {BOTH} GROUP BY k LATE SIDE",
    "union of windows": f"SELECT k, c FROM (SELECT k, {COUNTS} FROM hot GROUP BY k)"
    f" UNION ALL SELECT k, c FROM (SELECT k, {COUNTS} FROM cold GROUP BY k) LATE SIDE",
    "join of windows": f"SELECT a.k, a.c, b.c, a.window_start FROM (SELECT k, {COUNTS} FROM hot"
    f" GROUP BY k) a JOIN (SELECT k, {COUNTS} FROM cold GROUP BY k) b"
    " ON a.k = b.k AND a.window_start = b.window_start LATE SIDE",
    "rows and windows": "SELECT k, t FROM mild UNION ALL SELECT k, t FROM"
    " (SELECT k, max(t) AS t [RANGE 10, SLIDE 5, WA t] FROM hot GROUP BY k) LATE SIDE",
    "tuples and results": f"SELECT m.k, m.t, w.c FROM mild m JOIN (SELECT k, {COUNTS} FROM hot"
    " GROUP BY k) w ON m.k = w.k AND m.t = w.window_start LATE SIDE",
    "with itself": "SELECT a.n, b.n FROM s a JOIN s b ON a.k = b.k"
    " AND b.t BETWEEN a.t AND a.t + 2 LATE SIDE",
    "difference": "SELECT * FROM hot [RANGE 5, WA t] EXCEPT ON (k) cold [RANGE 4, WA t]",
    "rows as they come": "SELECT count(*) AS c, max(t) AS m [RANGE 3 ROWS, SLIDE 2 ROWS]"
    f" FROM {BOTH}",
}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.none() | st.integers(0, 40),
        st.none() | st.integers(0, 25),
    ),
    max_size=14,
)
RULES: list[dict[str, Any]] = [{"delay": 0}, {"delay": 4}, {"slack": 1}, {"ordered": True}]


def stream(rows: list[Any], **rule: Any) -> Stream:
    return Stream("k STRING, n INT, t INT", rows, ps.progress("t", **rule))


@given(
    rows=ROWS,
    rule=st.sampled_from(RULES),
    name=st.sampled_from(sorted(QUERIES)),
    cut=st.sampled_from(CUTS),
)
@examples
def test_as_the_reference_has_it(rows: list[Any], rule: Any, name: str, cut: int | None) -> None:
    sql, given_ = SPLIT + QUERIES[name], stream(rows, **rule)
    known = database(s=given_).sql(sql)
    assert isinstance(known, ps.Query)
    table = known.collect()
    found = locally(sql, cut, s=given_)
    assert bag(tuples(found.table)) == bag(tuples(table))
    assert bag(tuples(found.late)) == bag(tuples(known.late))
    assert found.account == known.account
    assert found.account.read == len(rows)
    assert found.rejects.table() == known.rejected


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - {"rows as they come"}))
def test_what_can_be_read_once(name: str) -> None:
    rows = [("a", 5 * n % 43, n % 17) for n in range(40)]
    answers = []
    for data in (rows, iter(rows)):
        db = ps.connect("local")
        db.stream("s", data, schema="k STRING, n INT, t INT", progress=ps.progress("t", delay=4))
        query = db.sql(SPLIT + QUERIES[name])
        assert isinstance(query, ps.Query)
        answers.append((bag(tuples(query.collect())), query.account))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("lost", ["sources/s/read", "operator"])
def test_state_that_is_not_there(tmp_path: Path, lost: str) -> None:
    """What a checkpoint has nothing of never begins anew without a word."""
    db = ps.connect("local")
    db.stream(
        "s", [("a", 40, 1)], schema="k STRING, n INT, t INT", progress=ps.progress("t", delay=2)
    )
    query = db.sql(SPLIT + QUERIES["join"])
    assert isinstance(query, ps.Query)
    query.run(print, checkpoint=str(tmp_path))
    store = Checkpoints(tmp_path)
    if lost == "operator":
        said = store.get("run")
        assert said is not None
        store.put("run", {**said, "operators": {}})
    else:
        store.drop(lost)
    store.commit()
    store.close()
    with pytest.raises(ps.PenstockError, match=r"is missing|has no state of OaJoin"):
        query.run(print, checkpoint=str(tmp_path))
