"""The code on the right that usually stands beside one on the left: often a key decides the next,
as an id does the name, and then a pair need not be looked for among all pairs.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.first_rows import first_rows
from penstock.operators.folding.scatter import grown

_NONE = -1
_ENOUGH = 1 << 17  # rows after which it is known whether the left decides the right


class UsualPairs:
    """
    >>> usual = UsualPairs()
    >>> usual.learn(np.array([5, 7]), np.array([50, 70]), np.array([0, 1]))
    >>> codes, others = usual.find(np.array([7, 5, 7]), np.array([70, 50, 71]))
    >>> codes[:2], others
    (array([1, 0]), array([2]))
    """

    def __init__(self) -> None:
        self._rights: Codes = np.empty(0, np.int64)  # by the code on the left
        self._codes: Codes = np.empty(0, np.int64)
        self._asked = self._found = 0

    @property
    def worth_it(self) -> bool:
        return self._asked < _ENOUGH or 2 * self._found > self._asked

    def find(self, left: Codes, right: Codes) -> tuple[Codes, Ints]:
        """The codes of pairs, and the rows of others, whose codes mean nothing."""
        size = int(left.max()) + 1
        self._rights = grown(self._rights, size, _NONE)
        self._codes = grown(self._codes, size, _NONE)
        others = np.flatnonzero(self._rights[left] != right)
        self._asked += len(left)
        self._found += len(left) - len(others)
        return self._codes[left], others

    def only_one_each(self, left: Codes, right: Codes) -> tuple[Ints, Ints] | None:
        """The first row of each code on the left, if all its rows have the same one on the right,
        and for each row which of them it is; None otherwise."""
        rows, numbers = first_rows(left)
        if (right[rows][numbers] != right).any():
            return None
        self._found += len(left) - len(rows)
        return rows, numbers

    def learn(self, left: Codes, right: Codes, codes: Codes) -> None:
        """Pairs that were not found; of several with one code on the left, one becomes usual."""
        turn = np.arange(len(left))
        self._codes = grown(self._codes, int(left.max()) + 1, _NONE)
        self._rights = grown(self._rights, len(self._codes), _NONE)
        self._rights[left] = turn
        chosen = self._rights[left]
        self._rights[left], self._codes[left] = right[chosen], codes[chosen]
