"""What is kept of an input for ever: all rows, with their signs, in runs sorted by key.

Runs grow by being merged with neighbours of about their size, so there are few of them and a row is
moved seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Signs
from penstock.operators.running.netting import left_over
from penstock.state.chunks import ChunkStore, required

_LARGER = 4  # how many times larger a run is than the one behind it, at least
_AT_ONCE = 1 << 18  # pairs that are looked at together


@dataclass(slots=True)
class KeyedRun:
    """Rows in the order of their keys, and how many partners each of them has."""

    rows: pa.RecordBatch
    codes: Codes
    signs: Signs
    partners: Ints
    name: int = -1  # in a store
    counted: bool = field(default=True)  # whether the store has other numbers of partners

    def __len__(self) -> int:
        return len(self.codes)

    def candidates(self, codes: Codes) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of rows with equal keys: places among `codes`, and here; some at a time."""
        begin = np.searchsorted(self.codes, codes)
        counts = np.searchsorted(self.codes, codes, side="right") - begin
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
            yield np.repeat(asking[cut:stop], own), np.repeat(begin[cut:stop], own) + within
            cut = stop


class KeyedRows:
    def __init__(self, schema: pa.Schema, takes_back: bool) -> None:
        self._schema = schema
        self._takes_back = takes_back
        self.runs: list[KeyedRun] = []
        self._named = 0
        self._stored: set[int] = set()

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def add(
        self, rows: pa.RecordBatch, codes: Codes, signs: Signs, partners: Ints | None = None
    ) -> None:
        if rows.num_rows == 0:
            return
        partners = np.zeros(len(codes), np.int64) if partners is None else partners
        self.runs.append(self._sorted(rows, codes, signs, partners))
        while len(self.runs) > 1 and len(self.runs[-2]) < _LARGER * len(self.runs[-1]):
            last, before = self.runs.pop(), self.runs.pop()
            merged = self._merged(before, last)
            if len(merged):
                self.runs.append(merged)

    def _sorted(self, rows: pa.RecordBatch, codes: Codes, signs: Signs, partners: Ints) -> KeyedRun:
        if len(codes) > 1 and (np.diff(codes) < 0).any():
            order = stable_order(codes)
            rows = rows.take(pa.array(order))
            codes, signs, partners = codes[order], signs[order], partners[order]
        return KeyedRun(rows, codes, signs, partners)

    def _merged(self, one: KeyedRun, other: KeyedRun) -> KeyedRun:
        rows = pa.concat_batches([one.rows, other.rows])
        codes = np.concatenate([one.codes, other.codes])
        signs = np.concatenate([one.signs, other.signs])
        partners = np.concatenate([one.partners, other.partners])
        if self._takes_back:
            left = left_over(rows.columns, signs)
            if len(left) < len(signs):
                rows = rows.take(pa.array(left))
                codes, signs, partners = codes[left], signs[left], partners[left]
        return self._sorted(rows, codes, signs, partners)

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
        runs, self.runs = self.runs, []
        for run in runs:
            self.runs.append(self._sorted(run.rows, numbered(run.rows), run.signs, run.partners))

    def save(self, store: ChunkStore) -> None:
        for run in self.runs:
            if run.name < 0:
                run.name, self._named = self._named, self._named + 1
                store.put(f"rows/{run.name}", [run.rows, run.signs])
                self._stored.add(run.name)
            if run.counted:
                store.put(f"partners/{run.name}", run.partners)
                run.counted = False
        for name in self._stored - {run.name for run in self.runs}:
            store.drop(f"rows/{name}")
            store.drop(f"partners/{name}")
        self._stored = {run.name for run in self.runs}
        store.put("runs", [[run.name for run in self.runs], self._named])

    def load(self, store: ChunkStore) -> Iterator[KeyedRun]:
        """Runs as they were, whose keys are to be numbered anew."""
        names, self._named = required(store, "runs")
        self._stored = set(names)
        for name in names:
            rows, signs = required(store, f"rows/{name}")
            partners = required(store, f"partners/{name}")
            yield KeyedRun(rows, np.zeros(rows.num_rows, np.int64), signs, partners, name, False)

    def resume(self, run: KeyedRun, codes: Codes) -> None:
        """Take up a run that was loaded.  Where keys have other numbers now, it is sorted anew, and
        written again."""
        made = self._sorted(run.rows, codes, run.signs, run.partners)
        if made.rows is run.rows:
            made.name, made.counted = run.name, False
        self.runs.append(made)
