"""Sharing: equal parts of a query computed once, streams read once, and panes shared by several
queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

from penstock.errors import EngineError
from penstock.io.sources.one_reading import AGAIN
from penstock.io.sources.source import SharedReading, can_be_read_again, is_read_alone
from penstock.model.ticks import Room
from penstock.model.types import Schema
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.algorithms import Reason
from penstock.plan.expressions import Expression, all_of, conjuncts, may_fail
from penstock.plan.nodes.aggregation import SharedPanes, WindowAggregate, WindowsOfPanes
from penstock.plan.nodes.join import Lookup
from penstock.plan.nodes.node import Filter, Node, Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import OperatorKind, PhysicalNode, PhysicalPlan, Port
from penstock.plan.streams import StreamDefinition
from penstock.plan.window_kinds import Sliding


def share_subplans(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Share equal stateful parts of a query: their results go to all of their consumers. A tuple
    that is late for such a part counts as late once per consumer, as if each had its own.

    Windows that count rows depend on the order of rows from several branches, so nothing is shared
    below them; nor are items that may be retracted.

    before: Join (Project AS a (Windows (Scan s)), Project AS b (Windows (Scan s)))
    after:  the same, where Windows (Scan s) is computed once

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "SELECT k, count(*) AS n [RANGE 4, SLIDE 4, WA t] FROM s GROUP BY k"
    >>> db.sql(f"CREATE VIEW v AS {counts}")
    >>> text = "SELECT a.n FROM v AS a, v AS b WHERE a.window_end = b.window_end - 4 AND a.k = b.k"
    >>> [str(node.details()[0]) for node in share_subplans(db.sql(text).plan, Settings()).shared]
    ['WindowAggregate count(*)']
    """
    if any(isinstance(each, WindowAggregate) and each.counts_rows for each in query.walk()):
        return query
    asked = Counter(_kept(query.input))
    found = tuple(node for node, times in asked.items() if times > 1)
    return replace(query, shared=found) if found else query


def _kept(node: Node) -> Iterator[Node]:
    """Stateful nodes of a plan; tables are read by their look-ups."""
    if node.stateful and not node.signed:
        yield node
    for each in [node.input] if isinstance(node, Lookup) else node.inputs:
        yield from _kept(each)


# Streams that can be read only once, or once at a time, and occur several times in one pass.


def share_readings(queries: Sequence[QueryPlan], functions: bool = True) -> list[QueryPlan]:
    """Share one reading among all scans of a stream, for engines that would read it again for
    each; also of `functions` that make rows, for an engine that needs all rows in memory anyway.

    before: Union (Scan s, Scan s), where s is an iterator
    after:  the same, where s remembers what was read of the iterator
    """
    asked = Counter(id(stream) for query in queries for stream in _read_once(query, functions))
    shared: dict[int, StreamDefinition] = {}

    def change(node: Node) -> Node:
        if not isinstance(node, Scan) or asked[id(node.stream)] < 2:
            return with_inputs(node, change)
        stream = node.stream
        if id(stream) not in shared:
            assert stream.source is not None
            shared[id(stream)] = replace(stream, source=SharedReading(stream.source))
        return replace(node, stream=shared[id(stream)])

    return [with_inputs(query, change) for query in queries]


def read_in_turn(query: QueryPlan) -> list[StreamDefinition]:
    """Streams that would be read again for each of their scans in the query.

    Where one scan serves all of them, each tuple reaches all branches at once rather than the
    whole stream one branch after the other. Only windows that count rows in arrival order depend
    on that.
    """
    found: dict[int, StreamDefinition] = {}
    for node in query.walk():
        if isinstance(node, WindowAggregate) and node.counts_rows:
            streams = [each.stream for each in node.walk() if isinstance(each, Scan)]
            times = Counter(map(id, streams))
            found |= {id(stream): stream for stream in streams if times[id(stream)] > 1}
    return list(found.values())


def check_can_be_read_in_turn(stream: StreamDefinition) -> None:
    if not can_be_read_again(stream.source):
        raise EngineError(
            f"a window counts the rows of stream {stream.name} as they come through several"
            " branches, and the stream can be read only once",
            hint=AGAIN,
        )


def _read_once(node: Node, functions: bool) -> list[StreamDefinition]:
    scans = [each for each in node.walk() if isinstance(each, Scan)]
    return [
        scan.stream
        for scan in scans
        if not can_be_read_again(scan.stream.source)
        or (functions and is_read_alone(scan.stream.source))
    ]


# Aggregations of several queries over one stream that fold its tuples once.

_SLIDING = (
    OperatorKind.PANED,
    OperatorKind.WID,
    OperatorKind.ADAPTIVE,
    OperatorKind.TWO_LEVEL,
    OperatorKind.BUFFERING,
)
Free: TypeAlias = Callable[[WindowAggregate], bool]
_FOR_STATE = (Reason.BUDGET, Reason.STATE)


def any_algorithm(aggregate: WindowAggregate) -> bool:
    """Whether the aggregation may be computed by any algorithm."""
    chosen_for_state = aggregate.choice is not None and aggregate.choice.reason in _FOR_STATE
    return aggregate.hint is None and not chosen_for_state


def share_panes(plans: Sequence[PhysicalPlan], free: Free = any_algorithm) -> list[PhysicalPlan]:
    """Share panes between sliding windows over one stream, with the same windowing attribute, keys
    and origin, and any lengths, filters and aggregates.

    before: Paned (Filter x > 3 (Read s)), Paned (Read s)
    after:  WindowsOfPanes (SharedPanes (Read s)), WindowsOfPanes (SharedPanes (Read s))

    >>> import penstock as ps
    >>> from penstock.optimizer.optimize import physical_plan
    >>> from penstock.optimizer.rewrite import Settings
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "SELECT count(*) AS n [RANGE {0}, SLIDE {0}, WA t] FROM s WHERE k > {0}"
    >>> plans = [physical_plan(db.sql(counts.format(n)).plan, Settings()) for n in (4, 6)]
    >>> [each.operator.value for each in share_panes(plans)[0].root.walk()]
    ['Project', 'WindowsOfPanes', 'SharedPanes', 'Read']
    """
    plans = _reading_alike(plans, free)
    asked = Counter(panes for plan in plans for panes in set(shareable_panes(plan, free)))
    common = [panes for panes in asked if asked[panes] > 1]
    return [sharing(plan, common, free) for plan in plans]


def _reading_alike(plans: Sequence[PhysicalPlan], free: Free) -> list[PhysicalPlan]:
    """Widen scans to the columns that any of them needs, in all aggregations that could share
    panes but for these: on Spark, columns that a query does not need are left out.
    """
    found: dict[tuple[str, str], list[Scan]] = {}
    for plan in plans:
        for panes in shareable_panes(plan, free):
            assert isinstance(panes.input, Scan)
            found.setdefault((panes.input.stream.name, panes.input.alias), []).append(panes.input)
    streams = {
        node.stream.name: node.stream
        for plan in plans
        for node in plan.query.walk()
        if isinstance(node, Scan)
    }
    wide = {}
    for (name, alias), scans in found.items():
        wanted = {column for scan in scans for column in scan.stream.schema.names}
        fields = tuple(field for field in streams[name].schema if field.name in wanted)
        room = reduce(Room.meet, [scan.room for scan in scans])
        wider = replace(scans[0].stream, schema=Schema(fields))
        wide[name, alias] = replace(scans[0], stream=wider, room=room)

    def changed(node: PhysicalNode, shared: bool = False) -> PhysicalNode:
        shared = shared or _panes(node, free) is not None

        def widened(logical: Node) -> Node:
            if isinstance(logical, Scan):
                return wide[logical.stream.name, logical.alias]
            return with_inputs(logical, widened)

        logical = widened(node.logical) if shared else node.logical
        ports = tuple(replace(port, input=changed(port.input, shared)) for port in node.ports)
        same = all(new.input is old.input for new, old in zip(ports, node.ports, strict=True))
        if logical is node.logical and same:
            return node
        return replace(node, logical=logical, ports=ports)

    if all(wide[key].schema == scan.schema for key, scans in found.items() for scan in scans):
        return list(plans)
    return [replace(plan, root=changed(plan.root)) for plan in plans]


def shareable_panes(plan: PhysicalPlan, free: Free = any_algorithm) -> Iterator[SharedPanes]:
    """Panes of a plan that can be shared with others."""
    for node in plan.root.walk():
        panes = _panes(node, free)
        if panes is not None:
            yield panes


def sharing(
    plan: PhysicalPlan, shared: Sequence[SharedPanes], free: Free = any_algorithm
) -> PhysicalPlan:
    """The plan with its windows computed from shared panes."""
    root = _over(plan.root, shared, free)
    return plan if root is plan.root else replace(plan, root=root)


def _over(node: PhysicalNode, shared: Sequence[SharedPanes], free: Free) -> PhysicalNode:
    panes = _panes(node, free)
    if panes is not None and panes in shared:
        aggregate = node.logical
        assert isinstance(aggregate, WindowAggregate)
        read = node
        while read.ports:
            read = read.ports[0].input
        keys = node.ports[0].keys
        folded = PhysicalNode(panes, OperatorKind.SHARED_PANES, (Port(read, keys),))
        logical = WindowsOfPanes(panes, aggregate, _predicate(aggregate))
        port = Port(folded, keys)
        return PhysicalNode(
            logical, OperatorKind.WINDOWS_OF_PANES, (port,), None, node.ordering, notes=node.notes
        )
    ports = tuple(replace(port, input=_over(port.input, shared, free)) for port in node.ports)
    same = all(new.input is old.input for new, old in zip(ports, node.ports, strict=True))
    return node if same else replace(node, ports=ports)


def _panes(node: PhysicalNode, free: Free) -> SharedPanes | None:
    aggregate = node.logical
    if not isinstance(aggregate, WindowAggregate) or node.operator not in _SLIDING:
        return None
    if node.asked is not None or not free(aggregate):
        return None
    if node.whole_windows or node.punctuated:
        return None
    window, attribute = aggregate.window, aggregate.attribute
    if not isinstance(window, Sliding) or attribute is None or window.slide > window.range:
        return None
    scan = _scan(aggregate)
    if scan is None or _can_fail(aggregate, attribute):
        return None
    return SharedPanes(scan, attribute, aggregate.keys, aggregate.key_order, window.origin)


def _scan(aggregate: WindowAggregate) -> Scan | None:
    node = aggregate.input
    while isinstance(node, Filter):
        node = node.input
    return node if isinstance(node, Scan) else None


def _predicate(aggregate: WindowAggregate) -> Expression | None:
    found: list[Expression] = []
    node = aggregate.input
    while isinstance(node, Filter):
        found = [*conjuncts(node.predicate), *found]
        node = node.input
    return all_of(found)


def _can_fail(aggregate: WindowAggregate, attribute: Expression) -> bool:
    predicate = _predicate(aggregate)
    computed = [attribute, *(key.expression for key in aggregate.keys)]
    computed += [predicate] if predicate is not None else []
    given = [argument for each in aggregate.aggregates for argument in each.call.arguments]
    given += [each.call.where for each in aggregate.aggregates if each.call.where is not None]
    own = any(each.call.function.implementation for each in aggregate.aggregates)
    return own or any(map(may_fail, [*computed, *given]))
