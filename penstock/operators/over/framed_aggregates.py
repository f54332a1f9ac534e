"""Aggregates over frames, which are stretches of sorted rows.

What can be subtracted is the difference of two running totals; the least and the greatest are found
in a table of stretches whose lengths are powers of two, of which two cover any frame; everything
else folds the rows of every different frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import Ints, Mask
from penstock.model.schema import Schema
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.build import build
from penstock.operators.folding.arguments import ArgumentsOf
from penstock.operators.over.frame_bounds import RowsInPartitions, Stretches
from penstock.operators.over.sort_numbers import sort_numbers
from penstock.plan.expressions import AggregateCall
from penstock.plan.nodes.over_calls import RowFrame

_AT_ONCE = 1 << 20  # rows that frames are expanded to at a time
_LEAST = frozenset(["min", "any_value", "bool_and", "min_by"])
_GREATEST = frozenset(["max", "bool_or", "max_by"])


class Seen:
    """What an aggregate sees of sorted rows: its arguments without those rows that it passes over,
    and what places among all rows are among these."""

    def __init__(self, arguments: ArgumentsOf, rows: pa.RecordBatch) -> None:
        found = arguments.of(rows)
        self.columns, self.chosen = found.columns, found.chosen
        self.size = rows.num_rows
        self._before: Ints | None = None
        if found.chosen is not None:
            self.size = int(np.count_nonzero(found.chosen))
            self._before = np.concatenate([[0], np.cumsum(found.chosen)])

    def among(self, places: Ints) -> Ints:
        return places if self._before is None else self._before[places]


class AggregateOverFrames:
    """An aggregate of the plan, for all frames of some rows at once."""

    def __init__(self, call: AggregateCall, frame: RowFrame, schema: Schema) -> None:
        self.frame = frame
        self.arguments = ArgumentsOf(call, schema)
        self.aggregate: Aggregate[Any] = build(call)
        self._over: Callable[[Seen, list[Stretches]], pa.Array] = self._expanded
        name = call.function.name
        if call.function.implementation is None and name in _LEAST | _GREATEST:
            self._over = self._chosen
        elif self.aggregate.additive:
            self._over = self._difference
        self.greatest = name in _GREATEST

    def of(self, given: RowsInPartitions, targets: Ints) -> pa.Array:
        seen = Seen(self.arguments, given.rows)
        return self._over(seen, self.held(seen, given, targets))

    def held(self, seen: Seen, given: RowsInPartitions, targets: Ints) -> list[Stretches]:
        """What frames hold of the rows that the aggregate sees."""
        held = given.held(self.frame, targets)
        return [(seen.among(low), seen.among(high)) for low, high in held]

    # --- running totals --------------------------------------------------------------------------

    def totals(self, seen: Seen) -> Any:
        """Partial results over the first row, the first two, and so on; before them, over none."""
        partial = self.aggregate.new(seen.size + 1)
        if seen.size:
            codes = np.arange(1, seen.size + 1)
            self.aggregate.fold(partial, codes, seen.columns, np.zeros(seen.size, np.int64))
        self.aggregate.accumulate(partial)
        return partial

    def between(self, totals: Any, held: list[Stretches]) -> Any:
        """Partial results over stretches, by running totals."""
        partial, *others = (self._total(totals, *each) for each in held)
        for other in others:
            self.aggregate.merge(partial, other)
        return partial

    def _total(self, totals: Any, low: Ints, high: Ints) -> Any:
        partial = self.aggregate.take(totals, high)
        self.aggregate.subtract(partial, self.aggregate.take(totals, low))
        return partial

    def _difference(self, seen: Seen, held: list[Stretches]) -> pa.Array:
        partial = self.between(self.totals(seen), held)
        return self.aggregate.finish(partial, np.arange(len(held[0][0])))

    # --- the least and the greatest --------------------------------------------------------------

    def ranks(self, seen: Seen) -> Ints:
        """Of the rows: the best one has the lowest; rows with equal arguments share one."""
        numbers = [sort_numbers(_shown(each)) for each in seen.columns[::-1]]
        if len(numbers) == 1:
            different, ranks = np.unique(numbers[0], return_inverse=True)
            count = len(different)
        else:
            order = np.lexsort(numbers[::-1])
            differs = np.zeros(seen.size, np.bool_)
            for each in numbers:
                differs[1:] |= each[order][1:] != each[order][:-1]
            ranks = np.empty(seen.size, np.int64)
            ranks[order] = np.cumsum(differs)
            count = seen.size
        ranks = ranks.astype(np.int64)
        return count - 1 - ranks if self.greatest else ranks

    def _chosen(self, seen: Seen, held: list[Stretches]) -> pa.Array:
        ranks = self.ranks(seen)
        best, found = lowest_of_all(ranks, held)
        return self.values(seen, ranks, best, found)

    def values(self, seen: Seen, ranks: Ints, best: Ints, found: Mask) -> pa.Array:
        """The values that have ranks, NULL where nothing is found."""
        rows = np.zeros(int(ranks.max(initial=0)) + 1, np.int64)
        rows[ranks] = np.arange(seen.size)
        column = _shown(seen.columns[0])
        return column.take(pa.array(rows[best] if seen.size else best, mask=~found))

    # --- everything else -------------------------------------------------------------------------

    def _expanded(self, seen: Seen, held: list[Stretches]) -> pa.Array:
        """Every row is folded once for each different frame that it is in."""
        ends = [end for stretches in held for end in stretches]
        differs = np.ones(len(ends[0]), np.bool_)
        differs[1:] = False
        for each in ends:
            differs[1:] |= each[1:] != each[:-1]
        which = np.cumsum(differs) - 1
        held = [(low[differs], high[differs]) for low, high in held]
        upto = np.cumsum(sum(high - low for low, high in held))
        parts, at = [], 0
        while at < len(upto):
            before = int(upto[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(upto, before + _AT_ONCE, side="right")))
            parts.append(self._folded(seen, [(low[at:stop], high[at:stop]) for low, high in held]))
            at = stop
        results = pa.concat_arrays(parts) if parts else self._folded(seen, held)
        return results.take(pa.array(which))

    def _folded(self, seen: Seen, held: list[Stretches]) -> pa.Array:
        count = len(held[0][0])
        partial = self.aggregate.new(count)
        for low, high in held:
            sizes = high - low
            codes = np.repeat(np.arange(count), sizes)
            if len(codes):
                within = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
                places = np.repeat(low, sizes) + within
                columns = [each.take(pa.array(places)) for each in seen.columns]
                self.aggregate.fold(partial, codes, columns, places)
        return self.aggregate.finish(partial, np.arange(count))


def lowest_of_all(ranks: Ints, held: list[Stretches]) -> tuple[Ints, Mask]:
    """The lowest rank of several stretches each, and whether they have any."""
    (best, found), *others = (lowest_of_stretches(ranks, *each) for each in held)
    for other, there in others:
        best = np.where(there & ~(found & (best < other)), other, best)
        found |= there
    return best, found


def lowest_of_stretches(ranks: Ints, low: Ints, high: Ints) -> tuple[Ints, Mask]:
    """The lowest rank of every stretch, and whether it has any.

    >>> [each.tolist() for each in lowest_of_stretches(
    ...     np.array([3, 1, 2]), np.array([0, 2, 1]), np.array([1, 3, 1]))]
    [[3, 2, 0], [True, True, False]]
    """
    sizes = high - low
    found = sizes > 0
    best = np.zeros(len(low), np.int64)
    if not found.any():
        return best, found
    levels = np.zeros(len(low), np.int64)
    levels[found] = np.frexp(sizes[found].astype(np.float64))[1] - 1
    table, width = ranks, 1
    for level in range(int(levels.max()) + 1):
        own = np.flatnonzero(found & (levels == level))
        best[own] = np.minimum(table[low[own]], table[high[own] - width])
        if level < int(levels.max()):
            table = np.minimum(table[:-width], table[width:]) if len(table) > width else table
            width *= 2
    return best, found


def _shown(column: pa.Array) -> pa.Array:
    """0.0 for −0.0, which is the same value."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column
