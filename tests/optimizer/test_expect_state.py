"""How much a join says that it is about to keep."""

from __future__ import annotations

import penstock as ps


def explained(window: str) -> str:
    db = ps.connect()
    for name in "ab":
        schema, rule = "k INT, ts TIMESTAMP", ps.progress("ts", delay="3 seconds")
        db.stream(name, iter([]), schema=schema, progress=rule)
    query = db.sql(f"SELECT a.k FROM a [RANGE {window}], b [RANGE 0 SECONDS] WHERE a.k = b.k")
    assert isinstance(query, ps.Query)
    return query.explain(physical=True)


def test_both_sides_are_told() -> None:
    text = explained("5 SECONDS")
    assert "keeps about 8,000 tuples of a (8 SECONDS, at an assumed 1,000 tuples a second)" in text
    assert "keeps about 3,000 tuples of b (3 SECONDS, at" in text
    assert "note" not in text


def test_a_window_that_is_long_for_its_streams_is_noted() -> None:
    text = explained("1 DAY")
    assert "keeps about 86,000,000 tuples of a" in text
    assert "DELAY alone 3,000 tuples" in text


def test_results_of_windows_come_when_those_have_closed() -> None:
    db = ps.connect()
    db.stream("a", iter([]), schema="k INT, t INT", progress=ps.progress("t", delay=8))
    query = db.sql(
        "SELECT a.k FROM a JOIN (SELECT max(k) AS k [RANGE 10, SLIDE 10, WA t] FROM a) AS w"
        " ON a.k = w.k AND a.t >= w.window_start AND a.t < w.window_end"
    )
    assert isinstance(query, ps.Query)
    assert "keeps about 18 tuples of a (18, at an assumed" in query.explain(physical=True)
