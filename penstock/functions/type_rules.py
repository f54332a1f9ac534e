"""How the type of a call follows from the types of its arguments, and the form of an entry in the
catalogue of scalar functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from penstock.functions.signature import Family, Signature
from penstock.model.types import Kind, Type, decimal_type

TypeRule: TypeAlias = Callable[[tuple[Type, ...]], Type]
Entry: TypeAlias = tuple[str, Signature, TypeRule, str]  # the last says what it is for


def always(sql_type: Type) -> TypeRule:
    return lambda _: sql_type


def like_first(arguments: tuple[Type, ...]) -> Type:
    return arguments[0]


def like_last(arguments: tuple[Type, ...]) -> Type:
    return arguments[-1]


def rounded(arguments: tuple[Type, ...]) -> Type:
    """Rounding to whole numbers keeps integers, gives decimals without places, keeps doubles."""
    if arguments[0].kind is Kind.DECIMAL:
        return decimal_type(38, 0)
    return arguments[0]


def round_type(arguments: tuple[Type, ...]) -> Type:
    return rounded(arguments) if len(arguments) == 1 else arguments[0]


def takes(*families: Family, optional: int = 0, variadic: bool = False) -> Signature:
    return Signature(families, optional, variadic)
