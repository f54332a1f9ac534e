"""The scalar functions on ARRAYs and MAPs."""

from __future__ import annotations

from penstock.functions.signature import Family
from penstock.functions.type_rules import Entry, always, takes
from penstock.model.types import BIGINT, BOOLEAN, STRING, Type, array_of

_F = Family


def _keys(arguments: tuple[Type, ...]) -> Type:
    return array_of(arguments[0].parts[0][1])


def _values(arguments: tuple[Type, ...]) -> Type:
    return array_of(arguments[0].item)


NESTED: list[Entry] = [
    ("cardinality", takes(_F.COLLECTION), always(BIGINT), "how many items or pairs"),
    ("array_contains", takes(_F.ARRAY, _F.ANY), always(BOOLEAN), "whether it is among the items"),
    ("map_keys", takes(_F.MAP), _keys, "the keys of a MAP, as an ARRAY"),
    ("map_values", takes(_F.MAP), _values, "the values of a MAP, as an ARRAY"),
    (
        "string_split",
        takes(_F.STRING, _F.STRING),
        always(array_of(STRING)),
        "the pieces between separators, as an ARRAY",
    ),
    (
        "array_join",
        takes(_F.TEXTS, _F.STRING),
        always(STRING),
        "the texts of an ARRAY that are not NULL, with a separator between them",
    ),
]
