"""Hashes of keys that depend on nothing but values, and never change while a checkpoint lives.

Numbers and times are hashed as whole columns.  Of other types each value is hashed once, and
remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import present, values_of
from penstock.model.plain_values import to_python
from penstock.model.texts import to_json
from penstock.model.types import Kind, Type
from penstock.operators.folding.column_codes import codes_of

Hashes: TypeAlias = npt.NDArray[np.uint64]

_MANY = 1 << 20  # values that are remembered
_WHOLE = (Kind.INT, Kind.BIGINT, Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL)
_NULL, _NAN = np.uint64(0x6E756C6C), np.uint64(0x6E616E)
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_ONE, _FACTOR = np.uint64(1), np.uint64(0x165667B19E3779F9)
_AT_ONCE = 1 << 14  # texts


class KeyHashes:
    """Rows that agree on all columns have one hash: NULL is a value, NaNs are one value, and so are
    −0.0 and 0.0.

    >>> from penstock.model.types import INT, STRING
    >>> KeyHashes([STRING, INT]).of([pa.array(["a", None]), pa.array([1, 2], pa.int32())])
    array([ 6231432410120358926, 17167665657551030154], dtype=uint64)
    """

    def __init__(self, types: Sequence[Type]) -> None:
        self._columns = [_ColumnHashes(each) for each in types]

    def of(self, columns: Sequence[pa.Array]) -> Hashes:
        found = np.zeros(len(columns[0]), np.uint64)
        for known, column in zip(self._columns, columns, strict=True):
            found = mixed(found ^ known.of(column))
        return found


class _ColumnHashes:
    def __init__(self, sql_type: Type) -> None:
        self._type = sql_type
        self._codes = codes_of(sql_type)
        self._of_codes: Hashes = np.zeros(0, np.uint64)

    def of(self, column: pa.Array) -> Hashes:
        if self._type.kind in _WHOLE:
            values = values_of(column, self._type).astype(np.int64, copy=False)
            return _or_null(mixed(values.view(np.uint64)), column)
        if self._type.kind is Kind.DOUBLE:
            doubles = values_of(pc.add(column, 0.0), self._type)
            hashes = mixed(doubles.view(np.uint64))
            hashes[np.isnan(doubles)] = _NAN
            return _or_null(hashes, column)
        return self._of_values(column)

    def _of_values(self, column: pa.Array) -> Hashes:
        if len(self._codes) > _MANY:
            self._codes, self._of_codes = codes_of(self._type), self._of_codes[:0]
        codes = self._codes.encode(column)
        known = len(self._of_codes)
        if known < len(self._codes):
            fresh = self._codes.take(np.arange(known, len(self._codes)))
            if self._type.kind is not Kind.STRING:
                values = to_python(fresh, self._type)
                fresh = pa.array([to_json(value, self._type) for value in values], pa.string())
            self._of_codes = np.concatenate([self._of_codes, _of_texts(fresh)])
        of_rows: Hashes = self._of_codes[codes]
        return of_rows


def _of_texts(texts: pa.Array) -> Hashes:
    """From sums of their bytes times powers of a number.

    >>> _of_texts(pa.array(["ab", "ba", "ab"])).tolist()
    [8061031434968245993, 17623570636022322748, 8061031434968245993]
    """
    hashes = np.zeros(len(texts), np.uint64)
    for begin in range(0, len(texts), _AT_ONCE):
        some = texts.slice(begin, _AT_ONCE)
        encoded = some.cast(pa.binary())
        lengths = np.asarray(pc.fill_null(pc.binary_length(encoded), 0)).astype(np.int64)
        given = np.frombuffer(b"".join(encoded.fill_null(b"").to_pylist()), np.uint8)
        ends = np.cumsum(lengths)
        places = np.arange(len(given)) - np.repeat(ends - lengths, lengths)
        powers = _powers(int(lengths.max(initial=0)))
        sums = np.cumsum((given.astype(np.uint64) + _ONE) * powers[places], dtype=np.uint64)
        sums = np.concatenate([np.zeros(1, np.uint64), sums])
        own = sums[ends] - sums[ends - lengths]
        hashes[begin : begin + len(some)] = _or_null(mixed(own), some)
    return hashes


def _powers(size: int) -> Hashes:
    powers = np.full(size + 1, _FACTOR, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


def mixed(values: Hashes) -> Hashes:
    """Numbers that are spread over all 64 bits (the last step of SplitMix64).

    >>> mixed(np.arange(2, dtype=np.uint64))
    array([16294208416658607535, 10451216379200822465], dtype=uint64)
    """
    found: Hashes = values + _GOLDEN
    found = (found ^ (found >> _30)) * _FIRST
    found = (found ^ (found >> _27)) * _SECOND
    return found ^ (found >> _31)


def _or_null(hashes: Hashes, column: pa.Array) -> Hashes:
    if column.null_count:
        hashes[~present(column)] = _NULL
    return hashes
