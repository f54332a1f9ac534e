"""Build the operator that runs a node of the physical plan, for every host; and move saved state
between operators that stand for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.errors import CheckpointError
from penstock.kernel.groups.distinct import DistinctOnOperator, DistinctOperator
from penstock.kernel.groups.group_by import GroupedOperator
from penstock.kernel.joins.containing_join import ContainingJoin
from penstock.kernel.joins.difference import DifferenceOperator
from penstock.kernel.joins.lookup import LookupOperator
from penstock.kernel.joins.multiway_join import MultiwayJoin
from penstock.kernel.joins.oa_join import OaJoin
from penstock.kernel.joins.ordered_joins import (
    ALPHA,
    AdaptiveJoin,
    FilterOrderJoin,
    OpibJoin,
    OpobJoin,
    SyncFilterJoin,
)
from penstock.kernel.joins.pairing import UnseenColumns
from penstock.kernel.joins.sequence_modes import Chronicle, Recent
from penstock.kernel.operator import Movable, Operator
from penstock.kernel.order import InOrder, Merge
from penstock.kernel.over.partitions import CompletePartitions
from penstock.kernel.over.time_order import RowsAhead, RowsInTime
from penstock.kernel.retractions.net_groups import SignedDistinct, SignedGroups
from penstock.kernel.retractions.net_windows import (
    SignedLandmark,
    SignedRows,
    SignedSlideByTuple,
    SignedSliding,
)
from penstock.kernel.revisions.deferred_windows import Deferred
from penstock.kernel.revisions.early_answers import TrialEnd
from penstock.kernel.revisions.revised_distinct import AmendingDistinct, RevisingDistinctOn
from penstock.kernel.revisions.revised_groups import RevisingGroups
from penstock.kernel.revisions.revised_panes import RevisingLandmark, RevisingSliding
from penstock.kernel.revisions.revised_sessions import RevisingSessions
from penstock.kernel.running.running_groups import AnswersEarly, AtOnce, RunningGroups
from penstock.kernel.running.running_join import RunningJoinOperator
from penstock.kernel.running.running_over import RunningPartitions
from penstock.kernel.state import ChunkStore
from penstock.kernel.stateless import (
    FilterOperator,
    Meld,
    ProjectOperator,
    StampOperator,
    UnnestOperator,
)
from penstock.kernel.whole_tables import OrderedRowsOperator, OrElseOperator
from penstock.kernel.windows.adapt_wid import AdaptWid
from penstock.kernel.windows.buffering import Buffering
from penstock.kernel.windows.landmark import LandmarkOperator
from penstock.kernel.windows.pane_windows import WindowsOfPanesOperator
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.punctuated import PunctuatedPaned, PunctuatedTwoLevel, PunctuatedWid
from penstock.kernel.windows.row_windows import RowsOperator
from penstock.kernel.windows.sessions import SessionOperator
from penstock.kernel.windows.shared_panes import SharedPanesOperator
from penstock.kernel.windows.slide_by_tuple import SlideByTupleOperator
from penstock.kernel.windows.two_level import TwoLevel
from penstock.kernel.windows.wid import Wid
from penstock.model.clock import Clock
from penstock.plan.expressions import Column, columns_of
from penstock.plan.join_properties import by_ports
from penstock.plan.nodes.join import Join
from penstock.plan.physical import Asked, OperatorKind, PhysicalNode

# from the logical node alone
_PLAIN: dict[OperatorKind, Callable[[Any], Operator]] = {
    OperatorKind.FILTER: FilterOperator,
    OperatorKind.PROJECT: ProjectOperator,
    OperatorKind.UNION: Meld,
    OperatorKind.UNNEST: UnnestOperator,
    OperatorKind.PANED: Paned,
    OperatorKind.WID: Wid,
    OperatorKind.SHARED_PANES: SharedPanesOperator,
    OperatorKind.WINDOWS_OF_PANES: WindowsOfPanesOperator,
    OperatorKind.ADAPTIVE: AdaptWid,
    OperatorKind.TWO_LEVEL: TwoLevel,
    OperatorKind.BUFFERING: Buffering,
    OperatorKind.LANDMARK: LandmarkOperator,
    OperatorKind.ROWS: RowsOperator,
    OperatorKind.SLIDE_BY_TUPLE: SlideByTupleOperator,
    OperatorKind.SESSIONS: SessionOperator,
    OperatorKind.GROUPED: GroupedOperator,
    OperatorKind.DISTINCT: DistinctOperator,
    OperatorKind.DISTINCT_ON: DistinctOnOperator,
    OperatorKind.LOOKUP: LookupOperator,
    OperatorKind.ORDERED_ROWS: OrderedRowsOperator,
    OperatorKind.OR_ELSE: OrElseOperator,
}

# over streams with group-wise punctuation
_PUNCTUATED: dict[OperatorKind, Callable[[Any], Operator]] = {
    OperatorKind.PANED: PunctuatedPaned,
    OperatorKind.WID: PunctuatedWid,
    OperatorKind.TWO_LEVEL: PunctuatedTwoLevel,
}

# from the logical node, and what is asked of results that may be revised
_AMENDING: dict[OperatorKind, Callable[[Any, Asked], Operator]] = {
    OperatorKind.AMENDING_DISTINCT: AmendingDistinct,
    OperatorKind.DEFERRED_SESSIONS: lambda node, asked: Deferred(node, asked, SessionOperator),
    OperatorKind.DEFERRED_ROWS: lambda node, asked: Deferred(node, asked, RowsOperator),
    OperatorKind.DEFERRED_SLIDE_BY_TUPLE: lambda node, asked: Deferred(
        node, asked, SlideByTupleOperator
    ),
}

# with an emission policy, if there is one: results are final, or emitted as they change
_FINAL: dict[OperatorKind, Callable[[Any, Asked | None], Operator]] = {
    OperatorKind.OA_JOIN: OaJoin,
    OperatorKind.CONTAINING_JOIN: ContainingJoin,
    OperatorKind.ROWS_IN_TIME: RowsInTime,
    OperatorKind.ROWS_AHEAD: RowsAhead,
    OperatorKind.COMPLETE_PARTITIONS: CompletePartitions,
    OperatorKind.SIGNED_SLIDING: SignedSliding,
    OperatorKind.SIGNED_LANDMARK: SignedLandmark,
    OperatorKind.SIGNED_ROWS: SignedRows,
    OperatorKind.SIGNED_SLIDE_BY_TUPLE: SignedSlideByTuple,
    OperatorKind.SIGNED_GROUPS: SignedGroups,
    OperatorKind.SIGNED_DISTINCT: SignedDistinct,
    OperatorKind.RUNNING_GROUPS: RunningGroups,
    OperatorKind.RUNNING_JOIN: RunningJoinOperator,
    OperatorKind.RUNNING_PARTITIONS: RunningPartitions,
}

# from the logical node, what is asked, and whether rows leave in an order that can be counted in
_IN_ORDER: dict[OperatorKind, Callable[[Any, Asked | None, bool], Operator]] = {
    OperatorKind.RECENT: Recent,
    OperatorKind.CHRONICLE: Chronicle,
    OperatorKind.DIFFERENCE: DifferenceOperator,
}

# from these, and the clock by which early answers are due
_REVISING: dict[OperatorKind, Callable[[Any, Asked, Clock], AnswersEarly]] = {
    OperatorKind.REVISING_SLIDING: RevisingSliding,
    OperatorKind.REVISING_LANDMARK: RevisingLandmark,
    OperatorKind.REVISING_GROUPS: RevisingGroups,
    OperatorKind.REVISING_DISTINCT_ON: RevisingDistinctOn,
    OperatorKind.REVISING_SESSIONS: RevisingSessions,
}


# joins whose results leave in order
_ORDERED: dict[OperatorKind, Callable[[Any], Operator]] = {
    OperatorKind.OPOB_JOIN: lambda node: OpobJoin(node.logical, _sorted_port(node)),
    OperatorKind.OPIB_JOIN: lambda node: OpibJoin(node.logical, _sorted_port(node)),
    OperatorKind.SYNC_FILTER: lambda node: SyncFilterJoin(node.logical, _sorted_by(node)),
    OperatorKind.FILTER_ORDER: lambda node: FilterOrderJoin(node.logical, _sorted_by(node)),
    OperatorKind.ADAPTIVE_JOIN: lambda node: AdaptiveJoin(
        node.logical, ALPHA if node.alpha is None else node.alpha, by=_sorted_by(node)
    ),
}


def _sorted_port(node: PhysicalNode) -> int | None:
    """The input by whose times results are sorted, if it is one."""
    assert isinstance(node.logical, Join)
    ports = None if node.sorting is None else by_ports(node.logical, node.sorting.by)
    return ports[0] if ports is not None and len(ports) == 1 else None


def _sorted_by(node: PhysicalNode) -> list[Column]:
    """The times by the latest of which results are sorted."""
    return [] if node.sorting is None else list(columns_of(node.sorting.by))


# whose results are final; early answers are those that they would give if their streams ended
_TRIED = {
    OperatorKind.ROWS,
    OperatorKind.SLIDE_BY_TUPLE,
    OperatorKind.SESSIONS,
    OperatorKind.DEFERRED_ROWS,
    OperatorKind.DEFERRED_SLIDE_BY_TUPLE,
    OperatorKind.DEFERRED_SESSIONS,
    OperatorKind.SIGNED_SLIDING,
    OperatorKind.SIGNED_LANDMARK,
    OperatorKind.SIGNED_ROWS,
    OperatorKind.SIGNED_SLIDE_BY_TUPLE,
    OperatorKind.SIGNED_GROUPS,
    OperatorKind.RECENT,
    OperatorKind.CHRONICLE,
    OperatorKind.ROWS_IN_TIME,
    OperatorKind.ROWS_AHEAD,
    OperatorKind.COMPLETE_PARTITIONS,
}


def operator_for(node: PhysicalNode, clock: Clock) -> Operator:
    """A new operator for any node but one that reads, which is the host's business."""
    asked = node.asked
    if asked is not None and asked.answers_early and node.operator in _TRIED:
        return TrialEnd(node.logical, lambda: _made(node, clock), clock, asked)
    return _made(node, clock)


def _made(node: PhysicalNode, clock: Clock) -> Operator:
    if node.operator is OperatorKind.STAMP:
        return StampOperator(node.logical, clock)  # type: ignore[arg-type]
    if node.operator is OperatorKind.MULTIWAY_JOIN:
        return MultiwayJoin(node.logical, node.asked, node.consistency)  # type: ignore[arg-type]
    if node.operator in _FINAL:
        made = _FINAL[node.operator](node.logical, node.asked)
        if isinstance(made, OaJoin | RunningJoinOperator):
            made.unseen = UnseenColumns(node.unseen)
        return made
    if node.operator is OperatorKind.ORDER:
        return InOrder(node.logical, node.asked)  # type: ignore[arg-type]
    if node.operator in _ORDERED:
        return _ORDERED[node.operator](node)
    if node.operator is OperatorKind.MERGE:
        return Merge(node.logical, node.sorting)  # type: ignore[arg-type]
    if node.punctuated and node.operator in _PUNCTUATED:
        return _PUNCTUATED[node.operator](node.logical)
    if node.operator in _PLAIN:
        return _PLAIN[node.operator](node.logical)
    if node.operator in _IN_ORDER:
        return _IN_ORDER[node.operator](node.logical, node.asked, node.whole_windows)
    assert node.asked is not None
    if node.operator in _AMENDING:
        return _AMENDING[node.operator](node.logical, node.asked)
    revising = _REVISING[node.operator](node.logical, node.asked, clock)
    return AtOnce(revising) if node.asked.changes else revising


# Exchange of state: a snapshot is loaded into an operator of the kind that wrote it, and moves from
# there to the operator that stands for it now.


def movable(operator: Operator) -> Movable[Any]:
    """Check that other operators can stand for this one."""
    assert isinstance(operator, Movable), f"{type(operator).__name__} keeps its state to itself"
    return operator


def load_moved(
    operator: Operator, node: PhysicalNode, was: str, store: ChunkStore, clock: Clock
) -> bool:
    """Load state of an operator of kind `was` into one that has seen nothing yet; return whether it
    was moved.  If so, the caller must drop the chunks of the former operator before this one is
    saved."""
    if was == node.operator.value:
        operator.load(store)
        return False
    other = replace(node, operator=OperatorKind(was))
    if isinstance(node.logical, Join):  # whose results were perhaps in another order
        other = replace(other, sorting=None)
    before = operator_for(other, clock)
    _movable(before, was, node).load(store)
    _movable(operator, was, node).adopt(_movable(before, was, node).export())
    return True


def drop_all(store: ChunkStore) -> None:
    for name in list(store.names()):
        store.drop(name)


def _movable(operator: Operator, was: str, node: PhysicalNode) -> Movable[Any]:
    if not isinstance(operator, Movable):
        raise CheckpointError(
            f"the checkpoint has state of {was}, which {node.operator.value} cannot go on from",
            hint="another checkpoint, or delete the directory to start over",
        )
    return operator
