"""All rules, one after the other: from what a text means to what a host executes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from penstock.optimizer.arrange_joins import arrange_joins
from penstock.optimizer.canonical_order import canonical_order
from penstock.optimizer.choose_algorithm import choose_algorithm
from penstock.optimizer.choose_join import choose_join
from penstock.optimizer.count_in_one_place import count_in_one_place
from penstock.optimizer.drop_needless_order import drop_needless_order
from penstock.optimizer.expect_state import expect_state
from penstock.optimizer.leave_in_order import leave_in_order
from penstock.optimizer.leave_room import leave_room
from penstock.optimizer.lower import lower
from penstock.optimizer.pre_aggregate import pre_aggregate
from penstock.optimizer.prune_columns import prune_columns
from penstock.optimizer.settings import Settings
from penstock.optimizer.shuffle_tables import shuffle_tables
from penstock.optimizer.slice_bands import slice_bands
from penstock.physical.host import Host
from penstock.physical.plan import PhysicalPlan
from penstock.plan.query import QueryPlan

# From logical to logical plans before `lower`, from physical to physical ones after it.
RewriteRule: TypeAlias = Callable[[Any, Settings], Any]

LOGICAL: dict[Host, tuple[RewriteRule, ...]] = {
    Host.LOCAL: (leave_room, canonical_order, choose_algorithm),
    # the costs are those of one process; on Spark, panes save what is shuffled and kept
    Host.SPARK: (leave_room, canonical_order),
}
PHYSICAL: dict[Host, tuple[RewriteRule, ...]] = {
    Host.LOCAL: (arrange_joins, lower, choose_join, leave_in_order, expect_state),
    Host.SPARK: (
        arrange_joins,
        prune_columns,
        lower,
        choose_join,
        shuffle_tables,
        drop_needless_order,
        count_in_one_place,
        slice_bands,
        pre_aggregate,
        expect_state,
    ),
}
RULES: dict[Host, tuple[RewriteRule, ...]] = {host: LOGICAL[host] + PHYSICAL[host] for host in Host}


def optimize(
    query: QueryPlan, settings: Settings, rules: tuple[RewriteRule, ...] | None = None
) -> PhysicalPlan:
    """A plan with the same answer, by all rules of the host or by some.  It depends on the query
    and on what its sources hold: neither on a clock nor on chance."""
    plan: Any = query
    asked = query
    for rule in RULES[settings.host] if rules is None else rules:
        plan = rule(plan, settings)
        if isinstance(plan, QueryPlan) and rule is not prune_columns:
            asked = plan  # which columns are read is not what is asked
    lowered = plan if isinstance(plan, PhysicalPlan) else lower(plan, settings)
    return replace(lowered, query=asked)


def rewrite(query: QueryPlan, settings: Settings) -> QueryPlan:
    """The logical rules alone: what EXPLAIN shows, and what gives saved state its meaning."""
    plan: Any = query
    for rule in LOGICAL[settings.host]:
        plan = rule(plan, settings)
    assert isinstance(plan, QueryPlan)
    return plan


def physical_plan(query: QueryPlan, settings: Settings) -> PhysicalPlan:
    """What a host executes for a query that the logical rules have rewritten already."""
    return optimize(query, settings, PHYSICAL[settings.host])
