"""Which operators take signed items, and what is refused of them."""

from __future__ import annotations

from penstock.errors import EngineError
from penstock.optimizer.physical.revisions import no_early_items
from penstock.physical.asked import Asked
from penstock.physical.host import Host
from penstock.physical.node import OperatorKind
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.node import Node
from penstock.windows.landmark import Landmark
from penstock.windows.rows import RowWindow
from penstock.windows.slide_by_tuple import SlideByTuple
from penstock.windows.sliding import Sliding


def signed_operator(node: Node, asked: Asked | None, host: Host) -> OperatorKind:
    """For a node that keeps items which may be taken back."""
    if asked is not None and asked.answers_early and isinstance(node, Distinct | Difference):
        what = "DISTINCT over a difference" if isinstance(node, Distinct) else "a difference"
        raise no_early_items(what, node.span)
    match node:
        case WindowAggregate(hint=hint) if hint is not None:
            raise EngineError(
                f"{hint.name} does not fold signed items",
                span=node.span,
                hint="leave the hint out",
            )
        case WindowAggregate(window=Sliding()):
            return OperatorKind.SIGNED_SLIDING
        case WindowAggregate(window=Landmark()):
            return OperatorKind.SIGNED_LANDMARK
        case WindowAggregate(window=RowWindow()):
            return OperatorKind.SIGNED_ROWS
        case WindowAggregate(window=SlideByTuple()):
            return OperatorKind.SIGNED_SLIDE_BY_TUPLE
        case GroupAggregate():
            return OperatorKind.SIGNED_GROUPS
        case Distinct():
            return OperatorKind.SIGNED_DISTINCT
        case Difference():
            return OperatorKind.DIFFERENCE
        case Join(branches=(_, _)):
            return OperatorKind.OA_JOIN
        case Join() if node.tree is not None:
            return OperatorKind.MULTIWAY_JOIN
    raise cannot_run(node, host)


def cannot_run(node: Node, host: Host) -> EngineError:
    return EngineError(
        f"the {host.value} engine cannot run a {type(node).__name__.lower()} yet",
        hint="the reference engine: --engine reference, or connect('reference')",
    )
