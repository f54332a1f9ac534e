"""What an aggregate function is to the window algorithms: logic without state.

A partial result covers all groups at once.  `merge` joins the partial results of two sets of tuples
that do not overlap; a differential function can also `subtract` one set from a larger one; the
partial results of a holistic function grow with the tuples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.state.chunks import Tree

P = TypeVar("P")


class Aggregate(ABC, Generic[P]):
    differential: bool = False
    additive: bool = False  # whether running totals can be had, and subtracted
    holistic: bool = False

    @abstractmethod
    def new(self, size: int) -> P:
        """The partial result over nothing, with room for `size` groups."""

    @abstractmethod
    def grow(self, partial: P, size: int) -> None:
        """Make room for `size` groups; callers do so before any of the following."""

    @abstractmethod
    def fold(self, partial: P, codes: Codes, arguments: list[pa.Array], positions: Ints) -> None:
        """Take in rows, if there are any: their groups, arguments (no NULLs), and positions in the
        window."""

    @abstractmethod
    def merge(self, partial: P, other: P) -> None:
        """Take in another partial result, which may have room for fewer groups."""

    def subtract(self, partial: P, other: P) -> None:  # noqa: ARG002
        """Take back what was merged."""
        raise TypeError(f"{type(self).__name__} is not differential")

    def accumulate(self, partial: P) -> None:  # noqa: ARG002
        """Let every group have all rows of those before it, too."""
        raise TypeError(f"{type(self).__name__} is not additive")

    @abstractmethod
    def take(self, partial: P, codes: Codes) -> P:
        """The partial results of some groups, which then are numbered by their place in `codes`."""

    @abstractmethod
    def spread(self, partial: P, codes: Codes, size: int) -> P:
        """The other way round: groups 0, 1, … become `codes`, of which there are below `size`."""

    @abstractmethod
    def save(self, partial: P) -> Tree:
        """The partial result as a piece of a chunk; all its groups are used."""

    @abstractmethod
    def load(self, saved: Tree) -> P:
        """What `save` gave."""

    @abstractmethod
    def finish(self, partial: P, codes: Codes) -> pa.Array:
        """The results of some groups."""
