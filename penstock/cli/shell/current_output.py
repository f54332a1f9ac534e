"""Standard output as it is now: while a prompt is shown, what is written goes above it."""

from __future__ import annotations

import io
import sys


class CurrentOutput(io.TextIOBase):
    """Sessions last longer than `sys.stdout` stays the same.

    >>> CurrentOutput("stdout").write("rows\\n")
    rows
    5
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def write(self, text: str) -> int:
        written: int = getattr(sys, self._name).write(text)
        return written

    def flush(self) -> None:
        getattr(sys, self._name).flush()

    def isatty(self) -> bool:
        return bool(getattr(sys, self._name).isatty())
