"""array_agg(x ORDER BY y DESC): keys as arguments that are never NULL, and their directions."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.scalars.literals import span_of
from penstock.language.binding.scalars.nested import refuse_nested
from penstock.model.types import BOOLEAN, STRING, Kind, Type
from penstock.plan.expressions import Call, Expression, Literal

if TYPE_CHECKING:
    from penstock.language.binding.scalars.expressions import ExpressionBinder

_TEXTS = ("string_agg", "listagg", "group_concat")
_ENDS = {"first": 1, "first_value": 1, "any_value": 1, "last": -1, "last_value": -1}
_LARGEST = ("topk", "topkdistinct")
_LEAST: dict[Kind, Any] = {Kind.STRING: "", Kind.BINARY: b"", Kind.BOOLEAN: False}
_LEAST |= {Kind.DOUBLE: 0.0, Kind.DECIMAL: Decimal(0)}


class Taken(NamedTuple):
    """The arguments of an aggregate, whether they are DISTINCT, and the keys of its ORDER BY."""

    values: list[exp.Expr]
    distinct: bool
    keys: list[exp.Expr]

    @property
    def by_value(self) -> bool:
        """Whether its only key is the first argument."""
        return len(self.keys) == 1 and bool(self.values) and self.keys[0].this == self.values[0]


def taken_apart(called: exp.Anonymous) -> Taken:
    """DISTINCT may stand below ORDER BY, with all arguments in it, or before the first of them."""
    values, keys = list(called.expressions), []
    if values and isinstance(values[-1], exp.Order):
        keys = list(values[-1].expressions)
        values[-1] = values[-1].this
    distinct = bool(values) and isinstance(values[0], exp.Distinct)
    if distinct:
        values = [*values[0].expressions, *values[1:]]
    return Taken(values, distinct, keys)


def by_a_list(syntax: exp.Expr) -> exp.Expr | None:
    """Aggregates in the order of something else than they have of their own.

    before: string_agg(s, ',' ORDER BY n), first(x ORDER BY y), listagg(s) WITHIN GROUP (ORDER BY n)
    after:  array_join(array_agg(s ORDER BY n), ','), element_at(array_agg(x ORDER BY y), 1)
    """
    where = syntax.expression if isinstance(syntax, exp.Filter) else None
    called = syntax.this if where is not None else syntax
    behind: list[exp.Expr] = []
    if isinstance(called, exp.WithinGroup):
        behind, called = list(called.expression.expressions), called.this
    name = str(called.name).lower()
    if not isinstance(called, exp.Anonymous) or name not in (*_ENDS, *_TEXTS, *_LARGEST):
        return None
    taken = taken_apart(called)
    if name in _LARGEST:
        taken = _largest(name, called, taken)
    taken = taken._replace(keys=behind or taken.keys)
    if not taken.keys or len(taken.values) != (1 if name in _ENDS else 2):
        return None
    if name in _TEXTS and taken.by_value and not taken.keys[0].args.get("desc"):
        return None
    value = taken.values[0]
    if taken.distinct:
        value = exp.Distinct(expressions=[value])
    listed: exp.Expr = exp.Anonymous(
        this="array_agg", expressions=[exp.Order(this=value, expressions=taken.keys)]
    )
    listed.meta.update(called.meta)
    if where is not None:
        listed = exp.Filter(this=listed, expression=where)
        listed.meta.update(syntax.meta)
    if name in _TEXTS:
        made = exp.Anonymous(this="array_join", expressions=[listed, taken.values[1]])
    elif name in _LARGEST:
        parts = [listed, exp.Literal.number(1), taken.values[1]]
        made = exp.Anonymous(this="array_slice", expressions=parts)
    else:
        place = exp.Literal.number(_ENDS[name])
        made = exp.Anonymous(this="element_at", expressions=[listed, place])
    made.meta.update(syntax.meta)
    return made


def _largest(name: str, called: exp.Anonymous, taken: Taken) -> Taken:
    """topk(x, 3) of ksqlDB: the three largest values, the largest first."""
    count = taken.values[1] if len(taken.values) == 2 else None
    known = isinstance(count, exp.Literal) and count.name.isdigit() and int(count.name) > 0
    if not known or taken.keys or taken.distinct:
        raise BindError(
            f"{name} takes a value and how many of the largest are wanted",
            span=span_of(called),
            expected=f"{name}(x, 3)",
            hint="top_k(x, 3) for the most frequent",
        )
    key = exp.Ordered(this=taken.values[0], desc=True, nulls_first=True)
    return Taken(taken.values, name == "topkdistinct", [key])


def one_value(called: exp.Anonymous) -> Taken:
    """The parts of array_agg and its like."""
    taken = taken_apart(called)
    if len(taken.values) != 1:
        raise BindError(
            f"{called.name} takes one value", span=span_of(called), hint="array_agg(x ORDER BY y)"
        )
    if taken.distinct and taken.keys and not taken.by_value:
        raise BindError(
            f"{called.name} of DISTINCT values is in the order of the values",
            span=span_of(called),
            expected="ORDER BY the value itself",
        )
    return taken


def order_arguments(keys: list[exp.Expr], tuples: ExpressionBinder) -> list[Expression]:
    """For every key whether it is NULL, and its value; then a letter for each of these."""
    made: list[Expression] = []
    directions = ""
    for key in keys:
        bound = tuples.bind(key.this)
        refuse_nested(bound.type, "values cannot be put in the order of", span_of(key))
        if bound.type.kind is Kind.NULL:
            continue
        directions += "d" if key.args.get("nulls_first") else "a"
        directions += "d" if key.args.get("desc") else "a"
        made += [Call("is_null", (bound,), BOOLEAN), _known(bound)]
    return [*made, Literal(directions, STRING)] if made else []


def _known(key: Expression) -> Expression:
    return Call("coalesce", (key, Literal(_least(key.type), key.type)), key.type)


def _least(sql_type: Type) -> Any:
    return _LEAST.get(sql_type.kind, 0)
