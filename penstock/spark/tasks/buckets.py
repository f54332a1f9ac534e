"""Which bucket a tuple goes to: a hash of its key that never changes while a checkpoint lives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes
from penstock.model.schema import Schema
from penstock.plan.expressions import Expression
from penstock.spark.tasks.hashing import KeyHashes


class Router:
    """The buckets of rows by the hashes of their keys."""

    def __init__(self, routing: Sequence[Expression], schema: Schema, buckets: int) -> None:
        self._columns = [compile_expression(expression, schema) for expression in routing]
        self._buckets = buckets
        self._hashes = KeyHashes([expression.type for expression in routing])

    def buckets(self, batch: pa.RecordBatch) -> Codes:
        """The bucket of each row.  One whose key has no value goes to the first: if it counts,
        which only a bucket can tell, it is an error there."""
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
        """The buckets of some keys."""
        if not keys or self._buckets == 1:
            return np.zeros(size, np.int64)
        return (self._hashes.of(keys) % np.uint64(self._buckets)).astype(np.int64)


# --- Spark's own hash ----------------------------------------------------------------------------


def keys_for(partitions: int) -> list[int]:
    """A number for each partition that Spark puts there, so that no two buckets share a task.  The
    first is always the same: whoever looks with another number of buckets finds at least that one's
    state, and in it how many there were.

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
