"""Say of one input of a join what follows for it from what is said of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from penstock.model.domain import Domain
from penstock.model.room import ticks_of
from penstock.model.types import BOOLEAN, Kind
from penstock.optimizer.logical.removable_rows import (
    filtered,
    is_about,
    only_results,
    results_may_be_removed,
)
from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import (
    Call,
    Column,
    Expression,
    Literal,
    columns_of,
    conjuncts,
)
from penstock.plan.nodes.joins import Join, JoinKind
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter
from penstock.plan.properties.can_fail import may_fail
from penstock.plan.substitution import substituted

_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


class _Limit(NamedTuple):
    """A time is at or above a tick (or at or below it)."""

    above: bool
    tick: int


def derive_predicates(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Columns that have to be equal fulfil the same conditions, and times that have to fit are not
    far from each other.  Only inputs that are results are filtered by that: tuples that do not come
    to the join cannot be found late there.  What is asked twice costs little, and what the join
    does not have to keep saves more.

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
    """What holds for all tuples of an input that come into pairs."""
    if isinstance(branch, Filter) and not may_fail(branch.predicate):
        yield from conjuncts(branch.predicate)
    if condition is not None:
        yield from (each for each in conjuncts(condition) if is_about(each, branch))


# --- equal columns -------------------------------------------------------------------------------


def _equal_columns(condition: Expression | None) -> list[set[Column]]:
    """Columns that are equal in all pairs.  Of doubles, 0 and -0 are equal and not the same."""
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
    """What a comparison of a column with a literal says."""
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
    """How far partners can be from what is limited."""
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
