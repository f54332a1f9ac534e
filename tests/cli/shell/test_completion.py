"""What a prompt offers for what has been typed so far."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.cli.shell.prompt import completions


@pytest.fixture(scope="module")
def db() -> ps.Database:
    made = ps.connect()
    made.sql(
        "CREATE STREAM packets (src STRING, len INT, ts TIMESTAMP) PROGRESS ON ts ORDERED;"
        "CREATE STREAM flows (source STRING);"
        "CREATE QUERY long AS SELECT src, len AS size FROM packets WHERE len > 1000"
    )
    return made


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sel", ["select"]),
        ("SEL", ["SELECT"]),
        ("SELECT src FROM ", ["packets", "flows", "long"]),
        ("SELECT src FROM pac", ["packets"]),
        ("DROP QUERY ", ["long"]),
        ("ALTER QUERY l", ["long"]),
        ("ALTER QUERY long SET s", ["SHARE", "STRATEGY"]),
        ("ALTER QUERY long SET p", ["PAUSED"]),
        ("DROP STREAM ", ["packets", "flows"]),
        ("SELECT s", ["src", "source", "size"]),
        ("SELECT p.l FROM packets AS p WHERE p.l", ["len"]),
        ("SELECT src FROM packets p WHERE p.", ["src", "len", "ts"]),
        ("SELECT long.", ["src", "size"]),
        ("SELECT 1 FROM flows; SELECT src FROM packets WHERE le", ["len"]),
        ("\\wat", ["\\watch"]),
        ("\\stall ", ["long"]),
        ("\\schedule ", ["long"]),
        ("SELECT count(*) [RA", ["RANGE", "RANK", "RATTR"]),
        ("SELECT count(*) [RANGE 5 MIN", ["MINUTES"]),
        ("SELECT count(*) [RANGE 5 se", ["seconds"]),
    ],
)
def test_names_and_words(db: ps.Database, typed: str, offered: list[str]) -> None:
    _, found = completions(typed, db.catalog)
    assert found[: len(offered)] == offered


def test_only_what_begins_so(db: ps.Database) -> None:
    begun, found = completions("SELECT approx_c", db.catalog)
    assert (begun, found) == ("approx_c", ["approx_count_distinct"])
    assert completions("SELECT nowhere.", db.catalog) == ("", [])


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("SHOW Q", ["QUERIES"]),
        ("create q", ["query"]),
        ("SELECT 1 FROM flows; DROP ", ["STREAM", "TABLE", "VIEW", "QUERY"]),
        ("ALTER ", ["QUERY"]),
        ("EXPLAIN P", ["PHYSICAL"]),
    ],
)
def test_what_may_follow_the_word_that_a_statement_begins_with(
    db: ps.Database, typed: str, offered: list[str]
) -> None:
    """And nothing else, so that Tab writes it to its end."""
    assert completions(typed, db.catalog)[1] == offered
