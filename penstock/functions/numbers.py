"""The scalar functions on numbers: signatures, bits of whole numbers, and angles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from penstock.errors import RunError
from penstock.functions.signatures import (
    Entry,
    Family,
    always,
    like_first,
    round_type,
    rounded,
    takes,
)
from penstock.model.types import BIGINT, DOUBLE

_F = Family
NUMBERS: list[Entry] = [
    ("abs", takes(_F.NUMBER), like_first, "without the sign"),
    ("sign", takes(_F.NUMBER), always(BIGINT), "−1, 0 or 1"),
    (
        "round",
        takes(_F.NUMBER, _F.INTEGER, optional=1),
        round_type,
        "to so many places (0), halves away from zero",
    ),
    ("floor", takes(_F.NUMBER), rounded, "the next whole number down"),
    ("ceil", takes(_F.NUMBER), rounded, "the next whole number up"),
    ("sqrt", takes(_F.DOUBLE), always(DOUBLE), "square root (NaN below 0)"),
    ("exp", takes(_F.DOUBLE), always(DOUBLE), "e to the power"),
    ("ln", takes(_F.DOUBLE), always(DOUBLE), "natural logarithm"),
    ("log10", takes(_F.DOUBLE), always(DOUBLE), "logarithm to base 10"),
    ("log2", takes(_F.DOUBLE), always(DOUBLE), "logarithm to base 2"),
    ("power", takes(_F.DOUBLE, _F.DOUBLE), always(DOUBLE), "raised to"),
    *[
        (name, takes(_F.DOUBLE), always(DOUBLE), about)
        for name, about in (
            ("sin", "sine of an angle in radians"),
            ("cos", "cosine"),
            ("tan", "tangent"),
            ("asin", "the angle of a sine (NaN if there is none)"),
            ("acos", "the angle of a cosine"),
            ("atan", "the angle of a tangent"),
            ("sinh", "hyperbolic sine"),
            ("cosh", "hyperbolic cosine"),
            ("tanh", "hyperbolic tangent"),
            ("asinh", "the number of a hyperbolic sine"),
            ("acosh", "the number of a hyperbolic cosine (NaN below 1)"),
            ("atanh", "the number of a hyperbolic tangent (NaN beyond 1)"),
            ("expm1", "exp(x) - 1, exact near 0"),
            ("log1p", "ln(1 + x), exact near 0"),
            ("degrees", "radians in degrees"),
            ("radians", "degrees in radians"),
        )
    ],
    ("atan2", takes(_F.DOUBLE, _F.DOUBLE), always(DOUBLE), "the angle of a point, from y and x"),
    *[
        (name, takes(_F.INTEGER, _F.INTEGER), always(BIGINT), about)
        for name, about in (
            ("bitand", "the bits that both have; also a & b"),
            ("bitor", "the bits that one has; also a | b"),
            ("bitxor", "the bits that only one has; also a ^ b"),
            ("shiftleft", "bits moved to the left; also a << b"),
            ("shiftright", "bits moved to the right, with the sign; also a >> b"),
        )
    ],
    ("bitnot", takes(_F.INTEGER), always(BIGINT), "the other bits; also ~a"),
    ("bit_count", takes(_F.INTEGER), always(BIGINT), "how many of 64 bits are set"),
    ("greatest", takes(_F.ALIKE, variadic=True), like_first, "the largest, without NULLs"),
    ("least", takes(_F.ALIKE, variadic=True), like_first, "the smallest, without NULLs"),
]


# Bits of whole numbers, which have 64, in two's complement.

_WHOLE = 1 << 64


def _shifted(left: bool) -> Callable[[int, int], int]:
    def shift(number: int, places: int) -> int:
        if not 0 <= places < 64:
            raise RunError(f"bits cannot be moved by {places} places", expected="0 to 63")
        if not left:
            return number >> places
        moved = (number << places) % _WHOLE  # bits shifted out are lost
        return moved - _WHOLE if moved >> 63 else moved

    return shift


BITS: dict[str, Callable[..., Any]] = {
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "bitnot": lambda a: ~a,
    "bit_count": lambda a: (a % _WHOLE).bit_count(),
    "shiftleft": _shifted(left=True),
    "shiftright": _shifted(left=False),
}


# Trigonometric and hyperbolic functions, in radians; NaN outside the domain, infinity on overflow.


def _total(function: Callable[[float], float]) -> Callable[[float], float]:
    def compute(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            return math.nan
        except OverflowError:
            negative = value < 0 and function is math.sinh
            return -math.inf if negative else math.inf

    return compute


def _infinite_at_end(function: Callable[[float], float], end: float) -> Callable[[float], float]:
    """Extend a function to the end of its domain, where it is infinite, with the sign of the
    end.
    """

    def compute(value: float) -> float:
        if abs(value) == abs(end) and (value == end or end > 0):
            return math.copysign(math.inf, value)
        try:
            return function(value)
        except ValueError:
            return math.nan

    return compute


TRIGONOMETRY: dict[str, Callable[..., Any]] = {
    **{
        name: _total(getattr(math, name))
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    },
    **{name: _total(getattr(math, name)) for name in ("asinh", "acosh", "expm1")},
    "atanh": _infinite_at_end(math.atanh, 1.0),
    "log1p": _infinite_at_end(math.log1p, -1.0),
    "atan2": math.atan2,
    "degrees": math.degrees,
    "radians": math.radians,
}
