"""One line about what would help a run that most rows had no part in."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.io.sources.rejects import Reject, RejectKind
from penstock.runs.advice import advice_on_late, advice_on_rejects
from penstock.runs.answer import Account


def reject(kind: RejectKind, reason: str, column: str | None = "v") -> Reject:
    return Reject(kind, "s", "s.csv", 1, column, reason, "{}")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("ORDERED", "s is not ORDERED; PROGRESS ON ts DELAY … waits for them, PER column if"),
        ("DELAY 5 SECONDS", "a DELAY longer than 5 SECONDS waits for those of s, PER column if"),
        ("SLACK 3 ROWS", "a SLACK of more than 3 ROWS waits for those of s, PER column if"),
        ("ORDERED PER k", "s is not ORDERED; PROGRESS ON ts DELAY … waits for them."),
        ("PUNCTUATED WHEN k = '' BOUND ts", "the punctuations of s promise too much."),
    ],
)
def test_late(rule: str, expected: str) -> None:
    db = ps.connect()
    db.sql(f"CREATE STREAM s (k STRING, ts TIMESTAMP) PROGRESS ON ts {rule}")
    window = "[RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts]"
    query = db.sql(f"SELECT count(*) AS n {window} FROM s")
    assert isinstance(query, ps.Query)
    advice = advice_on_late(Account(10, 6, 0), query.plan)
    assert advice is not None
    assert advice.startswith(f"most tuples were late: {expected}")
    assert advice_on_late(Account(10, 5, 0), query.plan) is None


@pytest.mark.parametrize(
    ("rejects", "expected"),
    [
        ([reject(RejectKind.BAD_ROW, "'N/A' is not an INT")] * 3, "if 'N/A' stands for NULL"),
        ([reject(RejectKind.BAD_ROW, "'x' is not an INT")], "is its type the right one?"),
        ([reject(RejectKind.FUTURE, "…", "ts")], "a longer FUTURE LIMIT lets them in"),
        ([reject(RejectKind.NO_PROGRESS, "…", "ts")], "ts is NULL in them"),
        ([reject(RejectKind.BAD_ROW, "2 cells instead of 3", None)], None),
        ([reject(RejectKind.FUTURE, "…"), reject(RejectKind.BAD_ROW, "…")], None),
    ],
)
def test_rejects(rejects: list[Reject], expected: str | None) -> None:
    advice = advice_on_rejects(Account(10, 0, 6), rejects)
    assert (advice is None) if expected is None else (advice is not None and expected in advice)
    assert advice_on_rejects(Account(10, 0, 5), rejects) is None
