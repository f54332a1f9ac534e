"""array_agg(x ORDER BY y DESC): keys as arguments that are never NULL, and their directions."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.scalars.literals import span_of
from penstock.language.binding.scalars.nested import refuse_nested
from penstock.model.types import BOOLEAN, STRING, Kind, Type
from penstock.plan.expressions import Call, Expression, Literal

if TYPE_CHECKING:
    from penstock.language.binding.scalars.expressions import ExpressionBinder

_TEXTS = ("string_agg", "listagg", "group_concat")
_ENDS = {"first": 1, "first_value": 1, "last": -1, "last_value": -1}
_LEAST: dict[Kind, Any] = {Kind.STRING: "", Kind.BINARY: b"", Kind.BOOLEAN: False}
_LEAST |= {Kind.DOUBLE: 0.0, Kind.DECIMAL: Decimal(0)}


def by_a_list(syntax: exp.Expr) -> exp.Expr | None:
    """Aggregates in the order of something else than they have of their own.

    before: string_agg(s, ',' ORDER BY n), first(x ORDER BY y), listagg(s) WITHIN GROUP (ORDER BY n)
    after:  array_join(array_agg(s ORDER BY n), ','), element_at(array_agg(x ORDER BY y), 1)
    """
    where = syntax.expression if isinstance(syntax, exp.Filter) else None
    called = syntax.this if where is not None else syntax
    keys: list[exp.Expr] = []
    if isinstance(called, exp.WithinGroup):
        keys, called = list(called.expression.expressions), called.this
    name = str(called.name).lower() if isinstance(called, exp.Anonymous) else ""
    if name not in _ENDS and name not in _TEXTS:
        return None
    given = list(called.expressions)
    if given and isinstance(given[-1], exp.Order):
        keys = list(given[-1].expressions)
        given[-1] = given[-1].this
    if not keys or not given or isinstance(given[0], exp.Distinct):
        return None
    of_its_own = keys[0].this == given[0] and len(keys) == 1
    if len(given) != (2 if name in _TEXTS else 1) or (
        of_its_own and not (name in _TEXTS and keys[0].args.get("desc"))
    ):
        return None
    listed: exp.Expr = exp.Anonymous(
        this="array_agg", expressions=[exp.Order(this=given[0], expressions=keys)]
    )
    listed.meta.update(called.meta)
    if where is not None:
        listed = exp.Filter(this=listed, expression=where)
        listed.meta.update(syntax.meta)
    if name in _TEXTS:
        made = exp.Anonymous(this="array_join", expressions=[listed, given[1]])
    else:
        place = exp.Literal.number(_ENDS[name])
        made = exp.Anonymous(this="element_at", expressions=[listed, place])
    made.meta.update(syntax.meta)
    return made


def taken_apart(syntax: exp.Anonymous) -> tuple[list[exp.Expr], bool, list[exp.Expr]]:
    """The arguments, whether they are DISTINCT, and the keys of ORDER BY."""
    given, keys = list(syntax.expressions), []
    if given and isinstance(given[-1], exp.Order):
        keys = list(given[-1].expressions)
        given[-1] = given[-1].this
    distinct = bool(given) and isinstance(given[0], exp.Distinct)
    if distinct:
        given = [*given[0].expressions, *given[1:]]
    if len(given) != 1:
        raise BindError(
            f"{syntax.name} takes one value", span=span_of(syntax), hint="array_agg(x ORDER BY y)"
        )
    if distinct and any(key.this != given[0] for key in keys):
        raise BindError(
            f"{syntax.name} of DISTINCT values is in the order of the values",
            span=span_of(syntax),
            expected="ORDER BY the value itself",
        )
    return given, distinct, keys


def order_arguments(keys: list[exp.Expr], tuples: ExpressionBinder) -> list[Expression]:
    """For every key whether it is NULL, and its value; then a letter for each of these."""
    made: list[Expression] = []
    directions = ""
    for key in keys:
        bound = tuples.bind(key.this)
        refuse_nested(bound.type, "values cannot be put in the order of", span_of(key))
        if bound.type.kind is Kind.NULL:
            continue
        directions += "dd" if key.args.get("desc") else "aa"
        made += [Call("is_null", (bound,), BOOLEAN), _known(bound)]
    return [*made, Literal(directions, STRING)] if made else []


def _known(key: Expression) -> Expression:
    return Call("coalesce", (key, Literal(_least(key.type), key.type)), key.type)


def _least(sql_type: Type) -> Any:
    return _LEAST.get(sql_type.kind, 0)
