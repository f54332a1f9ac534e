"""Rows that later rows of their partition may look back at.

They are kept in runs that are sorted by partition, each behind the one before it in time.  A run is
as long as all shorter ones behind it together, so a row is moved only now and then; what nobody can
look at any more goes when runs are merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.joins.partners.pairs import spread
from penstock.operators.over.frame_bounds import stretches
from penstock.state.append_log import AppendLog
from penstock.state.chunks import ChunkStore, Tree

_FEW = 8  # runs that are left as they are, however long


class HistoryRows(NamedTuple):
    """Rows by partition, and in their order there."""

    rows: pa.RecordBatch
    codes: Ints
    ticks: Ints
    peers: Ints

    def take(self, places: Ints) -> HistoryRows:
        rows = self.rows.take(pa.array(places))
        return HistoryRows(rows, self.codes[places], self.ticks[places], self.peers[places])


class History:
    """The last `rows` rows of every partition, its last `groups` of equal rows, and all that are no
    more than `ticks` below the bound (None: none because of their time)."""

    def __init__(self, rows: int, ticks: int | None, groups: int = 0) -> None:
        self._rows, self._ticks, self._groups = rows, ticks, groups
        self._counts = bool(rows or groups)  # whether some are kept whatever their time is
        self._runs: list[HistoryRows] = []
        self._log = AppendLog("history")
        self._bound: Bound = BEGINNING

    def __len__(self) -> int:
        return sum(len(run.codes) for run in self._runs)

    def of(self, codes: Ints) -> list[HistoryRows]:
        """The rows of some partitions, whose codes ascend: the earlier ones first."""
        found = []
        for run in self._runs:
            low = np.searchsorted(run.codes, codes, side="left")
            sizes = np.searchsorted(run.codes, codes, side="right") - low
            total = int(sizes.sum())
            if total == len(run.codes):
                found.append(run)
            elif total:
                found.append(run.take(spread(low, sizes, total)))
        return found

    def add(self, new: HistoryRows, bound: Bound) -> None:
        """Rows that all others stand before, and the bound that they are below."""
        self._bound = bound
        lowest = self._lowest()
        if not self._counts:
            self._runs = [run for run in self._runs if int(run.ticks.max()) >= lowest]
            self._log.pass_(lowest)
        new = self._needed(new)
        if len(new.codes):
            self._log.append(*self._piece(new))
            self._push(new)

    def _push(self, new: HistoryRows) -> None:
        self._runs.append(new)
        while len(self._runs) > _FEW and len(self._runs[-2].codes) <= 2 * len(self._runs[-1].codes):
            merged = self._needed(joined(self._runs[-2:]))
            self._runs[-2:] = [merged] if len(merged.codes) else []

    def _needed(self, kept: HistoryRows) -> HistoryRows:
        """Those that somebody may look at, whatever comes behind them."""
        needed = self._by_number(kept)
        lowest = self._lowest()
        if lowest == BEGINNING:
            needed[:] = True
        elif lowest != END:
            needed |= kept.ticks >= int(lowest)
        return kept if needed.all() else kept.take(np.flatnonzero(needed))

    def _by_number(self, kept: HistoryRows) -> Mask:
        if not len(kept.codes):
            return np.zeros(0, np.bool_)
        numbers, _, stops = stretches(kept.codes)
        needed: Mask = stops[numbers] - np.arange(len(kept.codes)) <= self._rows
        if self._groups:
            groups, *_ = stretches(kept.peers)
            needed |= groups[stops - 1][numbers] - groups < self._groups
        return needed

    def _lowest(self) -> Bound:
        """From which tick on rows are kept for their time."""
        if self._ticks is None:
            return END
        return self._bound if self._bound in (BEGINNING, END) else self._bound - self._ticks

    def _piece(self, kept: HistoryRows) -> tuple[Tree, Bound]:
        until: Bound = END
        if not self._counts and self._ticks is not None:
            until = int(kept.ticks.max()) + 1
        arrays = {"codes": kept.codes, "ticks": kept.ticks, "peers": kept.peers}
        return {"rows": kept.rows, **arrays}, until

    def _pieces(self) -> Iterator[tuple[Tree, Bound]]:
        yield from map(self._piece, self._runs)

    def save(self, store: ChunkStore) -> None:
        if len(self._runs) > 1 and self._counts:  # what is written would only grow
            self._runs = [self._needed(joined(self._runs))]
            self._log.begin_anew()
        self._log.save(store, self._pieces)
        store.put("history bound", self._bound)

    def load(self, store: ChunkStore, names: list[str]) -> None:
        """The columns are the same, but may be called something else by now."""
        bound = store.get("history bound")
        if bound is None:
            return
        self._bound = bound
        for piece in self._log.load(store):
            rows = piece["rows"].rename_columns(names)
            self._push(HistoryRows(rows, piece["codes"], piece["ticks"], piece["peers"]))


def joined(several: list[HistoryRows]) -> HistoryRows:
    """Rows of several, by partition; in each, in the order in which they are given."""
    if len(several) == 1:
        return several[0]
    names = several[-1].rows.schema.names
    rows = pa.concat_batches([each.rows.rename_columns(names) for each in several])
    codes, ticks, peers = (
        np.concatenate(each) for each in zip(*(each[1:] for each in several), strict=True)
    )
    whole = HistoryRows(rows, codes, ticks, peers)
    if (codes[1:] >= codes[:-1]).all():
        return whole
    return whole.take(stable_order(codes))
