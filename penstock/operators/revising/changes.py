"""What has changed since the last early answer."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes
from penstock.model.first_rows import different
from penstock.state.chunks import Tree

_MANY = 64  # arrays after which they are joined: batches of single tuples would be many


class Changes:
    """The groups that tuples came to since the last early answer, and a span of windows that holds
    all they came to."""

    def __init__(self, codes: Codes | None = None, begin: int = 0, last: int = 0) -> None:
        self._codes = [] if codes is None else [codes]
        self.begin = begin
        self.last = last

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, codes: Codes, begin: int, stop: int) -> None:
        first = not self._codes
        self.begin = begin if first else min(self.begin, begin)
        self.last = stop - 1 if first else max(self.last, stop - 1)
        self._codes.append(different(codes))
        if len(self._codes) > _MANY:
            self._codes = [self.codes()]

    def codes(self) -> Codes:
        return different(np.concatenate(self._codes))

    def renumber(self, place: Codes) -> None:
        self._codes = [different(place[codes]) for codes in self._codes]

    def save(self) -> Tree:
        return [self.codes(), self.begin, self.last] if self._codes else None
