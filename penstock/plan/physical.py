"""Physical plans: operators with their ports, partitioning, order and emission, as a host executes
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from penstock.errors import PlanError
from penstock.model.arrays import Ints, floor_div
from penstock.model.durations import format_duration
from penstock.model.ticks import Domain, Length
from penstock.model.types import Type
from penstock.plan.algorithms import Consistency, JoinChoice
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan


class Host(Enum):
    """Engine that executes a physical plan."""

    LOCAL = "local"
    SPARK = "spark"


# Emission of an operator whose results may be revised.

# Stateless nodes that rows pass one after the other, with the port at which they enter each.
Steps: TypeAlias = tuple[tuple[Node, int], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """Emission required of an operator.

    `amends` says whether late tuples are amended, and `amend_for` how long (None: always);
    `early_every` is the interval of early results in microseconds. With `final_only`, results
    leave when they are final, so that other operators can build on them; `above` are the nodes
    that other results pass before they leave. With `changes`, all changes are emitted with every
    batch.
    """

    amends: bool = False
    amend_for: Length | None = None
    early_every: int | None = None
    final_only: bool = False
    above: Steps = field(default=(), repr=False)
    changes: bool = False

    @property
    def answers_early(self) -> bool:
        return self.early_every is not None or self.changes

    def grace(self, sql_type: Type) -> int | None:
        """Ticks behind the bound during which late tuples still count; None if they always do."""
        if not self.amends:
            return 0
        return None if self.amend_for is None else self.amend_for.ticks(Domain(sql_type))

    def __str__(self) -> str:
        """
        >>> str(Asked(early_every=1_000_000)), str(Asked(amends=True, final_only=True))
        ('answers early every 1 SECOND', 'amends, final results only')
        """
        words = []
        if self.amends:
            words.append("amends" if self.amend_for is None else f"amends for {self.amend_for}")
        if self.early_every is not None:
            words.append(f"answers early every {format_duration(self.early_every)}")
        if self.changes:
            words.append("says what changes at once")
        if self.final_only:
            words.append("final results only")
        return ", ".join(words)


# The order of the rows of an operator, where it emits them in order itself.


@dataclass(frozen=True, slots=True)
class Sorting:
    """Rows leave in the order of an expression of their columns; `above` are the nodes that they
    pass before they leave the query.
    """

    by: Expression
    above: Steps = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"sorted by {self.by}"


# Partitioning of tuples that have no key in common, but have to be close in time: by slices of
# time.


@dataclass(frozen=True)
class TimeSlices:
    """Slices of time, `width` ticks long and numbered from `origin` on. A tuple goes to all slices
    from the one `low` ticks from its time to the one `high` ticks from it.

    Where the tuples of one input go to one slice each, and those of the other to all in which they
    may have partners, every pair meets in one slice, and so do all partners of a tuple of the first
    input.

    >>> import numpy as np
    >>> from penstock.model.types import INT
    >>> own, partners = TimeSlices(t := Column("t", INT), 20), TimeSlices(t, 20, low=-3, high=2)
    >>> own.first(np.array([17, 18, 22])), partners.first(np.array([17, 18, 22]))
    (array([0, 0, 1]), array([0, 0, 0]))
    >>> partners.last(np.array([17, 18, 22]))
    array([0, 1, 1])
    """

    attribute: Column
    width: int
    low: int = 0
    high: int = 0
    origin: int = 0

    def __post_init__(self) -> None:
        if self.width <= 0:
            raise PlanError(f"slices of {self.width} ticks", expected="1 or more")
        if self.low > self.high:
            raise PlanError(f"no slice is between {self.low} and {self.high} ticks beside a tuple")

    @property
    def one_each(self) -> bool:
        """Whether a tuple goes to one slice only."""
        return self.low == self.high

    def first(self, ticks: Ints) -> Ints:
        return floor_div(ticks, plus=self.low - self.origin % self.width, by=self.width)

    def last(self, ticks: Ints) -> Ints:
        return floor_div(ticks, plus=self.high - self.origin % self.width, by=self.width)

    def __str__(self) -> str:
        length = Domain(self.attribute.type).format_length(self.width)
        text = f"slices of {length} of {self.attribute}"
        return text if self.one_each else f"{text} in which they may have partners"


# Nodes of the physical plan: an operator, its ports, and the requirements on it.


class OperatorKind(Enum):
    """Operators of physical plans. Those on one line are interchangeable: they give the same
    results.
    """

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
    """Order in which rows leave."""

    ANY = "any"
    CLOSING = "windows and groups as they close"
    SORTED = "sorted"


@dataclass(frozen=True)
class Port:
    """An input of an operator.

    Tuples that agree on `keys` have to meet in one place; with no keys, all of them do, unless
    they meet by `slices` of time; None: anywhere. At a `pre_aggregated` port, tuples may be folded
    before they reach that place.
    """

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
    """An operator of a physical plan.

    `logical` is the node that it implements. With `whole_windows`, a consumer counts the results,
    so no group leaves ahead of the others of its window; where a stream is `punctuated` for single
    groups, groups do leave ahead. `sorting` is the order of rows that are SORTED, if not by the
    first progressing column; `alpha` is the load from which on an Adaptive join changes its mode.
    A join with a `consistency` processes tuples in parallel. `unseen` has the places of columns,
    by port, that nothing reads. `join_choice` has the algorithms that were considered for a join
    of two streams, and `notes` are lines for EXPLAIN.
    """

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
        """Whether tuples have to meet here, because earlier ones are kept for later ones."""
        return any(port.keys is not None for port in self.ports)

    @property
    def inputs(self) -> tuple[PhysicalNode, ...]:
        return tuple(port.input for port in self.ports)

    def walk(self) -> Iterator[PhysicalNode]:
        yield self
        for node in self.inputs:
            yield from node.walk()


# The physical plan as a whole: the query, and the operators that execute it.


@dataclass(frozen=True)
class PhysicalPlan:
    """Physical plan of a query.

    `query` is the query as it was bound; `simplified` names the rules of the optimizer that have
    simplified it for the operators. Tuples are processed `one_by_one` where nothing else satisfies
    the CONSISTENCY of the query. Operators for `shared` nodes exist once, for all of their places
    in the plan.
    """

    query: QueryPlan
    root: PhysicalNode
    host: Host
    simplified: tuple[str, ...] = ()
    one_by_one: bool = False
    shared: tuple[Node, ...] = ()

    @property
    def executed(self) -> QueryPlan:
        """The query that the operators compute."""
        top = self.root.logical
        return top if isinstance(top, QueryPlan) else replace(self.query, input=top)
