"""Panes: the shape of windows in panes, the contents of windows (by sliding or by blocks), panes
that are kept for late tuples, and panes that are begun elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from math import gcd
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.bounds import to_ticks
from penstock.kernel.grouping.folding import Folder, Partials
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.state import ChunkStore, Tree
from penstock.model.arrays import Codes, Ints, floor_div
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Sliding

# The panes that make up a window.


class PaneShape(NamedTuple):
    """Number of panes in a window, and in a slide.

    >>> shape = pane_shape(Sliding(range=10, slide=4))
    >>> shape, shape.panes_of(2), shape.windows_of(7)
    (PaneShape(per_window=5, per_slide=2), (1, 6), (3, 5))
    """

    per_window: int
    per_slide: int

    def panes_of(self, window: int) -> tuple[int, int]:
        """The first pane of a window, and the one after the last."""
        end = (window + 1) * self.per_slide
        return end - self.per_window, end

    def windows_of(self, pane: int) -> tuple[int, int]:
        """The first and the last window that a pane is part of; in a gap, that is none."""
        return pane // self.per_slide, (pane + self.per_window) // self.per_slide - 1

    def pane_in(self, first: int, last: int, released: Bound) -> int | None:
        """A pane that is part of just the windows from `first` to `last`, and perhaps of windows
        below `released`, which will not be asked for; None if there is none.

        >>> shape = PaneShape(per_window=3, per_slide=1)
        >>> shape.pane_in(5, 7, 5), shape.pane_in(5, 6, 5), shape.pane_in(6, 6, 5)
        (5, 4, None)
        """
        lowest = self.panes_of(last)[0]
        if first > released:
            lowest = max(lowest, first * self.per_slide)
        highest = min(self.panes_of(last + 1)[0], (first + 1) * self.per_slide) - 1
        return highest if lowest <= highest else None


def pane_shape(window: Sliding) -> PaneShape:
    pane = gcd(window.range, window.slide)
    return PaneShape(window.range // pane, window.slide // pane)


# Panes, and the contents of windows: by sliding, or by blocks if nothing is subtracted.
#
# Only panes are saved: the contents of windows can be merged from them again.

FEW = 8  # windows below which it is not worth looking for those that are alike

Change: TypeAlias = Callable[[Partials], Partials]


class LatePanes(NamedTuple):
    """Late tuples that still count in some windows, as partial results of the groups in `codes`."""

    first: int
    last: int
    codes: Codes
    partials: Partials


class Panes:
    """The partial results of panes by their numbers, each of them a chunk of its own."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._panes: dict[int, Partials] = {}
        self._numbers: list[int] = []  # a heap; may name panes that are gone
        self._touched: set[int] = set()  # since the last save
        self._stored: set[int] = set()
        self._gone: set[int] = set()  # of those that are stored

    def open(self, number: int) -> Partials:
        """Open a pane to fold tuples into."""
        pane = self._panes.get(number)
        if pane is None:
            pane = self._panes[number] = self._folder.new()
            heappush(self._numbers, number)
        self._touched.add(number)
        return pane

    def get(self, number: int) -> Partials | None:
        return self._panes.get(number)

    def drop(self, number: int) -> None:
        self._panes.pop(number, None)
        self._touched.discard(number)  # there may never be a save
        if number in self._stored:
            self._gone.add(number)

    def drop_before(self, number: int) -> None:
        while (lowest := self.lowest()) is not None and lowest < number:
            self.drop(lowest)

    def all(self) -> list[Partials]:
        return list(self._panes.values())

    def numbered(self) -> list[tuple[int, Partials]]:
        return sorted(self._panes.items(), key=itemgetter(0))

    def renumber(self, change: Change) -> None:
        """Change the groups of all panes."""
        self._panes = {number: change(pane) for number, pane in self._panes.items()}
        self._touched.update(self._panes)

    def lowest(self) -> int | None:
        while self._numbers and self._numbers[0] not in self._panes:
            heappop(self._numbers)
        return self._numbers[0] if self._numbers else None

    def between(self, begin: int, end: int) -> list[int]:
        """The panes from `begin` to before `end`, however far these are apart."""
        if end - begin <= 2 * len(self._panes):
            return [number for number in range(begin, end) if number in self._panes]
        return sorted(number for number in self._panes if begin <= number < end)

    def changed(self) -> tuple[set[int], set[int]]:
        """Numbers of the panes that tuples came to, and of those that have been dropped, since the
        last save."""
        panes = self._panes
        touched = {number for number in self._touched if number in panes}
        gone = {number for number in self._gone if number not in panes}
        self._stored |= touched
        self._stored -= gone
        self._touched, self._gone = set(), set()
        return touched, gone

    def restore(self, number: int, pane: Partials) -> None:
        """Put back a pane that was saved."""
        self._panes[number] = pane
        heappush(self._numbers, number)
        self._stored.add(number)

    def lowest_from(self, number: int) -> int | None:
        """The lowest one that is not below a number."""
        return min((each for each in self._panes if each >= number), default=None)

    def highest(self) -> int | None:
        return max(self._panes, default=None)

    def save(self, store: ChunkStore) -> None:
        """Write the panes that tuples came to, drop those that are gone."""
        touched, gone = self.changed()
        for number in touched:
            store.put(f"panes/{number}", self._folder.save(self._panes[number]))
        for number in gone:
            store.drop(f"panes/{number}")

    @property
    def has_gone(self) -> bool:
        """Whether stored panes have been dropped."""
        return bool(self._gone)

    def save_gone(self, store: ChunkStore) -> None:
        """Only remove dropped panes from the store."""
        gone = {number for number in self._gone if number not in self._panes}
        for number in gone:
            store.drop(f"panes/{number}")
        self._stored -= gone
        self._gone -= gone

    def drop_stored(self, store: ChunkStore) -> None:
        """Remove all panes from the store, because they will not be saved any more."""
        for number in self._stored:
            store.drop(f"panes/{number}")

    def load(self, store: ChunkStore, change: Callable[[Tree], Tree] | None = None) -> None:
        """Restore the panes; panes that have to `change` are saved again by the next save."""
        for key in store.names():
            folder, _, number = key.partition("/")
            if folder == "panes":
                saved = store.get(key)
                if change is not None:
                    saved = change(saved)
                    self._touched.add(int(number))
                self.restore(int(number), self._folder.load(saved))


class SomeGroups(Panes):
    """View of some groups of panes, numbered by their place in `codes`; taken when they are
    used."""

    def __init__(self, panes: Panes, folder: Folder, own: Folder, codes: Codes) -> None:
        super().__init__(own)
        self._whole = panes
        self._whole_folder = folder
        self._codes = codes

    def between(self, begin: int, end: int) -> list[int]:
        return self._whole.between(begin, end)

    def get(self, number: int) -> Partials | None:
        if number not in self._panes:
            pane = self._whole.get(number)
            if pane is None:
                return None
            self._panes[number] = self._whole_folder.take(pane, self._codes)
        return self._panes[number]


class SlidingContents:
    """Contents for differential aggregates: the next window is this one, plus the panes that enter,
    minus those that leave and are then dropped."""

    def __init__(self, folder: Folder, panes: Panes) -> None:
        self._folder = folder
        self._panes = panes
        self._begin = self._end = 0
        self._content: Partials | None = None

    def of(self, begin: int, end: int) -> Partials:
        """The content of the panes from `begin` to before `end`; both only ever go up."""
        if self._content is None or begin >= self._end:
            self._panes.drop_before(begin)
            self._content, self._begin, self._end = self._folder.new(), begin, begin
        for number in self._panes.between(self._end, end):
            pane = self._panes.get(number)
            assert pane is not None
            self._folder.merge(self._content, pane)
        self._leave(begin)
        self._begin, self._end = begin, end
        self._folder.grow(self._content)
        return self._content

    @property
    def merged(self) -> Bound:
        """Pane below which others must not drop any: those are part of the content, and will be
        subtracted."""
        return BEGINNING if self._content is None else self._end

    def renumber(self, change: Change) -> None:
        self._content = change(self._content) if self._content is not None else None

    def _leave(self, before: int) -> None:
        for number in self._panes.between(self._begin, before):
            pane = self._panes.get(number)
            assert pane is not None
            assert self._content is not None
            self._folder.subtract(self._content, pane)
            self._panes.drop(number)


class BlockContents:
    """Contents for aggregates that cannot be subtracted: panes are cut into blocks as long as a
    window, so that a window is the end of one block and the beginning of the next.  Ends are merged
    once per block, from right to left; the beginning grows pane by pane.  That is three merges per
    pane, however long the window."""

    def __init__(self, folder: Folder, panes: Panes) -> None:
        self._folder = folder
        self._panes = panes
        self._cut = self._upto = 0  # where the next block begins, how far its beginning is merged
        self._numbers: list[int] = []  # the panes of the block
        self._ends: list[Partials | None] = []  # from each of them to the cut; None once passed
        self._next = 0  # the first of them that has not been passed
        self._beginning: Partials | None = None

    def of(self, begin: int, end: int) -> Partials:
        self._forget(begin)
        if self._beginning is None or begin >= self._cut:
            self._start_block(begin, end)
        assert self._beginning is not None
        for number in self._panes.between(self._upto, end):
            pane = self._panes.get(number)
            assert pane is not None
            self._folder.merge(self._beginning, pane)
        self._upto = end
        content = self._folder.new()
        if self._next < len(self._ends):
            rest = self._ends[self._next]
            assert rest is not None
            self._folder.merge(content, rest)
        self._folder.merge(content, self._beginning)
        return content

    @property
    def merged(self) -> Bound:
        return BEGINNING if self._beginning is None else self._upto

    def renumber(self, change: Change) -> None:
        self._ends = [change(end) if end is not None else None for end in self._ends]
        self._beginning = change(self._beginning) if self._beginning is not None else None

    def _start_block(self, begin: int, end: int) -> None:
        self._numbers = self._panes.between(begin, end)
        self._ends, self._next = [None] * len(self._numbers), 0
        so_far = self._folder.new()
        for place in range(len(self._numbers) - 1, -1, -1):
            pane = self._panes.get(self._numbers[place])
            assert pane is not None
            merged = self._folder.new()
            self._folder.merge(merged, pane)
            self._folder.merge(merged, so_far)
            self._ends[place] = so_far = merged
        self._cut = self._upto = end
        self._beginning = self._folder.new()

    def _forget(self, before: int) -> None:
        self._panes.drop_before(before)
        while self._next < len(self._numbers) and self._numbers[self._next] < before:
            self._ends[self._next] = None
            self._next += 1


class Unchanged:
    """Runs of windows with the same content: until a pane enters or leaves.  Panes must not be
    added meanwhile."""

    def __init__(self, panes: Panes, per_window: int, per_slide: int) -> None:
        self._panes = panes
        self._per_window = per_window
        self._per_slide = per_slide
        self._numbers: list[int] | None = None  # found when it first pays

    def until(self, window: int, last: Bound) -> int:
        """The last window up to `last` that has the same panes as `window`, which has been asked
        for: what lies before it is gone."""
        if last <= window + FEW:
            return window
        lowest = self._panes.lowest()
        if lowest is not None:
            last = min(last, (lowest + self._per_window) // self._per_slide - 1)
            if last <= window + FEW:
                return window
        end = (window + 1) * self._per_slide
        if self._panes.get(end) is not None:
            return window
        if self._numbers is None:
            self._numbers = [number for number, _ in self._panes.numbered()]
        place = bisect_left(self._numbers, end)
        if place < len(self._numbers):
            last = min(last, self._numbers[place] // self._per_slide - 1)
        return window if last == END else max(window, int(last))


def contents_over(folder: Folder, panes: Panes) -> SlidingContents | BlockContents:
    return SlidingContents(folder, panes) if folder.differential else BlockContents(folder, panes)


# Panes that stay after their windows have been released, because late tuples may still come.


class KeptPanes(Panes):
    """Panes by their numbers in order.  Panes that windows have no use for any more stay until they
    are dropped by `forget`."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)
        self.numbers: list[int] = []

    def open(self, number: int) -> Partials:
        if self.get(number) is None:
            insort(self.numbers, number)
        return super().open(number)

    def add(self, number: int, partials: Partials) -> None:
        """Add partial results to a pane; they must not be used elsewhere."""
        pane = self.get(number)
        if pane is not None:
            self._folder.merge(self.open(number), partials)
            return
        insort(self.numbers, number)
        self._panes[number] = partials
        self._touched.add(number)

    def drop(self, number: int) -> None:
        """No-op: panes stay until `forget`."""

    def drop_before(self, number: int) -> None:
        """No-op: panes stay until `forget`."""

    def between(self, begin: int, end: int) -> list[int]:
        """The panes from `begin` to before `end`."""
        return self.numbers[bisect_left(self.numbers, begin) : bisect_left(self.numbers, end)]

    def forget(self, before: int) -> list[Partials]:
        """Drop the panes before a number, and return them."""
        gone = bisect_left(self.numbers, before)
        panes = []
        for number in self.numbers[:gone]:
            pane = self.get(number)
            assert pane is not None
            panes.append(pane)
            super().drop(number)
        del self.numbers[:gone]
        self.lowest()  # which no longer names those that are gone
        return panes

    def load(self, store: ChunkStore, change: Callable[[Tree], Tree] | None = None) -> None:
        super().load(store, change)
        self.numbers = sorted(self._panes)


# Panes that are begun elsewhere: partial results of pairs of a pane and a group, to be merged.
#
# This is the low level of two-level aggregation for a host that hands over whole batches: instead
# of tuples, it ships one partial result per pane and group.

_ROOM = 4  # pairs per row for which there may be room without looking for those that occur


@dataclass(frozen=True, slots=True)
class PartialPanes:
    """Partial results of panes and groups, as columns.

    For each pair: the sub-source that its tuples are of, its pane, keys and partial results.
    """

    places: Ints
    panes: Ints
    keys: list[pa.Array]
    partials: Partials

    def __len__(self) -> int:
        return len(self.panes)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Begin and end of each run of pairs of one sub-source and pane; pairs are sorted."""
        changes = (self.panes[1:] != self.panes[:-1]) | (self.places[1:] != self.places[:-1])
        cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(self)]
        return pairwise(cuts) if len(self) else iter(())

    def save(self, folder: Folder) -> Tree:
        tree = folder.save(self.partials, self.places)
        return {**tree, "panes": self.panes, "keys": self.keys}

    @staticmethod
    def load(saved: Tree, folder: Folder) -> PartialPanes:
        places, partials = folder.load_apart(saved)
        return PartialPanes(places, saved["panes"], saved["keys"], partials)


class PaneMaker:
    """Folds batches into partial panes; its only state are the keys so far."""

    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, Sliding)
        assert node.attribute is not None
        self._window = node.window
        self._type = node.attribute.type
        self._pane = gcd(node.window.range, node.window.slide)
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._key_types = [key.expression.type for key in node.keys]
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)

    def forget_keys(self) -> None:
        self.folder.keys = KeyCodes(self._key_types)

    def panes(self, batch: pa.RecordBatch, places: Ints | None) -> tuple[PartialPanes, Codes]:
        """The pairs of a batch, and the code of the group of each; `places` are the sub-sources."""
        ticks = to_ticks(self._attribute(batch), self._type)
        inside = self._window.covered(ticks)
        if inside is not None:
            batch, ticks = batch.filter(pa.array(inside)), ticks[inside]
            places = places[inside] if places is not None else None
        rows = self.folder.rows(batch, ticks)
        panes = floor_div(ticks, plus=-self._window.origin, by=self._pane)
        lowest = int(panes.min()) if len(panes) else 0
        sources = 1 if places is None else int(places.max(initial=0)) + 1
        spans = [sources, _span(panes, lowest), max(1, len(self.folder.keys))]
        pairs, found = _numbered([places, panes - lowest, rows.codes], spans)
        partials = self.folder.folded(replace(rows, codes=pairs), len(found[0]))
        made = PartialPanes(found[0], found[1] + lowest, self.folder.keys.take(found[2]), partials)
        return made, found[2]

    def take(self, made: PartialPanes, chosen: Codes) -> PartialPanes:
        """Choose pairs."""
        indices = pa.array(chosen)
        partials = self.folder.take_apart(made.partials, chosen)
        keys = [column.take(indices) for column in made.keys]
        return PartialPanes(made.places[chosen], made.panes[chosen], keys, partials)


def _span(panes: Ints, lowest: int) -> int:
    return int(panes.max()) - lowest + 1 if len(panes) else 1


def _numbered(parts: Sequence[Ints | None], spans: list[int]) -> tuple[Codes, list[Ints]]:
    """The different combinations of some small numbers: which one each row has, and what they are.

    >>> _numbered([np.array([1, 0, 1]), None, np.array([2, 2, 2])], [2, 1, 3])
    (array([1, 0, 1]), [array([0, 1]), array([0, 0]), array([2, 2])])
    """
    size = spans[0] * spans[1] * spans[2]
    rows = len(next(part for part in parts if part is not None))
    if size >= 1 << 62:  # panes of times that are ages apart: number them again
        assert parts[1] is not None
        different, middle = np.unique(parts[1], return_inverse=True)
        inverse, found = _numbered([parts[0], middle, parts[2]], [spans[0], rows, spans[2]])
        return inverse, [found[0], different[found[1]], found[2]]
    combined = np.zeros(rows, np.int64)
    for part, span in zip(parts, spans, strict=True):
        combined *= span
        if part is not None:
            combined += part
    if size <= _ROOM * rows:
        different = np.flatnonzero(np.bincount(combined, minlength=size))
        place = np.empty(size, np.int64)
        place[different] = np.arange(len(different))
        inverse = place[combined]
    else:
        different, inverse = np.unique(combined, return_inverse=True)
    rest, last = np.divmod(different, spans[2])
    first, middle = np.divmod(rest, spans[1])
    return inverse, [first, middle, last]
