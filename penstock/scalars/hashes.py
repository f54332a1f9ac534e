"""Hashes of texts, as small hexadecimal digits; crc32 as a number."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any


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
