"""Names that users gave, as names of files: whatever they hold, they stay in their directory."""

from __future__ import annotations

import hashlib

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONG = 80  # file systems take 255 bytes, and somebody may append to it


def file_name(name: str) -> str:
    """Different for different names, also where a file system takes no notice of upper case.

    >>> file_name("packets"), file_name("Packets"), file_name("../a")
    ('packets', '~50ackets', '~2e~2e~2fa')
    """
    escaped = "".join(
        chr(byte) if byte in _PLAIN else f"~{byte:02x}"
        for byte in name.encode("utf-8", "surrogatepass")
    )
    if len(escaped) <= _LONG:
        return escaped or "~"
    # two tildes stand in no escaped name, so a shortened one is never taken for a whole one
    digest = hashlib.sha256(escaped.encode()).hexdigest()
    return f"{escaped[: _LONG // 2]}~~{digest[:32]}"
