"""The scalar functions on texts: signatures, code points and encodings, and hashes."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.errors import RunError
from penstock.functions.signatures import Entry, Family, always, takes
from penstock.model.types import BIGINT, BOOLEAN, STRING

_F = Family
TEXTS: list[Entry] = [
    ("upper", takes(_F.STRING), always(STRING), "in capitals"),
    ("lower", takes(_F.STRING), always(STRING), "in small letters"),
    ("length", takes(_F.STRING), always(BIGINT), "number of characters"),
    ("trim", takes(_F.STRING), always(STRING), "without spaces at both ends"),
    ("ltrim", takes(_F.STRING), always(STRING), "without spaces at the start"),
    ("rtrim", takes(_F.STRING), always(STRING), "without spaces at the end"),
    ("btrim", takes(_F.STRING, _F.STRING), always(STRING), "without some characters at both ends"),
    (
        "trim_leading",
        takes(_F.STRING, _F.STRING),
        always(STRING),
        "without some characters at the start",
    ),
    (
        "trim_trailing",
        takes(_F.STRING, _F.STRING),
        always(STRING),
        "without some characters at the end",
    ),
    (
        "substr",
        takes(_F.STRING, _F.INTEGER, _F.INTEGER, optional=1),
        always(STRING),
        "from a position (1 is the first, −1 the last) for so many characters",
    ),
    ("left", takes(_F.STRING, _F.INTEGER), always(STRING), "the first so many characters"),
    ("right", takes(_F.STRING, _F.INTEGER), always(STRING), "the last so many characters"),
    ("replace", takes(_F.STRING, _F.STRING, _F.STRING), always(STRING), "a text for another"),
    ("concat", takes(_F.STRING, variadic=True), always(STRING), "one after the other"),
    ("reverse", takes(_F.STRING), always(STRING), "back to front"),
    ("starts_with", takes(_F.STRING, _F.STRING), always(BOOLEAN), "begins with"),
    ("ends_with", takes(_F.STRING, _F.STRING), always(BOOLEAN), "ends with"),
    ("contains", takes(_F.STRING, _F.STRING), always(BOOLEAN), "has it somewhere"),
    ("strpos", takes(_F.STRING, _F.STRING), always(BIGINT), "where it is (from 1), or 0"),
    (
        "split_part",
        takes(_F.STRING, _F.STRING, _F.INTEGER),
        always(STRING),
        "the n-th piece (from 1) between separators, '' if there is none",
    ),
    (
        "split_index",
        takes(_F.STRING, _F.STRING, _F.INTEGER),
        always(STRING),
        "the n-th piece (from 0) between separators, NULL if there is none",
    ),
    (
        "regexp_like",
        takes(_F.STRING, _F.STRING, _F.STRING, optional=1),
        always(BOOLEAN),
        "whether a regular expression matches somewhere; flags: i, m, s",
    ),
    (
        "regexp_extract",
        takes(_F.STRING, _F.STRING, _F.INTEGER, _F.STRING, optional=2),
        always(STRING),
        "what a regular expression, or one of its groups, matches first; NULL if it does not",
    ),
    (
        "regexp_replace",
        takes(_F.STRING, _F.STRING, _F.STRING, _F.STRING, optional=1),
        always(STRING),
        "a text for all that a regular expression matches; $1 is its first group",
    ),
    (
        "regexp_count",
        takes(_F.STRING, _F.STRING, _F.STRING, optional=1),
        always(BIGINT),
        "how often a regular expression matches",
    ),
    *[
        (name, takes(_F.STRING), always(STRING), f"the {name} of a text, in hexadecimal digits")
        for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
    ],
    ("crc32", takes(_F.STRING), always(BIGINT), "the checksum of a text"),
    ("repeat", takes(_F.STRING, _F.INTEGER), always(STRING), "so many times"),
    ("chr", takes(_F.INTEGER), always(STRING), "the character of a number from 0 to 127"),
    ("ascii", takes(_F.STRING), always(BIGINT), "the number of the first character; 0 of none"),
    ("octet_length", takes(_F.STRING), always(BIGINT), "number of bytes in UTF-8"),
    ("to_base64", takes(_F.STRING), always(STRING), "the bytes of a text in Base64"),
    (
        "translate",
        takes(_F.STRING, _F.STRING, _F.STRING),
        always(STRING),
        "the characters of the second text become those of the third, or nothing",
    ),
    (
        "json_get",
        takes(_F.STRING, _F.STRING),
        always(STRING),
        "what is at a path in a JSON text, as JSON; also text -> 'name'",
    ),
    (
        "json_text",
        takes(_F.STRING, _F.STRING),
        always(STRING),
        "what is at a path in a JSON text, as a text; also text ->> 'name'",
    ),
    (
        "json_value",
        takes(_F.STRING, _F.STRING),
        always(STRING),
        "the same, NULL if it is an object or array",
    ),
    (
        "json_query",
        takes(_F.STRING, _F.STRING),
        always(STRING),
        "the object or array at a path in a JSON text, as JSON",
    ),
]


# Texts as bytes and code points, repeated and translated.

CODES = 128  # number of characters that chr() knows: beyond, systems differ


def _repeat(text: str, count: int) -> str:
    return text * max(0, count)


def _chr(code: int) -> str:
    if not 0 <= code < CODES:
        raise no_character(code)
    return chr(code)


def no_character(code: int) -> RunError:
    return RunError(f"chr knows the characters 0 to {CODES - 1}, and not {code}")


def _translate(text: str, old: str, new: str) -> str:
    """Replace each character of `old` by the one at its place in `new`, or remove it if there is
    none.
    """
    places: dict[str, str | int | None] = {}
    for place, each in enumerate(old):
        places.setdefault(each, new[place] if place < len(new) else None)
    return text.translate(str.maketrans(places))


ENCODED: dict[str, Callable[..., Any]] = {
    "repeat": _repeat,
    "chr": _chr,
    "ascii": lambda text: ord(text[0]) if text else 0,
    "octet_length": lambda text: len(text.encode()),
    "to_base64": lambda text: base64.b64encode(text.encode()).decode(),
    "translate": _translate,
}


# Hashes of texts, as small hexadecimal digits; crc32 as a number.


def _hex(function: Callable[..., Any]) -> Callable[[str], str]:
    hashed = partial(function, usedforsecurity=False)
    return lambda text: str(hashed(text.encode()).hexdigest())


HASHES: dict[str, Callable[[str], str | int]] = {
    "md5": _hex(hashlib.md5),
    "sha1": _hex(hashlib.sha1),
    "sha224": _hex(hashlib.sha224),
    "sha256": _hex(hashlib.sha256),
    "sha384": _hex(hashlib.sha384),
    "sha512": _hex(hashlib.sha512),
    "crc32": lambda text: zlib.crc32(text.encode()),
}
