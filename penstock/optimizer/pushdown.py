"""Pushdown rules: filters moved towards the sources, where results do not change.

A tuple that is dropped before an operator cannot be found late there, and late tuples are counted
and delivered. So filters are pushed below windows, groups and joins only where the input of these
consists of results: results are never late. Landmark windows follow the progress of their input,
to which results that a filter would drop contribute; and where results are revised, the emitted
revisions would change. So neither is pushed through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from penstock.model.ticks import Domain, ticks_of
from penstock.model.types import BOOLEAN, Kind
from penstock.optimizer.rewrite import Settings, rewritten
from penstock.plan.expressions import (
    Call,
    Column,
    Expression,
    Literal,
    Named,
    aggregate_may_fail,
    all_of,
    columns_of,
    conjuncts,
    may_fail,
)
from penstock.plan.nodes.aggregation import Distinct, DistinctOn, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Join, JoinKind, Lookup
from penstock.plan.nodes.node import Filter, Node, Project, Union
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import below, has_tuples, substituted
from penstock.plan.window_kinds import Landmark, Order, RowWindow, Session, Sliding


def results_may_be_removed(query: QueryPlan) -> bool:
    """Whether filters may be pushed below stateful operators, as far as the whole query allows."""
    return not query.revises and not any(
        isinstance(node, WindowAggregate) and isinstance(node.window, Landmark)
        for node in query.walk()
    )


def only_results(node: Node) -> bool:
    """Whether no output of a node can be late or be retracted."""
    return not node.signed and not has_tuples(node)


def is_about(predicate: Expression, node: Node) -> bool:
    """Whether a predicate refers to columns, and all of them belong to a node."""
    known = {(field.name, field.relation) for field in node.schema}
    found = {(column.name, column.relation) for column in columns_of(predicate)}
    return bool(found) and found <= known


def filtered(node: Node, predicates: list[Expression]) -> Node:
    """Filter a node by all predicates, with one filter."""
    if isinstance(node, Filter) and not any(map(may_fail, predicates)):
        said = conjuncts(node.predicate)
        new = [each for each in predicates if each not in said]
        if not new:
            return node
        predicate = all_of([*said, *new])
        assert predicate is not None
        return Filter(node.input, predicate)
    found = all_of(predicates)
    return node if found is None else Filter(node, found)


# Merge adjacent filters, and adjacent projections.


def merge_adjacent(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Merge adjacent filters and projections. Both halves of an AND are computed for every tuple,
    so the later filter must not be able to fail. A column that is computed once and used twice
    stays computed once.

    before: Project u + 1 AS v (Project t * 2 AS u (Filter x > 0 (Filter y > 0 (Scan s))))
    after:  Project t * 2 + 1 AS v (Filter y > 0 AND x > 0 (Scan s))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 0.5, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT y + 1 AS z FROM (SELECT x * 2 AS y FROM s) q").plan
    >>> print(*merge_adjacent(query, Settings()).input.columns)
    ((s.x * 2.0) + 1.0) AS z
    """
    return rewritten(query, _merged)


def _merged(node: Node) -> Node:
    match node:
        case Filter(input=Filter() as first) if not may_fail(node.predicate):
            said = conjuncts(first.predicate)
            more = [each for each in conjuncts(node.predicate) if each not in said]
            predicate = all_of([*said, *more])
            assert predicate is not None
            return Filter(first.input, predicate)
        case Project(input=Project() as first) if _can_be_inside(first, node):
            columns = tuple(Named(c.name, below(c.expression, first)) for c in node.columns)
            made = replace(node, input=first.input, columns=columns)
            return made if made.progress == node.progress else node
    return node


def _can_be_inside(first: Project, second: Project) -> bool:
    used = Counter(
        (column.name, column.relation)
        for each in second.columns
        for column in columns_of(each.expression)
    )
    return all(
        isinstance(each.expression, Column | Literal)
        or (used[field.name, field.relation] <= 1 and not may_fail(each.expression))
        for each, field in zip(first.columns, first.schema, strict=True)
    )


# Filters below projections.


def filter_below_project(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Push filters below projections, unless one of the columns can fail: tuples that the filter
    drops have failed as well.

    before: Filter q.y > 3 (Project x * 2 AS y (Scan s))
    after:  Project x * 2 AS y (Filter x * 2 > 3 (Scan s))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 0.5, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT y FROM (SELECT x * 2 AS y FROM s) q WHERE y > 3").plan
    >>> node = filter_below_project(query, Settings()).input
    >>> while node.inputs:
    ...     print(node.details()[0])
    ...     (node,) = node.inputs
    Project q.y AS y
    Project (s.x * 2.0) AS y
    Filter ((s.x * 2.0) > 3.0)
    """
    return rewritten(query, _below_project)


def _below_project(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, Project):
        return node
    project = node.input
    if any(may_fail(column.expression) for column in project.columns):
        return node
    passed = _below_project(Filter(project.input, below(node.predicate, project)))
    return replace(project, input=passed)


# Filters below unions.


def filter_below_union(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Push filters below unions. Columns of a union are matched by place, so each input has its
    own names.

    before: Filter u.x > 3 (Union AS u (Scan a, Scan b))
    after:  Union AS u (Filter a.x > 3 (Scan a), Filter b.x > 3 (Scan b))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"x": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT x FROM a UNION b AS u WHERE x > 3").plan
    >>> union = filter_below_union(query, Settings()).input.input
    >>> [branch.details()[0] for branch in union.branches]
    ['Filter (a.x > 3)', 'Filter (b.x > 3)']
    """
    return rewritten(query, _below_union)


def _below_union(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, Union):
        return node
    union = node.input
    branches = [
        _below_union(Filter(branch, _over_branch(node.predicate, union, branch)))
        for branch in union.branches
    ]
    return replace(union, branches=tuple(branches))


def _over_branch(predicate: Expression, union: Union, branch: Node) -> Expression:
    def own(column: Column) -> Expression:
        return Column.of(branch.schema.fields[column.position(union.schema)], column.span)

    return substituted(predicate, own)


# Filters on keys below aggregations.

_Key: TypeAlias = tuple[str, str | None]


def filter_below_windows(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Push filters on keys below aggregations, because all rows of a group agree on keys. Where
    tuples can be late they come to the operator as before; rows that are counted in order of
    arrival never are, so a whole partition of them can be left out.

    before: Filter k = 1 (WindowAggregate max(n) BY k (Project … (WindowAggregate …)))
    after:  WindowAggregate max(n) BY k (Filter k = 1 (Project … (WindowAggregate …)))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "SELECT k, count(*) AS n [RANGE 5 ROWS, SLIDE 5 ROWS, PA k] FROM s"
    >>> query = db.sql(f"{counts} GROUP BY k HAVING k = 1 AND count(*) > 2").plan
    >>> [each.details()[0] for each in filter_below_windows(query, Settings()).walk()][2:]
    ['Filter (count(*) > 2)', 'WindowAggregate count(*)', 'Filter (s.k = 1)', 'Scan s']
    """
    return rewritten(query, _below_windows) if results_may_be_removed(query) else query


def _below_windows(node: Node) -> Node:
    if not isinstance(node, Filter) or may_fail(node.predicate):
        return node
    keys = _keys(node.input)
    parts = conjuncts(node.predicate)
    passing = [each for each in parts if _is_about(each, keys)]
    if not passing:
        return node

    def own(column: Column) -> Expression:
        return keys[column.name, column.relation]

    (given,) = node.input.inputs
    below = filtered(given, [substituted(each, own) for each in passing])
    made = _over_input(node.input, below)
    above = all_of([each for each in parts if each not in passing])
    return made if above is None else Filter(made, above)


def _is_about(predicate: Expression, keys: dict[_Key, Expression]) -> bool:
    found = {(column.name, column.relation) for column in columns_of(predicate)}
    return bool(found) and found <= keys.keys()


def _over_input(node: Node, given: Node) -> Node:
    change: Callable[..., Node] = replace
    return change(node, input=given)


def _keys(node: Node) -> dict[_Key, Expression]:
    """Output columns of an operator by which rows can be dropped before it, with their expressions
    over its input; empty if there are none.
    """
    match node:
        case Distinct() if only_results(node.input):
            return {(field.name, field.relation): Column.of(field) for field in node.schema}
        case DistinctOn() if only_results(node.input):
            keys = [key for key in node.keys if isinstance(key, Column) and key in node.columns]
            return {(key.name, key.relation): key for key in keys}
        case WindowAggregate() | GroupAggregate() if _can_fail(node):
            return {}
        case GroupAggregate() if only_results(node.input):
            return {(key.name, None): key.expression for key in node.keys}
        case WindowAggregate(window=Sliding() | Session()) if only_results(node.input):
            return {(key.name, None): key.expression for key in node.keys}
        case WindowAggregate(window=RowWindow(order=Order.ARRIVAL)) if not node.input.signed:
            return {(part.name, None): part.expression for part in node.partition}
    return {}


def _can_fail(node: WindowAggregate | GroupAggregate) -> bool:
    """Whether a group can be an error: then it must not be left out."""
    keys = any(may_fail(key.expression) for key in node.keys)
    return keys or any(aggregate_may_fail(each.call) for each in node.aggregates)


# Filters into join conditions.


def filter_into_join(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Merge filters on pairs into the join condition.

    before: Filter a.k = b.j (Join (Scan a, Scan b))
    after:  Join ON a.k = b.j (Scan a, Scan b)

    >>> import penstock as ps
    >>> from penstock.optimizer.pushdown import filter_below_project
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> pairs = "SELECT a.k AS k, b.k AS j FROM a [RANGE 5], b [RANGE 5]"
    >>> query = db.sql(f"SELECT k FROM ({pairs}) q WHERE k = j").plan
    >>> for rule in (filter_below_project, filter_into_join):
    ...     query = rule(query, Settings())
    >>> query.input.input.input.details()[0]
    'Join ON (a.k = b.k)'
    """
    return rewritten(query, _into_join)


def _into_join(node: Node) -> Node:
    if not isinstance(node, Filter) or may_fail(node.predicate):
        return node
    given = node.input
    if not isinstance(given, Join | Lookup) or _fails(given.condition):
        return node
    if isinstance(given, Lookup):
        return _into_lookup(node, given)
    if given.kind is not JoinKind.INNER or given.signed:
        return node
    return replace(given, condition=_all(given.condition, list(conjuncts(node.predicate))))


def _into_lookup(node: Filter, lookup: Lookup) -> Node:
    parts = conjuncts(node.predicate)
    first = [each for each in parts if is_about(each, lookup.input)]
    others = [each for each in parts if each not in first]
    below = all_of(first)
    made = (
        lookup if below is None else replace(lookup, input=_into_join(Filter(lookup.input, below)))
    )
    if others and lookup.kind is JoinKind.INNER:
        return replace(made, condition=_all(made.condition, others))
    above = all_of(others)
    if below is None:
        return node
    return made if above is None else Filter(made, above)


def _fails(condition: Expression | None) -> bool:
    return condition is not None and may_fail(condition)


def _all(condition: Expression | None, more: list[Expression]) -> Expression | None:
    said = [] if condition is None else list(conjuncts(condition))
    return all_of([*said, *(each for each in more if each not in said)])


# Join conditions on one input as filters of that input.


def split_over_join(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Push conditions on one input of a join below it. Conditions of the FROM clause are pushed
    down when the query is bound; this rule handles those that come from queries around it. It
    applies only to inputs that are results: tuples that do not reach the join cannot be found late
    there.

    before: Join ON a.k = b.k AND b.n > 3 (…, WindowAggregate …)
    after:  Join ON a.k = b.k (…, Filter b.n > 3 (WindowAggregate …))

    >>> import penstock as ps
    >>> from penstock.optimizer.pushdown import filter_below_project
    >>> from penstock.optimizer.pushdown import filter_into_join
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "(SELECT k, window_end, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k)"
    >>> pairs = f"SELECT s.k AS k, c.n AS n FROM s [RANGE 5], {counts} c [RANGE 5, WA window_end]"
    >>> query = db.sql(f"SELECT n FROM ({pairs}) q WHERE n > 3 AND k > 1").plan
    >>> for rule in (filter_below_project, filter_into_join, split_over_join):
    ...     query = rule(query, Settings())
    >>> join = query.input.input.input
    >>> join.details()[0], join.branches[1].details()
    ('Join ON (s.k > 1)', ['Filter (c.n > 3)'])
    """
    return rewritten(query, _split) if results_may_be_removed(query) else query


def _split(node: Node) -> Node:
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER or node.condition is None:
        return node
    if may_fail(node.condition):
        return node
    branches, left = [], list(conjuncts(node.condition))
    for branch in node.branches:
        own: list[Expression] = []
        if only_results(branch):
            own = [each for each in left if is_about(each, branch)]
            left = [each for each in left if each not in own]
        branches.append(filtered(branch, own))
    if len(left) == len(conjuncts(node.condition)):
        return node
    return replace(node, branches=tuple(branches), condition=all_of(left))


# Conditions on one input of a join that follow from those on another.

_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


class _Limit(NamedTuple):
    """A time is at or above a tick (or at or below it)."""

    above: bool
    tick: int


def derive_predicates(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Derive filters for one input of a join from those on another: equal columns satisfy the same
    conditions, and times that have to fit are not far from each other. Only inputs that are
    results are filtered by them: tuples that do not reach the join cannot be found late there.
    Testing a condition twice costs little, and the smaller state of the join saves more.

    before: Join ON a.k = b.k [RANGE 5] (Filter a.k > 3 AND a.t >= 10 …, WindowAggregate …)
    after:  Join … (Filter …, Filter b.k > 3 AND b.t >= 5 (WindowAggregate …))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "(SELECT k, window_end AS e, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s"
    >>> pairs = f"FROM s [RANGE 5], {counts} GROUP BY k) c [RANGE 5, WA e]"
    >>> query = db.sql(f"SELECT n {pairs} WHERE s.k = c.k AND s.k > 3 AND s.t >= 10").plan
    >>> derive_predicates(query, Settings()).input.input.branches[1].details()
    ['Filter ((c.k > 3) AND (c.e >= 5))']
    """
    return rewritten(query, _derived) if results_may_be_removed(query) else query


def _derived(node: Node) -> Node:
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER:
        return node
    if node.condition is not None and may_fail(node.condition):
        return node
    said = [list(_said_of(branch, node.condition)) for branch in node.branches]
    equal = _equal_columns(node.condition)
    branches = []
    for place, branch in enumerate(node.branches):
        if not only_results(branch):
            branches.append(branch)
            continue
        found = [*_by_equality(said, place, branch, equal), *_by_time(node, said, place)]
        new = [each for each in dict.fromkeys(found) if each not in said[place]]
        branches.append(filtered(branch, new))
    if all(new is old for new, old in zip(branches, node.branches, strict=True)):
        return node
    return replace(node, branches=tuple(branches))


def _said_of(branch: Node, condition: Expression | None) -> Iterator[Expression]:
    """Conditions that hold for all tuples of an input that come into pairs."""
    if isinstance(branch, Filter) and not may_fail(branch.predicate):
        yield from conjuncts(branch.predicate)
    if condition is not None:
        yield from (each for each in conjuncts(condition) if is_about(each, branch))


# --- equal columns -------------------------------------------------------------------------------


def _equal_columns(condition: Expression | None) -> list[set[Column]]:
    """Classes of columns that are equal in all pairs. Doubles are left out: 0 and -0 are equal and
    not the same.
    """
    classes: list[set[Column]] = []
    for each in conjuncts(condition) if condition is not None else ():
        match each:
            case Call("eq", (Column() as one, Column() as other)) if (
                one.type == other.type and one.type.kind is not Kind.DOUBLE
            ):
                joined = {one, other}
                for known in [known for known in classes if known & joined]:
                    classes.remove(known)
                    joined |= known
                classes.append(joined)
    return classes


def _by_equality(
    said: list[list[Expression]], place: int, branch: Node, equal: list[set[Column]]
) -> Iterator[Expression]:
    own = {Column.of(field) for field in branch.schema}
    for other, predicates in enumerate(said):
        for predicate in predicates if other != place else ():
            columns = set(columns_of(predicate))
            if len(columns) == 1:
                (column,) = columns
                same = next((each for each in equal if column in each), set())
                for mine in sorted(same & own, key=str):
                    yield substituted(predicate, lambda _, mine=mine: mine)  # type: ignore[misc]


# --- times ---------------------------------------------------------------------------------------


def _by_time(node: Join, said: list[list[Expression]], place: int) -> Iterator[Expression]:
    column = node.attributes[place]
    own = [limit for each in said[place] for limit in _limits(each, column)]
    for other, predicates in enumerate(said):
        if other == place or node.attributes[other].type != column.type:
            continue
        for predicate in predicates:
            for limit in _limits(predicate, node.attributes[other]):
                reached = _partner(node, other, place, limit)
                if reached is not None and not any(_implies(each, reached) for each in own):
                    yield _predicate(column, reached)


def _limits(predicate: Expression, column: Column) -> Iterator[_Limit]:
    """Limits that a comparison of a column with a literal implies."""
    match predicate:
        case Call(name, (Column() as found, Literal() as literal)) if name in _TURNED:
            pass
        case Call(name, (Literal() as literal, Column() as found)) if name in _TURNED:
            name = _TURNED[name]
        case _:
            return
    if found != column or literal.value is None or literal.type != column.type:
        return
    tick = Domain(column.type).tick(literal.value)
    if name in ("ge", "gt", "eq"):
        yield _Limit(True, tick + (name == "gt"))
    if name in ("le", "lt", "eq"):
        yield _Limit(False, tick - (name == "lt"))


def _partner(node: Join, other: int, place: int, limit: _Limit) -> _Limit | None:
    """Limit on partners that follows from a limit."""
    window = node.window.between(other, place)
    if window is not None:
        bounds = window.partner_bounds(limit.tick)
    else:
        turned = node.window.between(place, other)
        if turned is None:
            return None
        bounds = turned.partner_bounds_of_right(limit.tick)
    tick = bounds[0] if limit.above else bounds[1]
    inside = ticks_of(node.attributes[place].type).holds(tick)
    return _Limit(limit.above, tick) if inside else None


def _implies(own: _Limit, other: _Limit) -> bool:
    if own.above is not other.above:
        return False
    return own.tick >= other.tick if own.above else own.tick <= other.tick


def _predicate(column: Column, limit: _Limit) -> Expression:
    literal = Literal(Domain(column.type).value(limit.tick), column.type)
    return Call("ge" if limit.above else "le", (column, literal), BOOLEAN)
