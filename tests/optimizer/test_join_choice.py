"""How a join of two streams is computed where several ways are right: by what each takes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as ps
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.algorithms import JoinAlgorithm, JoinChoice, Reason
from penstock.plan.physical import Host, OperatorKind, PhysicalNode

ROWS = 4_000


def database(keys: int, delay: int = 40, rows: int = ROWS, known: bool = True) -> ps.Database:
    db = ps.connect("local")
    for name in "ab":
        times = [n - n * 7919 % (delay + 1) for n in range(rows)]
        columns = {"k": [n * 6007 % keys for n in range(rows)], "x": list(range(rows)), "t": times}
        batches = pa.table(columns).to_batches(max_chunksize=200)
        given = batches if known else iter(batches)
        db.stream(
            name, given, schema="k INT, x BIGINT, t BIGINT", progress=ps.progress("t", delay=delay)
        )
    return db


def join_of(db: ps.Database, column: str, settings: Settings, hint: str = "") -> PhysicalNode:
    ordered = "" if column == "a.x" else "EMIT IN ORDER"
    query = db.sql(
        f"SELECT {hint} {column} AS t FROM a [RANGE 50, WA t], b [RANGE 50, WA t]"
        f" WHERE a.k = b.k {ordered}"
    )
    assert isinstance(query, ps.Query)
    joins = [n for n in physical_plan(query.plan, settings).root.walk() if len(n.ports) == 2]
    return joins[0]


def choice_of(node: PhysicalNode) -> JoinChoice:
    assert node.join_choice is not None
    return node.join_choice


@pytest.mark.parametrize(
    ("column", "keys", "operator"),
    [
        # few results: they wait rather than tuples
        ("a.t", 4_000, OperatorKind.OPOB_JOIN),
        # many: whoever waits, it takes about as long, and tuples take less room
        ("a.t", 2, OperatorKind.OPIB_JOIN),
        ("greatest(a.t, b.t)", 2, OperatorKind.ADAPTIVE_JOIN),
        ("a.x", 2, OperatorKind.OA_JOIN),
    ],
)
def test_the_one_that_takes_least_is_taken(column: str, keys: int, operator: OperatorKind) -> None:
    node = join_of(database(keys), column, Settings())
    assert node.operator is operator
    choice = choice_of(node)
    times = {each.algorithm: each.time for each in choice.estimates}
    assert set(times) == set(JoinAlgorithm) - {JoinAlgorithm.MULTIWAY}
    assert min(times, key=times.__getitem__) is JoinAlgorithm.OA
    states = {each.algorithm: each.state for each in choice.estimates}
    if keys == 2:
        assert states[JoinAlgorithm.OPIB] < states[JoinAlgorithm.OPOB] / 2
        assert states[JoinAlgorithm.SYNC_FILTER] < states[JoinAlgorithm.FILTER_ORDER] / 2


def test_a_budget_decides_where_results_would_take_too_much_room() -> None:
    db = database(4_000)
    tight = choice_of(join_of(db, "a.t", Settings(state_budget=1)))
    assert tight.reason is Reason.STATE
    least = min(tight.estimates, key=lambda each: each.state)
    assert tight.chosen.state <= 1.5 * least.state


def test_where_little_is_known_the_usual_one_is_taken() -> None:
    choice = choice_of(join_of(database(4_000, known=False), "a.t", Settings()))
    assert (choice.algorithm, choice.reason) == (JoinAlgorithm.OPIB, Reason.USUAL)


def test_a_hint_decides_and_numbers_are_beside_it() -> None:
    node = join_of(database(4_000), "a.t", Settings(), "/*+ OPIB */")
    assert node.operator is OperatorKind.OPIB_JOIN
    assert choice_of(node).reason is Reason.HINT


def test_explain_shows_what_was_considered_and_analyze_what_was_measured() -> None:
    db = database(4_000)
    text = "SELECT a.t AS t FROM a [RANGE 50], b [RANGE 50] WHERE a.k = b.k EMIT IN ORDER"
    shown = str(db.sql(f"EXPLAIN PHYSICAL {text}"))
    assert "algorithm: OPOB (as tuples arrive, and results are put in order)" in shown
    for each in set(JoinAlgorithm) - {JoinAlgorithm.MULTIWAY}:
        assert f"  {each.name}: " in shown
    analyzed = str(db.sql(f"EXPLAIN ANALYZE {text}")).splitlines()
    beside = [line for line in analyzed if "measured: " in line and "τ = " in line]
    assert any("  OPOB: " in line for line in analyzed)
    assert beside


def test_on_spark_only_hints_count() -> None:
    node = join_of(database(4_000), "a.t", Settings(host=Host.SPARK))
    assert node.operator is OperatorKind.OA_JOIN
    assert node.join_choice is None
