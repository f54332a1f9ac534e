"""What is asked of the operators of a query whose results may be revised (LATE AMEND, EMIT EARLY),
and which operators can do it.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import EngineError, Span
from penstock.operators.revising.above import Above
from penstock.physical.asked import Asked
from penstock.physical.node import OperatorKind
from penstock.plan.algorithms import Algorithm
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.nodes.stateless import Scan
from penstock.plan.properties.can_fail import may_fail
from penstock.windows.landmark import Landmark
from penstock.windows.rows import Order, RowWindow
from penstock.windows.session import Session
from penstock.windows.sliding import Sliding


def asked_of_results(query: QueryPlan) -> Asked | None:
    """What is asked of the operators that give the results of a query."""
    if not query.revises:
        return None
    amends = query.late is Late.AMEND
    return Asked(amends, query.amend_for, query.early_every, changes=query.changes)


def asked_below(node: Node, asked: Asked | None, port: int = 0) -> Asked | None:
    """What is asked of the operators below a node, at one of its inputs.  What others build on is
    not revised: it comes when it is final."""
    if asked is None:
        return None
    final = Asked(True, asked.amend_for, final_only=True) if asked.amends else None
    if isinstance(node, Lookup) and _cannot_be_tried(node, asked):
        if asked.answers_early:
            raise EngineError(
                "the local engine has no early answers that are looked up in a table where an"
                " expression may fail yet",
                span=node.span,
                hint="TRY_CAST, or the reference engine: --engine reference",
            )
        return final
    if node.running and node.stateful:  # other running answers may change below it
        return replace(asked, above=(), final_only=True)
    if node.stateful:
        return final
    return replace(asked, above=((node, port), *asked.above))


def _cannot_be_tried(node: Lookup, asked: Asked) -> bool:
    """Rows that may be taken back are tried where they would go, and nobody tries a look-up: where
    something may fail behind it, they come when they are final."""
    if asked.final_only or not any(each.stateful for each in node.input.walk()):
        return False
    conditions = [] if node.condition is None else [node.condition]
    return any(map(may_fail, conditions)) or Above.of(asked.above) is not None


def asked_of(node: Node, asked: Asked | None) -> Asked | None:
    """What is asked of a node itself: results are never late where others build on them."""
    if asked is None or not node.stateful or node.running:
        return asked
    if asked.changes and (asked.final_only or not _can_change(node)):
        asked = replace(asked, changes=False)
        if not asked.amends:
            return None
    if not _only_results(node.inputs):
        return asked
    if not asked.answers_early:
        return None
    return replace(asked, amends=False, amend_for=None)


def _can_change(node: Node) -> bool:
    """Whether what an operator has begun can be said before it is complete; otherwise its results
    come when they are."""
    if any(each.signed for each in node.inputs):
        return False
    match node:
        case WindowAggregate(window=Sliding() | Landmark(), hint=None | Algorithm.PANED):
            return True
        case WindowAggregate(window=Session(longest=None)):
            return True
    return isinstance(node, GroupAggregate | DistinctOn)


def _only_results(nodes: tuple[Node, ...]) -> bool:
    return all(
        node.stateful or (not isinstance(node, Scan) and _only_results(node.inputs))
        for node in nodes
    )


def revising_operator(node: Node, asked: Asked) -> OperatorKind | None:
    """None where the usual operator will do: it takes nothing back and knows no late tuples."""
    if isinstance(node, WindowAggregate) and node.hint not in (None, Algorithm.PANED):
        raise EngineError(
            f"{node.hint.name} does not revise results (LATE AMEND, EMIT EARLY)",
            span=node.span,
            expected="PANED",
            hint="leave the hint out",
        )
    match node:
        case WindowAggregate(window=Sliding()):
            return OperatorKind.REVISING_SLIDING
        case WindowAggregate(window=Landmark()):
            return OperatorKind.REVISING_LANDMARK
        case WindowAggregate(window=RowWindow(order=Order.ARRIVAL)):
            return None
        case WindowAggregate(window=Session(longest=None)):
            return OperatorKind.REVISING_SESSIONS
        case WindowAggregate() if not asked.amends:
            return None
        # those over an expression keep its tuples as items, and wait for any bound
        case WindowAggregate(window=RowWindow(), attribute=Column()):
            return OperatorKind.DEFERRED_ROWS
        case WindowAggregate(window=RowWindow()):
            return OperatorKind.SIGNED_ROWS
        case WindowAggregate(window=Session(), attribute=Column()):
            return OperatorKind.DEFERRED_SESSIONS
        case WindowAggregate(window=Session()):
            raise EngineError(
                "the local engine cannot amend sessions with a MAX over a computed time yet",
                span=node.span,
                hint="the time as a column of a sub-query below, or no MAX",
            )
        case WindowAggregate(attribute=Column()):
            return OperatorKind.DEFERRED_SLIDE_BY_TUPLE
        case WindowAggregate():
            return OperatorKind.SIGNED_SLIDE_BY_TUPLE
        case GroupAggregate():
            return OperatorKind.REVISING_GROUPS
        case DistinctOn():
            return OperatorKind.REVISING_DISTINCT_ON
        case Distinct() if asked.amends:
            return OperatorKind.AMENDING_DISTINCT
        case Difference() if asked.answers_early:
            raise no_early_items("a difference", node.span)
    return None


def no_early_items(what: str, span: Span | None) -> EngineError:
    """At the end of its streams, everything has left again: what would be there then says
    nothing."""
    return EngineError(
        f"{what} has no early answers: its items say when tuples come and go, which is final",
        span=span,
        expected="windows or groups over it, or no EMIT EARLY",
    )
