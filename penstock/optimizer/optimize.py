"""All rules in order: from a bound query to the plan that a host executes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

from penstock.optimizer.distribution import (
    count_in_one_place,
    pre_aggregate,
    shuffle_tables,
    slice_bands,
)
from penstock.optimizer.join_choice import (
    choose_join,
    drop_needless_order,
    expect_state,
    keep_consistency,
    leave_in_order,
)
from penstock.optimizer.join_order import arrange_joins, difference_below_join
from penstock.optimizer.lowering import lower
from penstock.optimizer.pruning import find_unseen, leave_room, prune_columns
from penstock.optimizer.pushdown import (
    derive_predicates,
    filter_below_project,
    filter_below_union,
    filter_below_windows,
    filter_into_join,
    merge_adjacent,
    split_over_join,
)
from penstock.optimizer.rewrite import Settings
from penstock.optimizer.sharing import share_subplans
from penstock.optimizer.simplification import (
    canonical_order,
    drop_needless_distinct,
    flatten_subqueries,
    fold_constants,
    limit_numbered_rows,
)
from penstock.optimizer.window_choice import choose_algorithm
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Host, PhysicalPlan

# From logical to logical plans before `lower`, from physical to physical ones after it.
RewriteRule: TypeAlias = Callable[[Any, Settings], Any]

# The plan that EXPLAIN shows, and that gives saved state its meaning.
LOGICAL: dict[Host, tuple[RewriteRule, ...]] = {
    Host.LOCAL: (leave_room, canonical_order, choose_algorithm),
    # the costs are those of one process; on Spark, panes save what is shuffled and kept
    Host.SPARK: (leave_room, canonical_order),
}

# These rules push filters down in turns, until none of them applies any more.
SINKING: tuple[RewriteRule, ...] = (
    filter_below_project,
    filter_below_union,
    filter_into_join,
    filter_below_windows,
)

# Rules that simplify.  Saved state belongs to the plan before them, and records which of them have
# changed it.
_STEPS: tuple[RewriteRule, ...] = (
    fold_constants,
    *SINKING,
    split_over_join,
    derive_predicates,
    *SINKING,
    limit_numbered_rows,
    flatten_subqueries,
    drop_needless_distinct,
    merge_adjacent,
    difference_below_join,
)
SIMPLIFYING: tuple[RewriteRule, ...] = (*_STEPS, share_subplans)
PHYSICAL: dict[Host, tuple[RewriteRule, ...]] = {
    Host.LOCAL: (
        *_STEPS,
        arrange_joins,
        share_subplans,
        lower,
        choose_join,
        leave_in_order,
        keep_consistency,
        expect_state,
        find_unseen,
    ),
    Host.SPARK: (
        *_STEPS,
        arrange_joins,
        prune_columns,
        share_subplans,
        lower,
        choose_join,
        shuffle_tables,
        drop_needless_order,
        count_in_one_place,
        slice_bands,
        pre_aggregate,
        keep_consistency,
        expect_state,
    ),
}
RULES: dict[Host, tuple[RewriteRule, ...]] = {host: LOGICAL[host] + PHYSICAL[host] for host in Host}
_UNASKED = (*SIMPLIFYING, prune_columns)


def optimize(
    query: QueryPlan, settings: Settings, rules: tuple[RewriteRule, ...] | None = None
) -> PhysicalPlan:
    """Apply all rules of the host, or some. The plan depends on the query and on the contents of
    its sources: neither on a clock nor on chance.
    """
    plan: Any = query
    asked, simplified = query, dict[str, None]()
    for some in _together(RULES[settings.host] if rules is None else rules):
        before = None
        while plan != before:
            before = plan
            for rule in some:
                made = rule(plan, settings)
                if rule in SIMPLIFYING and made != plan:
                    simplified[rule.__name__] = None
                elif isinstance(made, QueryPlan) and rule not in _UNASKED:
                    asked = made if asked is plan else rule(asked, settings)
                plan = made
            if len(some) == 1:
                break
    lowered = plan if isinstance(plan, PhysicalPlan) else lower(plan, settings)
    return replace(lowered, query=asked, simplified=tuple(simplified))


def _together(rules: tuple[RewriteRule, ...]) -> Iterator[tuple[RewriteRule, ...]]:
    """Group the rules: single ones, except for those that push filters down, which take turns
    until none applies any more.
    """
    for sinking, given in groupby(rules, lambda rule: rule in SINKING):
        some = tuple(given)
        yield from [some] if sinking else [(rule,) for rule in some]


def rewrite(query: QueryPlan, settings: Settings) -> QueryPlan:
    """Apply the logical rules alone: the plan that EXPLAIN shows, and that gives saved state its
    meaning.
    """
    plan: Any = query
    for rule in LOGICAL[settings.host]:
        plan = rule(plan, settings)
    assert isinstance(plan, QueryPlan)
    return plan


def executed_query(query: QueryPlan, settings: Settings) -> QueryPlan:
    """Query that the operators compute, from one that the logical rules have rewritten:
    simplified, and with its join trees chosen.
    """
    plan: Any = query
    for some in _together((*SIMPLIFYING, arrange_joins)):
        plan = _applied(some, plan, settings)
    assert isinstance(plan, QueryPlan)
    return plan


def _applied(rules: tuple[RewriteRule, ...], plan: Any, settings: Settings) -> Any:
    """Apply rules in turns, until none changes the plan any more."""
    before = None
    while plan != before:
        before = plan
        for rule in rules:
            plan = rule(plan, settings)
        if len(rules) == 1:
            break
    return plan


def physical_plan(
    query: QueryPlan, settings: Settings, simplified: Collection[str] | None = None
) -> PhysicalPlan:
    """Plan that a host executes, for a query that the logical rules have rewritten already. A
    checkpoint says by which rules the plan was `simplified` at its start; otherwise all are
    applied.
    """
    rules = PHYSICAL[settings.host]
    if simplified is not None:
        others = [rule for rule in SIMPLIFYING if rule.__name__ not in simplified]
        rules = tuple(rule for rule in rules if rule not in others)
        settings = replace(settings, as_begun=True)
    return optimize(query, settings, rules)
