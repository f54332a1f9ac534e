"""From logical to physical plans: emission of operators whose results may be revised (LATE AMEND,
EMIT EARLY), operators for signed items, and the rule `lower`, which chooses operators and
partitioning.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import EngineError, Span
from penstock.kernel.revisions.emitted_rows import Above
from penstock.optimizer.join_order import binary_joins
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.algorithms import Algorithm
from penstock.plan.expressions import Column, Expression, columns_of, may_fail
from penstock.plan.join_properties import common_keys
from penstock.plan.join_trees import Joined
from penstock.plan.nodes.aggregation import Distinct, DistinctOn, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import (
    Difference,
    Join,
    Lookup,
    RunningJoin,
    Sequence,
    SequenceMode,
    equal_keys,
)
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.nodes.over import Over, RowsOver, RunningOver
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.nodes.tables import OrderedRows, OrElse
from penstock.plan.physical import (
    Asked,
    Host,
    OperatorKind,
    Ordering,
    PhysicalNode,
    PhysicalPlan,
    Port,
)
from penstock.plan.properties import steady_columns
from penstock.plan.window_kinds import Landmark, Order, RowWindow, Session, SlideByTuple, Sliding


def asked_of_results(query: QueryPlan) -> Asked | None:
    """Emission required of the operators that give the results of a query; None if nothing is
    revised.
    """
    if not query.revises:
        return None
    amends = query.late is Late.AMEND
    return Asked(amends, query.amend_for, query.early_every, changes=query.changes)


def asked_below(node: Node, asked: Asked | None, port: int = 0) -> Asked | None:
    """Emission required of the operators below a node, at one of its inputs. Results that other
    operators build on are not revised: they come when they are final.
    """
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
    if node.running and node.stateful:  # other running nodes may change below it
        return replace(asked, above=(), final_only=True)
    if node.stateful:
        return final
    return replace(asked, above=((node, port), *asked.above))


def _cannot_be_tried(node: Lookup, asked: Asked) -> bool:
    """Whether provisional rows cannot be tried before they are emitted. Rows that may be retracted
    are tried along their path, but not through a look-up: where an expression may fail behind it,
    they come when they are final.
    """
    if asked.final_only or not any(each.stateful for each in node.input.walk()):
        return False
    conditions = [] if node.condition is None else [node.condition]
    return any(map(may_fail, conditions)) or Above.of(asked.above) is not None


def asked_of(node: Node, asked: Asked | None) -> Asked | None:
    """Emission required of a node itself: results are never late where others build on them."""
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
    """Whether an operator can emit changes before its results are complete; otherwise they come
    when they are.
    """
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
    """Operator for revised results; None where the usual one will do, because it retracts nothing
    and has no late tuples.
    """
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
        # windows over an expression keep tuples as items, and wait for any bound
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
    """Error for early results of EXCEPT ON: at the end of its streams all items have left again,
    so early ones would be meaningless.
    """
    return EngineError(
        f"{what} has no early answers: its items say when tuples come and go, which is final",
        span=span,
        expected="windows or groups over it, or no EMIT EARLY",
    )


# Operators for signed items.


def signed_operator(node: Node, asked: Asked | None, host: Host) -> OperatorKind:
    """Operator for a node that keeps signed items."""
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


# The rule that makes a physical plan: the operator of each node, the partitioning, and the emission
# of results that may be revised.

ALGORITHMS = {
    Algorithm.PANED: OperatorKind.PANED,
    Algorithm.WID: OperatorKind.WID,
    Algorithm.ADAPTIVE: OperatorKind.ADAPTIVE,
    Algorithm.TWO_LEVEL: OperatorKind.TWO_LEVEL,
    Algorithm.BUFFERING: OperatorKind.BUFFERING,
}

# operators that can emit the results of groups ahead of others
_PUNCTUATED = (OperatorKind.PANED, OperatorKind.WID, OperatorKind.TWO_LEVEL)


def lower(query: QueryPlan, settings: Settings) -> PhysicalPlan:
    """Lower a logical plan to a physical one.

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
    # executors receive the data from Spark, so it must not be sent with the plan
    joined = binary_joins(query, settings)  # joins for which no rule has chosen a tree
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
    """Lower a node; `asked` is the emission required of its results, `counted` says that a node
    above counts them.
    """
    if isinstance(node, Scan):
        return PhysicalNode(node, OperatorKind.READ)
    own = asked_of(node, asked)
    operator = _operator(node, own, host)
    counted_below = counted
    if isinstance(node, WindowAggregate):
        counted_below = node.counts_rows
    elif node.stateful:  # items of one time leave EXCEPT ON in the order of their tuples
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
    """Whether tuples come from a stream with punctuations for single groups."""
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
    """Partitioning keys of a port: tuples that agree on these have to meet, also with those of
    other ports that agree on theirs; with no keys, all tuples have to; None: they need not.
    """
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
            if node.input.signed:  # a row is emitted at one time and retracted at another
                del columns[node.when]
            return tuple(columns)
        case DistinctOn():
            return node.keys
        case RowsOver():
            return node.partition
    return () if node.stateful else None


def _are_steady(node: Node, pair: tuple[Expression, Expression]) -> bool:
    """Whether an item meets the one that it retracts by these keys. Pairs of a plain tuple do,
    because all of them are made in the place of that tuple.
    """
    sides = zip(node.inputs, pair, strict=True)
    return all(steady_columns(each).issuperset(columns_of(key)) for each, key in sides)


def ordering_of(node: Node) -> Ordering:
    """Order of the rows of a node: windows close one after the other, and so do groups by a single
    progressing key.
    """
    if isinstance(node, WindowAggregate | DistinctOn):
        return Ordering.CLOSING
    if isinstance(node, GroupAggregate) and len(node.progress) == 1:
        return Ordering.CLOSING
    return Ordering.ANY
