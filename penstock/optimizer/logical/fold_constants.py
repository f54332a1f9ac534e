"""Compute what does not depend on any tuple, once."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import RunError
from penstock.model.schema import Schema
from penstock.model.types import BOOLEAN
from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import (
    Call,
    Column,
    Expression,
    Literal,
    Named,
    children,
)
from penstock.plan.nodes.aggregates import GroupAggregate, NamedAggregate, WindowAggregate
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.sequence import Sequence
from penstock.plan.nodes.stateless import Filter, Project
from penstock.plan.properties.can_fail import may_fail
from penstock.plan.substitution import with_children
from penstock.scalars.evaluate import evaluator

_NOTHING = Schema(())


def fold_constants(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """What has no value, like 1 / 0 as a whole number that leaves its type, stays as it is: it is
    an error of the first tuple that comes to it, and of none if no tuple does.

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
    """What is promised stays as it was bound: who waits for what was decided by it."""
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
    """The expression with literals for whatever has no column in it.

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
    """TRUE says nothing beside AND, nor does FALSE beside OR.  The other way round they decide, if
    nothing that would have been computed can fail."""
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
