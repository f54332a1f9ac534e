"""State cut into slices along a progressing key, which are saved and forgotten as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.first_rows import different
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.taken import taken_rows
from penstock.state.chunks import ChunkStore, Within, required

_FULL = 4096  # what a slice holds when the next one begins


class Content(Protocol):
    def __len__(self) -> int: ...

    def save(self, store: ChunkStore) -> None: ...

    def load(self, store: ChunkStore) -> None: ...


T = TypeVar("T", bound=Content)


@dataclass(eq=False, slots=True)
class _Slice(Generic[T]):
    number: int  # among all slices that there ever were
    start: Bound  # keys from here on, up to the start of the next one
    content: T
    lowest: Bound = END  # the lowest key that may be in it


class Slices(Generic[T]):
    """State cut along a progressing key, by as much as it holds; each slice is saved apart."""

    def __init__(self, new: Callable[[], T], full: int = _FULL) -> None:
        self._new = new
        self._full = full
        self._slices = [_Slice(0, BEGINNING, new())]
        self._starts: list[int] = []  # of all slices but the first
        self._highest: Bound = BEGINNING
        self._touched: set[int] = set()  # since the last save, by their numbers
        self._stored: set[int] = set()

    def cut(self, ticks: Ints) -> Iterator[tuple[T, Ints | None]]:
        """Each slice with its rows; None for all rows."""
        if len(ticks) == 0:
            return
        newest = self._slices[-1]
        if len(newest.content) >= self._full and self._highest < np.iinfo(np.int64).max:
            start = int(self._highest) + 1
            self._starts.append(start)
            self._slices.append(_Slice(newest.number + 1, start, self._new()))
        lowest, highest = int(ticks.min()), int(ticks.max())
        self._highest = max(self._highest, highest)
        first, last = np.searchsorted(self._starts, [lowest, highest], side="right").tolist()
        if first == last:
            yield self._opened(first, lowest), None
            return
        of = np.searchsorted(self._starts, ticks, side="right")
        for number in different(of).tolist():
            rows = np.flatnonzero(of == number)
            yield self._opened(number, int(ticks[rows].min())), rows

    def parts(self, rows: pa.RecordBatch, ticks: Ints) -> Iterator[tuple[T, pa.RecordBatch, Ints]]:
        """Rows with the ticks of their keys, slice by slice; the first key tells the slice."""
        for content, which in self.cut(ticks[0]):
            if which is None:
                yield content, rows, ticks
            else:
                yield content, taken_rows(rows, which), ticks[:, which]

    def _opened(self, place: int, lowest: int) -> T:
        found = self._slices[place]
        found.lowest = min(found.lowest, lowest)
        self._touched.add(found.number)
        return found.content

    def upto(self, bound: Bound) -> Iterator[T]:
        """The slices that may hold keys below the bound."""
        for each in self._slices:
            if each.lowest < bound:
                yield each.content

    def touch(self, content: T) -> None:
        """The content of a slice has changed."""
        self._touched.update(each.number for each in self._slices if each.content is content)

    def forget(self, bound: Bound) -> None:
        """Drop the slices that lie wholly below the bound."""
        gone = sum(start <= bound for start in self._starts)
        self._touched.difference_update([each.number for each in self._slices[:gone]])
        del self._slices[:gone], self._starts[:gone]

    def save(self, store: ChunkStore) -> None:
        for each in self._slices:
            if each.number in self._touched:
                own = Within(store, f"slices/{each.number}/")
                own.put("span", {"start": each.start, "lowest": each.lowest})
                each.content.save(own)
                self._stored.add(each.number)
        kept = {each.number for each in self._slices}
        for number in self._stored - kept:
            own = Within(store, f"slices/{number}/")
            for name in own.names():
                own.drop(name)
        self._stored &= kept
        self._touched.clear()
        newest = self._slices[-1]
        register = {"number": newest.number, "start": newest.start, "highest": self._highest}
        store.put("newest", register)

    def load(self, store: ChunkStore) -> None:
        """The newest slice may not have been written; it is empty then."""
        newest = required(store, "newest")
        self._highest = newest["highest"]
        names = [name.split("/") for name in store.names() if name.startswith("slices/")]
        self._stored = {int(parts[1]) for parts in names}
        self._slices = []
        for number in sorted(self._stored | {newest["number"]}):
            content = self._new()
            if number not in self._stored:
                self._slices.append(_Slice(number, newest["start"], content))
                continue
            own = Within(store, f"slices/{number}/")
            span = required(own, "span")
            content.load(own)
            self._slices.append(_Slice(number, span["start"], content, span["lowest"]))
        self._starts = [int(each.start) for each in self._slices[1:]]
