"""From a node of the physical plan to the operator that runs it: every host builds them here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.model.clock import Clock
from penstock.operators.groups.distinct import DistinctOperator
from penstock.operators.groups.distinct_on import DistinctOnOperator
from penstock.operators.groups.grouped import GroupedOperator
from penstock.operators.joins.differences.difference import DifferenceOperator
from penstock.operators.joins.lookups.lookup import LookupOperator
from penstock.operators.joins.multiway.containing_join import ContainingJoin
from penstock.operators.joins.multiway.multiway_join import MultiwayJoin
from penstock.operators.joins.oa_join import OaJoin
from penstock.operators.joins.ordered.adaptive_join import ALPHA, AdaptiveJoin
from penstock.operators.joins.ordered.filter_order import FilterOrderJoin
from penstock.operators.joins.ordered.opib_join import OpibJoin
from penstock.operators.joins.ordered.opob_join import OpobJoin
from penstock.operators.joins.ordered.sync_filter import SyncFilterJoin
from penstock.operators.joins.sequences.chronicle import Chronicle
from penstock.operators.joins.sequences.recent import Recent
from penstock.operators.joins.unseen import UnseenColumns
from penstock.operators.operator import Operator
from penstock.operators.over.complete_partitions import CompletePartitions
from penstock.operators.over.rows_ahead import RowsAhead
from penstock.operators.over.rows_in_time import RowsInTime
from penstock.operators.revising.deferred import Deferred
from penstock.operators.revising.distinct import AmendingDistinct
from penstock.operators.revising.distinct_on import RevisingDistinctOn
from penstock.operators.revising.groups import RevisingGroups
from penstock.operators.revising.landmark import RevisingLandmark
from penstock.operators.revising.sessions import RevisingSessions
from penstock.operators.revising.sliding import RevisingSliding
from penstock.operators.revising.trial_end import TrialEnd
from penstock.operators.running.at_once import AnswersEarly, AtOnce
from penstock.operators.running.groups import RunningGroups
from penstock.operators.running.join import RunningJoinOperator
from penstock.operators.running.partitions import RunningPartitions
from penstock.operators.signed.distinct import SignedDistinct
from penstock.operators.signed.groups import SignedGroups
from penstock.operators.signed.landmark import SignedLandmark
from penstock.operators.signed.rows import SignedRows
from penstock.operators.signed.slide_by_tuple import SignedSlideByTuple
from penstock.operators.signed.sliding import SignedSliding
from penstock.operators.stateless.filter import FilterOperator
from penstock.operators.stateless.merge import Merge
from penstock.operators.stateless.order import InOrder
from penstock.operators.stateless.project import ProjectOperator
from penstock.operators.stateless.stamp import StampOperator
from penstock.operators.stateless.union import Meld
from penstock.operators.stateless.unnest import UnnestOperator
from penstock.operators.whole_tables import OrderedRowsOperator, OrElseOperator
from penstock.operators.windows.adapt_wid import AdaptWid
from penstock.operators.windows.buffering import Buffering
from penstock.operators.windows.counted.rows import RowsOperator
from penstock.operators.windows.counted.slide_by_tuple import SlideByTupleOperator
from penstock.operators.windows.landmark import LandmarkOperator
from penstock.operators.windows.paned import Paned
from penstock.operators.windows.punctuated import (
    PunctuatedPaned,
    PunctuatedTwoLevel,
    PunctuatedWid,
)
from penstock.operators.windows.sessions.session import SessionOperator
from penstock.operators.windows.shared.shared_panes import SharedPanesOperator
from penstock.operators.windows.shared.windows_of_panes import WindowsOfPanesOperator
from penstock.operators.windows.two_level import TwoLevel
from penstock.operators.windows.wid import Wid
from penstock.physical.asked import Asked
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.plan.expressions import Column, columns_of
from penstock.plan.nodes.joins import Join
from penstock.plan.properties.result_order import by_ports

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

# over streams that promise something for single groups
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

# from these, if something is asked: what they give is final, or said as it changes
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
