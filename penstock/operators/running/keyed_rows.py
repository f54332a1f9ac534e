"""What is kept of an input for ever: all rows, with their signs, in runs that are found by key.

Rows stay in the order in which they came.  An index by key is made when somebody first asks, and
runs are put together then, too, so that there are few of them: where one input is complete before
the other begins, only one of them ever is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.operators.batch import Signs
from penstock.operators.running.key_index import KeyIndex
from penstock.operators.running.netting import left_over
from penstock.state.chunks import ChunkStore, required

_LARGER = 4  # how many times larger a run is than those behind it, at least
_SMALL = 1 << 15  # rows of runs that are put together although nobody has asked
_AT_ONCE = 1 << 18  # pairs that are looked at together


@dataclass(slots=True)
class KeyedRun:
    """Rows, their keys and signs, and how many partners each of them has."""

    rows: pa.RecordBatch
    codes: Codes
    signs: Signs
    partners: Ints
    name: int = -1  # in a store
    counted: bool = field(default=True)  # whether the store has other numbers of partners
    _index: KeyIndex | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def candidates(self, codes: Codes) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of rows with equal keys: places among `codes`, and here; some at a time."""
        if self._index is None:
            self._index = KeyIndex(self.codes)
        begin, counts = self._index.find(codes)
        asking = np.flatnonzero(counts)
        if not len(asking):
            return
        begin, counts = begin[asking], counts[asking]
        ends = np.cumsum(counts)
        cut = 0
        while cut < len(asking):
            done = ends[cut - 1] if cut else 0
            stop = max(cut + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
            own = counts[cut:stop]
            within = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
            places = self._index.order[np.repeat(begin[cut:stop], own) + within]
            yield np.repeat(asking[cut:stop], own), places
            cut = stop


class KeyedRows:
    def __init__(self, schema: pa.Schema, takes_back: bool) -> None:
        self._schema = schema
        self._takes_back = takes_back
        self._runs: list[KeyedRun] = []
        self._named = 0
        self._stored: set[int] = set()

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def runs(self) -> list[KeyedRun]:
        """Few of them."""
        self._put_together()
        return self._runs

    def add(
        self, rows: pa.RecordBatch, codes: Codes, signs: Signs, partners: Ints | None = None
    ) -> None:
        if rows.num_rows == 0:
            return
        partners = np.zeros(len(codes), np.int64) if partners is None else partners
        self._runs.append(KeyedRun(rows, codes, signs, partners))
        # rows that are taken back are not to wait for somebody who asks
        self._put_together(None if self._takes_back else _SMALL)

    def _put_together(self, most: int | None = None) -> None:
        """Make one run of the last ones that are of about the same size, and of others then; one of
        up to so many rows."""
        while True:
            first, size = len(self._runs) - 1, len(self._runs[-1]) if self._runs else 0
            while first > 0 and len(self._runs[first - 1]) < _LARGER * size:
                if most is not None and size + len(self._runs[first - 1]) > most:
                    break
                first -= 1
                size += len(self._runs[first])
            if first >= len(self._runs) - 1:
                return
            merged = self._merged(self._runs[first:])
            self._runs[first:] = [merged] if len(merged) else []

    def _merged(self, runs: list[KeyedRun]) -> KeyedRun:
        rows = pa.concat_batches([run.rows for run in runs])
        codes = np.concatenate([run.codes for run in runs])
        signs = np.concatenate([run.signs for run in runs])
        partners = np.concatenate([run.partners for run in runs])
        if self._takes_back:
            left = left_over(rows.columns, signs)
            if len(left) < len(signs):
                rows = rows.take(pa.array(left))
                codes, signs, partners = codes[left], signs[left], partners[left]
        return KeyedRun(rows, codes, signs, partners)

    def of(self, codes: Codes) -> tuple[pa.RecordBatch, Codes]:
        """The rows of some keys, each of which is named once, and their keys; without those that
        were taken back."""
        found = [(run, places) for run in self.runs for _, places in run.candidates(codes)]
        if not found:
            return pa.RecordBatch.from_pylist([], schema=self._schema), codes[:0]
        rows = pa.concat_batches([run.rows.take(pa.array(places)) for run, places in found])
        own = np.concatenate([run.codes[places] for run, places in found])
        signs = np.concatenate([run.signs[places] for run, places in found])
        left = left_over(rows.columns, signs)
        return (rows, own) if len(left) == len(own) else (rows.take(pa.array(left)), own[left])

    def renumbered(self, numbered: Callable[[pa.RecordBatch], Codes]) -> None:
        """Keys have other numbers now."""
        for run in self._runs:
            run.codes, run._index = numbered(run.rows), None

    def save(self, store: ChunkStore) -> None:
        for run in self._runs:
            if run.name < 0:
                run.name, self._named = self._named, self._named + 1
                store.put(f"rows/{run.name}", [run.rows, run.signs])
                self._stored.add(run.name)
            if run.counted:
                store.put(f"partners/{run.name}", run.partners)
                run.counted = False
        for name in self._stored - {run.name for run in self._runs}:
            store.drop(f"rows/{name}")
            store.drop(f"partners/{name}")
        self._stored = {run.name for run in self._runs}
        store.put("runs", [[run.name for run in self._runs], self._named])

    def load(self, store: ChunkStore) -> Iterator[KeyedRun]:
        """Runs as they were, whose keys are to be numbered anew."""
        names, self._named = required(store, "runs")
        self._stored = set(names)
        for name in names:
            rows, signs = required(store, f"rows/{name}")
            partners = required(store, f"partners/{name}")
            yield KeyedRun(rows, np.zeros(rows.num_rows, np.int64), signs, partners, name, False)

    def resume(self, run: KeyedRun, codes: Codes) -> None:
        """Take up a run that was loaded, with the numbers that its keys have now."""
        run.codes = codes
        self._runs.append(run)
