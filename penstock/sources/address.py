"""Where somebody listens: a host and a port."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})")


def parse_address(text: str) -> tuple[str, int] | None:
    """The host and the port.

    >>> parse_address("localhost:9000"), parse_address("[::1]:9000"), parse_address("localhost")
    (('localhost', 9000), ('::1', 9000), None)
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or not 0 < int(found[3]) < 1 << 16:
        return None
    return found[1] or found[2], int(found[3])
