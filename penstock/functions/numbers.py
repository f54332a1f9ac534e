"""The scalar functions on numbers."""

from __future__ import annotations

from penstock.functions.signature import Family
from penstock.functions.type_rules import Entry, always, like_first, round_type, rounded, takes
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
