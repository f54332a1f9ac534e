"""A value for each group, as an aggregate keeps it: numbers in an array, everything else in an
Arrow column, so that no value becomes an object of Python on its way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.types import Type
from penstock.operators.aggregates.plain_columns import dtype_of, plain, unplain
from penstock.operators.folding.grown_column import GrownColumn
from penstock.operators.folding.scatter import grown, spread

_UNUSED = 2  # times as many values as groups, above which those are dropped that nobody needs
_FEW = 1024


class KeptValues(ABC):
    def __init__(self, sql_type: Type) -> None:
        self.type = sql_type

    @property
    @abstractmethod
    def nbytes(self) -> int: ...

    @abstractmethod
    def grow(self, size: int) -> None: ...

    @abstractmethod
    def put(self, codes: Codes, column: pa.Array) -> None:
        """Values of groups, each of which is named once."""

    @abstractmethod
    def comparable(self, codes: Codes) -> npt.NDArray[Any]:
        """The values of groups that have one."""

    @abstractmethod
    def column(self, codes: Codes, present: Mask) -> pa.Array:
        """The values of groups, NULL for one that is not `present`."""

    @abstractmethod
    def take(self, codes: Codes) -> KeptValues: ...

    @abstractmethod
    def spread(self, codes: Codes, size: int) -> KeptValues: ...


def kept_values(sql_type: Type, size: int) -> KeptValues:
    if dtype_of(sql_type) is object:
        return _Others(sql_type, np.zeros(size, np.int64), GrownColumn(_nothing(sql_type)))
    return _Numbers(sql_type, np.zeros(size, dtype_of(sql_type)))


class _Numbers(KeptValues):
    def __init__(self, sql_type: Type, values: npt.NDArray[Any]) -> None:
        super().__init__(sql_type)
        self._values = values

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def grow(self, size: int) -> None:
        self._values = grown(self._values, size, 0)

    def put(self, codes: Codes, column: pa.Array) -> None:
        self._values[codes] = plain(column, self.type)

    def comparable(self, codes: Codes) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._values[codes]
        return found

    def column(self, codes: Codes, present: Mask) -> pa.Array:
        return unplain(self._values[codes], present, self.type)

    def take(self, codes: Codes) -> KeptValues:
        return _Numbers(self.type, self._values[codes])

    def spread(self, codes: Codes, size: int) -> KeptValues:
        return _Numbers(self.type, spread(self._values, codes, size))


class _Others(KeptValues):
    """The column only grows; the place of a group is where its value is, 0 if it has none."""

    def __init__(self, sql_type: Type, places: Ints, column: GrownColumn) -> None:
        super().__init__(sql_type)
        self._places = places
        self._column = column

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + self._column.nbytes

    def grow(self, size: int) -> None:
        self._places = grown(self._places, size, 0)

    def put(self, codes: Codes, column: pa.Array) -> None:
        if column.type != self.type.arrow:
            column = column.cast(self.type.arrow)
        begin = len(self._column)
        self._column.append(column)
        self._places[codes] = begin + np.arange(len(codes))
        if len(self._column) > _UNUSED * len(self._places) + _FEW:
            self._places, self._column = self._copied(self._places)

    def _copied(self, places: Ints) -> tuple[Ints, GrownColumn]:
        """The values at some places, and where they are now."""
        used = np.flatnonzero(places)
        column = GrownColumn(_nothing(self.type))
        if len(used):
            column.append(self._column.take(places[used]))
        now = np.zeros(len(places), np.int64)
        now[used] = 1 + np.arange(len(used))
        return now, column

    def comparable(self, codes: Codes) -> npt.NDArray[Any]:
        return plain(self._column.take(self._places[codes]), self.type)

    def column(self, codes: Codes, present: Mask) -> pa.Array:  # noqa: ARG002
        return self._column.take(self._places[codes])

    def take(self, codes: Codes) -> KeptValues:
        return _Others(self.type, *self._copied(self._places[codes]))

    def spread(self, codes: Codes, size: int) -> KeptValues:
        places, column = self._copied(self._places)
        return _Others(self.type, spread(places, codes, size), column)


def _nothing(sql_type: Type) -> pa.Array:
    return pa.nulls(1, sql_type.arrow)
