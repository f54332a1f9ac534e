"""The scalar functions that choose among values, NULL among them."""

from __future__ import annotations

from penstock.functions.signature import Family
from penstock.functions.type_rules import Entry, like_first, like_last, takes

_F = Family
CHOICES: list[Entry] = [
    ("coalesce", takes(_F.ALIKE, variadic=True), like_first, "the first that is not NULL"),
    ("nullif", takes(_F.ALIKE, _F.ALIKE), like_first, "NULL if both are equal"),
    ("if", takes(_F.BOOLEAN, _F.ALIKE, _F.ALIKE), like_last, "one or the other"),
]
