"""Calls that the binder puts together itself, of functions that are in the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import BindError
from penstock.functions.scalar import scalar
from penstock.model.types import STRING
from penstock.plan.expressions import Call, Expression, Literal, cast_to


def called(name: str, arguments: Sequence[Expression], shown: str | None = None) -> Call:
    """A call by the name of a function, which messages call as it is `shown`."""
    function = scalar(name)
    assert function is not None
    types = function.signature.convert(shown or function.name, [each.type for each in arguments])
    converted = tuple(cast_to(each, to) for each, to in zip(arguments, types, strict=True))
    return Call(function.name, converted, function.returns(types))


def text(value: str) -> Literal:
    return Literal(value, STRING)


def takes(name: str, arguments: str) -> BindError:
    return BindError(f"{name} is called with other arguments", expected=f"{name}({arguments})")
