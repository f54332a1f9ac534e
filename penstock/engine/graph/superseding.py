"""Progress that follows progress: the later says all that the earlier has said."""

from __future__ import annotations

from dataclasses import replace

from penstock.operators.operator import Progress


def superseding(earlier: Progress, later: Progress) -> Progress | None:
    """One progress for two between which no rows come; None if both are needed, because each has
    promised something for groups of its own.

    >>> superseding(Progress({"s.t": 3}), Progress({"s.t": 7})).bounds
    {'s.t': 7}
    """
    if earlier.groups is None:
        return later
    return replace(later, groups=earlier.groups) if later.groups is None else None
