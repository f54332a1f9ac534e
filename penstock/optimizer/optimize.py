"""All rules, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from penstock.optimizer.choose_algorithm import choose_algorithm
from penstock.optimizer.settings import Settings
from penstock.plan.query import Query

Rule: TypeAlias = Callable[[Query, Settings], Query]
RULES: tuple[Rule, ...] = (choose_algorithm,)


def optimize(query: Query, settings: Settings) -> Query:
    """A plan with the same answer.  It depends on the plan and on what its sources hold: neither
    on a clock nor on chance."""
    for rule in RULES:
        query = rule(query, settings)
    return query
