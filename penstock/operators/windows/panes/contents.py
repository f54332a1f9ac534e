"""Panes, and what a window contains of them: by sliding, or by blocks if nothing is subtracted.

Only panes are saved: what a window contains can be merged from them again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from penstock.model.arrays import Codes
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.folding.folder import Folder, Partials
from penstock.state.chunks import ChunkStore, Tree

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
        """A pane to fold tuples into."""
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
        self._touched.discard(number)  # perhaps nobody ever saves
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
        """The panes that tuples came to, and those that are gone, since the last save."""
        panes = self._panes
        touched = {number for number in self._touched if number in panes}
        gone = {number for number in self._gone if number not in panes}
        self._stored |= touched
        self._stored -= gone
        self._touched, self._gone = set(), set()
        return touched, gone

    def restore(self, number: int, pane: Partials) -> None:
        """A pane that was saved."""
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
        """Whether panes are gone that are stored."""
        return bool(self._gone)

    def save_gone(self, store: ChunkStore) -> None:
        """Only drop those that are gone."""
        gone = {number for number in self._gone if number not in self._panes}
        for number in gone:
            store.drop(f"panes/{number}")
        self._stored -= gone
        self._gone -= gone

    def drop_stored(self, store: ChunkStore) -> None:
        """Nobody saves these panes any more."""
        for number in self._stored:
            store.drop(f"panes/{number}")

    def load(self, store: ChunkStore, change: Callable[[Tree], Tree] | None = None) -> None:
        """If what was saved has to `change`, it is saved anew."""
        for key in store.names():
            folder, _, number = key.partition("/")
            if folder == "panes":
                saved = store.get(key)
                if change is not None:
                    saved = change(saved)
                    self._touched.add(int(number))
                self.restore(int(number), self._folder.load(saved))


class SomeGroups(Panes):
    """Some groups of panes, numbered by their place in `codes`; taken when they are asked for."""

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
    """Differential aggregates: the next window is this one, plus the panes that enter, minus those
    that leave and are then forgotten."""

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
        """Before which pane none may be taken away by others."""
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
    """Others: panes are cut into blocks as long as a window, so that a window is the end of one
    block and the beginning of the next.  Ends are merged once per block, from right to left; the
    beginning grows pane by pane.  That is three merges per pane, however long the window."""

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
    """Up to which window the content stays as it is: until a pane enters or leaves.  Looked for in
    panes that are not added to meanwhile."""

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
