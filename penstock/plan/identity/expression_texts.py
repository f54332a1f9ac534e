"""Expressions as texts that stay the same when a column or a relation is called something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from penstock.model.types import Kind
from penstock.plan.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    TableValue,
)

_LONGEST = 400  # characters that are shown
_PLAIN = (Kind.INT, Kind.STRING, Kind.BOOLEAN, Kind.TIMESTAMP, Kind.DATE, Kind.INTERVAL)


def aggregate_text(call: AggregateCall, columns: Mapping[str, str]) -> str:
    """An aggregate over columns that are called by where they come from (`columns`, by name)."""
    where = None if call.where is None else _resolved(call.where, columns)
    arguments = tuple(_resolved(each, columns) for each in call.arguments)
    return shortened_text(str(replace(call, arguments=arguments, where=where)))


def expression_text(expression: Expression, columns: Mapping[str, str]) -> str:
    return shortened_text(str(_resolved(expression, columns)))


def _resolved(expression: Expression, columns: Mapping[str, str]) -> Expression:
    """The expression with columns that are called by where they come from, and with constants that
    say of which type they are: it is only there to be shown."""

    def resolved(each: Expression) -> Expression:
        return _resolved(each, columns)

    match expression:
        case TableValue():
            return expression
        case Column():
            name = str(expression)
            return Column(columns.get(name, name), expression.type)
        case Literal():
            if expression.type.kind in _PLAIN and expression.value is not None:
                return expression
            return Column(f"{expression.type} '{expression}'", expression.type)
        case Call():
            return replace(expression, arguments=tuple(map(resolved, expression.arguments)))
        case Cast():
            return replace(expression, operand=resolved(expression.operand))
        case Case():
            branches = tuple((resolved(when), resolved(then)) for when, then in expression.branches)
            return replace(expression, branches=branches, otherwise=resolved(expression.otherwise))


def shortened_text(text: str) -> str:
    """What is too long to be shown ends in a hash of all of it: queries on queries on queries may
    repeat a column again and again."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {blake2b(text.encode(), digest_size=8).hexdigest()}"
