"""Dataflow expressions: the examples of Getta and Vossough, and plans of all kinds."""

from __future__ import annotations

from dataclasses import replace

import pytest

import penstock as ps
from penstock.optimizer.dataflow import DataflowExpression, Operation, translate
from penstock.optimizer.explain_dataflow import Container
from penstock.optimizer.join_order import chosen
from penstock.optimizer.rewrite import Settings
from penstock.plan.join_trees import Joined, flat, left_deep, orders_of, trees_of
from penstock.plan.nodes.join import Join

WINDOWS = "r [RANGE 5, WA ts], s [RANGE 5, WA ts], t [RANGE 5, WA ts]"
TRIANGLE = f"SELECT r.a FROM {WINDOWS} WHERE r.b = s.b AND s.c = t.c AND r.a = t.a"


@pytest.fixture
def db() -> ps.Database:
    db = ps.connect("local")
    for name, columns in (("r", "ab"), ("s", "bc"), ("t", "ac")):
        schema = ", ".join(f"{column} INT" for column in columns) + ", ts INT"
        db.stream(name, iter([]), schema=schema, progress=ps.progress("ts", delay=5))
    return db


def plan(db: ps.Database, sql: str) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def shown(db: ps.Database, sql: str, tree: Joined | None = None) -> list[str]:
    def arrange(join: Join) -> Joined:
        return chosen(join, Settings()) if tree is None else tree

    return [str(each) for each in translate(plan(db, sql).plan.input, arrange).expressions]


def test_three_streams_have_six_plans_where_the_logical_level_shows_three(db: ps.Database) -> None:
    logical = list(trees_of(range(3), most_parts=2))
    assert sorted(tree.named("rst") for tree in logical if isinstance(tree, Joined)) == [
        "((r s) t)",
        "(r (s t))",
        "(s (r t))",
    ]
    found = set()
    for own in range(3):
        for order in orders_of(3, own):
            probes = tuple(order if n == own else next(orders_of(3, n)) for n in range(3))
            found.add(shown(db, TRIANGLE, flat(3, probes))[own])
    assert found == {
        "δ_r : →(w_r), ⋈_b(w_s), ⋈_ac(w_t), ϱ, →(w_out)",
        "δ_r : →(w_r), ⋈_a(w_t), ⋈_bc(w_s), ϱ, →(w_out)",
        "δ_s : →(w_s), ⋈_b(w_r), ⋈_ac(w_t), ϱ, →(w_out)",
        "δ_s : →(w_s), ⋈_c(w_t), ⋈_ab(w_r), ϱ, →(w_out)",
        "δ_t : →(w_t), ⋈_a(w_r), ⋈_bc(w_s), ϱ, →(w_out)",
        "δ_t : →(w_t), ⋈_c(w_s), ⋈_ab(w_r), ϱ, →(w_out)",
    }


def test_a_container_of_intermediate_results(db: ps.Database) -> None:
    """The first example of section 3.1."""
    assert shown(db, TRIANGLE, left_deep((0, 1, 2))) == [
        "δ_r : →(w_r), ⋈_b(w_s), →(w_rs), ⋈_ac(w_t), ϱ, →(w_out)",
        "δ_s : →(w_s), ⋈_b(w_r), →(w_rs), ⋈_ac(w_t), ϱ, →(w_out)",
        "δ_t : →(w_t), ⋈_ac(w_rs), ϱ, →(w_out)",
    ]


def test_differences_unions_filters_and_aggregates(db: ps.Database) -> None:
    """Figure 2, and what may stand around it."""
    difference = "SELECT b, changed_at FROM r [RANGE 5] EXCEPT ON (b) s [RANGE 5]"
    assert shown(db, difference) == [
        "δ_r : →(w_r), −left_b(w_s), ϱ, →(w_out)",
        "δ_s : →(w_s), −right_b(w_r), ϱ, →(w_out)",
    ]
    union = "SELECT ts, a FROM r WHERE b > 0 UNION ALL SELECT ts, a FROM t"
    sql = f"SELECT a, count(*) AS n [RANGE 5, SLIDE 5, WA ts] FROM ({union}) GROUP BY a"
    assert shown(db, sql) == [
        "δ_r : σ_b, ϱ, ∪, ϱ, γ_a, ϱ, →(w_out)",
        "δ_t : ϱ, ∪, ϱ, γ_a, ϱ, →(w_out)",
    ]


def test_a_difference_that_filters_comes_before_a_join() -> None:
    """The example δ_s of section 3.1: one item leaves −_c for every one that comes."""
    record = Operation("→", "w_s", tau=10)
    join = Operation("⋈", "w_r", "b", 40, 5, True, frozenset("b"), frozenset("a"))
    less = Operation("−", "w_t", "c", 40, 0.5, True, frozenset("c"))
    out = Operation("→", "w_out", tau=1)
    given = DataflowExpression("s", (record, join, less, out), columns=frozenset("bc"))
    best = given.reordered()
    assert str(best) == "δ_s : →(w_s), −_c(w_t), ⋈_b(w_r), →(w_out)"
    assert best.time() < given.time()
    # δ_r has no column c before it has met s, so its order stays
    meets = replace(join, window="w_s", gives=frozenset("c"))
    given = DataflowExpression("r", (record, meets, less, out), columns=frozenset("ab"))
    assert given.reordered() == given


def test_many_operations_are_ordered_by_what_they_leave() -> None:
    operations = tuple(
        Operation("⋈", f"w_{n}", tau=10, factor=factor, free=True)
        for n, factor in enumerate((3.0, 0.5, 2.0, 0.1, 1.0, 4.0, 0.9))
    )
    best = DataflowExpression("s", operations).reordered()
    factors = [each.factor for each in best.operations]
    assert factors == sorted(factors)


def test_item_mode_delays_less_where_items_multiply() -> None:
    steps = (Operation("→", "w", tau=1), Operation("⋈", "v", tau=4, factor=9))
    expression = DataflowExpression("s", (*steps, Operation("⋈", "u", tau=4)))
    assert expression.time() == 1 + 4 + 9 * 4
    assert expression.time(item_mode=True) == 1 + 4 + (1 + 9) / 2 * 4


def test_containers_of_static_streams_always_pay() -> None:
    """They need not be filled, so nobody waits; all that counts is what reading them saves."""
    container = Container(recording=100, filling=1e9, reading=300, recomputing=301)
    assert container.waiting(float("inf")) == 0
    assert container.pays(float("inf"))
    assert not container.pays(apart=0)


def test_explain(db: ps.Database) -> None:
    query = plan(db, TRIANGLE)
    found = query.explain(dataflow=True)
    assert str(db.sql(f"EXPLAIN DATAFLOW {TRIANGLE}")) == found
    lines = found.splitlines()
    assert lines[0] == "Dataflow, in process"
    assert [line[:3] for line in lines[1:7:2]] == ["δ_r", "δ_s", "δ_t"]
    assert all(" a tuple in blocks, " in line for line in lines[2:7:2])
    assert "r ⋈ s ⋈ t" in lines
    assert sum(line.endswith(", chosen") for line in lines) == 1
    assert any(line.startswith("  assumed: r 1 tuple a unit") for line in lines)


def test_all_alternatives_are_explained(db: ps.Database) -> None:
    """The trees that the logical level has, one operator for all, and the ways of every stream."""
    lines = plan(db, TRIANGLE).explain(dataflow=True).splitlines()
    trees = [line.split(":")[0].strip() for line in lines if " a tuple" in line and "(" in line]
    assert {"((r s) t)", "(r (s t))", "(s (r t))", "(r s t)"} == {t for t in trees if t[0] == "("}
    begin = lines.index("  tuples of one stream, where no intermediate results are kept")
    assert {line.rpartition(":")[0].strip() for line in lines[begin + 1 :]} == {
        "δ_r : →(w_r), ⋈_b(w_s), ⋈_ac(w_t)",
        "δ_r : →(w_r), ⋈_a(w_t), ⋈_bc(w_s)",
        "δ_s : →(w_s), ⋈_b(w_r), ⋈_ac(w_t)",
        "δ_s : →(w_s), ⋈_c(w_t), ⋈_ab(w_r)",
        "δ_t : →(w_t), ⋈_a(w_r), ⋈_bc(w_s)",
        "δ_t : →(w_t), ⋈_c(w_s), ⋈_ab(w_r)",
    }


def test_of_many_alternatives_the_best_are_explained(db: ps.Database) -> None:
    four = f"{TRIANGLE} AND u.c = t.c".replace(" WHERE", ", s AS u [RANGE 5, WA ts] WHERE")
    lines = plan(db, four).explain(dataflow=True).splitlines()
    assert any(line.startswith("  26 trees in all, up to ") for line in lines)
    assert sum(line.endswith(", chosen") for line in lines) == 1
    assert sum(line.startswith("  … 6 orders, up to ") for line in lines) == 4


def test_what_was_joined_before_is_called_after_its_streams(db: ps.Database) -> None:
    sql = (
        "SELECT r.a FROM r [RANGE 5, WA ts] LEFT JOIN s [RANGE 5, WA ts] ON r.b = s.b"
        " JOIN t [RANGE 5, WA ts] ON r.a = t.a"
    )
    assert shown(db, sql) == [
        "δ_r : →(w_r), ⟕_b(w_s), →(w_rs), ⋈_a(w_t), ϱ, →(w_out)",
        "δ_s : →(w_s), ⟕_b(w_r), →(w_rs), ⋈_a(w_t), ϱ, →(w_out)",
        "δ_t : →(w_t), ⋈_a(w_rs), ϱ, →(w_out)",
    ]
    lines = plan(db, sql).explain(dataflow=True).splitlines()
    assert {"r ⟕ s", "rs ⋈ t"} <= set(lines)
