"""Aggregate functions as the window algorithms see them: logic without state; and columns as arrays
that sort and compare as SQL does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Floats, Ints
from penstock.model.types import Kind, Type
from penstock.model.values import to_arrow, to_python

P = TypeVar("P")


class Aggregate(ABC, Generic[P]):
    """An aggregate function: logic without state, over partial results of type P.

    A partial result covers all groups at once.  `merge` joins the partial results of two sets of
    tuples that do not overlap; a differential function can also `subtract` one set from a larger
    one; the partial results of a holistic function grow with the tuples.
    """

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
        """Fold rows, if there are any: their groups, arguments (no NULLs), and positions in the
        window."""

    @abstractmethod
    def merge(self, partial: P, other: P) -> None:
        """Merge another partial result, which may have room for fewer groups."""

    def subtract(self, partial: P, other: P) -> None:  # noqa: ARG002
        """Subtract a partial result that was merged."""
        raise TypeError(f"{type(self).__name__} is not differential")

    def accumulate(self, partial: P) -> None:  # noqa: ARG002
        """Running totals: add to every group the rows of all groups before it."""
        raise TypeError(f"{type(self).__name__} is not additive")

    @abstractmethod
    def take(self, partial: P, codes: Codes) -> P:
        """The partial results of some groups, which then are numbered by their place in `codes`."""

    @abstractmethod
    def spread(self, partial: P, codes: Codes, size: int) -> P:
        """Inverse of `take`: groups 0, 1, … become `codes`, of which there are below `size`."""

    @abstractmethod
    def save(self, partial: P) -> Tree:
        """The partial result as a piece of a chunk; all its groups are used."""

    @abstractmethod
    def load(self, saved: Tree) -> P:
        """Restore a partial result from the tree that `save` returned."""

    @abstractmethod
    def finish(self, partial: P, codes: Codes) -> pa.Array:
        """The results of some groups."""


class ByGroup(ABC):
    """A partial result that knows which groups are in it, instead of being arrays over all
    groups."""

    @abstractmethod
    def take(self, codes: Codes) -> Self:
        """Entries of some groups, which then are numbered by their place in `codes`."""

    @abstractmethod
    def spread(self, codes: Codes) -> Self:
        """Inverse of `take`: groups 0, 1, … become `codes`."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Approximate size in bytes."""


def places(groups: Codes, codes: Codes) -> Ints:
    """Place of each group in `codes`; −1 where it has none.

    >>> places(np.array([5, 7, 5, 6]), np.array([7, 5])).tolist()
    [1, 0, 1, -1]
    """
    size = max(int(groups.max(initial=-1)), int(codes.max(initial=-1))) + 1
    place = np.full(size, -1, np.int64)
    place[codes] = np.arange(len(codes))
    return place[groups]


# Arrow columns and arrays that can be compared: numbers and times unchanged, texts, bytes and
# decimals as Python values.

_OBJECTS = (Kind.STRING, Kind.BINARY, Kind.DECIMAL)


def dtype_of(sql_type: Type) -> npt.DTypeLike:
    if sql_type.kind in _OBJECTS:
        return object
    return np.float64 if sql_type.kind is Kind.DOUBLE else np.int64


def plain(column: pa.Array, sql_type: Type) -> npt.NDArray[Any]:
    """A column without NULLs as an array that can be compared: objects, doubles or integers."""
    if sql_type.kind in _OBJECTS:
        values = np.empty(len(column), dtype=object)
        values[:] = to_python(column, sql_type)
        return values
    if sql_type.kind is Kind.DOUBLE:
        return np.asarray(column, dtype=np.float64) + 0.0  # −0.0 is 0.0
    if sql_type.kind in (Kind.INT, Kind.BIGINT):
        return np.asarray(column).astype(np.int64, copy=False)
    if sql_type.kind is Kind.BOOLEAN:
        return np.asarray(column.cast(pa.int8())).astype(np.int64)
    narrow = pa.int32() if sql_type.kind is Kind.DATE else pa.int64()
    return np.asarray(column.cast(narrow)).astype(np.int64)


def unplain(values: npt.NDArray[Any], present: npt.NDArray[np.bool_], sql_type: Type) -> pa.Array:
    """The column of such an array; NULL where nothing is present."""
    if sql_type.kind in _OBJECTS:
        return to_arrow([v if p else None for v, p in zip(values, present, strict=True)], sql_type)
    if sql_type.kind is Kind.BOOLEAN:
        values = values.astype(np.bool_)
    column = pa.array(values, mask=~present)
    if sql_type.kind is Kind.DATE:
        column = column.cast(pa.int32())
    return column.cast(sql_type.arrow)


# Columns as arrays that sort, and tell values apart, as SQL does.
#
# NaNs are one value, the largest number; −0.0 is 0.0.  Floats become integers in the same order, so
# that both hold for every comparison; texts, bytes and decimals are Python values.

Sortable: TypeAlias = npt.NDArray[Any]
_ALL_BUT_SIGN = np.int64(2**63 - 1)


def to_sortable(column: pa.Array, sql_type: Type) -> Sortable:
    """A column without NULLs."""
    values = plain(column, sql_type)
    return _in_order(values) if sql_type.kind is Kind.DOUBLE else values


def from_sortable(values: Sortable, sql_type: Type) -> pa.Array:
    if sql_type.kind is Kind.DOUBLE:
        values = to_doubles(values)
    return unplain(values, np.ones(len(values), np.bool_), sql_type)


def to_doubles(values: Sortable) -> Floats:
    return np.where(values < 0, values ^ _ALL_BUT_SIGN, values).view(np.float64)


def _in_order(doubles: Floats) -> Ints:
    """
    >>> _in_order(np.array([-1.0, 0.0, 5e-324])).argsort().tolist()
    [0, 1, 2]
    """
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
    return np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
