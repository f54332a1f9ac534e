"""Keys on which tuples of several inputs have to agree, as numbers that they share."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import present, values_of
from penstock.model.arrays import Codes, Mask
from penstock.model.types import Kind, Type
from penstock.operators.folding.key_expiry import MANY
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.joins.partners.side import Side

_NUMBERS = (Kind.INT, Kind.BIGINT, Kind.DATE, Kind.TIMESTAMP)
_HASHED = 30  # bits: so there is room for times beside them
_NUMBERING = Lock()
_MIX = np.uint64(0x9E3779B97F4A7C15)


class SharedCodes:
    """Without any key there is one, and all tuples have it.  A key that is one whole number, or one
    time, is its own code; others are numbered."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = list(types)
        self._plain = len(types) == 1 and types[0].kind in _NUMBERS
        self._codes = KeyCodes([] if self._plain else self._types)
        self._look_again = MANY

    def of(self, columns: list[pa.Array], size: int) -> tuple[Codes, Mask | None]:
        """The codes of rows, and which of them can be equal to anything: neither NULL nor NaN is.
        None: all of them."""
        if self._plain:
            (column,) = columns
            codes = values_of(column, self._types[0]).astype(np.int64, copy=False)
            return codes, present(column) if column.null_count else None
        equal = can_be_equal(columns, self._types)
        if equal is None:
            return self._encode(columns, size), None
        codes = np.zeros(size, np.int64)
        kept = pa.array(equal)
        some = [column.filter(kept) for column in columns]
        codes[equal] = self._encode(some, int(np.count_nonzero(equal)))
        return codes, equal

    def _encode(self, columns: list[pa.Array], size: int) -> Codes:
        """One after the other: keys that are new get numbers."""
        with _NUMBERING:
            return self._codes.encode(columns, size)

    def forget(self, sides: Sequence[Side]) -> None:
        """Give up the numbers of keys that no tuple has, when these are the most."""
        if len(self._codes) < self._look_again:
            return
        live = np.zeros(len(self._codes), np.bool_)
        for side in sides:
            side.mark(live)
        codes = np.flatnonzero(live)
        if 2 * len(codes) < len(live):
            place = np.zeros(len(live), np.int64)
            place[codes] = np.arange(len(codes))
            self._codes = self._codes.only(codes)
            for side in sides:
                side.recode(place)
        self._look_again = max(MANY, 2 * len(codes))


class HashedCodes:
    """For several keys that are whole numbers or times: numbers that are equal if all keys are, and
    seldom otherwise.  Whoever finds tuples by them has to compare the keys.  Nothing is remembered,
    so it costs the same however many keys there are."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = list(types)

    @staticmethod
    def suit(types: Sequence[Type]) -> bool:
        return len(types) > 1 and all(each.kind in _NUMBERS for each in types)

    def of(self, columns: list[pa.Array], size: int) -> tuple[Codes, Mask | None]:
        mixed = np.zeros(size, np.uint64)
        for column, sql_type in zip(columns, self._types, strict=True):
            values = values_of(column, sql_type).astype(np.int64, copy=False).view(np.uint64)
            mixed = (mixed ^ values) * _MIX
            mixed ^= mixed >> np.uint64(29)
        codes: Codes = (mixed >> np.uint64(64 - _HASHED)).astype(np.int64)
        return codes, can_be_equal(columns, self._types)

    def forget(self, sides: Sequence[Side]) -> None:
        """There is nothing to be forgotten."""


def can_be_equal(columns: Sequence[pa.Array], types: Sequence[Type]) -> Mask | None:
    """Which rows have neither NULL nor NaN in any of some columns; None: all of them."""
    equal: Mask | None = None
    for column, sql_type in zip(columns, types, strict=True):
        own: Mask | None = present(column) if column.null_count else None
        if sql_type.kind is Kind.DOUBLE:
            numbers = ~np.isnan(values_of(column, sql_type))
            own = numbers if own is None else own & numbers
        if own is not None and not own.all():
            equal = own if equal is None else equal & own
    return equal
