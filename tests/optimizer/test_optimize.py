"""The rules of a host in one tuple: each can be left out, and the answer stays the same."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.optimizer.lowering import lower
from penstock.optimizer.optimize import RULES, optimize
from penstock.optimizer.rewrite import Settings
from penstock.plan.physical import Host, OperatorKind
from tests.reference.helpers import bag, tuples
from tests.spark.without_spark import Given, WithoutSpark, rows_of

SELECTS = [
    "SELECT sum(x) AS a, k, count(*) AS n [RANGE 9, SLIDE 3, WA t] FROM s GROUP BY k",
    "SELECT k, max(x) AS m [RANGE 9, SLIDE 3, WA t] FROM s GROUP BY k EMIT IN ORDER",
    "SELECT t, k, avg(x) AS m FROM s GROUP BY t, k LATE AMEND",
    "SELECT DISTINCT k, t FROM s",
]


def bound(select: str) -> ps.Query:
    db = ps.connect("reference")
    rows = [(n % 3, n * 7 % 11, n // 2) for n in range(60)]
    db.stream("s", rows, schema="k INT, x INT, t INT", progress=ps.progress("t", delay=5))
    query = db.sql(select)
    assert isinstance(query, ps.Query)
    return query


@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("left_out", [rule for rule in RULES[Host.LOCAL] if rule is not lower])
def test_a_rule_left_out_in_process(select: str, left_out: object) -> None:
    query = bound(select)
    rules = tuple(rule for rule in RULES[Host.LOCAL] if rule is not left_out)
    plan = optimize(query.plan, Settings(), rules)
    assert bag(tuples(answer(plan, ManualClock()).table)) == bag(tuples(query.collect()))


@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("left_out", [rule for rule in RULES[Host.SPARK] if rule is not lower])
def test_a_rule_left_out_on_spark(select: str, left_out: object) -> None:
    query = bound(select)
    rules = tuple(rule for rule in RULES[Host.SPARK] if rule is not left_out)
    plan = optimize(query.plan, Settings(host=Host.SPARK), rules)
    job = WithoutSpark(plan, 2)
    rows = rows_of(query.plan)
    job.run({name: [Given([Chunk(batch)], ends=True)] for name, batch in rows.items()})
    assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect()))


def test_without_any_rule_there_is_still_a_plan() -> None:
    plan = optimize(bound(SELECTS[0]).plan, Settings(), ())
    assert [node.operator for node in plan.root.walk()][1] is OperatorKind.PANED
