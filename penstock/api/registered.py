"""Functions that users write in Python, as a database knows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.arguments import check_flags, check_texts
from penstock.api.given import type_of
from penstock.errors import BindError
from penstock.functions.aggregates import AggregateFunction, PythonAggregate
from penstock.functions.signature import Family, Signature
from penstock.functions.user_functions import UserFunction
from penstock.language.binding.scalars.compositions import COMPOSED
from penstock.model.types import Kind, Type


def aggregate_of(
    name: str, implementation: PythonAggregate, returns: str, arguments: Sequence[str]
) -> AggregateFunction:
    if not isinstance(name, str) or not name.isidentifier():
        raise BindError(f"{name!r} is not the name of a function", hint="letters and digits")
    check_texts("arguments", arguments, '["DOUBLE"]')
    if isinstance(implementation, type) or not isinstance(implementation, PythonAggregate):
        raise BindError(
            f"{implementation!r} is not an aggregate",
            expected="an object with the methods init, accumulate, merge and finish",
        )
    families = tuple(family_of(type_of(text)) for text in arguments)
    result = type_of(returns)
    return AggregateFunction(
        name.lower(),
        Signature(families),
        lambda _: result,
        "registered",
        implementation=implementation,
    )


def function_of(
    name: str,
    function: Callable[..., Any],
    returns: str,
    args: Sequence[str] | None,
    by_row: bool,
    nulls: bool,
) -> UserFunction:
    if not callable(function):
        raise BindError(f"{function!r} is not a function")
    if not isinstance(name, str) or not name.isidentifier():
        raise BindError(f"{name!r} is not the name of a function", hint="letters and digits")
    if name.lower() in COMPOSED:
        raise BindError(f"{name} is a built-in function", hint="another name")
    if isinstance(args, str):
        raise BindError(f"{args!r} is one type", expected="a list of types", hint=f"[{args!r}]")
    if args is not None:
        check_texts("args", args, '["INT"]')
    check_flags(by_row=by_row, nulls=nulls)
    types = None if args is None else tuple(map(type_of, args))
    return UserFunction(name.lower(), function, type_of(returns), types, by_row, nulls)


def family_of(sql_type_: Type) -> Family:
    families = {
        Kind.DOUBLE: Family.DOUBLE,
        Kind.INT: Family.INTEGER,
        Kind.BIGINT: Family.INTEGER,
        Kind.STRING: Family.STRING,
        Kind.BOOLEAN: Family.BOOLEAN,
        Kind.TIMESTAMP: Family.TIMESTAMP,
        Kind.DECIMAL: Family.NUMBER,
    }
    return families.get(sql_type_.kind, Family.ANY)
