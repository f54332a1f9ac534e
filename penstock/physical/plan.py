"""A physical plan as a whole: the query that is answered, and the operators that do it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.physical.host import Host
from penstock.physical.node import PhysicalNode
from penstock.plan.query import QueryPlan


@dataclass(frozen=True)
class PhysicalPlan:
    query: QueryPlan
    root: PhysicalNode
    host: Host
