"""What a statement warns of goes to the logger, once for each place."""

from __future__ import annotations

import pytest

import penstock as ps

STREAM = "CREATE STREAM s (ts INT, x INT) FROM VALUES (1, 1), (2, NULL) PROGRESS ON ts ORDERED;"


def logged(sql: str, log: pytest.LogCaptureFixture) -> list[str]:
    log.clear()
    ps.connect("reference").sql(STREAM + sql)
    return [each.getMessage() for each in log.records if each.name == "penstock"]


@pytest.mark.parametrize(
    "condition", ["x = NULL", "NULL <> x", "x < NULL", "CASE x WHEN NULL THEN TRUE END"]
)
def test_a_comparison_with_null(condition: str, caplog: pytest.LogCaptureFixture) -> None:
    (text,) = logged(f"SELECT ts FROM s WHERE {condition}", caplog)
    first, place, _, carets, hint = text.split("\n")
    assert first == "warning: a comparison with NULL is never true"
    assert place.startswith("  at line 1, column ")
    assert "^" in carets
    assert hint == "  try: IS NULL, or IS NOT NULL"


def test_null_in_a_list(caplog: pytest.LogCaptureFixture) -> None:
    (text,) = logged("SELECT ts FROM s WHERE x NOT IN (1, NULL)", caplog)
    assert "NOT IN is never true" in text


def test_it_is_said_once_for_each_place(caplog: pytest.LogCaptureFixture) -> None:
    sql = "SELECT x = NULL AS y, count(*) AS n [RANGE 5, SLIDE 5] FROM s GROUP BY x = NULL"
    assert len(logged(sql, caplog)) == 2
    inside = "SELECT * FROM (SELECT ts FROM s WHERE x = NULL) AS q"
    assert len(logged(inside, caplog)) == 1


@pytest.mark.parametrize("condition", ["x IS NULL", "x IS NOT DISTINCT FROM NULL", "x IN (1, 2)"])
def test_what_is_meant_is_not_warned_of(condition: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not logged(f"SELECT ts FROM s WHERE {condition}", caplog)
