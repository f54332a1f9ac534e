"""Simplifying rules: constants, sub-queries, needless DISTINCT, limits on numbered rows, and the
canonical order of keys and aggregates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from penstock.errors import RunError
from penstock.expressions.evaluation import evaluator
from penstock.model.types import BOOLEAN, Schema
from penstock.optimizer.pushdown import only_results
from penstock.optimizer.rewrite import Settings, rewritten, with_inputs
from penstock.plan.expressions import (
    Call,
    Column,
    Expression,
    Literal,
    Named,
    children,
    conjuncts,
    may_fail,
)
from penstock.plan.identity import aggregate_text, expression_text, origins
from penstock.plan.nodes.aggregation import (
    Distinct,
    DistinctOn,
    GroupAggregate,
    NamedAggregate,
    WindowAggregate,
)
from penstock.plan.nodes.join import Join, Lookup, Sequence
from penstock.plan.nodes.node import Filter, Node, Project
from penstock.plan.nodes.over import Numbering, Over, RowsOver
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import below, with_children
from penstock.plan.window_kinds import Landmark, RowWindow, SlideByTuple

# Constant folding.

_NOTHING = Schema(())


def fold_constants(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Replace expressions without columns by their values. An expression without a value, like an
    overflow, stays: it is an error of the first tuple that evaluates it, and of none if no tuple
    does.

    before: Filter x > 2 * 5 AND 1 < 2 (Scan s)
    after:  Filter x > 10 (Scan s)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT x FROM s WHERE x > 2 * 5 AND 1 < 2").plan
    >>> print(fold_constants(query, Settings()).input.input.predicate)
    (s.x > 10)
    """
    return rewritten(query, _folded_node)


def _folded_node(node: Node) -> Node:
    match node:
        case Filter():
            predicate = folded(node.predicate)
            if isinstance(predicate, Literal) and predicate.value is True:
                return node.input
            return node if predicate == node.predicate else replace(node, predicate=predicate)
        case Project():
            columns = tuple(Named(each.name, folded(each.expression)) for each in node.columns)
            return _unless_it_progresses(node, replace(node, columns=columns))
        case Join() | Lookup() | Sequence():
            if node.condition is None:
                return node
            condition = folded(node.condition)
            return node if condition == node.condition else replace(node, condition=condition)
        case WindowAggregate() | GroupAggregate():
            aggregates = tuple(map(_folded_aggregate, node.aggregates))
            return node if aggregates == node.aggregates else replace(node, aggregates=aggregates)
    return node


def _unless_it_progresses(old: Project, new: Project) -> Project:
    """Keep the bound projection if its progress would change, because waiting was decided by
    that.
    """
    return new if new != old and new.progress == old.progress else old


def _folded_aggregate(each: NamedAggregate) -> NamedAggregate:
    call = each.call
    where = None if call.where is None else folded(call.where)
    if isinstance(where, Literal) and where.value is True:
        where = None
    constants = call.function.constants
    plain = call.arguments[: len(call.arguments) - constants]
    arguments = (*map(folded, plain), *call.arguments[len(plain) :])
    return replace(each, call=replace(call, arguments=arguments, where=where))


def folded(expression: Expression) -> Expression:
    """Replace subexpressions without columns by literals.

    >>> two, three = (Literal(each, BOOLEAN) for each in (True, False))
    >>> print(folded(Call("or", (two, three), BOOLEAN)))
    TRUE
    """
    if isinstance(expression, Column | Literal):
        return expression
    expression = with_children(expression, folded)
    if all(isinstance(each, Literal) for each in children(expression)):
        try:
            value = evaluator(expression, _NOTHING)(())
        except RunError:
            return expression
        return Literal(value, expression.type, span=expression.span)
    if isinstance(expression, Call) and expression.function in ("and", "or"):
        return _without_constants(expression)
    return expression


def _without_constants(call: Call) -> Expression:
    """Drop TRUE from AND, and FALSE from OR. The opposite constants decide the result, if nothing
    that would have been computed can fail.
    """
    neutral = call.function == "and"
    decides = any(
        isinstance(each, Literal) and each.value is (not neutral) for each in call.arguments
    )
    if decides and not may_fail(call):
        return Literal(not neutral, BOOLEAN, span=call.span)
    left = tuple(
        each for each in call.arguments if not (isinstance(each, Literal) and each.value is neutral)
    )
    return left[0] if len(left) == 1 else replace(call, arguments=left)


# Aggregate the rows of a sub-query directly, without renaming its columns first.


def flatten_subqueries(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Drop projections below an aggregation that only select and rename columns. Projections that
    compute something stay: first and last use the column that a key rises with as their position,
    and that would be another one. So do those where tuples can be late, because these have their
    columns.

    before: GroupAggregate max(q.n) BY q.e (Project window_end AS e, n AS n (WindowAggregate …))
    after:  GroupAggregate max(n) BY window_end (WindowAggregate …)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "SELECT k, window_end AS e, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s"
    >>> text = f"SELECT e, max(n) AS m FROM ({counts} GROUP BY k) q GROUP BY e"
    >>> node = flatten_subqueries(db.sql(text).plan, Settings()).input.input
    >>> print(*node.details(), node.input.details()[0], sep="; ")
    GroupAggregate max(count(*)) AS max(q.n); group by: window_end AS q.e; WindowAggregate count(*)
    """
    return rewritten(query, _flat)


def _flat(node: Node) -> Node:
    if not isinstance(node, WindowAggregate | GroupAggregate) or node.input.signed:
        return node
    made = node
    while isinstance(made.input, Project) and _only_names(made.input) and only_results(made.input):
        made = _over(made, made.input)
    return made if made.progress == node.progress else node


def _only_names(project: Project) -> bool:
    return all(isinstance(each.expression, Column) for each in project.columns)


def _over(
    node: WindowAggregate | GroupAggregate, project: Project
) -> WindowAggregate | GroupAggregate:
    def down(expression: Expression) -> Expression:
        return below(expression, project)

    keys = tuple(Named(each.name, down(each.expression)) for each in node.keys)
    aggregates = tuple(_aggregate(each, project) for each in node.aggregates)
    if isinstance(node, GroupAggregate):
        return replace(node, input=project.input, keys=keys, aggregates=aggregates)
    return replace(
        node,
        input=project.input,
        keys=keys,
        aggregates=aggregates,
        attribute=None if node.attribute is None else down(node.attribute),
        partition=tuple(Named(each.name, down(each.expression)) for each in node.partition),
    )


def _aggregate(each: NamedAggregate, project: Project) -> NamedAggregate:
    call = each.call
    arguments = tuple(below(argument, project) for argument in call.arguments)
    where = None if call.where is None else below(call.where, project)
    return replace(each, call=replace(call, arguments=arguments, where=where))


# Drop DISTINCT over rows that differ anyway.

_Columns: TypeAlias = frozenset[Column]


def drop_needless_distinct(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Drop DISTINCT where rows differ anyway: a window has one row for every group, if the columns
    include the window and the group. Windows that slide by tuples do not qualify: two tuples of
    one time open a window each. Revised results are left alone, because DISTINCT waits until they
    are final.

    before: Distinct (Project k, window_end (WindowAggregate count(*) BY k (Scan s)))
    after:  Project k, window_end (WindowAggregate count(*) BY k (Scan s))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT DISTINCT k, window_end, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s"
    >>> query = db.sql(f"{text} GROUP BY k").plan
    >>> [type(each).__name__ for each in drop_needless_distinct(query, Settings()).walk()]
    ['QueryPlan', 'Project', 'WindowAggregate', 'Scan']
    """
    return query if query.revises else rewritten(query, _dropped)


def _dropped(node: Node) -> Node:
    if isinstance(node, Distinct) and not node.input.signed:
        columns = frozenset(Column.of(field) for field in node.schema)
        if any(key <= columns for key in _unique_columns(node.input)):
            return node.input
    return node


def _unique_columns(node: Node) -> list[_Columns]:
    """Sets of columns on which no two rows agree."""
    match node:
        case Filter():
            return _unique_columns(node.input)
        case Project():
            names = {
                each.expression: Column.of(field)
                for each, field in zip(node.columns, node.schema, strict=True)
                if isinstance(each.expression, Column)
            }
            found = _unique_columns(node.input)
            return [frozenset(names[c] for c in key) for key in found if key <= names.keys()]
        case Distinct():
            return [frozenset(Column.of(field) for field in node.schema)]
        case GroupAggregate():
            return [_first(node, 0, len(node.keys))]
        case WindowAggregate() if not isinstance(node.window, SlideByTuple):
            keys = _first(node, 3, 3 + len(node.keys))
            window = node.window
            endless = isinstance(window, Landmark) or (
                isinstance(window, RowWindow) and window.range is None
            )
            places = (0, 2) if endless else (0, 1, 2)  # landmark windows all begin together
            return [keys | _first(node, place, place + 1) for place in places]
        case DistinctOn() if all(key in node.columns for key in node.keys):
            keys = frozenset(key for key in node.keys if isinstance(key, Column))
            return [keys | _first(node, place, place + 1) for place in range(3)]
    return []


def _first(node: Node, begin: int, end: int) -> _Columns:
    return frozenset(Column.of(field) for field in node.schema.fields[begin:end])


# Keep only as many rows of a partition as a filter on their numbers passes.

_TURNED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq"}


def limit_numbered_rows(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Limit the rows of a partition by a filter on row_number, rank or dense_rank. These depend on
    earlier rows alone, so rows beyond the limit can be evicted before their partition is complete.
    The rule does not apply if the filter has another condition that can fail: it is tested on
    those rows, too.

    before: Filter (n <= 3) (Over row_number() AS n)
    after:  Filter (n <= 3) (Over row_number() AS n, rows with it up to 3)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT x FROM s QUALIFY row_number() OVER (PARTITION BY t ORDER BY x) <= 3"
    >>> limit_numbered_rows(db.sql(text).plan, Settings()).input.input.input.most
    (0, 3)
    """
    return rewritten(query, _limited)


def _limited(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, RowsOver):
        return node
    if may_fail(node.predicate):
        return node
    over = node.input
    numbered = all(isinstance(each.call, Numbering) for each in over.calls)
    in_time = isinstance(over, Over) and over.completing is None
    if not numbered or over.most is not None or in_time:
        return node
    limits = [_limit(each, over) for each in conjuncts(node.predicate)]
    found = min(
        (each for each in limits if each is not None), key=lambda each: each[1], default=None
    )
    return node if found is None else replace(node, input=replace(over, most=found))


def _limit(predicate: Expression, over: RowsOver) -> tuple[int, int] | None:
    """The call that a predicate limits, and the highest number that it passes."""
    if not isinstance(predicate, Call) or predicate.function not in _TURNED:
        return None
    left, right = predicate.arguments
    function = predicate.function
    if isinstance(left, Literal):
        left, right, function = right, left, _TURNED[function]
    if not isinstance(left, Column) or left.relation is not None or function in ("ge", "gt"):
        return None
    if not isinstance(right, Literal) or not right.type.is_integer or right.value is None:
        return None
    for place, each in enumerate(over.calls):
        if each.name == left.name:
            return place, int(right.value) - (function == "lt")
    return None


# Put keys and aggregates in an order that does not depend on how a query is written.
#
# Saved state refers to keys and aggregates by place.  With this rule, SELECT may list its columns
# in another order, and under other names, and still resume from the same state.


def canonical_order(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Sort keys and aggregates. Nodes above that refer to columns by name are not affected; where
    they refer to places, a Project restores the order.

    before: Project n, total (WindowAggregate sum(x) AS total, count(*) AS n BY s.k, s.j)
    after:  Project n, total (WindowAggregate count(*) AS n, sum(x) AS total BY s.j, s.k)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"j": 1, "k": 2, "x": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT sum(x) AS total, count(*) AS n [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY k, j"
    >>> node = canonical_order(db.sql(text).plan, Settings()).input.input
    >>> [key.name for key in node.keys], [each.name for each in node.aggregates]
    (['s.j', 's.k'], ['count(*)', 'sum(s.x)'])
    """
    return with_inputs(query, lambda node: _ordered(node, by_name=False))


def _ordered(node: Node, by_name: bool) -> Node:
    """Sort below a node; `by_name` says that the nodes above refer to columns by name."""
    below = _looks_at_names(node, by_name)
    node = with_inputs(node, lambda each: _ordered(each, below))
    if not isinstance(node, WindowAggregate | GroupAggregate):
        return node
    order = _order_of_keys(node)
    keys = tuple(node.keys[place] for place in order)
    moved = {place: position for position, place in enumerate(order)}
    written = tuple(moved[place] for place in node.key_order)
    ordered = replace(node, keys=keys, aggregates=_aggregates(node), written=written)
    if isinstance(node, WindowAggregate) and isinstance(ordered, WindowAggregate):
        parts = {key.name for key in node.partition}
        ordered = replace(ordered, partition=tuple(k for k in ordered.keys if k.name in parts))
    if ordered == node:
        return node
    if by_name:
        return ordered
    return Project(ordered, tuple(Named(each.name, Column.of(each)) for each in node.schema))


def _looks_at_names(node: Node, by_name: bool) -> bool:
    match node:
        case Project() | WindowAggregate() | GroupAggregate():
            return True
        case Filter():
            return by_name
    return False


def _order_of_keys(node: WindowAggregate | GroupAggregate) -> list[int]:
    places = list(range(len(node.keys)))
    # first and last go by the first key that progresses, so several of those keep their order
    if isinstance(node, GroupAggregate) and len(node.progress) > 1:
        return places
    columns = origins(node.input)
    texts = [expression_text(key.expression, columns) for key in node.keys]
    return sorted(places, key=texts.__getitem__)


def _aggregates(node: WindowAggregate | GroupAggregate) -> tuple[NamedAggregate, ...]:
    columns = origins(node.input)
    return tuple(sorted(node.aggregates, key=lambda each: aggregate_text(each.call, columns)))
