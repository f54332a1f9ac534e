"""The bucket of a tuple: a hash of its key that depends on nothing but values, and never changes
during the life of a checkpoint.

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

from penstock.errors import RunError
from penstock.expressions.columns import present, values_of
from penstock.expressions.compiler import compile_expression
from penstock.kernel.grouping.keys import codes_of
from penstock.model.arrays import Codes
from penstock.model.types import Kind, Schema, Type
from penstock.model.values import to_json, to_python
from penstock.plan.expressions import Expression

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
    """Hashes of rows; those that agree on all columns have one hash: NULL is a value, NaNs are one
    value, and so are −0.0 and 0.0.

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
    """Hashes of texts, from sums of their bytes times powers of a number.

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


# Routing to buckets by the hash of the key.


class Router:
    """Routes rows to buckets by the hashes of their keys."""

    def __init__(self, routing: Sequence[Expression], schema: Schema, buckets: int) -> None:
        self._columns = [compile_expression(expression, schema) for expression in routing]
        self._buckets = buckets
        self._hashes = KeyHashes([expression.type for expression in routing])

    def buckets(self, batch: pa.RecordBatch) -> Codes:
        """Bucket of each row.  One whose key has no value goes to the first: whether it counts,
        only a bucket can tell, and then it is an error there."""
        if not self._columns or self._buckets == 1:
            return np.zeros(batch.num_rows, np.int64)
        try:
            columns = [column(batch) for column in self._columns]
        except RunError:
            half = batch.num_rows // 2
            if half == 0:
                return np.zeros(1, np.int64)
            halves = (batch.slice(0, half), batch.slice(half))
            return np.concatenate([self.buckets(each) for each in halves])
        return self.hashed(columns, batch.num_rows)

    def hashed(self, keys: Sequence[pa.Array], size: int) -> Codes:
        """Buckets of keys that have been computed."""
        if not keys or self._buckets == 1:
            return np.zeros(size, np.int64)
        return (self._hashes.of(keys) % np.uint64(self._buckets)).astype(np.int64)


# --- Spark's own hash ----------------------------------------------------------------------------


def keys_for(partitions: int) -> list[int]:
    """Choose a number for each partition that Spark puts there, so that no two buckets share a
    task.  The first is always the same: a run with another number of buckets finds at least the
    state of that one, and in it the number of buckets.

    >>> keys_for(4), keys_for(3)
    ([0, 12, 6, 2], [0, 1, 11])
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(spark_hash(number) % partitions, number)
        number += 1
    return sorted(found.values(), key=lambda number: (number > 0, spark_hash(number) % partitions))


def spark_hash(number: int) -> int:
    """Murmur3 of an INT with seed 42, as Spark's hash partitioning computes it."""
    mixed = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593
    hashed = (_rotated((42 ^ (mixed & _ALL)), 13) * 5 + 0xE6546B64) & _ALL
    hashed ^= 4
    hashed = ((hashed ^ (hashed >> 16)) * 0x85EBCA6B) & _ALL
    hashed = ((hashed ^ (hashed >> 13)) * 0xC2B2AE35) & _ALL
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed


_ALL = (1 << 32) - 1


def _rotated(value: int, by: int) -> int:
    value &= _ALL
    return ((value << by) | (value >> (32 - by))) & _ALL
