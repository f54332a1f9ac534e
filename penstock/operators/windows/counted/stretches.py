"""Rows in a settled order, and what stretches of neighbouring ones contain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.stable_order import stable_order
from penstock.operators.aggregates.totals.counts import Counts
from penstock.operators.folding.arguments import Arguments
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.folding.key_expiry import mark_groups
from penstock.operators.windows.panes.contents import BlockContents, Panes, SlidingContents

_BLOCK = 256  # rows that long extents share a partial result of
_LONG = 2048  # rows of an extent from which on blocks pay
_AT_ONCE = 1 << 20  # rows that short extents are expanded to at a time


class Extents:
    """Rows in an order that is settled, numbered on, and the contents of stretches of them.

    Short stretches are expanded: each row is folded once for every stretch that it is in, all of
    them at once.  Long ones share the partial results of blocks of rows, so that only the rows at
    their ends are folded again.
    """

    def __init__(self, folder: Folder, first: int = 0) -> None:
        self.folder = folder
        self.first = first  # the number of the first row that is kept
        self.rows: Rows | None = None
        self._blocks = Panes(folder)
        self._blocked = 0  # blocks below this number have been made, or are not needed
        self._contents: SlidingContents | BlockContents = (
            SlidingContents(folder, self._blocks)
            if folder.differential
            else BlockContents(folder, self._blocks)
        )

    def append(self, rows: Rows) -> None:
        self.rows = rows if self.rows is None else joined([self.rows, rows])

    def mark(self, live: Mask) -> None:
        """The groups that rows are of, or blocks."""
        if self.rows is not None:
            live[self.rows.codes] = True
        for block in self._blocks.all():
            mark_groups(live, block)

    def renumber(self, codes: Codes, place: Codes) -> None:
        def change(partials: Partials) -> Partials:
            return self.folder.take(partials, codes)

        if self.rows is not None:
            self.rows = replace(self.rows, codes=place[self.rows.codes])
        self._blocks.renumber(change)
        self._contents.renumber(change)

    def drop(self, before: int) -> None:
        """Forget the rows before a number."""
        if self.rows is not None and before > self.first:
            size = len(self.rows)
            gone = min(before - self.first, size)
            self.rows = self.rows.slice(gone, size) if gone < size else None
            self.first += gone

    def of(
        self, begins: Ints, ends: Ints, extra: Sequence[tuple[int, int, Rows]] = ()
    ) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The groups of the stretches from `begins` to before `ends`, both ascending: which stretch
        each is of, keys and results.  `extra` rows are also in stretches number i to before j."""
        if len(begins) == 0 or self.rows is None:
            return
        sizes = ends - begins
        if len(sizes) == 1 or sizes.sum() >= _LONG * len(sizes):
            yield from self._long(begins, ends, extra)
            return
        upto = np.cumsum(sizes)
        at = 0
        while at < len(begins):
            before = int(upto[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(upto, before + _AT_ONCE, side="right")))
            yield self._short(begins, sizes, extra, at, stop)
            at = stop

    def _short(
        self, begins: Ints, sizes: Ints, extra: Sequence[tuple[int, int, Rows]], at: int, stop: int
    ) -> tuple[Ints, list[pa.Array]]:
        assert self.rows is not None
        begins, sizes = begins[at:stop] - self.first, sizes[at:stop]
        which = np.repeat(np.arange(at, stop), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = [np.repeat(begins, sizes) + within]
        added = [(max(i, at), min(j, stop), rows) for i, j, rows in extra if i < stop and j > at]
        number = len(self.rows)
        for i, j, rows in added:
            for row in range(len(rows)):
                which = np.concatenate([which, np.arange(i, j)])
                places.append(np.full(j - i, number + row))
            number += len(rows)
        rows = joined([self.rows, *(each for _, _, each in added)]) if added else self.rows
        return fold_apart(self.folder, rows.take(np.concatenate(places)), which)

    def _long(
        self, begins: Ints, ends: Ints, extra: Sequence[tuple[int, int, Rows]]
    ) -> Iterator[tuple[Ints, list[pa.Array]]]:
        for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            content = self.folder.new()
            first, last = -(-begin // _BLOCK), end // _BLOCK
            if first < last:
                for number in range(max(first, self._blocked), last):
                    block = self._blocks.open(number)
                    self._fold(block, number * _BLOCK, (number + 1) * _BLOCK)
                self._blocked = max(self._blocked, last)
                self.folder.merge(content, self._contents.of(first, last))
                self._fold(content, begin, first * _BLOCK)
                self._fold(content, last * _BLOCK, end)
            else:
                self._fold(content, begin, end)
            for from_, to, rows in extra:
                if from_ <= i < to:
                    self.folder.fold(content, rows)
            codes = self.folder.present(content)
            yield np.full(len(codes), i), self.folder.finish(content, codes)

    def _fold(self, partials: Partials, begin: int, end: int) -> None:
        assert self.rows is not None
        if begin < end:
            rows = self.rows.slice(begin - self.first, end - self.first)
            self.folder.fold(partials, rows)


def fold_apart(folder: Folder, rows: Rows, which: Ints) -> tuple[Ints, list[pa.Array]]:
    """Fold rows into stretches, all at once: the stretch of each group, its keys and results."""
    width = max(1, len(folder.keys))
    first = int(which.min())
    groups = (which - first) * width + rows.codes
    known: Ints | None = None
    size = int(groups.max()) + 1
    if size > 4 * len(groups):  # most groups are in few stretches
        known, groups = np.unique(groups, return_inverse=True)
        size = len(known)
    partials = Partials(Counts(size), [each.new(size) for each in folder.aggregates])
    folder.fold(partials, Rows(groups, rows.positions, rows.arguments))
    codes = np.flatnonzero(partials.rows.rows)
    named = codes if known is None else known[codes]
    by_key = folder.keys.order_of(named % width)
    order = by_key[stable_order(named[by_key] // width)]
    codes, named = codes[order], named[order]
    pairs = zip(folder.aggregates, partials.parts, strict=True)
    results = [aggregate.finish(part, codes) for aggregate, part in pairs]
    return named // width + first, [*folder.keys.take(named % width), *results]


def joined(several: list[Rows]) -> Rows:
    """Some rows, and others behind them."""
    arguments = []
    for each in zip(*(rows.arguments for rows in several), strict=True):
        columns = [
            pa.concat_arrays(parts) for parts in zip(*(a.columns for a in each), strict=True)
        ]
        chosen = None
        if any(a.chosen is not None for a in each):
            pairs = zip(each, several, strict=True)
            chosen = np.concatenate(
                [np.ones(len(r), np.bool_) if a.chosen is None else a.chosen for a, r in pairs]
            )
        arguments.append(Arguments(chosen, columns))
    return Rows(
        np.concatenate([rows.codes for rows in several]),
        np.concatenate([rows.positions for rows in several]),
        arguments,
    )
