"""Punctuations: promises about all later tuples of a stream.

A bound `v` on an attribute says that every later tuple has a value `>= v`; it completes whatever
lies wholly below `v`.  Bounds are ticks of the attribute's domain (see `domain.py`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, TypeAlias

Bound: TypeAlias = int | float
"""A tick, or one of the two ends below; Python compares the three exactly."""

BEGINNING: Final = float("-inf")  # nothing is promised yet
END: Final = float("inf")  # nothing comes any more


@dataclass(frozen=True, slots=True)
class Punctuation:
    """Linear: every later tuple has `attribute >= bound`."""

    attribute: str
    bound: Bound

    def completes(self, end: Bound) -> bool:
        """Whether everything strictly below `end` is complete."""
        return self.bound >= end


@dataclass(frozen=True, slots=True)
class GroupPunctuation:
    """Group-wise: every later tuple of `group` has `attribute >= bound`; others are free."""

    attribute: str
    bound: Bound
    group: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class JointPunctuation:
    """Joint: no later tuple lies below both bounds at once."""

    attributes: tuple[str, str]
    bounds: tuple[Bound, Bound]

    def completes(self, ends: tuple[Bound, Bound]) -> bool:
        """Whether the box below both `ends` is complete."""
        return self.bounds[0] >= ends[0] and self.bounds[1] >= ends[1]
