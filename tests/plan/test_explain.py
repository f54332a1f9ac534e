"""EXPLAIN PHYSICAL, for either host, in SQL and in Python."""

from __future__ import annotations

import pytest

import penstock as ps

SELECT = "SELECT k, count(*) AS n [RANGE 60, SLIDE 10, WA t] FROM s WHERE k > 0 GROUP BY k"


def explained(select: str, engine: str = "local") -> list[str]:
    db = ps.connect(engine)
    db.stream("s", [{"k": 1, "t": 1}], progress=ps.progress("t", delay=5))
    found = db.sql(f"EXPLAIN PHYSICAL {select}")
    assert isinstance(found, ps.Explanation)
    query = db.sql(select)
    assert isinstance(query, ps.Query)
    assert query.explain(physical=True) == found.text
    return [line.strip("│└─ ") for line in found.text.splitlines()]


def test_in_process() -> None:
    assert explained(SELECT) == [
        "Physical plan, in process",
        "Project window_start, window_end, s.k AS k, count(*) AS n",
        "Paned: WindowAggregate count(*)",
        "tuples meet by s.k",
        "order: windows and groups as they close",
        "Filter (s.k > 0)",
        "Read s",
    ]


def test_on_spark_tuples_are_folded_before_they_meet() -> None:
    assert "tuples meet by s.k, folded into panes before" in explained(SELECT, "spark")
    assert "tuples meet by s.k" in explained(f"{SELECT} LATE SIDE", "spark")


def test_rows_are_put_in_order_only_where_they_are_not() -> None:
    assert explained(f"{SELECT} EMIT IN ORDER")[1] == "Order"
    assert explained(f"{SELECT} EMIT IN ORDER", "spark")[1].startswith("Project")
    assert explained("SELECT k, t FROM s EMIT IN ORDER", "spark")[1] == "Order"


def test_what_is_asked_of_results() -> None:
    lines = explained(f"{SELECT} LATE AMEND FOR 5 EMIT EARLY EVERY 1 SECOND")
    assert "RevisingSliding: WindowAggregate count(*)" in lines
    assert "asked: amends for 5, answers early every 1 SECOND" in lines


def test_groups_that_are_counted_leave_together() -> None:
    counted = f"SELECT max(n) AS m [RANGE 3 ROWS, SLIDE 1 ROW, WA row-num] FROM ({SELECT}) AS q"
    assert "groups of a window leave together, because they are counted" in explained(counted)


def test_a_hint_is_followed() -> None:
    hinted = SELECT.replace("SELECT", "SELECT /*+ WID */", 1)
    assert "Wid: WindowAggregate count(*)" in explained(hinted)


def test_what_no_operator_runs() -> None:
    with pytest.raises(ps.EngineError, match="a difference has no early answers"):
        explained("SELECT k FROM s EXCEPT ON (k) s EMIT EARLY EVERY 1 SECOND", "spark")
