"""Joins of many inputs as pipelines: which inputs meet first, and where conditions go."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.optimizer.join_order import binary_joins
from penstock.optimizer.rewrite import Settings
from penstock.plan.join_windows import BandJoin, SlidingJoin, TumblingJoin
from penstock.plan.nodes.join import Bands, Join, Ranges, Tumbling
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan

RANGES = "a [RANGE 1], b [RANGE 2], c [RANGE 3], d [RANGE 4]"


def bound(sql: str) -> QueryPlan:
    db = ps.connect("reference")
    for name in "abcd":
        schema = "k BIGINT, j BIGINT, t BIGINT"
        db.stream(name, [], schema=schema, progress=ps.progress("t", delay=5))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.plan


def joins(sql: str) -> list[Join]:
    """From the first one on."""
    made = binary_joins(bound(sql), Settings())
    found = [node for node in made.walk() if isinstance(node, Join)]
    assert all(len(node.branches) == 2 for node in found)
    return found[::-1]


def order(sql: str) -> str:
    first, *others = joins(sql)
    scans = [*first.branches, *(join.branches[1] for join in others)]
    return "".join(scan.alias for scan in scans if isinstance(scan, Scan))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", "abcd"),
        ("WHERE a.k = b.k AND b.k = c.k AND c.k = d.k", "abcd"),
        ("WHERE a.k = d.k AND d.k = c.k AND c.k = b.k", "adcb"),
        ("WHERE b.k = d.k", "bdac"),
        ("WHERE b.k + 1 = d.k AND a.j = c.j", "acbd"),  # what may fail is no key
    ],
)
def test_inputs_with_equal_keys_meet_first(where: str, expected: str) -> None:
    assert order(f"SELECT a.j FROM {RANGES} {where}") == expected


def test_conditions_are_checked_as_soon_as_their_columns_are_there() -> None:
    where = "a.k + b.k > 7 AND a.k = b.k AND b.j < c.j AND c.j < d.j AND a.j + b.j > 3"
    found = [str(join.condition) for join in joins(f"SELECT a.j FROM {RANGES} WHERE {where}")]
    assert found == [
        "(a.k = b.k)",
        "(b.j < c.j)",
        "((c.j < d.j) AND ((a.k + b.k) > 7) AND ((a.j + b.j) > 3))",  # what may fail, at last
    ]


def test_all_pairs_have_to_fit_in_time() -> None:
    first, second, third = joins(f"SELECT a.j FROM {RANGES}")
    assert first.window == Ranges((1, 2))
    assert second.window == Ranges((1, 3))
    (also,) = second.also
    assert (str(also.left), str(also.right), also.window) == ("b.t", "c.t", SlidingJoin(2, 3))
    assert [str(each.left) for each in third.also] == ["b.t", "c.t"]
    assert {str(each.right) for each in third.also} == {"d.t"}
    assert [each.field.qualified for each in third.progress] == ["a.t", "b.t", "c.t", "d.t"]


def test_tumbling() -> None:
    first, second = joins("SELECT a.j FROM a, b [RANGE TUMBLING 4], c")
    assert first.window == second.window == Tumbling(TumblingJoin(4))
    assert second.also[0].window == TumblingJoin(4)


def test_bands_that_follow_from_others() -> None:
    where = "c.t BETWEEN a.t AND a.t + 2 AND b.t BETWEEN c.t - 1 AND c.t + 4"
    first, second = joins(f"SELECT a.j FROM a, b, c WHERE {where}")
    assert first.window == Bands(((0, 1, BandJoin(-1, 6)),))  # by way of c
    assert second.window == Bands(((0, 1, BandJoin(0, 2)),))
    assert second.also[0].window == BandJoin(-4, 1)


def test_two_inputs_stay_as_they_are() -> None:
    plan = bound("SELECT a.j FROM a [RANGE 1], b [RANGE 2] WHERE a.k = b.k")
    assert binary_joins(plan, Settings()) is plan


def test_places_of_columns_are_kept_where_they_count() -> None:
    plan = bound(f"SELECT a.j FROM {RANGES} WHERE a.k = d.k")
    (join,) = (node for node in plan.walk() if isinstance(node, Join))
    made = binary_joins(QueryPlan(join), Settings())
    assert made.schema == join.schema
    assert made.progress == join.progress
