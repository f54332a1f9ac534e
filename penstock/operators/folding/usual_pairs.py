"""What usually stands beside a key: often one key decides the next, as an id does the name.

Then a pair need not be looked for among all pairs, nor the value among all values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.first_rows import first_rows
from penstock.operators.folding.scatter import grown

_NONE = -1
_ENOUGH = 1 << 17  # rows after which it is known whether one key decides the next
Encode: TypeAlias = Callable[[Codes, Ints], Codes]


class UsualPairs:
    """Pairs of a code and a number, each of which has a code.

    >>> usual = UsualPairs()
    >>> usual.encode(np.array([1, 0]), np.array([70, 50]), lambda left, right: right + left)
    array([71, 50])
    >>> usual.encode(np.array([0, 0, 1]), np.array([50, 51, 70]), lambda left, right: right)
    array([50, 51, 71])
    """

    def __init__(self) -> None:
        self._rights: Ints = np.empty(0, np.int64)  # by the code on the left
        self._codes: Codes = np.empty(0, np.int64)  # of that pair; −1 if there is none
        self._asked = self._found = 0

    @property
    def worth_it(self) -> bool:
        return self._asked < _ENOUGH or 2 * self._found > self._asked

    def encode(self, left: Codes, right: Ints, encode: Encode) -> Codes:
        """The codes of pairs; those that are not usual are encoded by somebody else."""
        size = int(left.max()) + 1
        self._rights, self._codes = grown(self._rights, size, 0), grown(self._codes, size, _NONE)
        codes = self._codes[left]
        others = np.flatnonzero((self._rights[left] != right) | (codes == _NONE))
        self._asked += len(left)
        self._found += len(left) - len(others)
        if len(others):
            codes[others] = self._encode_others(left[others], right[others], encode)
        return codes

    def _encode_others(self, left: Codes, right: Ints, encode: Encode) -> Codes:
        """If each code on the left has one number on the right, it is encoded once."""
        rows, numbers = first_rows(left)
        first_left, first_right = left[rows], right[rows]
        if (first_right[numbers] == right).all():
            self._found += len(left) - len(rows)
            found = encode(first_left, first_right)
            codes = found[numbers]
        else:
            codes = encode(left, right)
            found = codes[rows]
        self._rights[first_left], self._codes[first_left] = first_right, found
        return codes
