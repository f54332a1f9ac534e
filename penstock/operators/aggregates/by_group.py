"""Partial results that know which groups are in them, instead of being arrays over all groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from penstock.model.arrays import Codes, Ints


class ByGroup(ABC):
    @abstractmethod
    def take(self, codes: Codes) -> Self:
        """What there is of some groups, which then are numbered by their place in `codes`."""

    @abstractmethod
    def spread(self, codes: Codes) -> Self:
        """The other way round: groups 0, 1, … become `codes`."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """About how much room it takes."""


def places(groups: Codes, codes: Codes) -> Ints:
    """Where in `codes` each group stands; −1 where it does not.

    >>> places(np.array([5, 7, 5, 6]), np.array([7, 5])).tolist()
    [1, 0, 1, -1]
    """
    size = max(int(groups.max(initial=-1)), int(codes.max(initial=-1))) + 1
    place = np.full(size, -1, np.int64)
    place[codes] = np.arange(len(codes))
    return place[groups]
