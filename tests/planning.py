"""Plans of queries for one host or the other, whichever engine their database has."""

from __future__ import annotations

from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Host, PhysicalPlan


def in_process(query: QueryPlan) -> PhysicalPlan:
    return physical_plan(query, Settings(host=Host.LOCAL))


def on_spark(query: QueryPlan) -> PhysicalPlan:
    return physical_plan(query, Settings(host=Host.SPARK))
