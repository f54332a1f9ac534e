"""A physical plan as a whole: the query that is answered, and the operators that do it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.physical.host import Host
from penstock.physical.node import PhysicalNode
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan


@dataclass(frozen=True)
class PhysicalPlan:
    """`query` is what is asked, as it was bound; `simplified` names the rules of the optimizer that
    have made something simpler of it, which the operators answer.  Tuples are taken in
    `one_by_one` where nothing else keeps to the CONSISTENCY that is asked for.  Operators for
    what is `shared` are there once, for all of their places in the plan."""

    query: QueryPlan
    root: PhysicalNode
    host: Host
    simplified: tuple[str, ...] = ()
    one_by_one: bool = False
    shared: tuple[Node, ...] = ()

    @property
    def executed(self) -> QueryPlan:
        """The query over what the operators really compute."""
        top = self.root.logical
        return top if isinstance(top, QueryPlan) else replace(self.query, input=top)
