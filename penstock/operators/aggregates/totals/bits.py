"""bit_and, bit_or and bit_xor: one number of 64 bits for each group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.totals.counts import Counts
from penstock.operators.folding.scatter import grown
from penstock.state.chunks import Tree

_COMBINE = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}


class GroupBits:
    def __init__(self, counts: Counts, bits: Ints) -> None:
        self.counts, self.bits = counts, bits


class OfBits(Aggregate[GroupBits]):
    def __init__(self, name: str) -> None:
        self.combine = _COMBINE[name]
        self.nothing = -1 if name == "bit_and" else 0  # which changes no other number
        self.differential = name == "bit_xor"  # what is taken in twice is gone

    def new(self, size: int) -> GroupBits:
        return GroupBits(Counts(size), np.full(size, self.nothing, np.int64))

    def grow(self, partial: GroupBits, size: int) -> None:
        partial.counts.grow(size)
        partial.bits = grown(partial.bits, size, self.nothing)

    def fold(self, partial: GroupBits, codes: Codes, arguments: list[pa.Array], *_: object) -> None:
        partial.counts.fold(codes)
        numbers = np.asarray(arguments[0]).astype(np.int64, copy=False)
        self.combine.at(partial.bits, codes, numbers)

    def merge(self, partial: GroupBits, other: GroupBits) -> None:
        partial.counts.merge(other.counts)
        size = len(other.bits)
        partial.bits[:size] = self.combine(partial.bits[:size], other.bits)

    def subtract(self, partial: GroupBits, other: GroupBits) -> None:
        partial.counts.subtract(other.counts)
        partial.bits[: len(other.bits)] ^= other.bits

    def take(self, partial: GroupBits, codes: Codes) -> GroupBits:
        return GroupBits(partial.counts.take(codes), partial.bits[codes])

    def spread(self, partial: GroupBits, codes: Codes, size: int) -> GroupBits:
        bits = np.full(size, self.nothing, np.int64)
        bits[codes] = partial.bits[: len(codes)]
        return GroupBits(partial.counts.spread(codes, size), bits)

    def save(self, partial: GroupBits) -> Tree:
        return {"counts": partial.counts.rows, "bits": partial.bits}

    def load(self, saved: Tree) -> GroupBits:
        return GroupBits(Counts.load(saved["counts"]), saved["bits"])

    def finish(self, partial: GroupBits, codes: Codes) -> pa.Array:
        return pa.array(partial.bits[codes], mask=partial.counts.rows[codes] == 0)
