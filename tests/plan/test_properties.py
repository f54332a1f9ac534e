"""How far apart the columns are that say when a window begins and ends."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.plan.expressions import Column
from penstock.plan.properties import ticks_between

WINDOWS = "SELECT k, count(*) AS n [RANGE 7, SLIDE 3, WA t] FROM s GROUP BY k"
START, END = "window_start", "window_end"


@pytest.mark.parametrize(
    ("sql", "one", "other", "ticks"),
    [
        (WINDOWS, START, END, 7),
        (WINDOWS, END, START, -7),
        (WINDOWS, START, "n", None),
        (f"SELECT window_end AS e, window_start AS b FROM ({WINDOWS}) WHERE n > 1", "b", "e", 7),
        (f"SELECT window_end + 1 AS e, window_start AS b FROM ({WINDOWS})", "b", "e", None),
        (
            "SELECT window_start AS b, window_end AS e, max(n) AS m"
            f" FROM ({WINDOWS}) GROUP BY window_start, window_end",
            "b",
            "e",
            7,
        ),
        (
            "SELECT DISTINCT ON (k) k [RANGE 5, SLIDE 5, WA t] FROM s",
            "window_start",
            "window_end",
            5,
        ),
        ("SELECT count(*) AS n [SESSION GAP 3, WA t] FROM s", START, END, None),
        (
            "SELECT count(*) AS n [RANGE ALL, SLIDE 3, WA t] FROM s",
            "window_start",
            "window_end",
            None,
        ),
    ],
)
def test_ticks_between(sql: str, one: str, other: str, ticks: int | None) -> None:
    db = ps.connect()
    db.stream("s", [], schema="k STRING, t INT", progress=ps.progress("t", delay=2))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    node = query.plan.input
    fields = {field.name: field for field in node.schema}
    columns = [Column.of(fields[name]) for name in (one, other)]
    assert ticks_between(node, *columns) == ticks
