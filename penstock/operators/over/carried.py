"""What is carried from row to row of a partition, so that the rows themselves need not be kept:
numbers of rows, running aggregates and first values.

Partitions have codes, and everything is arrays by them, saved in blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import of_64_bits
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.schema import Schema
from penstock.operators.folding.scatter import grown
from penstock.operators.over.calls import numbers
from penstock.operators.over.carried_call import CarriedCall
from penstock.operators.over.carried_values import (
    CarriedFirst,
    CarriedFirstKnown,
    CarriedLast,
    CarriedLastKnown,
)
from penstock.operators.over.frame_bounds import RowsInPartitions, Stretches
from penstock.operators.over.framed_aggregates import AggregateOverFrames, Seen, lowest_of_all
from penstock.plan.nodes.over_calls import (
    FramedAggregate,
    Neighbour,
    Numbering,
    NumberKind,
    OverCall,
    ValueAt,
)
from penstock.state.chunks import ChunkStore, Tree

_BLOCK = 1024  # partitions that are saved together


def carried_call(call: OverCall, schema: Schema) -> CarriedCall | None:
    """The call, if it runs with the rows."""
    match call:
        case Numbering():
            return CarriedNumber(call.kind)
        case ValueAt(place=1, frame=frame) if frame.runs:
            return CarriedFirstKnown(call, schema) if call.known else CarriedFirst(call, schema)
        case ValueAt(place=-1, frame=frame) if frame.runs and frame.leaves_out:
            return CarriedLast(call, schema)
        case ValueAt(place=-1, frame=frame, known=True) if frame.runs:
            return CarriedLastKnown(call.value, 1, frame, None, schema)
        case Neighbour(known=True):
            return CarriedLastKnown(call.value, -call.offset, None, call.default, schema)
        case FramedAggregate(frame=frame) if frame.runs:
            return CarriedAggregate(call, schema)
    return None


class CarriedNumber(CarriedCall):
    def __init__(self, kind: NumberKind) -> None:
        self._kind = kind
        self._counts: Ints = np.zeros(0, np.int64)  # rows, or kinds of rows

    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        self._counts = grown(self._counts, size, 0)
        found = numbers(self._kind, given) + self._counts[given.codes]
        last = given.stops - 1
        own = found[last]
        if self._kind is NumberKind.RANK:
            own = self._counts[given.codes[last]] + given.stops - given.starts
        self._counts[given.codes[last]] = own
        return of_64_bits(found)

    def unseen(self, codes: Codes, size: int) -> Ints:
        """The places of those codes whose partitions have had no row."""
        self._counts = grown(self._counts, size, 0)
        places: Ints = np.flatnonzero(self._counts[codes] == 0)
        return places

    def count_one(self, codes: Codes) -> None:
        """Partitions have one row."""
        self._counts[codes] = 1

    def save(self, codes: Codes) -> Tree:
        return self._counts[codes]

    def load(self, saved: Tree, codes: Codes, size: int) -> None:
        self._counts = grown(self._counts, size, 0)
        self._counts[codes] = saved


class CarriedAggregate(CarriedCall):
    def __init__(self, call: FramedAggregate, schema: Schema) -> None:
        self._over = AggregateOverFrames(call.call, call.frame, schema)
        self._aggregate = self._over.aggregate
        self._partial = self._aggregate.new(0)

    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        aggregate = self._aggregate
        aggregate.grow(self._partial, size)
        seen = Seen(self._over.arguments, given.rows)
        held = self._over.held(seen, given, np.arange(len(given)))
        if aggregate.additive:
            own = self._over.between(self._over.totals(seen), held)
        else:
            own = self._best(seen, held)
        aggregate.merge(own, aggregate.take(self._partial, given.codes))
        results = aggregate.finish(own, np.arange(len(given)))
        if seen.size:
            codes = given.codes if seen.chosen is None else given.codes[seen.chosen]
            zeros = np.zeros(seen.size, np.int64)
            aggregate.fold(self._partial, codes, seen.columns, zeros)
        return results

    def _best(self, seen: Seen, held: list[Stretches]) -> Any:
        """Partial results over frames: of the rows in each the best."""
        partial = self._aggregate.new(len(held[0][0]))
        if not any((high > low).any() for low, high in held):
            return partial
        ranks = self._over.ranks(seen)
        if len(held) == 1:
            best, found = _best_so_far(ranks, *held[0])
        else:
            best, found = lowest_of_all(ranks, held)
        some = np.flatnonzero(found)
        rows = np.zeros(int(ranks.max()) + 1, np.int64)
        rows[ranks] = np.arange(seen.size)
        places = pa.array(rows[best[some]])
        columns = [each.take(places) for each in seen.columns]
        self._aggregate.fold(partial, some, columns, np.zeros(len(some), np.int64))
        return partial

    def save(self, codes: Codes) -> Tree:
        return self._aggregate.save(self._aggregate.take(self._partial, codes))

    def load(self, saved: Tree, codes: Codes, size: int) -> None:
        aggregate = self._aggregate
        aggregate.grow(self._partial, size)
        aggregate.merge(self._partial, aggregate.spread(aggregate.load(saved), codes, size))


def _best_so_far(ranks: Ints, low: Ints, high: Ints) -> tuple[Ints, Mask]:
    """The lowest rank of stretches that begin with their partition, and whether they have any."""
    width = int(ranks.max()) + 1
    # partitions from the last to the first, so that the best so far never is of another one
    begins = np.zeros(len(ranks) + 1, np.int64)
    begins[low] = 1
    turn = np.cumsum(begins[: len(ranks)])
    best = np.minimum.accumulate(ranks - turn * width) + turn * width
    return best[np.maximum(high, 1) - 1], high > low


class Carried:
    """All calls of a node that are carried."""

    def __init__(self, calls: list[CarriedCall]) -> None:
        self._calls = calls
        self._touched: set[int] = set()  # blocks of partitions, since the last save

    def of(self, given: RowsInPartitions, size: int) -> list[pa.Array]:
        if self._calls:
            self.touch(given.codes[given.starts])
        return [call.of(given, size) for call in self._calls]

    def touch(self, codes: Codes) -> None:
        """What is carried for some partitions is to be saved."""
        blocks = np.bincount(codes // _BLOCK)
        self._touched.update(np.flatnonzero(blocks).tolist())

    def save(self, store: ChunkStore, size: int) -> None:
        for block in sorted(self._touched):
            codes = np.arange(block * _BLOCK, min(size, (block + 1) * _BLOCK))
            store.put(f"carried/{block}", [call.save(codes) for call in self._calls])
        self._touched.clear()

    def load(self, store: ChunkStore, size: int) -> None:
        for block in range(-(-size // _BLOCK) if self._calls else 0):
            codes = np.arange(block * _BLOCK, min(size, (block + 1) * _BLOCK))
            saved = store.get(f"carried/{block}")
            for call, own in zip(self._calls, saved or (), strict=False):
                call.load(own, codes, size)
