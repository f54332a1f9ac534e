"""Which operator runs a node whose results may be revised."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import EngineError
from penstock.operators.amending_distinct import AmendingDistinct
from penstock.operators.bins import Bins
from penstock.operators.grace import Revising
from penstock.operators.operator import Operator
from penstock.operators.patient import Patient
from penstock.operators.revising_groups import RevisingGroups
from penstock.operators.revising_landmark import RevisingLandmark
from penstock.operators.revising_sliding import RevisingSliding
from penstock.operators.row_windows import RowsOperator
from penstock.plan.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.algorithms import Algorithm
from penstock.plan.joins import Difference, Join, Sequence
from penstock.plan.node import Node
from penstock.plan.query import Late, Query
from penstock.plan.stateless import Scan
from penstock.windows.landmark import Landmark
from penstock.windows.rows import Order, RowWindow
from penstock.windows.sliding import Sliding


def revising_operator_for(node: Node, revising: Revising) -> Operator | None:
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
            return RevisingSliding(node, revising)
        case WindowAggregate(window=Landmark()):
            return RevisingLandmark(node, revising)
        case WindowAggregate(window=RowWindow(order=Order.ARRIVAL)) if not revising.answers_early:
            return None
        case WindowAggregate(window=RowWindow()) if not revising.answers_early:
            return Patient(node, revising, RowsOperator)
        case WindowAggregate() if not revising.answers_early:
            return Patient(node, revising, Bins)
        case WindowAggregate():
            raise EngineError(
                f"the local engine has no early answers for {node.describe_window()} yet",
                span=node.span,
                expected="windows over values",
                hint="leave EMIT EARLY out, or the reference engine: --engine reference",
            )
        case GroupAggregate():
            return RevisingGroups(node, revising)
        case Distinct() if revising.amends:
            return AmendingDistinct(node, revising)
    return None


def is_stateful(node: Node) -> bool:
    return isinstance(
        node, WindowAggregate | GroupAggregate | Distinct | Join | Difference | Sequence
    )


def asked_of_results(query: Query) -> Revising | None:
    """What is asked of the operators that give the results of a query."""
    if not query.revises:
        return None
    return Revising(query.late is Late.AMEND, query.amend_for, query.early_every is not None)


def asked_below(node: Node, revising: Revising | None, port: int = 0) -> Revising | None:
    """What is asked of the operators below a node, at one of its inputs.  What others build on is
    not revised: it comes when it is final."""
    if revising is None:
        return None
    if not is_stateful(node):
        return replace(revising, above=((node, port), *revising.above))
    if not revising.amends:
        return None
    return Revising(True, revising.amend_for, patient=True)


def asked_of(node: Node, revising: Revising | None) -> Revising | None:
    """What is asked of a node itself: results are never late where others build on them."""
    if revising is None or not is_stateful(node) or not _only_results(node.inputs):
        return revising
    if not revising.answers_early:
        return None
    return Revising(answers_early=True, above=revising.above)


def _only_results(nodes: tuple[Node, ...]) -> bool:
    return all(
        is_stateful(node) or (not isinstance(node, Scan) and _only_results(node.inputs))
        for node in nodes
    )
