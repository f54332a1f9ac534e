"""The order of keys by value: numbers by size, texts by their characters, NaN above all numbers,
NULL behind everything.

Groups leave a window in this order, whichever came first.  Keys are sorted once for as long as none
is added; where results are few beside all keys there are, only theirs are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import Codes, Ints
from penstock.model.plain_values import to_python
from penstock.model.stable_order import stable_order
from penstock.model.types import from_arrow
from penstock.scalars.ordering import exact_key

_FEW = 1024  # keys that may be sorted anew at any time
_MANY = 4  # times as many keys as results, above which only those of the results are sorted


class KeyOrder:
    def __init__(self) -> None:
        self._codes: Codes = np.zeros(0, np.int64)  # in the order of their keys
        self._ranks: Ints = np.zeros(0, np.int64)  # of each code

    def places(self, codes: Codes, size: int, take: Callable[[Codes], list[pa.Array]]) -> Ints:
        """How to put some codes in the order of their keys, of which there are `size`; `take` gives
        the columns of keys.

        >>> keys = pa.array(["b", None, "a"])
        >>> KeyOrder().places(np.array([0, 1, 2]), 3, lambda codes: [keys.take(pa.array(codes))])
        array([2, 0, 1])
        """
        if len(codes) < 2:
            return np.arange(len(codes))
        if self._knows(size, len(codes), take):
            return stable_order(self._ranks[codes])
        return sorted_places(take(codes))

    def present(self, rows: Ints, size: int, take: Callable[[Codes], list[pa.Array]]) -> Codes:
        """The codes that have rows, in the order of their keys."""
        if len(self._codes) == size <= len(rows):
            return self._codes[rows[self._codes] > 0]
        codes = np.flatnonzero(rows)
        return codes[self.places(codes, size, take)]

    def _knows(self, size: int, asked: int, take: Callable[[Codes], list[pa.Array]]) -> bool:
        """Whether all keys are in order by now, which may not be worth it."""
        if len(self._codes) < size and size <= max(_FEW, _MANY * asked):
            self._codes = sorted_places(take(np.arange(size)))
            self._ranks = np.empty(size, np.int64)
            self._ranks[self._codes] = np.arange(size)
        return len(self._codes) == size


def comparable(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Numbers in the order of values that Arrow cannot compare: ARRAYs, STRUCTs and MAPs.

    >>> comparable(pa.array([[2], None, [1, 7], [2]])).to_pylist()
    [1, 2, 0, 1]
    """
    if not pa.types.is_nested(column.type):
        return column
    sql_type = from_arrow(column.type)
    assert sql_type is not None
    keys = [exact_key(value) for value in to_python(column, sql_type)]
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return pa.array([ranks[key] for key in keys], pa.int64())


def sorted_places(columns: list[pa.Array]) -> Ints:
    """How to put rows in the order of some columns."""
    names = [str(number) for number in range(len(columns))]
    table = pa.table(list(map(comparable, columns)), names)
    # Arrow has NaN behind the numbers, and NULLs at the end
    order = pc.sort_indices(table, [(name, "ascending") for name in names])
    return np.asarray(order).astype(np.int64)
