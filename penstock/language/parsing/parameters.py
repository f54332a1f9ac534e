"""`:name` in a text stands for a value that is handed in beside it, and never becomes text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import exp

from penstock.errors import BindError, shortened
from penstock.model.duration import parse_duration

SCALARS = (bool, int, float, Decimal, str, bytes, date, timedelta, type(None))


class Parameters:
    """The values, and which of them the text has asked for."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self.used.add(name)
        return self.values[name]

    def refuse_unused(self) -> None:
        for name in self.values:
            if name not in self.used:
                raise BindError(
                    f"the parameter {shortened(name, 80)!r} does not occur in the text",
                    hint=f":{name} where its value should stand",
                )


def is_scalar(value: object) -> bool:
    """Whether it is a value, and not data."""
    return isinstance(_plain(value), SCALARS)


def constant_of(name: str, value: object) -> exp.Expr:
    """The constant that stands for a value.

    >>> constant_of("k", "it's").this, constant_of("n", -3).sql()
    ("it's", '-3')
    """
    value = _plain(value)
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return _number(str(abs(value)), value < 0)
        case Decimal() if value.is_finite():
            return _number(f"{abs(value):f}", value.is_signed())
        case float() if math.isfinite(value):
            text = repr(abs(float(value)))  # numpy writes its own otherwise
            return _number(text if "e" in text else f"{text}e0", math.copysign(1, value) < 0)
        case float():
            return _read(str(value), "DOUBLE")
        case str():
            return exp.Literal.string(value)
        case bytes():
            return _read(value.hex(), "BINARY")
        case datetime():
            return _read(value.isoformat(), "TIMESTAMP")
        case date():
            return _read(value.isoformat(), "DATE")
        case timedelta():
            length = exp.Literal.string(str(value // timedelta(microseconds=1)))
            return exp.Interval(this=length, unit=exp.Var(this="MICROSECONDS"))
    raise BindError(
        f"the parameter {name!r} is {shortened(repr(value), 80)}",
        expected="a number, a text, a truth value, a time, a length of time or None",
    )


def length_of(name: str, value: object) -> tuple[Decimal, str | None]:
    """An amount and its unit: of a number, of a text such as '10 minutes', or of a timedelta."""
    value = _plain(value)
    match value:
        case timedelta():
            return Decimal(value // timedelta(microseconds=1)), "MICROSECONDS"
        case str():
            return Decimal(parse_duration(value)), "MICROSECONDS"
        case int() | Decimal() if not isinstance(value, bool):
            return Decimal(value), None
    raise BindError(
        f"the parameter {name!r} is not a length",
        hint="a text such as '10 minutes', a timedelta, or a number",
    )


def _plain(value: Any) -> object:
    """What numpy, pandas or Arrow hold is the value of Python in it."""
    if isinstance(value, SCALARS) or getattr(value, "ndim", 0) != 0:
        return value
    for method in ("as_py", "item"):
        found = getattr(value, method, None)
        if callable(found):
            return found()
    return value


def _number(text: str, negative: bool) -> exp.Expr:
    literal = exp.Literal.number(text)
    return exp.Neg(this=literal) if negative else literal


def _read(text: str, name: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(name))
