"""What must be known about other tuples to say which windows a tuple belongs to."""

from __future__ import annotations

from enum import Enum


class Category(Enum):
    """The thesis' CF, FCF and FCA; a window is in the first one that fits."""

    CONTEXT_FREE = "context-free"  # the tuple alone
    FORWARD_CONTEXT_FREE = "forward-context-free"  # earlier tuples, too
    FORWARD_CONTEXT_AWARE = "forward-context-aware"  # later tuples, too: some must wait

    def __str__(self) -> str:
        return self.value
