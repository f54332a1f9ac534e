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
    ("greatest", takes(_F.ALIKE, variadic=True), like_first, "the largest, without NULLs"),
    ("least", takes(_F.ALIKE, variadic=True), like_first, "the smallest, without NULLs"),
]
