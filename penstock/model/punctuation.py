"""Punctuations: promises about all later tuples of a stream.

A bound `v` on an attribute says that every later tuple has a value `>= v`; it completes whatever
lies wholly below `v`.  Bounds are ticks of the attribute's domain (see `domain.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
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
    """Joint: no later tuple lies below both bounds at once.

    >>> promise = JointPunctuation(("a", "b"), (3, 7))
    >>> promise.completes((3, 7)), promise.completes((3, 8)), promise.completes((2, 1))
    (True, False, True)
    >>> promise.on(("b", "a"))
    JointPunctuation(attributes=('b', 'a'), bounds=(7, 3))
    """

    attributes: tuple[str, str]
    bounds: tuple[Bound, Bound]

    @staticmethod
    def of(bounds: Mapping[str, Bound]) -> JointPunctuation:
        (first, one), (second, other) = bounds.items()
        return JointPunctuation((first, second), (one, other))

    @property
    def pair(self) -> tuple[tuple[str, str], tuple[Bound, Bound]]:
        return self.attributes, self.bounds

    def is_on(self, attributes: tuple[str, str]) -> bool:
        return set(self.attributes) == set(attributes)

    def on(self, attributes: tuple[str, str]) -> JointPunctuation:
        """The same promise with its attributes in that order."""
        if self.attributes == attributes:
            return self
        return JointPunctuation(attributes, (self.bounds[1], self.bounds[0]))

    def renamed(self, names: Mapping[str, str]) -> JointPunctuation:
        first, second = self.attributes
        return JointPunctuation((names[first], names[second]), self.bounds)

    def completes(self, ends: tuple[Bound, Bound]) -> bool:
        """Whether the box below both `ends` is complete."""
        return self.bounds[0] >= ends[0] and self.bounds[1] >= ends[1]
