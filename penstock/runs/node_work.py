"""What one node of a plan has done in a run that was measured."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class NodeWork:
    """Rows that came and left, nanoseconds, and the most tuples and bytes that it has kept; `size`
    is None for what keeps nothing.  A source has only rows.  `notes` are further lines."""

    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0
    kept: int = 0
    size: int | None = None
    is_source: bool = False
    notes: list[str] = field(default_factory=list)
