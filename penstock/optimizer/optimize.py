"""All rules, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from penstock.optimizer.canonical_order import canonical_order
from penstock.optimizer.choose_algorithm import choose_algorithm
from penstock.optimizer.settings import Settings
from penstock.plan.query import QueryPlan

Rule: TypeAlias = Callable[[QueryPlan, Settings], QueryPlan]
IN_PROCESS: tuple[Rule, ...] = (canonical_order, choose_algorithm)
# the costs are those of one process; on Spark, panes save what is shuffled and kept
ON_SPARK: tuple[Rule, ...] = (canonical_order,)


def optimize(
    query: QueryPlan, settings: Settings, rules: tuple[Rule, ...] = IN_PROCESS
) -> QueryPlan:
    """A plan with the same answer.  It depends on the plan and on what its sources hold: neither
    on a clock nor on chance."""
    for rule in rules:
        query = rule(query, settings)
    return query
