"""Partitions with a limit of which any row may be taken back: all rows are kept, and few looked at.

The first rows of a partition are its head, some more than the limit; all others stand behind it.
Rows come to the head or behind it by their place in the order.  When so many have left the head
that it does not decide any more what is within the limit, it is filled again from behind.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.first_rows import different
from penstock.operators.batch import Signs
from penstock.operators.folding.scatter import grown
from penstock.operators.over.frame_bounds import RowsInPartitions
from penstock.operators.over.partition_sorter import PartitionSorter
from penstock.operators.over.row_order import RowOrder
from penstock.operators.running.keyed_rows import KeyedRows
from penstock.operators.running.partition_rows import (
    ChangedPartitions,
    CodesOf,
    Numbered,
    PartitionRows,
    joined,
    load_rows,
    ones,
    together,
)
from penstock.plan.nodes.running_over import RunningOver
from penstock.state.chunks import ChunkStore, Within

_MORE = 64  # rows beyond the limit in a head that was just filled; at most twice as many


class LeadingRows(PartitionRows):
    def __init__(self, node: RunningOver, sorter: PartitionSorter) -> None:
        schema = node.input.schema
        assert node.most is not None
        self._sorter = sorter
        self._more = max(_MORE, node.most[1])
        self._order = RowOrder(node, schema, total=True)
        self._head = KeyedRows(schema.arrow, True)
        self._rest = KeyedRows(schema.arrow, True)
        self._behind: Ints = np.zeros(0, np.int64)  # rows of every partition behind its head

    def kept(self) -> list[KeyedRows]:
        return [self._head, self._rest]

    def change(self, given: Numbered, signs: Signs) -> ChangedPartitions:
        self._behind = grown(self._behind, int(given.codes.max()) + 1, 0)
        touched = different(given.codes)
        old = Numbered(*self._head.of(touched))
        ahead = self._ahead(old, given)
        behind = np.flatnonzero(~ahead)
        if len(behind):
            self._put_behind(given.take(behind), signs[behind])
            own = np.flatnonzero(ahead)
            given, signs = given.take(own), signs[own]
        self._head.add(*given, signs)
        now = together(old, given, signs)
        return ChangedPartitions(old, self._cut(self._filled(now, touched)))

    def _ahead(self, old: Numbered, given: Numbered) -> Mask:
        """Which of the rows belong to the heads: none of them comes after the last row there."""
        ahead: Mask = self._behind[given.codes] == 0
        others = np.flatnonzero(~ahead)
        if not len(others):
            return ahead
        known = len(old.codes)
        rows, codes = joined(old, given.take(others))
        order = self._order.sort(rows, codes)
        peers = np.empty(len(codes), np.int64)
        peers[order.places] = order.peers
        last = np.full(len(self._behind), -1, np.int64)
        np.maximum.at(last, old.codes, peers[:known])
        ahead[others] = peers[known:] <= last[codes[known:]]
        return ahead

    def _filled(self, now: Numbered, touched: Codes) -> Numbered:
        """The heads, with as many rows from behind as they need."""
        waiting = touched[self._behind[touched] > 0]
        if not len(waiting):
            return now
        sorted_now, _ = self._sorter.sort(*now)
        numbers = self._sorter.limited_numbers(sorted_now)
        decided = sorted_now.codes[numbers > self._sorter.limit]
        short = np.setdiff1d(waiting, decided)
        if not len(short):
            return now
        rest = Numbered(*self._rest.of(short))
        own = np.flatnonzero(np.isin(now.codes, short))
        known = len(own)
        both = joined(now.take(own), rest)
        kept = self._leading(both, self._more)
        moved = both.take(kept[kept >= known])
        self._head.add(*moved, ones(len(moved.codes)))
        self._put_behind(moved, -ones(len(moved.codes)))
        return joined(now, moved)

    def _cut(self, now: Numbered) -> Numbered:
        """The heads, without what they have too much of."""
        if len(now.codes) <= 2 * self._more:
            return now
        sizes = np.bincount(now.codes, minlength=len(self._behind))
        long = np.flatnonzero(sizes > self._sorter.limit + 2 * self._more)
        own = np.flatnonzero(np.isin(now.codes, long))
        if not len(own):
            return now
        beyond = np.ones(len(own), np.bool_)
        beyond[self._leading(now.take(own), self._more)] = False
        gone = now.take(own[beyond])
        self._head.add(*gone, -ones(len(gone.codes)))
        self._put_behind(gone, ones(len(gone.codes)))
        kept = np.ones(len(now.codes), np.bool_)
        kept[own[beyond]] = False
        return now.take(np.flatnonzero(kept))

    def _leading(self, given: Numbered, more: int) -> Ints:
        """The places of the rows within the limit, and of some more of every partition."""
        order = self._order.sort(*given)
        rows = given.rows.take(pa.array(order.places))
        exact = RowsInPartitions(rows, given.codes[order.places], order.peers)
        numbered, places = self._sorter.sort(*given)
        within = np.zeros(len(self._behind), np.int64)
        limited = self._sorter.limited_numbers(numbered) <= self._sorter.limit
        np.add.at(within, given.codes[places[limited]], 1)
        place = np.arange(len(exact)) - exact.begin
        return np.sort(order.places[place < within[exact.codes] + more])

    def _put_behind(self, given: Numbered, signs: Signs) -> None:
        self._rest.add(*given, signs)
        np.add.at(self._behind, given.codes, signs)

    # --- state -----------------------------------------------------------------------------------

    def _count(self) -> None:
        codes = [run.codes for run in self._rest.runs]
        self._behind = np.zeros(max((int(each.max()) + 1 for each in codes), default=0), np.int64)
        for run in self._rest.runs:
            np.add.at(self._behind, run.codes, run.signs)

    def renumber(self, codes_of: CodesOf) -> None:
        super().renumber(codes_of)
        self._count()

    def save(self, store: ChunkStore) -> None:
        self._head.save(Within(store, "head/"))
        self._rest.save(Within(store, "rest/"))

    def load(self, store: ChunkStore, codes_of: CodesOf) -> None:
        load_rows(self._head, Within(store, "head/"), codes_of)
        load_rows(self._rest, Within(store, "rest/"), codes_of)
        self._count()
