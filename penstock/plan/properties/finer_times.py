"""Which of two times of a node is the finer one: what is late by the other is late by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.plan.expressions import Call, Cast, Column, Expression, Literal
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Filter, Project, Union
from penstock.plan.properties.monotone import rises_with, written
from penstock.plan.substitution import below

_BUCKETS = ("time_bucket", "number_bucket")


def is_finer(node: Node, one: Column, other: Column) -> bool:
    """Whether `one` is as fine as `other` or finer, as far as can be seen: `ts` is finer than
    `date_trunc('hour', ts)`, and where a window ends than where it begins.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"t": 4}], progress=ps.progress("t", delay=5))
    >>> windows = "TABLE(CUMULATE(TABLE s, DESCRIPTOR(t), 5, 15))"
    >>> node = db.sql(f"SELECT t, window_start, window_end FROM {windows}").plan.input
    >>> t, start, end = map(Column.of, node.schema)
    >>> is_finer(node, t, end), is_finer(node, end, start), is_finer(node, start, end)
    (True, True, False)
    """
    return all(_finer(first, second) for first, second in _over_sources(node, one, other))


def _over_sources(
    node: Node, one: Expression, other: Expression
) -> Iterator[tuple[Expression, Expression]]:
    """Both in terms of what the tuples are made of, for every branch of a union."""
    match node:
        case Filter():
            yield from _over_sources(node.input, one, other)
        case Project():
            yield from _over_sources(node.input, below(one, node), below(other, node))
        case Union() if isinstance(one, Column) and isinstance(other, Column):
            places = one.position(node.schema), other.position(node.schema)
            for branch in node.branches:
                first, second = (Column.of(branch.schema.fields[place]) for place in places)
                yield from _over_sources(branch, first, second)
        case _:
            yield one, other


def _finer(one: Expression, other: Expression) -> bool:
    if one == other:
        return True
    columns = set(rises_with(other))
    if _without_casts(one) in columns:
        return len(columns) == 1
    first, second = _Stepped.of(one), _Stepped.of(other)
    if first is None or second is None or first.inner != second.inner:
        return False
    aligned = second.width % first.width == 0 and (second.origin - first.origin) % first.width == 0
    if not aligned:
        return False
    # a copy for a later window is late with the earliest one of the same length
    same = first.width == second.width and first.ahead == second.ahead
    return same or (first.width < second.width and second.ahead == 0)


class _Stepped(NamedTuple):
    """A bucket of an expression, moved by a constant; so much `ahead` of what it promises."""

    inner: Expression
    width: int
    origin: int
    moved: int
    ahead: int

    @staticmethod
    def of(expression: Expression) -> _Stepped | None:
        match expression:
            case Cast(operand, _, False):
                return _Stepped.of(operand)
            case Call("promised_as", (value, lower)):
                made, least = _Stepped.of(value), _Stepped.of(lower)
                if made is None or least is None or made[:3] != least[:3]:
                    return None
                return made._replace(ahead=made.moved - least.moved)
            case Call("add", (value, Literal(value=int() as by))):
                made = _Stepped.of(value)
                return None if made is None else made._replace(moved=made.moved + by)
            case Call(name, (width, inner, *origin)) if name in _BUCKETS:
                length, start = written(width), written(origin[0]) if origin else 0
                if isinstance(length, int) and isinstance(start, int):
                    return _Stepped(inner, length, start, 0, 0)
        return None


def _without_casts(expression: Expression) -> Expression:
    """Without those that change nothing but the width of a whole number."""
    while isinstance(expression, Cast) and expression.type.is_integer:
        if not expression.operand.type.is_integer:
            break
        expression = expression.operand
    return expression
