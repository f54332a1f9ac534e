"""Join order: pipelines of joins with two inputs, trees of operators with orders of probes, and
EXCEPT ON below joins.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from penstock.model.types import Schema
from penstock.optimizer.dataflow import translate
from penstock.optimizer.join_costs import JoinCosts
from penstock.optimizer.join_search import Candidate, Search
from penstock.optimizer.join_statistics import statistics_of
from penstock.optimizer.pushdown import is_about, results_may_be_removed
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.algorithms import Consistency, JoinAlgorithm
from penstock.plan.expressions import Column, Expression, Named, all_of, columns_of
from penstock.plan.join_properties import (
    PairWindow,
    arranged,
    between,
    common_keys,
    conditions_across,
    width,
    window_of_two,
)
from penstock.plan.join_trees import Joined, flat, left_deep
from penstock.plan.join_windows import BandJoin, SlidingJoin
from penstock.plan.nodes.aggregation import GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import (
    Difference,
    Join,
    JoinKind,
    Lookup,
    TimeCondition,
    by_risk,
    equal_keys,
)
from penstock.plan.nodes.node import Filter, Node, Project, Union
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Host
from penstock.plan.properties import below
from penstock.plan.window_kinds import Sliding

# Pipelines of joins with two inputs.
#
# Each pair of inputs has to fit in time.  A later join searches tuples by the tightest of its time
# conditions, and only tests the others.  Where conditions of the query bound two inputs through a
# third, the condition that follows for the two is added: so all times keep progressing.

# hints for joins whose results leave in the order of the time of their first input
IN_ORDER_OF_ONE = (JoinAlgorithm.OPOB, JoinAlgorithm.OPIB)


def binary_joins(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Split joins of several inputs into pipelines of joins with two.

    before: Join ON a.k = c.k AND b.j = c.j (Scan a, Scan b, Scan c)
    after:  Join ON b.j = c.j (Join ON a.k = c.k (Scan a, Scan c), Scan b)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name in "abc":
    ...     db.stream(name, [{"j": 1, "k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> windows = "a [RANGE 9], b [RANGE 5], c [RANGE 7]"
    >>> text = f"SELECT a.j FROM {windows} WHERE a.k = c.k AND b.j = c.j"
    >>> top = binary_joins(db.sql(text).plan, Settings()).input.input
    >>> for join in (top, top.branches[0]):
    ...     print(join.condition, *join.details()[1:], sep="; ")
    (b.j = c.j); window: [RANGE 7, WA c.t]; window: [RANGE 5, WA b.t]; also: -5 <= b.t - a.t <= 9
    (a.k = c.k); window: [RANGE 9, WA a.t]; window: [RANGE 7, WA c.t]
    """
    return with_inputs(query, lambda node: _binary(node, by_name=False))


def _binary(node: Node, by_name: bool) -> Node:
    """Split all joins below a node; `by_name` says that the nodes above refer to columns by
    name.
    """
    below = looks_at_names(node, by_name)
    node = with_inputs(node, lambda each: _binary(each, below))
    if not isinstance(node, Join) or len(node.branches) == 2 or node.tree is not None:
        return node
    may_move = by_name and not node.signed
    first = 0 if node.hint in IN_ORDER_OF_ONE else None
    order = connected(node, first) if may_move else list(range(len(node.branches)))
    return _pipeline(node, order)


def looks_at_names(node: Node, by_name: bool) -> bool:
    """Whether a node finds the columns of its input by their names."""
    match node:
        case Project() | WindowAggregate() | GroupAggregate():
            return True
        case Filter() | Join() | Lookup():
            return by_name
    return False


def connected(node: Join, start: int | None = None) -> list[int]:
    """Order of inputs such that, whenever possible, each has equal keys with those before it; it
    begins with the first input that has equal keys with another.
    """
    left = list(range(len(node.branches)))
    if start is None:
        start = next((i for i in left if any(_equal(node, [i], j) for j in left if j != i)), 0)
    order = [start]
    left.remove(start)
    while left:
        found = next((each for each in left if _equal(node, order, each)), left[0])
        order.append(found)
        left.remove(found)
    return order


def _equal(node: Join, some: list[int], other: int) -> bool:
    before = Schema(tuple(field for each in some for field in node.branches[each].schema))
    keys, _ = equal_keys(before, node.branches[other].schema, node.condition)
    return bool(keys)


def _pipeline(node: Join, order: list[int]) -> Join:
    safe, risky = by_risk(node.condition)
    made: Node = node.branches[order[0]]
    waiting: list[Expression] = safe
    for place, new in enumerate(order[1:], 1):
        before, last = order[:place], place == len(order) - 1
        windows = {each: between(node, each, new) for each in before}
        first = min(before, key=lambda each: width(windows[each]))
        if node.hint in IN_ORDER_OF_ONE:
            first = order[0]  # all results are in the order of the first input
        attribute = node.attributes[new]
        also = tuple(
            TimeCondition(node.attributes[each], attribute, windows[each])
            for each in before
            if each != first
        )
        known = {(f.name, f.relation) for each in (made, node.branches[new]) for f in each.schema}
        ready = [each for each in waiting if last or _known(each, known)]
        waiting = [each for each in waiting if each not in ready]
        made = Join(
            (made, node.branches[new]),
            (node.attributes[first], attribute),
            window_of_two(windows[first]),
            all_of([*ready, *(risky if last else [])]),
            node.span,
            also=(*also, *conditions_across(node, before, [new])),
            late_by=_late_by(node, order[:place], first, new),
            hint=node.hint,
        )
    assert isinstance(made, Join)
    return made


def _late_by(node: Join, before: list[int], first: int, new: int) -> tuple[tuple[Column, ...], ...]:
    """Times by which tuples are late: those of the inputs of the query, at the join where they
    enter; results are never late.
    """
    if not node.late_by:
        return ()
    own = node.late_by[first] if len(before) == 1 else (node.attributes[first],)
    return (own, node.late_by[new])


def _known(condition: Expression, known: set[tuple[str, str | None]]) -> bool:
    return all((each.name, each.relation) in known for each in columns_of(condition))


# The rule that chooses the tree of operators of joins of several streams, and the order in which
# the tuples of each stream probe the others.

_MARGIN = 1.1  # containers have to be so many times faster
_SHOWN = 4  # inputs up to which all trees are listed
_SIDE_BY_SIDE = 2.0  # the margin where tuples are processed in threads without containers


def arrange_joins(query: QueryPlan, settings: Settings) -> QueryPlan:
    """Choose the trees of joins of several streams.

    before: Join ON a.k = b.k AND b.k = c.k (Scan a, Scan b, Scan c)
    after:  the same with the tree (a b c) and an order of probes for every stream; or with
            ((b c) a), which keeps what b and c have in common, if that takes less time

    All trees can exchange their state.  Intermediate results are kept only where no pair is
    retracted, and not on Spark; there, tuples of all streams have to meet in one place, so it is
    one operator if all have a key in common.

    >>> import pyarrow as pa
    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name, rows in (("a", 900), ("b", 900), ("c", 9)):
    ...     batch = [{"k": t % 9, "t": t * 900 // rows} for t in range(rows)]
    ...     db.stream(name, pa.Table.from_pylist(batch), progress=ps.progress("t", delay=5))
    >>> windows = "a [RANGE 90], b [RANGE 90], c [RANGE 90]"
    >>> query = db.sql(f"SELECT a.k FROM {windows} WHERE a.k = b.k AND b.k = c.k").plan
    >>> (join,) = (n for n in arrange_joins(query, Settings()).walk() if isinstance(n, Join))
    >>> join.probes
    ((2, 1), (2, 0), (1, 0))
    """
    margin = margin_of(query.consistency)
    made = with_inputs(query, lambda node: _arranged(node, settings, margin))
    return binary_joins(made, settings)


def margin_of(asked: Consistency | None) -> float:
    """Factor by which containers have to be faster. They are conflicts: with containers, tuples
    are not processed in parallel, and results do not follow them one by one.
    """
    if asked is None:
        return _MARGIN
    return _SIDE_BY_SIDE if asked.at_most is None else inf


def _arranged(node: Node, settings: Settings, margin: float) -> Node:
    node = with_inputs(node, lambda each: _arranged(each, settings, margin))
    if not isinstance(node, Join) or not can_be_arranged(node, settings):
        return node
    return put_together(node, chosen(node, settings, margin=margin))


def put_together(join: Join, tree: Joined) -> Join:
    """Join by one operator for all inputs, which finds results by a tree."""
    return replace(arranged(join, flat(len(join.branches))), tree=tree)


def can_be_arranged(node: Join, settings: Settings) -> bool:
    """Whether a tree can be chosen. Other hints are for joins with two inputs. On Spark, tuples
    have to meet in one place, and items have to meet those that they retract.
    """
    if len(node.branches) == 2 or node.hint not in (None, JoinAlgorithm.MULTIWAY):
        return False
    return settings.host is Host.LOCAL or (bool(common_keys(node, 0)) and not node.signed)


def chosen(node: Join, settings: Settings, by_name: bool = True, margin: float = _MARGIN) -> Joined:
    """Choose the fastest of the allowed trees; one operator if that is not much slower, because it
    keeps nothing but tuples, and assumptions may be wrong.
    """
    found = candidates(node, settings, by_name)
    return min(found, key=lambda each: each.time * (1 if each.tree.is_flat else margin)).tree


def candidates(node: Join, settings: Settings, by_name: bool = True) -> list[Candidate]:
    """Best allowed trees: one operator for all inputs, and operators for any number of inputs."""
    search = Search(JoinCosts(node, statistics_of(node)))
    if len(node.branches) == 2:
        return [search.flat()]
    if not can_be_arranged(node, settings):
        free = by_name and not node.signed
        cascade = left_deep(connected(node) if free else range(len(node.branches)))
        return [Candidate(cascade, search.time(cascade))]
    if not _may_contain(node, settings):
        return [search.flat()]
    found = [search.flat(), search.containing()]
    return [each for number, each in enumerate(found) if each not in found[:number]]


def _may_contain(node: Join, settings: Settings) -> bool:
    """Whether intermediate results may be kept in containers."""
    several = len(node.branches) > 2 and settings.host is Host.LOCAL
    return several and not node.signed and node.hint is None


def considered(node: Join, settings: Settings) -> list[Candidate]:
    """All trees to list, the fastest first: those of every kind, including pipelines of operators
    for two inputs; for a few inputs all trees.
    """
    found = candidates(node, settings)
    if _may_contain(node, settings):
        search = Search(JoinCosts(node, statistics_of(node)))
        every = search.every() if len(node.branches) <= _SHOWN else []
        for each in (search.pipeline(), *every):
            if all(each.tree != known.tree for known in found):
                found.append(each)
    return sorted(found, key=lambda each: each.time)


# The choice between computing EXCEPT ON before a join or after it.


def pays_before_joins(after: QueryPlan, before: QueryPlan) -> bool:
    """Whether the second of two plans with the same result takes less time."""
    return _time(before) < _time(after)


def _time(query: QueryPlan) -> float:
    """Nanoseconds of a tick: T of every stream, weighted by its rate."""
    found = translate(query.input, lambda join: join.tree or flat(len(join.branches)))
    return sum(each.rate * each.time() for each in found.expressions)


# EXCEPT ON before a join instead of on its pairs.


def difference_below_join(query: QueryPlan, settings: Settings) -> QueryPlan:
    """Compute EXCEPT ON on one input of a join instead of on the pairs.

    before: Difference ON (q.c) (Project s.c, s.t (Join r.b = s.b (Scan r, Scan s)), Scan u)
    after:  Project s.c, s.t, s.changed_at
            (Join r.b = s.b (Scan r, Difference ON (c) (Scan s, Scan u)))

    >>> import pyarrow as pa
    >>> import penstock as ps
    >>> db = ps.connect()
    >>> rows = pa.Table.from_pylist([{"b": t % 2, "c": t % 3, "t": t} for t in range(999)])
    >>> for name in "rsu":
    ...     db.stream(name, rows, progress=ps.progress("t", delay=5))
    >>> pairs = "SELECT s.c, s.t FROM r [RANGE 20], s [RANGE 20] WHERE r.b = s.b"
    >>> query = db.sql(f"SELECT c, changed_at FROM ({pairs}) q [RANGE 9, WA t] EXCEPT ON (c) u")
    >>> [type(each).__name__ for each in difference_below_join(query.plan, Settings()).walk()]
    ['QueryPlan', 'Project', 'Project', 'Join', 'Scan', 'Difference', 'Scan', 'Scan']
    """
    if not results_may_be_removed(query):
        return query
    made = with_inputs(query, _moved)
    return made if made is query or settings.as_begun or pays_before_joins(query, made) else query


def _moved(node: Node) -> Node:
    match node:
        case Difference():
            found = _below_join(node)
            return node if found is None else found
        case Filter() | Project() | Union() | WindowAggregate(window=Sliding()):
            return with_inputs(node, _moved)
    return node


def _below_join(node: Difference) -> Node | None:
    project = node.left
    if not isinstance(project, Project) or not isinstance(project.input, Join):
        return None
    join, stay = project.input, node.ranges[0]
    if join.kind is not JoinKind.INNER or join.signed or len(join.branches) != 2 or stay is None:
        return None
    if join.late_by:  # of what comes and goes, only the time at which it does progresses
        return None
    attribute = below(node.attributes[0], project)
    if attribute not in join.attributes:
        return None
    side = join.attributes.index(attribute)
    given, keys = join.branches[side], [below(left, project) for left, _ in node.keys]
    relations = {field.relation for field in given.schema}
    (relation,) = relations if len(relations) == 1 else (None,)
    if relation is None or "changed_at" in given.schema.names:
        return None
    columns = [each for each in keys if isinstance(each, Column) and is_about(each, given)]
    if len(columns) < len(keys):
        return None
    assert isinstance(attribute, Column)
    items = replace(
        node,
        left=given,
        keys=tuple((own, right) for own, (_, right) in zip(columns, node.keys, strict=True)),
        attributes=(attribute, node.attributes[1]),
        alias=relation,
        progresses_twice=True,
    )
    changed = Column.of(items.schema.fields[-1])
    made = _joined(join, side, items, changed, stay)
    return Project(made, (*project.columns, Named("changed_at", changed)), node.alias)


def _joined(join: Join, side: int, items: Difference, changed: Column, stay: int) -> Join:
    """Join the items: their partners are those of their tuples. An item comes when its tuple does,
    or later, as long as the tuple stays.
    """
    branches, times = list(join.branches), list(join.attributes)
    branches[side], times[side] = items, changed
    low, high = _apart(between(join, 0, 1))
    band = BandJoin(low, high + stay + 1) if side else BandJoin(low - stay - 1, high)
    left, right = times
    also = (*join.also, TimeCondition(left, right, band))
    return replace(join, branches=tuple(branches), also=also, hint=None)


def _apart(window: PairWindow) -> tuple[int, int]:
    """Lowest and highest distance of the right time above the left one."""
    match window:
        case SlidingJoin():
            return window.band.low, window.band.high
        case BandJoin():
            return window.low, window.high
    return 1 - window.range, window.range - 1
