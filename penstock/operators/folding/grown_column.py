"""An Arrow column that more and more values are appended to.

It is kept in parts, each less than half as long as the one before, so that appending copies a value
a few times and not all of them every time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.node import arrow
from penstock.model.arrays import Ints
from penstock.model.stable_order import stable_order

_TAKE = arrow("take", pc.TakeOptions(boundscheck=False))
_LITTLE = 16  # values for each that is asked for, above which the parts are left as they are


class GrownColumn:
    """
    >>> column = GrownColumn(pa.array(["a", "b", "c"]))
    >>> column.append(pa.array(["d"]))
    >>> column.take(np.array([3, 0])).to_pylist()
    ['d', 'a']
    """

    def __init__(self, first: pa.Array) -> None:
        self._parts = [first]
        self._ends = [len(first)]

    def __len__(self) -> int:
        return self._ends[-1]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def append(self, values: pa.Array) -> None:
        self._parts.append(values)
        while len(self._parts) > 1 and len(self._parts[-2]) < 2 * len(self._parts[-1]):
            self._parts[-2:] = [pa.concat_arrays(self._parts[-2:])]
        self._ends = np.cumsum([len(part) for part in self._parts]).tolist()

    def whole(self) -> pa.Array:
        if len(self._parts) > 1:
            self._parts, self._ends = [pa.concat_arrays(self._parts)], self._ends[-1:]
        return self._parts[0]

    def since(self, begin: int) -> pa.Array:
        """The values from a place on."""
        if begin == len(self):
            return self._parts[0].slice(0, 0)
        first = int(np.searchsorted(self._ends, begin, "right"))
        before = self._ends[first - 1] if first else 0
        own, *others = self._parts[first:]
        return pa.concat_arrays([own.slice(begin - before), *others])

    def take(self, places: Ints) -> pa.Array:
        if len(self._parts) == 1 or len(places) * _LITTLE >= len(self):
            return _TAKE(self.whole(), pa.array(places))
        of_rows = np.searchsorted(self._ends, places, "right")
        order = stable_order(of_rows)
        found, before = [], 0
        for number, (part, end) in enumerate(zip(self._parts, self._ends, strict=True)):
            own = places[of_rows == number] - before
            found.append(_TAKE(part, pa.array(own)))
            before = end
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return _TAKE(pa.concat_arrays(found), pa.array(back))
