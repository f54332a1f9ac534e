"""Texts as bytes and code points, repeated and translated."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from penstock.errors import RunError

CODES = 128  # what chr() knows: beyond, systems differ


def _repeat(text: str, count: int) -> str:
    return text * max(0, count)


def _chr(code: int) -> str:
    if not 0 <= code < CODES:
        raise no_character(code)
    return chr(code)


def no_character(code: int) -> RunError:
    return RunError(f"chr knows the characters 0 to {CODES - 1}, and not {code}")


def _translate(text: str, old: str, new: str) -> str:
    """Each character of the second text becomes the one at its place in the third, or nothing."""
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
