"""Columns that a query does not look at are left out, and only those."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

import penstock as ps
from penstock.io.sources.memory import BatchSource
from penstock.model.types import Field
from penstock.optimizer.pruning import prune_columns
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.nodes.node import Node, Scan
from penstock.plan.nodes.query import QueryPlan

SCHEMA = "a INT, b INT, c INT, d STRING, t INT"


@dataclass(frozen=True)
class Typed(BatchSource):
    """Data of which all columns but some fit without a look."""

    stays: str = ""

    def always_fits(self, field: Field) -> bool:
        return field.name != self.stays


def sources_of(query: QueryPlan, stays: str = "") -> QueryPlan:
    def change(node: Node) -> Node:
        if isinstance(node, Scan):
            source = Typed([], "typed", stays)
            return replace(node, stream=replace(node.stream, source=source))
        return with_inputs(node, change)

    return with_inputs(query, change)


def scanned(sql: str, progress: object = None, stays: str = "") -> list[list[str]]:
    """The columns that each scan of a query is left with."""
    db = ps.connect("reference")
    for name in ("s", "r"):
        chosen = progress or ps.progress("t", delay=5)
        db.stream(name, [], schema=SCHEMA, progress=chosen)  # type: ignore[arg-type]
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    pruned = prune_columns(sources_of(query.plan, stays), Settings())
    assert pruned.schema == query.plan.schema
    return [list(each.stream.schema.names) for each in pruned.walk() if isinstance(each, Scan)]


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("SELECT a, sum(b) AS z [RANGE 10, SLIDE 5, WA t] FROM s GROUP BY a", ["a", "b", "t"]),
        ("SELECT count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s WHERE c > 0", ["c", "t"]),
        (
            "SELECT sum(a) FILTER (WHERE d = 'x') AS z [RANGE 10, SLIDE 5, WA t] FROM s",
            ["a", "d", "t"],
        ),
        (
            "SELECT sum(a) AS z [RANGE 3 ROWS, SLIDE 1 ROW, WA row-num, PA c] FROM s",
            ["a", "c", "t"],
        ),
        ("SELECT t, c, max(b) AS z FROM s GROUP BY t, c", ["b", "c", "t"]),
        ("SELECT DISTINCT t, a FROM s", ["a", "t"]),
        ("SELECT d FROM s WHERE CAST(a AS STRING) LIKE '1%'", ["a", "d", "t"]),
        ("SELECT * FROM s", ["a", "b", "c", "d", "t"]),
        (
            "SELECT sum(x) AS z [RANGE 9, SLIDE 3, WA u]"
            " FROM (SELECT a + b AS x, t * 2 AS u, d FROM s) AS q",
            ["a", "b", "d", "t"],
        ),
    ],
)
def test_what_is_left(sql: str, left: list[str]) -> None:
    assert scanned(sql) == [left]


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        (
            "SELECT s.a, r.b FROM s [RANGE 5], r [RANGE 3] WHERE s.a = r.a AND s.d < r.d",
            [["a", "d", "t"], ["a", "b", "d", "t"]],
        ),
        (
            "SELECT count(*) AS n [RANGE 9, SLIDE 9, WA s.t] FROM s [RANGE 5], r [RANGE 3]"
            " WHERE s.a = r.b",
            [["a", "t"], ["b", "t"]],
        ),
        (  # the columns of both relations come out
            "SELECT * FROM s [RANGE 5], r [RANGE 3] WHERE s.a = r.a",
            [["a", "b", "c", "d", "t"], ["a", "b", "c", "d", "t"]],
        ),
        (  # one stream under two names
            "SELECT x.b FROM s AS x [RANGE 5], s AS y [RANGE 3] WHERE x.a = y.c",
            [["a", "b", "t"], ["c", "t"]],
        ),
        (
            "SELECT d, changed_at FROM s [RANGE 9] EXCEPT ON (a) r [RANGE 2]",
            [["a", "d", "t"], ["a", "t"]],
        ),
        (
            "SELECT * FROM s [RANGE 9] EXCEPT ON (a, b) r [RANGE 2]",
            [["a", "b", "c", "d", "t"], ["a", "b", "t"]],
        ),
        (  # of tuples of one time, the greatest one of s is taken
            "SELECT s.a, r.b FROM SEQUENCE(s THEN r MODE RECENT ON s.c = r.c)",
            [["a", "b", "c", "d", "t"], ["b", "c", "t"]],
        ),
        (
            "SELECT s.a, r.b FROM SEQUENCE(s THEN r MODE CHRONICLE ON s.c = r.c)",
            [["a", "b", "c", "d", "t"], ["a", "b", "c", "d", "t"]],
        ),
    ],
)
def test_what_is_left_of_several_streams(sql: str, left: list[list[str]]) -> None:
    assert scanned(sql) == left


def test_every_scan_for_itself() -> None:
    union = "SELECT a AS x, t FROM s UNION ALL SELECT b AS x, t FROM r"
    assert scanned(union) == [["a", "t"], ["b", "t"]]


def test_progress_keeps_its_columns() -> None:
    sql = "SELECT count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s"
    assert scanned(sql, ps.progress("t", per="c", delay=1)) == [["c", "t"]]
    assert scanned(sql, ps.progress("t", punctuated=("b = 7", "t - a"))) == [["a", "b", "t"]]


def test_what_may_not_go_stays() -> None:
    sql = "SELECT count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s"
    assert scanned(sql, stays="d") == [["d", "t"]]


def test_rows_are_still_counted_by_something() -> None:
    db = ps.connect("reference")
    db.stream("s", [], schema="a INT, b INT")
    query = db.sql("SELECT 1 AS one FROM s")
    assert isinstance(query, ps.Query)
    pruned = prune_columns(sources_of(query.plan), Settings())
    assert [list(e.stream.schema.names) for e in pruned.walk() if isinstance(e, Scan)] == [["a"]]
