"""The rule that keeps to what a query says about CONSISTENCY."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import EngineError
from penstock.model.progress import Slack
from penstock.optimizer.physical.choose_join import can_leave_in_order
from penstock.optimizer.settings import Settings
from penstock.physical.host import Host
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.consistency import Consistency
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.stateless import Scan

_AS_THEY_COME = (
    OperatorKind.READ,
    OperatorKind.FILTER,
    OperatorKind.PROJECT,
    OperatorKind.UNION,
)
_AS_THEY_CLOSE = (
    OperatorKind.PANED,
    OperatorKind.WID,
    OperatorKind.ADAPTIVE,
    OperatorKind.TWO_LEVEL,
    OperatorKind.BUFFERING,
)


def keep_consistency(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:
    """
    before: Project (OaJoin (Read a, Read b)), CONSISTENCY SERIAL
    after:  Project (MultiwayJoin (Read a, Read b)), whose results leave in the order of the tuples
            that they are found by

    Inner joins handle tuples side by side, in threads, and know by which tuple a result was found.
    Windows close one after the other, and tuples that nobody waits for leave as they come: the rows
    of such a query leave in the same order if many tuples are handled at once.  In any other query,
    they are taken in one by one where SERIAL or LEVEL is asked for.

    On Spark, rows are those of a serial execution at the end of a micro-batch.

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 1, "t": 1}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT a.k FROM a [RANGE 20], b [RANGE 9] WHERE a.k = b.k CONSISTENCY SERIAL"
    >>> plan = keep_consistency(lower(db.sql(text).plan, Settings()), Settings())
    >>> [(node.operator.value, str(node.consistency)) for node in plan.root.walk()][1]
    ('MultiwayJoin', 'CONSISTENCY SERIAL')
    """
    asked = plan.query.consistency
    if asked is None:
        return plan
    if settings.host is Host.SPARK:
        if asked.at_most is not None:
            raise EngineError(
                f"{asked} on Spark, which handles the tuples of a micro-batch together",
                span=asked.span,
                expected="CONSISTENCY WEAK: the rows that have left at the end of every micro-batch"
                " are those of a serial execution",
                hint='connect("local") follows every tuple',
            )
        return plan
    together = replace(plan, root=_side_by_side(plan.root, asked))
    if asked.at_most is None or _follows(together.root):
        return together
    return replace(plan, one_by_one=True)


def _side_by_side(node: PhysicalNode, asked: Consistency) -> PhysicalNode:
    ports = tuple(replace(port, input=_side_by_side(port.input, asked)) for port in node.ports)
    node, join = replace(node, ports=ports), node.logical
    if not isinstance(join, Join) or node.asked is not None or join.signed:
        return node
    if node.operator is OperatorKind.MULTIWAY_JOIN:
        return replace(node, consistency=asked)
    if node.operator is OperatorKind.OA_JOIN and can_leave_in_order(node) and join.hint is None:
        multiway = OperatorKind.MULTIWAY_JOIN
        return replace(node, operator=multiway, consistency=asked, join_choice=None)
    return node


def _follows(root: PhysicalNode) -> bool:
    """Whether rows leave in the order in which they would if tuples came alone."""
    nodes = list(root.walk())
    streams = [node.logical.stream for node in nodes if isinstance(node.logical, Scan)]
    if len({stream.name for stream in streams}) < len(streams):  # a tuple comes by several ways
        return False
    if any(each.progress and isinstance(each.progress.policy.rule, Slack) for each in streams):
        return False
    others = [node for node in nodes if node.operator not in _AS_THEY_COME]
    return len(others) <= 1 and all(map(_leaves_in_order, others))


def _leaves_in_order(node: PhysicalNode) -> bool:
    if node.asked is not None or node.punctuated or node.whole_windows:
        return False
    return node.consistency is not None or node.operator in _AS_THEY_CLOSE
