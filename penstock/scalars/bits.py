"""Bits of whole numbers, which have 64 of them, the first for the sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import RunError

_WHOLE = 1 << 64


def _shifted(left: bool) -> Callable[[int, int], int]:
    def shift(number: int, places: int) -> int:
        if not 0 <= places < 64:
            raise RunError(f"bits cannot be moved by {places} places", expected="0 to 63")
        if not left:
            return number >> places
        moved = (number << places) % _WHOLE  # what is moved out is gone
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
