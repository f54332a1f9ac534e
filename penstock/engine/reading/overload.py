"""What happens to rows that come faster than they can be handled."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import EngineError, nearest

_ROOM = 1 << 16  # rows
_NAMES = ("block", "drop-oldest")
_TEXT = re.compile(r"([\w-]+?)(?:\s+(\d+))?")


@dataclass(frozen=True, slots=True)
class Overload:
    """With `keeping` None, a source waits until there is room.  Otherwise so many rows may wait,
    and of a source that cannot wait the oldest ones are dropped and counted beyond that.

    >>> Overload.of("block"), Overload.of("drop-oldest 1000")
    (Overload(keeping=None), Overload(keeping=1000))
    """

    keeping: int | None = None

    @staticmethod
    def of(text: str) -> Overload:
        match = _TEXT.fullmatch(str(text).strip().lower())
        if match is None or match[1] not in _NAMES or (match[2] and match[1] == "block"):
            close = nearest(str(text), _NAMES)
            raise EngineError(
                f"{text!r} does not say what happens when rows come too fast",
                expected="'block', or 'drop-oldest' and how many rows may wait",
                hint=close[0] if close else "'drop-oldest 10000'",
            )
        if match[1] == "block":
            return Overload()
        return Overload(int(match[2]) if match[2] else _ROOM)
