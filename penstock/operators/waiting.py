"""Rows that wait for their turn: they are kept in sorted runs, and leave in order up to a tick.

A run is as long as all shorter ones behind it together, so there are few of them, and a row is
moved only now and then; what has left is dropped with its run, or cut off it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import sorted_runs_order, stable_order
from penstock.state.append_log import AppendLog
from penstock.state.chunks import ChunkStore, Tree

_FEW = 8  # runs that are left as they are, however long
_SHORT = 64  # rows of a run that is not worth cutting


class InTurn(NamedTuple):
    """Rows in the order of their ticks; those without one come last, and count as at the end."""

    rows: pa.RecordBatch
    ticks: Ints


@dataclass(slots=True)
class _Run:
    rows: pa.RecordBatch
    ticks: Ints  # ascending
    begin: int = 0  # what is before it has left

    def __len__(self) -> int:
        return len(self.ticks) - self.begin

    def left(self) -> InTurn:
        return InTurn(self.rows.slice(self.begin), self.ticks[self.begin :])

    def take(self, last: Bound) -> InTurn | None:
        """Cut off the rows up to a tick."""
        count = _upto(self.ticks[self.begin :], last)
        if count == 0:
            return None
        end = self.begin + count
        taken = InTurn(self.rows.slice(self.begin, count), self.ticks[self.begin : end])
        self.begin = end
        if _SHORT < end < len(self.ticks) < 2 * end:  # what has left would stay in memory
            rows, ticks = self.left()
            self.rows, self.ticks = rows.take(pa.array(np.arange(len(ticks)))), ticks.copy()
            self.begin = 0
        return taken


class WaitingRows:
    """Rows of equal ticks leave in the order in which they came.  Rows without a tick (NULL) wait
    for the end."""

    def __init__(self, name: str = "waiting") -> None:
        """The `name` is that of its chunks."""
        self._name = name
        self._runs: list[_Run] = []
        self._last: list[pa.RecordBatch] = []
        self._taken: Bound = BEGINNING
        self._takes = 0  # how often something was taken: what came later has not left
        self._log = AppendLog(name)
        self._last_saved = 0

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + sum(int(rows.num_rows) for rows in self._last)

    def lowest(self) -> Bound:
        """The lowest tick that waits."""
        return min((int(run.ticks[run.begin]) for run in self._runs), default=END)

    def add(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        if not len(ticks):
            return
        given = in_turn(rows, ticks)
        piece: Tree = {"rows": given.rows, "ticks": given.ticks, "takes": self._takes}
        self._log.append(piece, max(int(given.ticks[-1]), self._taken) + 1)
        self._push(given)

    def add_last(self, rows: pa.RecordBatch) -> None:
        """Rows that have no tick."""
        if rows.num_rows:
            self._last.append(rows)

    def take(self, last: Bound) -> InTurn | None:
        """The rows up to a tick, if there are any; with the end, all of them."""
        self._takes += 1
        if last > self._taken:
            self._taken = last
            self._log.pass_(last)
        found = [taken for run in self._runs if (taken := run.take(last)) is not None]
        if found:
            self._runs = [run for run in self._runs if len(run)]
        taken = merged(found)
        if last != END or not self._last:
            return taken
        rows = [*([taken.rows] if taken is not None else []), *self._last]
        ticks = taken.ticks if taken is not None else np.zeros(0, np.int64)
        self._last = []
        joined = pa.concat_batches(rows)
        fill = np.full(joined.num_rows - len(ticks), np.iinfo(np.int64).max)
        return InTurn(joined, np.concatenate([ticks, fill]))

    def take_simultaneous(self) -> InTurn | None:
        """The rows that have come since, and are not above the tick that was taken last: they have
        nobody to wait for."""
        return self.take(self._taken) if self.lowest() <= self._taken else None

    def take_all(self) -> InTurn | None:
        """What waits, in order, before its turn; what comes later waits as before."""
        taken = self.all()
        self._runs = []
        self._log.begin_anew()
        return taken

    def all(self) -> InTurn | None:
        """What waits, in order, without what has no tick; it goes on waiting."""
        return merged([run.left() for run in self._runs])

    @property
    def unplaced(self) -> Sequence[pa.RecordBatch]:
        """What has no tick."""
        return self._last

    def _push(self, given: InTurn) -> None:
        self._runs.append(_Run(*given))
        while len(self._runs) > _FEW and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            two = [run.left() for run in self._runs[-2:]]
            both = merged(two)
            assert both is not None
            self._runs[-2:] = [_Run(*both)]

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Write what has come since the last save."""
        self._log.save(store, self._kept)
        store.put(f"{self._name} taken", {"upto": self._taken, "takes": self._takes})
        if self._last:
            store.put(f"{self._name} last", pa.concat_batches(self._last))
        elif self._last_saved:
            store.drop(f"{self._name} last")
        self._last_saved = len(self._last)

    def _kept(self) -> Iterator[tuple[Tree, Bound]]:
        for run in self._runs:
            rows, ticks = run.left()
            until = max(int(ticks[-1]), self._taken) + 1
            yield {"rows": rows, "ticks": ticks, "takes": self._takes}, until

    def load(self, store: ChunkStore, names: list[str]) -> None:
        """The columns are the same, but may be called something else by now."""
        taken = store.get(f"{self._name} taken")
        if taken is None:
            return
        self._taken, self._takes = taken["upto"], taken["takes"]
        for piece in self._log.load(store):
            rows, ticks = piece["rows"].rename_columns(names), piece["ticks"]
            begin = 0
            if piece["takes"] < self._takes:
                begin = _upto(ticks, self._taken)
            if begin < len(ticks):
                self._push(InTurn(rows.slice(begin), ticks[begin:]))
        last = store.get(f"{self._name} last")
        if last is not None:
            self._last = [last.rename_columns(names)]
            self._last_saved = 1


def in_turn(rows: pa.RecordBatch, ticks: Ints) -> InTurn:
    """Rows sorted by their ticks; of equal ones, as they are."""
    return _sorted_by(stable_order, rows, ticks)


def _sorted_by(order_of: Callable[[Ints], Ints], rows: pa.RecordBatch, ticks: Ints) -> InTurn:
    if len(ticks) == 1 or (ticks[:-1] <= ticks[1:]).all():
        return InTurn(rows, ticks)
    order = order_of(ticks)
    return InTurn(rows.take(pa.array(order)), ticks[order])


def merged(several: Sequence[InTurn]) -> InTurn | None:
    """Rows of several, in the order of their ticks; None if there is none."""
    if len(several) <= 1:
        return several[0] if several else None
    ticks = np.concatenate([each.ticks for each in several])
    rows = pa.concat_batches([each.rows for each in several])
    return _sorted_by(sorted_runs_order, rows, ticks)


def _upto(ticks: Ints, last: Bound) -> int:
    """How many are not above a tick."""
    if not len(ticks) or last < ticks[0]:
        return 0
    return len(ticks) if last >= ticks[-1] else int(np.searchsorted(ticks, int(last), "right"))
