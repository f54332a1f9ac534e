"""The choice of join algorithms and of the order of results: estimates for joins of two streams,
expected state, EMIT IN ORDER and CONSISTENCY.

All algorithms join as the OA-Join does. Those whose results leave in order sort these, which takes
time for every result; those that let tuples wait before they are joined take time for these as
well, and keep fewer results. So the more results a tuple has, the more time favours waiting tuples
less than results, and state favours them more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.errors import EngineError
from penstock.model.punctuation import Slack
from penstock.model.ticks import Domain
from penstock.model.types import Kind
from penstock.optimizer.join_costs import JoinCosts, Work
from penstock.optimizer.join_search import Search
from penstock.optimizer.join_statistics import statistics_of
from penstock.optimizer.rewrite import Settings
from penstock.optimizer.sizes import assumed_flow, counted, flow_of, rate
from penstock.plan.algorithms import Consistency, JoinAlgorithm, JoinChoice, JoinEstimate, Reason
from penstock.plan.expressions import Column, Expression, may_fail
from penstock.plan.join_properties import by_ports, latest_of, latest_of_all
from penstock.plan.nodes.join import Join, JoinKind
from penstock.plan.nodes.node import Filter, Node, Project, Scan
from penstock.plan.physical import (
    Host,
    OperatorKind,
    Ordering,
    PhysicalNode,
    PhysicalPlan,
    Sorting,
    Steps,
)
from penstock.plan.properties import below, time_of_window

ORDERED_BY_ONE = (JoinAlgorithm.OPIB, JoinAlgorithm.OPOB)
ORDERED_BY_BOTH = (
    JoinAlgorithm.ADAPTIVE_JOIN,
    JoinAlgorithm.FILTER_ORDER,
    JoinAlgorithm.SYNC_FILTER,
)
_ABOUT = 1.25  # the usual algorithm may take so many times the least time
_CELL = 8  # bytes
_ROW = 24  # bytes besides its cells: a key, a time, a place in the order
_TICK = 1_000  # nanoseconds of a tick of a TIMESTAMP


def choose(join: Join, ports: tuple[int, ...], settings: Settings) -> JoinChoice:
    """Choose an algorithm for results in the order of the latest of some inputs' times; in any
    order, if there are no ports. The ordered algorithms can exchange their state.
    """
    prediction = JoinPrediction(join, settings)
    order = ports or (0,)
    estimates = tuple(sorted(prediction.estimates(order), key=lambda each: each.time))
    if join.hint not in (None, JoinAlgorithm.MULTIWAY):
        return JoinChoice(join.hint, Reason.HINT, estimates)
    if not ports:
        return JoinChoice(JoinAlgorithm.OA, Reason.ANY_ORDER, estimates)
    right = ORDERED_BY_ONE if len(ports) == 1 else ORDERED_BY_BOTH
    if not prediction.measured:
        return JoinChoice(right[0], Reason.USUAL, estimates)
    return JoinChoice(*_cheapest(right, estimates, settings.state_budget), estimates)


def _cheapest(
    right: tuple[JoinAlgorithm, ...], estimates: tuple[JoinEstimate, ...], budget: float
) -> tuple[JoinAlgorithm, Reason]:
    """The least time among those whose state is within the budget, or about that; if none is, the
    least state.
    """
    known = {each.algorithm: each for each in estimates}
    within = [each for each in right if known[each].state <= budget]
    if not within:
        return min(right, key=lambda each: known[each].state), Reason.STATE
    least = min(within, key=lambda each: known[each].time)
    near = next(each for each in within if known[each].time <= _ABOUT * known[least].time)
    if near is not least:
        return near, Reason.NEAR
    over = any(known[each].time < known[least].time for each in right if each not in within)
    return least, Reason.BUDGET if over else Reason.TIME


@dataclass(frozen=True)
class JoinPrediction:
    """Estimates for the algorithms of a join of two streams."""

    join: Join
    settings: Settings

    @cached_property
    def costs(self) -> JoinCosts:
        return JoinCosts(self.join, statistics_of(self.join))

    @property
    def measured(self) -> bool:
        return all(each.measured for each in self.costs.statistics.inputs)

    def estimates(self, order: tuple[int, ...]) -> list[JoinEstimate]:
        """Estimates for all algorithms. Those in the order of one input take the first of
        `order`.
        """
        (first, *_), both = order, (0, 1)
        found = {
            JoinAlgorithm.OA: self._of((), None),
            JoinAlgorithm.OPOB: self._of((), first),
            JoinAlgorithm.OPIB: self._of((first,), first),
            JoinAlgorithm.SYNC_FILTER: self._of(both, None, ordered=True),
            JoinAlgorithm.FILTER_ORDER: self._of((), None, ordered=True),
        }
        # the mode of the Adaptive join depends on the load
        busy = self.load >= self.settings.alpha
        found[JoinAlgorithm.ADAPTIVE_JOIN] = found[
            JoinAlgorithm.FILTER_ORDER if busy else JoinAlgorithm.SYNC_FILTER
        ]
        return [JoinEstimate(each, *found[each]) for each in found]

    @cached_property
    def joining(self) -> float:
        """Nanoseconds to join the tuples of a tick, the same for all algorithms."""
        return Search(self.costs).flat().time

    @property
    def load(self) -> float:
        """Share of the time that joining takes. Bounded sources are read as fast as their tuples
        are joined.
        """
        inputs = self.costs.statistics.inputs
        live = all(each.ahead <= 0 for each in inputs) and any(each.spread for each in inputs)
        is_time = self.join.attributes[0].type.kind is Kind.TIMESTAMP
        return min(1.0, self.joining / _TICK) if live and is_time else 1.0

    def _of(
        self, waiting: tuple[int, ...], first: int | None, ordered: bool = False
    ) -> tuple[float, float]:
        """Nanoseconds a tuple, and bytes of state, if tuples of some inputs wait to be joined, and
        results wait for the time of the first, or of the later, to pass.
        """
        costs, inputs = self.costs, self.costs.statistics.inputs
        results, all_inputs = self._results, frozenset((0, 1))
        columns = sum(each.columns for each in inputs)
        work = Work()
        if first is not None and waiting == (
            first,
        ):  # tuples of the other input find no partner yet: tuples of the first find all
            idle = 1 - first
            looks = Search(costs).work(frozenset([idle]), (frozenset([first]),))
            work += Work(calls=-looks.calls)
        for port in waiting:
            own = inputs[port]
            batches = Work(releases=own.rate / own.batch)
            if own.disorder:  # what is in order leaves as it came; else, some with every promise
                promises = inputs[1 - port].rate / inputs[1 - port].batch
                batches += Work(waited=own.rate, cells=2 * own.rate * own.columns)
                batches += Work(batches=promises, calls=promises)
            work += batches
        state = sum(self._bytes(costs.kept(frozenset([p])), inputs[p].columns) for p in all_inputs)
        if first is not None or ordered:
            work += Work(waited=results, cells=2 * results * columns)
            work += Work(releases=sum(each.rate / each.batch for each in inputs))
            lasting = self._lasting(first)
            for port in waiting:
                state += self._bytes(inputs[port].rate * lasting, inputs[port].columns)
            if len(waiting) < (2 if first is None else 1):
                state += self._bytes(results * lasting, columns)
        tuples = sum(each.rate for each in inputs)
        return (self.joining + work.time) / tuples, state

    @property
    def _results(self) -> float:
        """Number of results of a tick."""
        all_inputs = frozenset((0, 1))
        return sum(
            self.costs.rate(each) * self.costs.combinations(all_inputs, each) for each in all_inputs
        )

    def _lasting(self, first: int | None) -> float:
        """Ticks that a tuple or result waits: until the bounds of all inputs have passed, and, in
        the order of one input, until it has no later partner.
        """
        inputs = self.costs.statistics.inputs
        late = max(max(each.disorder, 2 * each.spread) for each in inputs)
        return late + 1 + (0.0 if first is None else self.costs.reach(first, 1 - first))

    @staticmethod
    def _bytes(rows: float, columns: int) -> float:
        return rows * (_ROW + _CELL * columns)


# The rule that chooses the algorithm of joins of two streams: by a hint, or by cost.

# Operators whose results leave in order: by the time of one input, or by the later of both.
_KINDS_BY_ONE = {
    JoinAlgorithm.OPOB: OperatorKind.OPOB_JOIN,
    JoinAlgorithm.OPIB: OperatorKind.OPIB_JOIN,
}
_KINDS_BY_BOTH = {
    JoinAlgorithm.SYNC_FILTER: OperatorKind.SYNC_FILTER,
    JoinAlgorithm.FILTER_ORDER: OperatorKind.FILTER_ORDER,
    JoinAlgorithm.ADAPTIVE_JOIN: OperatorKind.ADAPTIVE_JOIN,
}


def choose_join(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:
    """Choose the algorithms of joins of two streams.

    before: OaJoin of a and b, with the hint SYNC_FILTER
    after:  SyncFilter, whose results are sorted by greatest(a.t, b.t)

    before: OaJoin (OaJoin of a and b) and c, with the hint SYNC_FILTER
    after:  SyncFilter (SyncFilter …), sorted by greatest(a.t, b.t, c.t)

    Without a hint, results leave as they are found; in process, `leave_in_order` chooses another
    algorithm where an order is required.  On Spark, results are sorted in the bucket that they come
    from, and nowhere else.  The estimates for all algorithms are noted for EXPLAIN.
    """

    def change(node: PhysicalNode) -> PhysicalNode:
        ports = tuple(replace(port, input=change(port.input)) for port in node.ports)
        changed = replace(node, ports=ports)
        join = node.logical
        if node.operator is not OperatorKind.OA_JOIN or not isinstance(join, Join):
            return changed
        if join.hint in (None, JoinAlgorithm.OA, JoinAlgorithm.MULTIWAY):
            return with_choice(changed, (), settings) if can_leave_in_order(node) else changed
        if not can_leave_in_order(node):
            raise EngineError(
                f"{join.hint.name} joins two streams at a time, and gives neither tuples without a "
                "partner nor amended or early results",
                span=join.span,
                expected="an INNER join of tuples that stay, without LATE AMEND and EMIT EARLY",
                hint="leave the hint out",
            )
        if join.hint in _KINDS_BY_ONE:
            return sorted_join(changed, _KINDS_BY_ONE[join.hint], (0,), settings)
        made = sorted_join(changed, _KINDS_BY_BOTH[join.hint], (0, 1), settings)
        return replace(made, sorting=Sorting(latest_of_all(join)))

    return replace(plan, root=change(plan.root))


def can_leave_in_order(node: PhysicalNode) -> bool:
    """Whether another join than the OA-Join can give the results."""
    join = node.logical
    return (
        isinstance(join, Join)
        and join.kind is JoinKind.INNER
        and len(join.branches) == 2
        and not join.signed
        and node.asked is None
    )


def sorted_join(
    node: PhysicalNode, operator: OperatorKind, ports: tuple[int, ...], settings: Settings
) -> PhysicalNode:
    """Replace the operator by a join whose results are in the order of the latest of some inputs'
    times.
    """
    assert isinstance(node.logical, Join)
    made = replace(
        node,
        operator=operator,
        ordering=Ordering.SORTED,
        sorting=Sorting(latest_of(node.logical, ports)),
        alpha=settings.alpha if operator is OperatorKind.ADAPTIVE_JOIN else None,
    )
    return with_choice(made, ports, settings)


def with_choice(node: PhysicalNode, ports: tuple[int, ...], settings: Settings) -> PhysicalNode:
    """Add the estimates for all algorithms, in process."""
    if settings.host is not Host.LOCAL:
        return node
    assert isinstance(node.logical, Join)
    return replace(node, join_choice=choose(node.logical, ports, settings))


# Estimate the state of joins, and warn where a window is long for the rate of its input.

MANY = 1_000_000  # tuples of an input that are worth a warning


def expect_state(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """Note the expected state of joins for EXPLAIN.

    before: OaJoin (Read a, Read b)
    after:  the same, with what it expects to keep of a and of b

    A tuple is kept until the bound of the other input has passed its window: for the length of the
    window, and for the disorder of the other input.  Results of windows come when those have
    closed.

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, iter([]), schema="k INT, t INT", progress=ps.progress("t", delay=5))
    >>> text = "SELECT a.k FROM a [RANGE 20], b [RANGE 9] WHERE a.k = b.k"
    >>> plan = expect_state(lower(db.sql(text).plan, Settings()), Settings())
    >>> print(*(note for node in plan.root.walk() for note in node.notes), sep="\\n")
    keeps about 25 tuples of a (25, at an assumed 1 tuple a unit)
    keeps about 14 tuples of b (14, at an assumed 1 tuple a unit)
    """
    return replace(plan, root=_noted(plan.root))


def _noted(node: PhysicalNode) -> PhysicalNode:
    ports = tuple(replace(port, input=_noted(port.input)) for port in node.ports)
    notes = node.notes
    if isinstance(node.logical, Join) and len(node.ports) == 2:
        notes = (*notes, *_expected(node.logical))
    return replace(node, ports=ports, notes=notes) if node.ports else node


def _expected(join: Join) -> Iterator[str]:
    window = join.window.between(0, 1)
    if window is None:
        return
    sides = list(zip(join.branches, join.attributes, strict=True))
    found = [flow_of(branch, attribute) for branch, attribute in sides]
    flows = [
        flow or assumed_flow(attribute.type)
        for flow, (_, attribute) in zip(found, sides, strict=True)
    ]
    reach = (window.partner_bounds(0)[1], window.partner_bounds_of_right(0)[1])
    for port, (_, attribute) in enumerate(sides):
        own, other = flows[port], flows[1 - port]
        ticks = max(0, reach[port]) + round(other.disorder) + _lag(*sides[1 - port])
        tuples = own.volume * ticks
        if own.rows is not None:
            tuples = min(tuples, own.rows)
        domain, name = Domain(attribute.type), attribute.relation or attribute.name
        known = "" if own.known else "an assumed "
        speed = f"{known}{rate(own.volume, attribute.type)}"
        kept = f"{counted(tuples, 'tuple')} of {name}"
        yield f"keeps about {kept} ({domain.format_length(ticks)}, at {speed})"
        if tuples >= MANY:
            yield (
                f"note: that is much; a shorter window or band would keep less,"
                f" DELAY alone {counted(own.volume * other.disorder, 'tuple')}"
            )


def _lag(branch: Node, attribute: Column) -> int:
    """Delay in ticks of results of windows behind the stream that they are computed from."""
    found = time_of_window(branch, attribute)
    if found is None or found.node.attribute is None:
        return 0
    flow = flow_of(found.node.input, found.node.attribute)
    return found.window.range - found.ticks + (round(flow.disorder) if flow is not None else 0)


# EMIT IN ORDER in process: let rows leave their operator in order where there is one that can do
# so, instead of sorting them at the end.


def leave_in_order(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:
    """Replace the Order at the top by an operator below it that emits in order.

    before: Order (Project (Union (Read a, Read b)))
    after:  Project (Merge (Read a, Read b)), because what is merged is in order

    before: Order (Project a.t (OaJoin (Read a, Read b)))
    after:  Project a.t (OpibJoin, sorted by a.t (Read a, Read b))

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT k, t FROM a UNION ALL SELECT k, t FROM b EMIT IN ORDER"
    >>> before = lower(db.sql(text).plan, Settings())
    >>> after = leave_in_order(before, Settings())
    >>> [plan.root.operator.value for plan in (before, after)]
    ['Order', 'Merge']
    """
    root = plan.root
    if root.operator is not OperatorKind.ORDER or root.asked is not None:
        return plan
    (given,) = root.inputs
    found = _sorted(given, Column.of(plan.query.progress[0].field), (), settings)
    return plan if found is None else replace(plan, root=found)


def _sorted(
    node: PhysicalNode, by: Expression, above: Steps, settings: Settings
) -> PhysicalNode | None:
    """The node with an operator whose rows leave in order; None if there is none."""
    logical = node.logical
    on_the_way = ((logical, 0), *above)
    match node.operator:
        case OperatorKind.FILTER:
            return _over(node, _sorted(node.inputs[0], by, on_the_way, settings))
        case OperatorKind.PROJECT:
            assert isinstance(logical, Project)
            given = below(by, logical)
            return _over(node, _sorted(node.inputs[0], given, on_the_way, settings))
        case OperatorKind.UNION:
            return _merged(node, by, above)
    return _joined(node, by, settings) if can_leave_in_order(node) else None


def _merged(node: PhysicalNode, by: Expression, above: Steps) -> PhysicalNode | None:
    """Merge instead of a union: rows of all inputs wait in one place. Merge does not support
    signed items.
    """
    if node.logical.signed:
        return None
    if may_fail(by) and any(isinstance(step, Filter) for step, _ in above):
        return None  # it would be computed for rows that a filter above drops
    return replace(
        node,
        operator=OperatorKind.MERGE,
        ports=tuple(replace(port, keys=()) for port in node.ports),
        ordering=Ordering.SORTED,
        sorting=Sorting(by, above),
    )


def _joined(node: PhysicalNode, by: Expression, settings: Settings) -> PhysicalNode | None:
    """Ordered join. Without a hint, it is the one with the least estimated time. Where statistics
    are missing, tuples wait rather than results, because a tuple may have many partners; in the
    order of both inputs, the Adaptive join decides at run time.
    """
    assert isinstance(node.logical, Join)
    ports, hint = by_ports(node.logical, by), node.logical.hint
    if ports is None:
        return None
    known = _KINDS_BY_ONE if len(ports) == 1 else _KINDS_BY_BOTH
    if hint is not None:
        return sorted_join(node, known[hint], ports, settings) if hint in known else None
    return sorted_join(
        node, known[choose(node.logical, ports, settings).algorithm], ports, settings
    )


def _over(node: PhysicalNode, given: PhysicalNode | None) -> PhysicalNode | None:
    if given is None:
        return None
    (port,) = node.ports
    return replace(node, ports=(replace(port, input=given),))


# Drop the Order operator where rows leave in order anyway.
#
# On Spark, that operator is a stage of its own, with one bucket.  Rows of one micro-batch are
# sorted when they are emitted, so it only matters that no later one belongs before them.


def drop_needless_order(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """Drop the Order operator where rows leave in order anyway.

    before: Order (Project (Paned (Read s)))
    after:  Project (Paned (Read s)), because windows close one after the other

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT count(*) AS n [RANGE 9, SLIDE 9, WA t] FROM s EMIT IN ORDER"
    >>> before = lower(db.sql(text).plan, Settings())
    >>> after = drop_needless_order(before, Settings())
    >>> before.root.operator.value, after.root.operator.value
    ('Order', 'Project')
    """
    if plan.root.operator is not OperatorKind.ORDER:
        return plan
    below = plan.root.ports[0].input
    return replace(plan, root=below) if _closes_in_order(below, plan.query.revises) else plan


def _closes_in_order(root: PhysicalNode, revises: bool) -> bool:
    """Whether rows leave in order: windows and groups close one after the other and are never
    late; but those of several operators have no common order. Revised results have no order.
    """
    last = list(_last_to_keep_tuples(root))
    if any(node is None for node in last):
        return False
    if revises:
        return True
    (*others, node) = last
    return not others and node is not None and node.ordering is Ordering.CLOSING


def _last_to_keep_tuples(node: PhysicalNode) -> Iterator[PhysicalNode | None]:
    """Last stateful operators on the paths to the result; None for a path without any."""
    if node.stateful:
        yield node
    elif not node.ports:
        yield None
    else:
        for each in node.inputs:
            yield from _last_to_keep_tuples(each)


# The rule that implements CONSISTENCY.

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
    """Choose operators that satisfy CONSISTENCY, or process tuples one by one.

    before: Project (OaJoin (Read a, Read b)), CONSISTENCY SERIAL
    after:  Project (MultiwayJoin (Read a, Read b)), whose results leave in the order of the tuples
            that they are found by

    Inner joins process tuples in parallel, in threads, and know the tuple that found each result.
    Windows close one after the other, and tuples of stateless operators leave as they come: the
    rows of such a query leave in the same order if many tuples are processed at once.  In any other
    query, tuples are processed one by one for SERIAL and LEVEL.

    On Spark, rows are those of a serial execution at the end of a micro-batch.

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
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
    together = replace(plan, root=_in_parallel(plan.root, asked))
    if asked.at_most is None or _follows(together.root):
        return together
    return replace(plan, one_by_one=True)


def _in_parallel(node: PhysicalNode, asked: Consistency) -> PhysicalNode:
    ports = tuple(replace(port, input=_in_parallel(port.input, asked)) for port in node.ports)
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
    """Whether rows leave in the order of tuple-by-tuple processing."""
    nodes = list(root.walk())
    streams = [node.logical.stream for node in nodes if isinstance(node.logical, Scan)]
    if len({stream.name for stream in streams}) < len(streams):  # a tuple comes on several paths
        return False
    if any(each.progress and isinstance(each.progress.policy.rule, Slack) for each in streams):
        return False
    others = [node for node in nodes if node.operator not in _AS_THEY_COME]
    return len(others) <= 1 and all(map(_leaves_in_order, others))


def _leaves_in_order(node: PhysicalNode) -> bool:
    if node.asked is not None or node.punctuated or node.whole_windows:
        return False
    return node.consistency is not None or node.operator in _AS_THEY_CLOSE
