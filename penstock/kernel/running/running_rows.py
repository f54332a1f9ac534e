"""Rows that running operators keep: insertions and retractions that cancel each other by value, and
all rows of an input by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch, Signs
from penstock.kernel.revisions.emitted_rows import numbers_of, same_rows
from penstock.kernel.state import ChunkStore, required
from penstock.model.arrays import Codes, Ints, Mask, first_rows, stable_order


def left_over(columns: Sequence[pa.Array], signs: Signs) -> Ints:
    """The places of rows that are left when as many as possible have cancelled each other.

    >>> left_over([pa.array([7, 8, 7, 7])], np.array([1, 1, -1, 1], np.int8))
    array([1, 3])
    """
    rows, numbers = _may_cancel(columns, signs)
    if not len(rows):
        return np.arange(len(signs))
    own = signs[rows]
    net = np.bincount(numbers[own > 0], minlength=len(rows))
    net -= np.bincount(numbers[own < 0], minlength=len(rows))
    # of each kind the last ones stay, of the sign that is left
    candidates = np.flatnonzero(own * net[numbers] > 0)[::-1]
    order = stable_order(numbers[candidates])
    alike = numbers[candidates][order]
    begins = np.flatnonzero(np.diff(alike, prepend=-1))
    within = np.arange(len(alike)) - np.repeat(begins, np.diff([*begins, len(alike)]))
    stays = np.ones(len(signs), np.bool_)
    stays[rows] = False
    stays[rows[candidates[order[within < np.abs(net[alike])]]]] = True
    kept: Ints = np.flatnonzero(stays)
    return kept


def _may_cancel(columns: Sequence[pa.Array], signs: Signs) -> tuple[Ints, Ints]:
    """The rows that have others of the other sign that are alike, and numbers of what is alike
    among them.

    Column by column, those are left out that have none; what is long is compared last, and numbered
    only if rows that are alike in everything else are not the same.
    """
    rows = np.arange(len(signs))
    numbers: Ints = np.zeros(len(signs), np.int64)
    rows, numbers = _of_both_signs(rows, numbers, signs)
    short = [each for each in columns if _is_short(each.type)]
    long = [each for each in columns if not _is_short(each.type)]
    for column in short:
        if len(rows):
            rows, numbers = _parted(rows, numbers, column, signs)
    if not len(rows) or not long:
        return rows, numbers
    first = rows[first_rows(numbers)[0]][numbers]
    among, whole = pa.array(rows), pa.array(first)
    same = same_rows([each.take(among) for each in long], [each.take(whole) for each in long])
    if same is not None and same.all():
        return rows, numbers
    for column in long:
        if len(rows):
            rows, numbers = _parted(rows, numbers, column, signs)
    return rows, numbers


def _is_short(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_))


def _parted(rows: Ints, numbers: Ints, column: pa.Array, signs: Signs) -> tuple[Ints, Ints]:
    """Split by one column more."""
    own = column if len(rows) == len(column) else column.take(pa.array(rows))
    by_column = numbers_of([own], len(rows))
    numbers = first_rows(numbers * (int(by_column.max()) + 1) + by_column)[1]
    return _of_both_signs(rows, numbers, signs)


def _of_both_signs(rows: Ints, numbers: Ints, signs: Signs) -> tuple[Ints, Ints]:
    """Drop rows without any of the other sign; number the others as they occur."""
    if not len(rows):
        return rows, numbers
    given = np.zeros(int(numbers.max()) + 1, np.bool_)
    taken = np.zeros(len(given), np.bool_)
    positive: Mask = signs[rows] > 0
    given[numbers[positive]] = True
    taken[numbers[~positive]] = True
    both = (given & taken)[numbers]
    if both.all():
        return rows, numbers
    return rows[both], first_rows(numbers[both])[1]


def said(rows: pa.RecordBatch, signs: Signs) -> Batch | None:
    """Changes that are left of rows after cancelling, retractions first; None if there are none."""
    if (signs < 0).any():
        left = left_over(rows.columns, signs)
        left = left[np.argsort(signs[left], kind="stable")]
        rows, signs = rows.take(pa.array(left)), signs[left]
    return Batch(rows, signs) if rows.num_rows else None


# Index of rows by key, among many rows that do not move.

_SPAN = 4096  # of a table that is always allowed
_SPARSE = 4  # how many places a longer table may have for each row


class KeyIndex:
    """Rows in the order of their keys, and where each key begins: in a table by key, if the keys
    lie close together.

    >>> index = KeyIndex(np.array([7, 5, 7]))
    >>> begin, counts = index.find(np.array([7, 6, 5]))
    >>> counts, index.order[begin[0] : begin[0] + counts[0]]
    (array([2, 0, 1]), array([0, 2]))
    """

    def __init__(self, codes: Codes) -> None:
        self.order: Ints = stable_order(codes)
        self._sorted = codes[self.order]
        self._lowest = int(self._sorted[0])
        span = int(self._sorted[-1]) - self._lowest + 1
        self._begins: Ints | None = None
        if span <= max(_SPAN, _SPARSE * len(codes)):
            counts = np.bincount(self._sorted - self._lowest, minlength=span)
            # two places more, for keys that are not in the table: both begin at its end
            self._begins = np.append(0, np.append(np.cumsum(counts), len(codes)))

    def find(self, codes: Codes) -> tuple[Ints, Ints]:
        """First place of the rows of each key in `order`, and their number."""
        if self._begins is None:
            begin = np.searchsorted(self._sorted, codes)
            return begin, np.searchsorted(self._sorted, codes, side="right") - begin
        places = codes - self._lowest
        nowhere = len(self._begins) - 2
        places[places.view(np.uint64) > nowhere] = nowhere
        begin = self._begins[places]
        return begin, self._begins[places + 1] - begin


# Rows of an input that are kept for ever, with their signs, in runs that are found by key.
#
# Rows stay in the order in which they came.  An index by key is made when it is first used, and
# runs are merged then, too, so that there are few of them: where one input is complete before the
# other begins, only one of them ever is.

_LARGER = 4  # how many times larger a run is than those behind it, at least
_SMALL = 1 << 15  # rows of runs that are merged before they are looked up
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
    """Rows of an input by key, with their signs and numbers of partners."""

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
        """Runs of rows, merged so that they are few."""
        self._put_together()
        return self._runs

    def add(
        self, rows: pa.RecordBatch, codes: Codes, signs: Signs, partners: Ints | None = None
    ) -> None:
        if rows.num_rows == 0:
            return
        partners = np.zeros(len(codes), np.int64) if partners is None else partners
        self._runs.append(KeyedRun(rows, codes, signs, partners))
        # insertions and retractions are cancelled now, not when rows are first looked up
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
        """Rows of some keys, each of which is named once, and their keys; without retracted
        rows."""
        found = [(run, places) for run in self.runs for _, places in run.candidates(codes)]
        if not found:
            return pa.RecordBatch.from_pylist([], schema=self._schema), codes[:0]
        rows = pa.concat_batches([run.rows.take(pa.array(places)) for run, places in found])
        own = np.concatenate([run.codes[places] for run, places in found])
        signs = np.concatenate([run.signs[places] for run, places in found])
        left = left_over(rows.columns, signs)
        return (rows, own) if len(left) == len(own) else (rows.take(pa.array(left)), own[left])

    def renumbered(self, numbered: Callable[[pa.RecordBatch], Codes]) -> None:
        """Replace the numbers of keys by new ones."""
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
        """Restore the runs, whose keys the caller numbers again (see `resume`)."""
        names, self._named = required(store, "runs")
        self._stored = set(names)
        for name in names:
            rows, signs = required(store, f"rows/{name}")
            partners = required(store, f"partners/{name}")
            yield KeyedRun(rows, np.zeros(rows.num_rows, np.int64), signs, partners, name, False)

    def resume(self, run: KeyedRun, codes: Codes) -> None:
        """Add a run that was loaded, with the numbers that its keys have now."""
        run.codes = codes
        self._runs.append(run)
