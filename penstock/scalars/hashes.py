"""Hashes of texts, as small hexadecimal digits; crc32 as a number."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable


def _hex(name: str) -> Callable[[str], str]:
    return lambda text: hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()


HASHES: dict[str, Callable[[str], str | int]] = {
    **{name: _hex(name) for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")},
    "crc32": lambda text: zlib.crc32(text.encode()),
}
