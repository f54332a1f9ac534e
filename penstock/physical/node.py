"""Nodes of the physical plan: an operator, its ports, and what it has to keep to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from penstock.errors import PlanError
from penstock.physical.asked import Asked
from penstock.plan.expressions import Expression
from penstock.plan.node import Node


class OperatorKind(Enum):
    """What runs.  The operators of one line can stand for each other: they have the same answer."""

    READ = "Read"
    FILTER = "Filter"
    PROJECT = "Project"
    STAMP = "Stamp"
    UNION = "Union"
    ORDER = "Order"
    PANED, WID, ADAPTIVE, TWO_LEVEL, BUFFERING = (
        "Paned",
        "Wid",
        "AdaptWid",
        "TwoLevel",
        "Buffering",
    )
    LANDMARK = "Landmark"
    ROWS = "Rows"
    SLIDE_BY_TUPLE = "SlideByTuple"
    GROUPED = "Grouped"
    DISTINCT = "Distinct"
    RECENT = "Recent"
    CHRONICLE = "Chronicle"
    DIFFERENCE = "Difference"
    SIGNED_SLIDING = "SignedSliding"
    SIGNED_LANDMARK = "SignedLandmark"
    SIGNED_ROWS = "SignedRows"
    SIGNED_SLIDE_BY_TUPLE = "SignedSlideByTuple"
    SIGNED_GROUPS = "SignedGroups"
    SIGNED_DISTINCT = "SignedDistinct"
    REVISING_SLIDING = "RevisingSliding"
    REVISING_LANDMARK = "RevisingLandmark"
    REVISING_GROUPS = "RevisingGroups"
    AMENDING_DISTINCT = "AmendingDistinct"
    DEFERRED_ROWS = "Deferred Rows"
    DEFERRED_SLIDE_BY_TUPLE = "Deferred SlideByTuple"


class Ordering(Enum):
    """In which order rows leave."""

    ANY = "any"
    CLOSING = "windows and groups as they close"
    SORTED = "sorted"


@dataclass(frozen=True)
class Port:
    """An input of an operator.  Tuples that agree on `keys` have to meet in one place; without any
    all of them do; None: wherever they are.  Where a port is `pre_aggregated`, tuples may be folded
    before they come to that place."""

    input: PhysicalNode
    keys: tuple[Expression, ...] | None = None
    pre_aggregated: bool = False

    def __post_init__(self) -> None:
        if self.pre_aggregated and self.keys is None:
            raise PlanError("nothing is folded for an operator that tuples need not meet in")


@dataclass(frozen=True)
class PhysicalNode:
    """`logical` is the node that it answers.  With `whole_windows`, whoever gets the results counts
    them, so no group leaves ahead of the others of its window; where a stream is `punctuated` for
    single groups, groups do leave ahead."""

    logical: Node
    operator: OperatorKind
    ports: tuple[Port, ...] = ()
    asked: Asked | None = None
    ordering: Ordering = Ordering.ANY
    whole_windows: bool = False
    punctuated: bool = False

    def __post_init__(self) -> None:
        expected = 0 if self.operator is OperatorKind.READ else max(1, len(self.logical.inputs))
        if len(self.ports) != expected:
            name, found = self.operator.value, len(self.ports)
            raise PlanError(f"{name} has {found} ports", expected=f"{expected}")

    @property
    def stateful(self) -> bool:
        """Whether tuples have to meet here: what has come is kept for what comes."""
        return any(port.keys is not None for port in self.ports)

    @property
    def inputs(self) -> tuple[PhysicalNode, ...]:
        return tuple(port.input for port in self.ports)

    def walk(self) -> Iterator[PhysicalNode]:
        yield self
        for node in self.inputs:
            yield from node.walk()
