"""Windows that are closed for single groups, ahead of the stream.

A group-wise punctuation completes the windows of the groups that it speaks of.  That helps where
all of its columns are keys as they are: then every result is of one punctuated group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.schema import Field
from penstock.operators.bounds import BoundOf
from penstock.operators.folding.folder import Folder
from penstock.operators.groups.bounds import GroupBounds, HighestBounds
from penstock.plan.expressions import Column, Named
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore, Within
from penstock.windows.columns import floor_div
from penstock.windows.sliding import Sliding


def plain_names(keys: Sequence[Named]) -> list[str | None]:
    """What the columns are called that are keys as they are; None for computed keys."""
    return [
        Field(each.name, each.type, each.relation).qualified
        if isinstance(each := key.expression, Column)
        else None
        for key in keys
    ]


class ClosingGroups(NamedTuple):
    """Groups, in the order of their codes, that may have results to be given: of the windows from
    the first to the last one."""

    codes: Codes
    first: Ints
    last: Ints

    def at(self, window: int) -> Codes:
        """The places of the groups for which a window closes."""
        return np.flatnonzero((self.first <= window) & (window <= self.last))


class ClosedGroups:
    def __init__(self, node: WindowAggregate, folder: Folder) -> None:
        assert isinstance(node.window, Sliding)
        assert node.attribute is not None
        self._window = node.window
        self._bound = BoundOf(node.attribute)
        self._folder = folder
        self._types = [key.expression.type for key in node.keys]
        self._names = plain_names(node.keys)
        self._keys: list[int] = []  # those that punctuations speak of, once one has come
        self._given: HighestBounds | None = None  # the last window that was given out, by these
        self._places: Codes = np.zeros(0, np.int64)  # of the groups, among them

    @property
    def begun(self) -> bool:
        """Whether there has been anything to remember."""
        return self._given is not None

    def close(self, groups: GroupBounds | None, closed: Bound) -> ClosingGroups | None:
        """The groups that windows close for which are not `closed` for all; from now on, those
        count as given out."""
        if groups is None or closed == END:
            return None
        ticks = self._bound.of_groups(groups)
        if ticks is None or not set(groups.columns) <= set(self._names):
            return None
        if self._given is None:
            self._begin([self._names.index(column) for column in groups.columns])
            assert self._given is not None
        punctuated = self._given.codes(groups.keys, len(groups))
        first = self._given.of(punctuated) + 1
        if closed != BEGINNING:
            first = np.maximum(first, int(closed) + 1)
        last = floor_div(ticks, plus=-self._window.origin, by=self._window.slide) - 1
        self._given.raise_to(punctuated, last)
        places = self._placed()
        number = np.full(len(self._given), -1)
        number[punctuated] = np.arange(len(punctuated))
        codes = np.flatnonzero(number[places] >= 0)
        number = number[places[codes]]
        open_ = first[number] <= last[number]
        codes, number = codes[open_], number[open_]
        return ClosingGroups(codes, first[number], last[number]) if len(codes) else None

    def not_given(self, window: int, codes: Codes) -> Codes:
        """The groups whose results of a window have not been given out."""
        if self._given is None or self._given.highest < window:
            return codes
        return codes[self._given.of(self._placed()[codes]) < window]

    def first_open(self, window: int, codes: Codes) -> Ints:
        """From a window on, the first one whose results each group has not given out."""
        if self._given is None:
            return np.full(len(codes), window)
        return np.maximum(window, self._given.of(self._placed()[codes]) + 1)

    def _begin(self, keys: list[int]) -> None:
        self._keys = keys
        self._given = HighestBounds([self._types[key] for key in keys])

    def _placed(self) -> Codes:
        """The number of each group among the punctuated ones."""
        assert self._given is not None
        size = len(self._folder.keys)
        if len(self._places) < size:
            fresh = np.arange(len(self._places), size)
            columns = self._folder.keys.take(fresh)
            added = self._given.codes([columns[key] for key in self._keys], len(fresh))
            self._places = np.concatenate([self._places, added])
        return self._places

    def forget(self, closed: Bound) -> None:
        """Nothing has to be remembered about windows that are closed for all."""
        if self._given is not None and self._given.forget(closed):
            self._places = self._places[:0]

    def renumber(self, codes: Codes) -> None:
        """The groups in `codes` stay, and are numbered by their places there."""
        if self._given is not None:
            self._places = self._placed()[codes]

    def save(self, store: ChunkStore) -> None:
        if self._given is not None:
            store.put("closed keys", self._keys)
            self._given.save(Within(store, "closed/"))

    def load(self, store: ChunkStore) -> None:
        keys = store.get("closed keys")
        if keys is not None:
            self._begin(keys)
            assert self._given is not None
            self._given.load(Within(store, "closed/"))
