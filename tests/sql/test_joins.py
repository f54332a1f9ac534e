"""What FROM and WHERE become: where conditions stand, what bounds joins, and what is a name."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.plan.algorithms import Algorithm, JoinAlgorithm
from penstock.plan.identity import identity
from penstock.plan.join_windows import BandJoin, SlidingJoin
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.join import (
    Bands,
    Join,
    JoinKind,
    Lookup,
    Ranges,
    Sequence,
    SequenceMode,
    Tumbling,
)
from penstock.plan.nodes.node import Filter, Node, Project

STREAMS = """
CREATE STREAM a (k STRING, x INT, t INT) PROGRESS ON t ORDERED;
CREATE STREAM b (k STRING, y INT, t INT) PROGRESS ON t ORDERED;
CREATE STREAM c (k STRING, z INT, t INT) PROGRESS ON t ORDERED;
CREATE TABLE n (k STRING, v INT);
CREATE TABLE m (v INT, w INT);
"""


def query(sql: str) -> ps.Query:
    db = ps.connect("reference")
    db.sql(STREAMS)
    found = db.sql(sql)
    assert isinstance(found, ps.Query)
    return found


def top(sql: str) -> Node:
    """What stands below the SELECT list."""
    project = query(sql).plan.input
    assert isinstance(project, Project)
    return project.input


def join(sql: str) -> Join:
    found = top(sql)
    assert isinstance(found, Join)
    return found


W = "a [RANGE 3] {} JOIN b [RANGE 2] ON a.k = b.k {}"


# --- where conditions stand ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "condition", "below", "in_condition"),
    [
        ("", "a.x > 0", "left", False),
        ("", "b.y > 0", "right", False),
        ("LEFT", "a.x > 0", None, True),
        ("LEFT", "b.y > 0", "right", False),
        ("RIGHT", "a.x > 0", "left", False),
        ("RIGHT", "b.y > 0", None, True),
        ("FULL", "a.x > 0", None, True),
        ("FULL", "b.y > 0", None, True),
        ("SEMI", "a.x > 0", "left", False),
        ("SEMI", "b.y > 0", "right", False),
        ("ANTI", "a.x > 0", None, True),
        ("ANTI", "b.y > 0", "right", False),
    ],
)
def test_conditions_of_on(kind: str, condition: str, below: str | None, in_condition: bool) -> None:
    columns = "a.k" if kind in ("SEMI", "ANTI") else "a.k, b.y"
    node = join(f"SELECT {columns} FROM {W.format(kind, f'AND {condition}')}")
    sides = dict(zip(("left", "right"), node.branches, strict=True))
    for name, side in sides.items():
        assert isinstance(side, Filter) is (name == below)
    assert (condition in str(node.condition)) is in_condition


@pytest.mark.parametrize(
    ("kind", "condition", "below"),
    [
        ("LEFT", "a.x > 0", "left"),
        ("LEFT", "b.y > 0", None),
        ("RIGHT", "a.x > 0", None),
        ("RIGHT", "b.y > 0", "right"),
        ("FULL", "a.x > 0", None),
        ("FULL", "b.y > 0", None),
    ],
)
def test_conditions_of_where(kind: str, condition: str, below: str | None) -> None:
    node = top(f"SELECT a.k, b.y FROM {W.format(kind, f'WHERE {condition}')}")
    assert isinstance(node, Filter) is (below is None)
    found = node.input if isinstance(node, Filter) else node
    assert isinstance(found, Join)
    for name, side in zip(("left", "right"), found.branches, strict=True):
        assert isinstance(side, Filter) is (name == below)


def test_inner_joins_are_one_wherever_they_stand() -> None:
    chained = join(
        "SELECT a.x FROM a [RANGE 1] JOIN b [RANGE 2] ON a.k = b.k JOIN c [RANGE 3] ON b.k = c.k"
    )
    listed = join(
        "SELECT a.x FROM a [RANGE 1], b [RANGE 2], c [RANGE 3] WHERE a.k = b.k AND b.k = c.k"
    )
    assert chained == listed
    assert len(chained.branches) == 3
    assert chained.window == Ranges((1, 2, 3))


def test_what_bounds_a_join_below_an_outer_one_may_stand_in_where() -> None:
    node = join(
        "SELECT a.x FROM a JOIN b ON a.k = b.k LEFT JOIN c ON c.t = a.t WHERE b.t = a.t + 1"
    )
    assert node.kind is JoinKind.LEFT
    below = node.branches[0]
    assert isinstance(below, Join)
    assert below.window == Bands(((0, 1, BandJoin(1, 1)),))


# --- what bounds joins ---------------------------------------------------------------------------


CHAIN = "SELECT a.x FROM a [RANGE 1] {} JOIN b [RANGE 2] ON a.k = b.k LEFT JOIN c [RANGE 3] ON TRUE"


def test_the_other_times_of_a_join_have_to_fit_as_well() -> None:
    node = join(CHAIN.format("INNER"))
    assert [str(each) for each in node.attributes] == ["a.t", "c.t"]
    assert node.window == Ranges((1, 3))
    (also,) = node.also
    assert (str(also.left), str(also.right), also.window) == ("b.t", "c.t", SlidingJoin(2, 3))
    assert "also: -3 <= c.t - b.t <= 2" in query(CHAIN.format("INNER")).explain()


def test_a_relation_that_may_be_missing_has_no_say() -> None:
    node = join(CHAIN.format("LEFT"))
    assert node.also == ()
    assert [str(each) for each in node.attributes] == ["a.t", "c.t"]


def test_a_tumbling_window_holds_for_all() -> None:
    node = join("SELECT a.x FROM a [RANGE TUMBLING 5] JOIN b ON TRUE LEFT JOIN c ON a.k = c.k")
    assert isinstance(node.window, Tumbling)
    assert [(str(each.left), str(each.right)) for each in node.also] == [("b.t", "c.t")]


def test_the_condition_says_which_of_several_times_it_is() -> None:
    windows = "SELECT k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM {} GROUP BY k"
    for column in ("window_start", "window_end"):
        node = join(
            f"SELECT p.n FROM ({windows.format('a')}) AS p LEFT JOIN ({windows.format('b')}) AS q "
            f"ON p.k = q.k AND p.{column} = q.{column}"
        )
        assert [each.name for each in node.attributes] == [column, column]
        assert node.window == Bands(((0, 1, BandJoin(0, 0)),))


def test_the_narrowest_band_is_taken() -> None:
    windows = "SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM {}"
    node = join(
        f"SELECT p.n FROM ({windows.format('a')}) AS p JOIN ({windows.format('b')}) AS q "
        "ON q.window_start BETWEEN p.window_start AND p.window_start + 50 "
        "AND q.window_end = p.window_end"
    )
    assert [each.name for each in node.attributes] == ["window_end", "window_end"]


def test_dates_and_decimals_can_be_equal() -> None:
    for sql_type in ("DATE", "DECIMAL(9,2)"):
        db = ps.connect("reference")
        for name in "ab":
            db.sql(f"CREATE STREAM {name} (k INT, d {sql_type}) PROGRESS ON d ORDERED")
        found = db.sql("SELECT a.k FROM a LEFT JOIN b ON a.d = b.d")
        assert isinstance(found, ps.Query)
        (node,) = [each for each in found.plan.walk() if isinstance(each, Join)]
        assert node.window == Bands(((0, 1, BandJoin(0, 0)),))


# --- tables --------------------------------------------------------------------------------------


def test_tables_are_looked_up_after_the_streams_are_joined() -> None:
    node = top("SELECT a.x FROM m, a [RANGE 1], n, b [RANGE 1] WHERE n.v = m.v AND a.k = n.k")
    assert isinstance(node, Lookup)
    assert str(node.condition) == "(n.v = m.v)"
    assert isinstance(node.input, Lookup)
    assert str(node.input.condition) == "(a.k = n.k)"
    assert isinstance(node.input.input, Join)


def test_columns_come_in_the_order_in_which_they_are_written() -> None:
    assert query("SELECT * FROM n JOIN a ON a.k = n.k").plan.schema.names == (
        *("n.k", "v"),
        *("a.k", "x", "t"),
    )
    assert query("SELECT * FROM a JOIN b AS OF a.t ON a.k = b.k").plan.schema.names == (
        *("a.k", "x", "a.t"),
        *("b.k", "y", "b.t"),
    )
    assert query("SELECT * FROM a SEMI JOIN n ON a.k = n.k").plan.schema.names == ("k", "x", "t")


# --- as of ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "relation", ["b AS OF a.t", "b AS b AS OF a.t", "b FOR SYSTEM_TIME AS OF a.t", "b b AS OF a.t"]
)
def test_as_of_is_a_recent_sequence(relation: str) -> None:
    node = top(f"SELECT x, y FROM a LEFT JOIN {relation} ON a.k = b.k")
    assert isinstance(node, Sequence)
    assert node.mode is SequenceMode.RECENT
    assert node.keeps == (False, True)
    assert [str(each) for each in node.attributes] == ["b.t", "a.t"]
    assert (
        "Sequence b.t THEN a.t MODE RECENT"
        in query(f"SELECT x, y FROM a LEFT JOIN {relation} ON a.k = b.k").explain()
    )


def test_the_alias_may_stand_behind_the_time() -> None:
    node = top("SELECT x, r.y FROM a JOIN b FOR SYSTEM_TIME AS OF a.t AS r ON a.k = r.k")
    assert isinstance(node, Sequence)
    assert str(node.condition) == "(a.k = r.k)"


# --- sub-queries ---------------------------------------------------------------------------------


def test_a_relation_of_the_same_name_is_another_one() -> None:
    node = join("SELECT k FROM a [RANGE 1] WHERE x IN (SELECT x FROM a [RANGE 2] WHERE a.k = 'p')")
    assert node.kind is JoinKind.SEMI
    assert str(node.condition) == "(a.x = a_1.x)"
    assert (
        "Scan a AS a_1"
        in query(
            "SELECT k FROM a [RANGE 1] WHERE x IN (SELECT x FROM a [RANGE 2] WHERE a.k = 'p')"
        ).explain()
    )


def test_not_in_is_an_anti_join_that_minds_nulls() -> None:
    node = join("SELECT k FROM a [RANGE 1] WHERE x NOT IN (SELECT y FROM b [RANGE 2])")
    assert node.kind is JoinKind.ANTI
    assert str(node.condition) == "coalesce((a.x = b.y), TRUE)"


@pytest.mark.parametrize("negation", ["NOT x IN", "x NOT IN", "NOT (x IN", "NOT NOT x NOT IN"])
def test_ways_to_say_no(negation: str) -> None:
    closing = ")" if "(" in negation else ""
    node = join(f"SELECT k FROM a [RANGE 1] WHERE {negation} (SELECT y FROM b [RANGE 2]){closing}")
    assert node.kind is JoinKind.ANTI


# --- hints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", list(JoinAlgorithm))
def test_a_hint_stays_on_the_join_and_is_not_part_of_what_is_asked(
    algorithm: JoinAlgorithm,
) -> None:
    hinted = f"SELECT /*+ {algorithm.name.lower()} */ a.x FROM {W.format('', '')}"
    plain = f"SELECT a.x FROM {W.format('', '')}"
    assert join(hinted).hint is algorithm
    assert join(hinted) == join(plain)
    assert identity(query(hinted).plan) == identity(query(plain).plan)
    assert f"algorithm: {algorithm.name} ({algorithm.value}), by a hint" in query(hinted).explain()


def test_a_window_and_a_join_may_both_have_a_hint() -> None:
    found = query(
        f"SELECT /*+ WID, OPOB */ count(*) [RANGE 5, SLIDE 5, WA a.t] FROM {W.format('', '')}"
    )
    nodes = list(found.plan.walk())
    (windows,) = [each for each in nodes if isinstance(each, WindowAggregate)]
    (joined,) = [each for each in nodes if isinstance(each, Join)]
    assert (windows.hint, joined.hint) == (Algorithm.WID, JoinAlgorithm.OPOB)


# --- words that are names ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", ["of", "keep", "first", "second", "both", "split", "otherwise", "semi", "table"]
)
def test_new_words_are_still_names(word: str) -> None:
    db = ps.connect("reference")
    db.sql(f"CREATE STREAM {word} ({word} INT) FROM VALUES (7)")
    found = db.sql(f"SELECT {word}, {word} AS `as`, {word}.{word} AS {word}2 FROM {word}")
    assert isinstance(found, ps.Query)
    assert found.collect().num_rows == 1


def test_an_alias_may_be_called_of() -> None:
    assert query("SELECT of.x FROM a AS of WHERE of.x > 1").plan.schema.names == ("x",)
    assert query("SELECT x AS of FROM a").plan.schema.names == ("of",)
