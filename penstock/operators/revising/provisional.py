"""Results that are not final yet, and may have no value: a sum can be too large for its type until
the tuple comes that brings it down again.

Such a result is not given out.  It is an error only if it is one when nothing can change it any
more, so it does not depend on which tuples came together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.model.arrays import Codes
from penstock.state.chunks import Tree

Finish = Callable[[Codes], list[pa.Array]]


class Provisional(NamedTuple):
    """The groups that have a value and their results, those that have none, and why."""

    codes: Codes
    columns: list[pa.Array]
    failing: Codes
    error: RunError | None


def provisional(finish: Finish, codes: Codes) -> Provisional:
    """What there is of the results of some groups."""
    try:
        return Provisional(codes, finish(codes), codes[:0], None)
    except RunError as error:
        if len(codes) == 1:
            return Provisional(codes[:0], finish(codes[:0]), codes, error)
    half = len(codes) // 2
    first, second = provisional(finish, codes[:half]), provisional(finish, codes[half:])
    pairs = zip(first.columns, second.columns, strict=True)
    return Provisional(
        np.concatenate([first.codes, second.codes]),
        [pa.concat_arrays(pair) for pair in pairs],
        np.concatenate([first.failing, second.failing]),
        first.error or second.error,
    )


class Failing:
    """The groups of windows whose results have no value as it is."""

    def __init__(self) -> None:
        self._codes: dict[int, set[int]] = {}

    def note(self, wid: int, failing: Codes, among: Codes | None) -> None:
        """These fail now, of all groups of a window, or `among` some."""
        left = set() if among is None else self._codes.get(wid, set()) - set(among.tolist())
        left.update(failing.tolist())
        if left:
            self._codes[wid] = left
        else:
            self._codes.pop(wid, None)

    def upto(self, last: float) -> Iterable[tuple[int, Codes]]:
        """Windows up to this one that have such groups, and which."""
        for wid in sorted(self._codes):
            if wid <= last:
                yield wid, np.array(sorted(self._codes[wid]), np.int64)

    def renumber(self, place: Codes) -> None:
        self._codes = {wid: {int(place[c]) for c in codes} for wid, codes in self._codes.items()}

    def save(self) -> Tree:
        return [[wid, sorted(codes)] for wid, codes in self._codes.items()]

    def load(self, saved: Tree) -> None:
        self._codes = {wid: set(codes) for wid, codes in saved or []}
