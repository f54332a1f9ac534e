"""Which operator runs a node of a plan: every host builds its operators here."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import EngineError
from penstock.model.clock import Clock
from penstock.operators.groups.distinct import DistinctOperator
from penstock.operators.groups.grouped import GroupedOperator
from penstock.operators.operator import Operator
from penstock.operators.revising.amendment import Revising
from penstock.operators.revising.build import revising_operator_for
from penstock.operators.stateless.filter import FilterOperator
from penstock.operators.stateless.order import InOrder
from penstock.operators.stateless.project import ProjectOperator
from penstock.operators.stateless.stamp import StampOperator
from penstock.operators.stateless.union import Meld
from penstock.operators.windows.adapt_wid import AdaptWid
from penstock.operators.windows.buffering import Buffering
from penstock.operators.windows.landmark import LandmarkOperator
from penstock.operators.windows.paned import Paned
from penstock.operators.windows.rows import RowsOperator
from penstock.operators.windows.slide_by_tuple import Bins
from penstock.operators.windows.two_level import TwoLevel
from penstock.operators.windows.wid import Wid
from penstock.plan.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.algorithms import Algorithm
from penstock.plan.node import Node
from penstock.plan.query import Query
from penstock.plan.stateless import Filter, Project, Stamp, Union
from penstock.windows.landmark import Landmark
from penstock.windows.rows import RowWindow
from penstock.windows.slide_by_tuple import SlideByTuple
from penstock.windows.sliding import Sliding


def operator_for(node: Node, clock: Clock, revising: Revising | None = None) -> Operator:
    """A new operator for any node but a scan, which is the host's business; `revising` if its
    results may be revised.  For a query as a whole it is the one that puts its rows in order."""
    if revising is not None and not any(each.signed for each in node.inputs):
        found = revising_operator_for(node, revising)
        if found is not None:
            return found
    match node:
        case Filter():
            return FilterOperator(node)
        case Project():
            return ProjectOperator(node)
        case Stamp():
            return StampOperator(node, clock)
        case Union():
            return Meld(node)
        case WindowAggregate() if not node.input.signed:
            return _window_operator(node)
        case GroupAggregate() if not node.input.signed:
            return GroupedOperator(node)
        case Distinct():
            return DistinctOperator(node)
        case Query():
            return InOrder(node, revising)
    raise EngineError(
        f"the local engine cannot run a {type(node).__name__.lower()} yet",
        hint="the reference engine: --engine reference, or connect('reference')",
    )


_ALGORITHMS: dict[Algorithm, Callable[[WindowAggregate], Operator]] = {
    Algorithm.PANED: Paned,
    Algorithm.WID: Wid,
    Algorithm.ADAPTIVE: AdaptWid,
    Algorithm.TWO_LEVEL: TwoLevel,
    Algorithm.BUFFERING: Buffering,
}


def _window_operator(node: WindowAggregate) -> Operator:
    match node.window:
        case Sliding():
            return _ALGORITHMS[node.algorithm or Algorithm.PANED](node)
        case Landmark():
            return LandmarkOperator(node)
        case RowWindow():
            return RowsOperator(node)
        case SlideByTuple():
            return Bins(node)
