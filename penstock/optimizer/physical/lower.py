"""The rule that makes a physical plan: which operator answers each node, where tuples have to meet,
and what is asked of results that may be revised.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.logical.binary_joins import binary_joins
from penstock.optimizer.physical.revisions import (
    asked_below,
    asked_of,
    asked_of_results,
    revising_operator,
)
from penstock.optimizer.physical.signed import cannot_run, signed_operator
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.physical.asked import Asked
from penstock.physical.host import Host
from penstock.physical.node import OperatorKind, Ordering, PhysicalNode, Port
from penstock.physical.plan import PhysicalPlan
from penstock.plan.algorithms import Algorithm
from penstock.plan.expressions import Column, Expression, columns_of
from penstock.plan.join_trees.join_tree import Joined
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.joins import Join, equal_keys
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.over import Over
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.rows_over import RowsOver
from penstock.plan.nodes.running_join import RunningJoin
from penstock.plan.nodes.running_over import RunningOver
from penstock.plan.nodes.sequence import Sequence, SequenceMode
from penstock.plan.nodes.stateless import Filter, Project, Scan, Stamp, Union
from penstock.plan.nodes.tables import OrderedRows, OrElse
from penstock.plan.nodes.unnest import Unnest
from penstock.plan.properties.equalities import common_keys
from penstock.plan.properties.lineage import steady_columns
from penstock.windows.landmark import Landmark
from penstock.windows.rows import RowWindow
from penstock.windows.session import Session
from penstock.windows.slide_by_tuple import SlideByTuple
from penstock.windows.sliding import Sliding

ALGORITHMS = {
    Algorithm.PANED: OperatorKind.PANED,
    Algorithm.WID: OperatorKind.WID,
    Algorithm.ADAPTIVE: OperatorKind.ADAPTIVE,
    Algorithm.TWO_LEVEL: OperatorKind.TWO_LEVEL,
    Algorithm.BUFFERING: OperatorKind.BUFFERING,
}

# those that can give out the results of groups ahead of others
_PUNCTUATED = (OperatorKind.PANED, OperatorKind.WID, OperatorKind.TWO_LEVEL)


def lower(query: QueryPlan, settings: Settings) -> PhysicalPlan:
    """
    before: Query (Project n (WindowAggregate count(*) [RANGE 9, SLIDE 9, WA t] BY k (Scan s)))
    after:  Project (Paned, tuples meet by s.k (Read s))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT count(*) AS n [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY k").plan
    >>> [node.operator.value for node in lower(query, Settings()).root.walk()]
    ['Project', 'Paned', 'Read']
    """
    host, asked = settings.host, asked_of_results(query)
    # executors are handed the data, and must not be sent it along with the plan
    joined = binary_joins(query, settings)  # what no rule has put together
    planned = with_inputs(joined, _without_sources) if host is Host.SPARK else joined
    root = lower_node(planned.input, asked, host)
    if query.in_order:
        ports = (Port(root, keys=()),)
        root = PhysicalNode(planned, OperatorKind.ORDER, ports, asked, Ordering.SORTED)
    return PhysicalPlan(query, root, host, shared=planned.shared)


def lower_node(
    node: Node,
    asked: Asked | None = None,
    host: Host = Host.LOCAL,
    counted: bool = False,
) -> PhysicalNode:
    """`asked` is what is asked of the results of a query; `counted` if whoever gets them counts."""
    if isinstance(node, Scan):
        return PhysicalNode(node, OperatorKind.READ)
    own = asked_of(node, asked)
    operator = _operator(node, own, host)
    counted_below = counted
    if isinstance(node, WindowAggregate):
        counted_below = node.counts_rows
    elif node.stateful:  # items of one time leave a difference in the order of their tuples
        counted_below = counted and isinstance(node, Difference)
    ports = tuple(
        Port(
            lower_node(each, asked_below(node, asked, number), host, counted_below),
            meeting_keys(node, number),
        )
        for number, each in enumerate(node.inputs)
    )
    whole_windows = counted and node.stateful
    punctuated = not whole_windows and operator in _PUNCTUATED and _punctuates(node.inputs[0])
    order = ordering_of(node)
    return PhysicalNode(node, operator, ports, own, order, whole_windows, punctuated)


def _punctuates(node: Node) -> bool:
    """Whether tuples come from a stream that promises something for single groups."""
    if isinstance(node, Scan):
        progress = node.stream.progress
        return progress is not None and progress.group_punctuation is not None
    return not node.stateful and any(map(_punctuates, node.inputs))


def _operator(node: Node, asked: Asked | None, host: Host) -> OperatorKind:
    if isinstance(node, RunningJoin):
        return OperatorKind.RUNNING_JOIN
    if isinstance(node, RunningOver):
        return OperatorKind.RUNNING_PARTITIONS
    if isinstance(node, GroupAggregate) and node.runs:
        return OperatorKind.RUNNING_GROUPS
    if node.stateful and any(each.signed for each in node.inputs):
        return signed_operator(node, asked, host)
    if asked is not None:
        found = revising_operator(node, asked)
        if found is not None:
            return found
    match node:
        case Filter():
            return OperatorKind.FILTER
        case Project():
            return OperatorKind.PROJECT
        case Stamp():
            return OperatorKind.STAMP
        case Union():
            return OperatorKind.UNION
        case Unnest():
            return OperatorKind.UNNEST
        case Lookup():
            return OperatorKind.LOOKUP
        case OrderedRows():
            return OperatorKind.ORDERED_ROWS
        case OrElse():
            return OperatorKind.OR_ELSE
        case WindowAggregate():
            return _window_operator(node)
        case GroupAggregate():
            return OperatorKind.GROUPED
        case DistinctOn():
            return OperatorKind.DISTINCT_ON
        case Over() if node.completing is not None:
            return OperatorKind.COMPLETE_PARTITIONS
        case Over():
            return OperatorKind.ROWS_AHEAD if node.waits else OperatorKind.ROWS_IN_TIME
        case Distinct():
            return OperatorKind.DISTINCT
        case Join(branches=(_, _)):
            return OperatorKind.OA_JOIN
        case Join(tree=Joined() as tree):
            return OperatorKind.MULTIWAY_JOIN if tree.is_flat else OperatorKind.CONTAINING_JOIN
        case Sequence(mode=SequenceMode.RECENT):
            return OperatorKind.RECENT
        case Sequence(mode=SequenceMode.CHRONICLE):
            return OperatorKind.CHRONICLE
        case Difference():
            return OperatorKind.DIFFERENCE
    raise cannot_run(node, host)


def _window_operator(node: WindowAggregate) -> OperatorKind:
    match node.window:
        case Sliding():
            return ALGORITHMS[node.algorithm]
        case Landmark():
            return OperatorKind.LANDMARK
        case RowWindow():
            return OperatorKind.ROWS
        case SlideByTuple():
            return OperatorKind.SLIDE_BY_TUPLE
        case Session():
            return OperatorKind.SESSIONS


def _without_sources(node: Node) -> Node:
    if isinstance(node, Scan):
        stream = replace(node.stream, source=None, answer=None, of_table=None)
        return replace(node, stream=stream)
    return with_inputs(node, _without_sources)


def meeting_keys(node: Node, port: int = 0) -> tuple[Expression, ...] | None:
    """Tuples of a port that agree on these have to meet, also with those of other ports that agree
    on theirs; without any, all of them; None: they need not."""
    match node:
        case RunningJoin(left, right):
            keys, _ = equal_keys(left.schema, right.schema, node.condition)
            return tuple(pair[port] for pair in keys)
        case Join(branches=(left, right)) | Sequence(first=left, second=right):
            keys, _ = equal_keys(left.schema, right.schema, node.condition)
            if left.signed and right.signed:
                keys = [pair for pair in keys if _are_steady(node, pair)]
            return tuple(pair[port] for pair in keys)
        case Join():
            return common_keys(node, port)
        case Difference():
            return tuple(pair[port] for pair in node.keys if _are_steady(node, pair))
        case WindowAggregate() if node.counts_rows:
            return tuple(part.expression for part in node.partition)
        case WindowAggregate() | GroupAggregate():
            return tuple(key.expression for key in node.keys)
        case Distinct():
            columns = [Column.of(field) for field in node.input.schema]
            if node.input.signed:  # a row is given at one time and taken back at another
                del columns[node.when]
            return tuple(columns)
        case DistinctOn():
            return node.keys
        case RowsOver():
            return node.partition
    return () if node.stateful else None


def _are_steady(node: Node, pair: tuple[Expression, Expression]) -> bool:
    """Whether an item meets what it takes back by these keys.  Pairs of a plain tuple do, because
    all of them are made where that is."""
    sides = zip(node.inputs, pair, strict=True)
    return all(steady_columns(each).issuperset(columns_of(key)) for each, key in sides)


def ordering_of(node: Node) -> Ordering:
    """Windows close one after the other, and so do groups by a single progressing key."""
    if isinstance(node, WindowAggregate | DistinctOn):
        return Ordering.CLOSING
    if isinstance(node, GroupAggregate) and len(node.progress) == 1:
        return Ordering.CLOSING
    return Ordering.ANY
