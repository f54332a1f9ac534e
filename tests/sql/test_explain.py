"""EXPLAIN shows every node; plans are equal when they mean the same, and cannot be changed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import penstock as ps
from penstock.plan.join_windows import BandJoin
from penstock.plan.nodes.join import Bands, Join
from penstock.plan.nodes.node import Node

STREAMS = """
CREATE STREAM s (k STRING, v INT, ts TIMESTAMP) FROM VALUES ('a', 1, '2026-01-01')
  PROGRESS ON ts DELAY 5 SECONDS PER k IDLE AFTER 2 SECONDS;
CREATE STREAM r (k STRING, v INT, ts TIMESTAMP) PROGRESS ON ts ORDERED;
CREATE STREAM l (k STRING, v INT, ts TIMESTAMP) PROGRESS ON ts LATENT;
"""
QUERIES = {
    "window": "SELECT k, count(*) AS n [RANGE 1 MINUTE, SLIDE 20 SECONDS, WA ts] FROM s GROUP BY k",
    "landmark": "SELECT count(*) [RANGE ALL, SLIDE 1 HOUR, WA ts, ORIGIN '2026-01-01'] FROM s",
    "rows": "SELECT k, max(v) [RANGE 9 ROWS, SLIDE 3 ROWS, WA row-num, PA k] FROM s",
    "rank": "SELECT count(*) [RANGE 9 ROWS, SLIDE 3 ROWS, WA rank(ts)] FROM s",
    "by tuple": "SELECT count(*) [RANGE 1 DAY, RATTR ts, SLIDE 1 ROW, SATTR row-num] FROM s",
    "group": "SELECT ts, count(*) FROM s WHERE v > 1 GROUP BY ts HAVING count(*) > 1",
    "distinct": "SELECT DISTINCT k, ts FROM s",
    "union": "SELECT sum(v) [RANGE 1 DAY, SLIDE 1 DAY] FROM s UNION r AS u",
    "join": "SELECT s.k FROM s [RANGE 3 MINUTES], r [RANGE 2 MINUTES, WA ts] WHERE s.k = r.k",
    "tumbling": "SELECT s.k FROM s, r [RANGE TUMBLING 1 HOUR, WA ts]",
    "band": "SELECT s.k FROM s, r WHERE r.ts BETWEEN s.ts AND s.ts + INTERVAL 90 SECONDS",
    "except": "SELECT * FROM s [RANGE 1 MINUTE] EXCEPT ON (k) r LATE SIDE",
    "sequence": "SELECT s.k FROM SEQUENCE(s THEN r MODE CHRONICLE ON s.k = r.k WITHIN 1 HOUR)",
    "stamp": "SELECT count(*) [RANGE 1 DAY, SLIDE 1 DAY, WA ts] FROM l WHERE v > 1",
    "sub-query": "SELECT max(n) [RANGE 2, SLIDE 2, WA window_id] FROM "
    "(SELECT window_id, count(*) AS n [RANGE 1 DAY, SLIDE 1 DAY] FROM s) AS q EMIT IN ORDER",
}
THESIS = Path(__file__).parents[1] / "fixtures" / "thesis"


def bound(sql: str) -> ps.Query:
    database = ps.connect()
    database.sql(STREAMS)
    query = database.sql(sql)
    assert isinstance(query, ps.Query)
    return query


# --- EXPLAIN -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_every_node_has_its_schema_and_progress(name: str) -> None:
    plan, text = bound(QUERIES[name]).plan, bound(QUERIES[name]).explain()
    lines = [line.lstrip("│ ├└─") for line in text.splitlines()]
    nodes = list(plan.walk())
    assert [line for line in lines if line.startswith("schema: ")] == [
        f"schema: {node.schema}" for node in nodes
    ]
    assert [line for line in lines if line.startswith("progress: ")] == [
        f"progress: {', '.join(map(str, node.progress)) or 'none'}" for node in nodes
    ]
    for node in nodes:
        for detail in node.details():
            assert detail in lines


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "window",
            [
                "WindowAggregate count(*)",
                "window: [RANGE 1 MINUTE, SLIDE 20 SECONDS, WA s.ts]",
                "category: context-free",
                "group by: s.k",
                "progress: window_start (closed windows), window_end (closed windows)",
                "progress: s.ts (DELAY 5 SECONDS PER k IDLE AFTER 2 SECONDS)",
                "schema: s.k STRING, s.v INT, s.ts TIMESTAMP",
            ],
        ),
        (
            "landmark",
            [
                "window: [RANGE ALL, SLIDE 1 HOUR, WA s.ts, ORIGIN 2026-01-01T00:00:00.000000Z]",
                "category: context-free",
                "progress: window_end (closed windows)",
            ],
        ),
        (
            "rows",
            [
                "window: [RANGE 9 ROWS, SLIDE 3 ROWS, WA row-num, PA s.k]",
                "category: forward-context-free",
                "progress: none",
            ],
        ),
        (
            "rank",
            ["window: [RANGE 9 ROWS, SLIDE 3 ROWS, WA rank(s.ts)]", "forward-context-aware"],
        ),
        ("by tuple", ["RATTR s.ts", "SATTR row-num", "category: forward-context-aware"]),
        (
            "group",
            [
                "Filter (s.v > 1)",
                "Filter (count(*) > 1)",
                "GroupAggregate count(*)",
                "group by: s.ts",
                "progress: s.ts (closed groups)",
            ],
        ),
        ("distinct", ["Distinct", "progress: ts (DELAY 5 SECONDS"]),
        ("union", ["Union AS u", "progress: u.ts (the slowest input)"]),
        (
            "join",
            [
                "Join ON (s.k = r.k)",
                "window: [RANGE 3 MINUTES, WA s.ts]",
                "window: [RANGE 2 MINUTES, WA r.ts]",
                "progress: s.ts (complete pairs), r.ts (complete pairs)",
            ],
        ),
        ("tumbling", ["window: [RANGE TUMBLING 1 HOUR, WA s.ts, r.ts]"]),
        ("band", ["band: 0 SECONDS <= r.ts - s.ts <= 90 SECONDS"]),
        (
            "except",
            [
                "Query LATE SIDE",
                "Difference ON (k)",
                "window: [RANGE 1 MINUTE, WA s.ts]",
                "window: [RANGE ALL, WA r.ts]",
                "items: positive and negative",
            ],
        ),
        (
            "sequence",
            ["Sequence s.ts THEN r.ts MODE CHRONICLE", "on: (s.k = r.k)", "within: 1 HOUR"],
        ),
        ("stamp", ["Stamp l.ts", "progress: l.ts (LATENT ORDERED)"]),
        ("sub-query", ["Query LATE DROP EMIT IN ORDER", "window: [RANGE 2, SLIDE 2, WA q."]),
    ],
)
def test_what_is_said_of_it(name: str, parts: list[str]) -> None:
    text = bound(QUERIES[name]).explain()
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ("r.ts BETWEEN s.ts - INTERVAL 2 s AND s.ts + INTERVAL 3 s", -2_000_000, 3_000_000),
        ("s.ts >= r.ts AND s.ts - INTERVAL 1 s <= r.ts", -1_000_000, 0),
        ("r.ts > s.ts AND r.ts < s.ts + INTERVAL 1 s", 1, 999_999),
        ("s.ts < r.ts AND INTERVAL 1 s + s.ts > r.ts", 1, 999_999),
        ("s.ts = r.ts", 0, 0),
        ("s.ts = r.ts + INTERVAL 1 s", -1_000_000, -1_000_000),
        # of several limits the tightest holds
        ("r.ts >= s.ts AND r.ts > s.ts AND r.ts <= s.ts + INTERVAL 1 s AND r.v > 0", 1, 1_000_000),
    ],
)
def test_the_band_of_a_condition(condition: str, low: int, high: int) -> None:
    plan = bound(f"SELECT s.k FROM s, r WHERE {condition}").plan
    (join,) = [node for node in plan.walk() if isinstance(node, Join)]
    assert join.window == Bands(((0, 1, BandJoin(low, high)),))


def test_latent_timestamps_are_filled_in_above_the_filter() -> None:
    """As late as they can be: tuples that are filtered out never get one."""
    kinds = [type(node).__name__ for node in bound(QUERIES["stamp"]).plan.walk()]
    assert kinds == ["QueryPlan", "Project", "WindowAggregate", "Stamp", "Filter", "Scan"]


def test_the_tree_is_drawn() -> None:
    titles = [
        line
        for line in bound(QUERIES["join"]).explain().splitlines()
        if not line.lstrip("│ ").startswith(("schema", "progress", "window", "source"))
    ]
    assert titles == [
        "Query LATE DROP",
        "└─ Project s.k AS k",
        "   └─ Join ON (s.k = r.k)",
        "      ├─ Scan s",
        "      └─ Scan r",
    ]


def test_the_statement_answers_what_the_method_does() -> None:
    database = ps.connect()
    database.sql(STREAMS)
    explanation = database.sql("EXPLAIN " + QUERIES["window"])
    assert isinstance(explanation, ps.Explanation)
    assert explanation.text == bound(QUERIES["window"]).explain()
    assert explanation.table()["plan"].to_pylist() == explanation.text.splitlines()


# --- plans ---------------------------------------------------------------------------------------


def spread(sql: str) -> str:
    """The same words with other white space and comments between them."""
    return "\n-- a comment\n\n  " + "  \n\t".join(sql.split(" ")) + " /* the end */ ;\n"


@pytest.mark.parametrize("name", QUERIES)
def test_white_space_makes_no_other_plan(name: str) -> None:
    one, other = bound(QUERIES[name]).plan, bound(spread(QUERIES[name])).plan
    assert one == other
    assert hash(one) == hash(other)
    assert one is not other


@pytest.mark.parametrize("path", sorted(THESIS.glob("*.sql")), ids=lambda path: path.stem)
def test_a_query_of_the_thesis_equals_itself_in_another_layout(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (one,) = filter(None, ps.connect().script(text))
    (other,) = filter(None, ps.connect().script(text.replace("\n", "\n\n \t")))
    assert isinstance(one, ps.Query)
    assert isinstance(other, ps.Query)
    assert one.plan == other.plan


def test_places_are_kept_but_take_no_part() -> None:
    one, other = bound(QUERIES["group"]).plan, bound(spread(QUERIES["group"])).plan
    spans = [
        [node.span for node in plan.walk() if getattr(node, "span", None)] for plan in (one, other)
    ]
    assert spans[0]
    assert spans[0] != spans[1]


def test_different_queries_have_different_plans() -> None:
    plans = [bound(sql).plan for sql in QUERIES.values()]
    assert len(set(plans)) == len(plans)
    for old, new in (("20 SECONDS", "30 SECONDS"), ("count(*)", "sum(v)"), ("AS n", "AS m")):
        changed = QUERIES["window"].replace(old, new)
        assert bound(changed).plan != bound(QUERIES["window"]).plan


@pytest.mark.parametrize("name", QUERIES)
def test_plans_are_frozen(name: str) -> None:
    for node in bound(QUERIES[name]).plan.walk():
        assert isinstance(node, Node)
        assert dataclasses.is_dataclass(node)
        for field in dataclasses.fields(node):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(node, field.name, None)
