"""Nodes of the physical plan: an operator, its ports, and what it has to keep to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from penstock.errors import PlanError
from penstock.physical.asked import Asked
from penstock.physical.slices import TimeSlices
from penstock.physical.sorting import Sorting
from penstock.plan.consistency import Consistency
from penstock.plan.expressions import Expression
from penstock.plan.join_choice import JoinChoice
from penstock.plan.nodes.node import Node


class OperatorKind(Enum):
    """What runs.  The operators of one line can stand for each other: they have the same answer."""

    READ = "Read"
    FILTER = "Filter"
    PROJECT = "Project"
    STAMP = "Stamp"
    UNNEST = "Unnest"
    UNION, MERGE = "Union", "Merge"
    ORDER = "Order"
    PANED, WID, ADAPTIVE, TWO_LEVEL, BUFFERING = (
        "Paned",
        "Wid",
        "AdaptWid",
        "TwoLevel",
        "Buffering",
    )
    SHARED_PANES = "SharedPanes"
    WINDOWS_OF_PANES = "WindowsOfPanes"
    LANDMARK = "Landmark"
    ROWS = "Rows"
    SLIDE_BY_TUPLE = "SlideByTuple"
    SESSIONS = "Sessions"
    GROUPED = "Grouped"
    DISTINCT = "Distinct"
    OA_JOIN, OPOB_JOIN, OPIB_JOIN, SYNC_FILTER, FILTER_ORDER, ADAPTIVE_JOIN = (
        "OaJoin",
        "OpobJoin",
        "OpibJoin",
        "SyncFilter",
        "FilterOrder",
        "AdaptiveJoin",
    )
    MULTIWAY_JOIN, CONTAINING_JOIN = "MultiwayJoin", "ContainingJoin"
    RECENT = "Recent"
    CHRONICLE = "Chronicle"
    DISTINCT_ON = "DistinctOn"
    ROWS_IN_TIME = "RowsInTime"
    ROWS_AHEAD = "RowsAhead"
    COMPLETE_PARTITIONS = "CompletePartitions"
    LOOKUP = "Lookup"
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
    REVISING_DISTINCT_ON = "RevisingDistinctOn"
    AMENDING_DISTINCT = "AmendingDistinct"
    DEFERRED_ROWS = "Deferred Rows"
    DEFERRED_SLIDE_BY_TUPLE = "Deferred SlideByTuple"
    DEFERRED_SESSIONS = "Deferred Sessions"
    REVISING_SESSIONS = "RevisingSessions"
    RUNNING_GROUPS = "RunningGroups"
    RUNNING_JOIN = "RunningJoin"
    RUNNING_PARTITIONS = "RunningPartitions"
    ORDERED_ROWS, OR_ELSE = "OrderedRows", "OrElse"  # over tables alone


class Ordering(Enum):
    """In which order rows leave."""

    ANY = "any"
    CLOSING = "windows and groups as they close"
    SORTED = "sorted"


@dataclass(frozen=True)
class Port:
    """An input of an operator.  Tuples that agree on `keys` have to meet in one place; without any
    all of them do, unless they meet by `slices` of time; None: wherever they are.  Where a port is
    `pre_aggregated`, tuples may be folded before they come to that place."""

    input: PhysicalNode
    keys: tuple[Expression, ...] | None = None
    pre_aggregated: bool = False
    slices: TimeSlices | None = None

    def __post_init__(self) -> None:
        if self.slices is not None and self.keys != ():
            raise PlanError("tuples meet by keys or by slices of time, not by both")
        if self.pre_aggregated and self.keys is None:
            raise PlanError("nothing is folded for an operator that tuples need not meet in")


@dataclass(frozen=True)
class PhysicalNode:
    """`logical` is the node that it answers.  With `whole_windows`, whoever gets the results counts
    them, so no group leaves ahead of the others of its window; where a stream is `punctuated` for
    single groups, groups do leave ahead.  `sorting` says by what rows leave that are SORTED, where
    it is not the first progressing column; `alpha` is the load from which on an adaptive join
    changes its ways.  A join of which a `consistency` is asked handles tuples side by side.
    `unseen` has the places of columns, by port, that nobody looks at.  `join_choice` has the
    algorithms that were considered for a join of two streams, and `notes` are for people who look
    at the plan."""

    logical: Node
    operator: OperatorKind
    ports: tuple[Port, ...] = ()
    asked: Asked | None = None
    ordering: Ordering = Ordering.ANY
    whole_windows: bool = False
    punctuated: bool = False
    notes: tuple[str, ...] = field(default=(), compare=False)
    sorting: Sorting | None = None
    alpha: float | None = None
    consistency: Consistency | None = None
    unseen: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    join_choice: JoinChoice | None = field(default=None, compare=False)

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
