"""Bounds that hold for single groups, where groups are made by progressing keys (GROUP BY)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import Bound
from penstock.operators.bounds import BoundOf
from penstock.operators.groups.bounds import GroupBounds, HighestBounds
from penstock.operators.groups.closed import plain_names
from penstock.plan.expressions import Expression, Named
from penstock.state.chunks import ChunkStore, Within


class PunctuatedGroups:
    """What group-wise punctuations have promised about some progressing expressions."""

    def __init__(self, keys: Sequence[Named], expressions: Sequence[Expression]) -> None:
        self._names = plain_names(keys)
        self._types = [key.expression.type for key in keys]
        self._bounds = [BoundOf(expression) for expression in expressions]
        self._keys: list[int] = []  # those that punctuations speak of, once one has come
        self._highest: list[HighestBounds] = []  # by expression

    def take_in(self, groups: GroupBounds | None) -> bool:
        """Whether something is promised that groups can be told by."""
        if groups is None or not set(groups.columns) <= set(self._names):
            return False
        if not self._highest:
            self._begin([self._names.index(column) for column in groups.columns])
        for bound, highest in zip(self._bounds, self._highest, strict=True):
            ticks = bound.of_groups(groups)
            if ticks is not None:
                highest.raise_to(highest.codes(groups.keys, len(groups)), ticks)
        return True

    def of(self, columns: list[pa.Array]) -> Ints | None:
        """The bounds on each expression for groups with these keys; None if none is promised."""
        if not self._highest:
            return None
        punctuated, rows = [columns[key] for key in self._keys], len(columns[0])
        return np.stack([each.of(each.codes(punctuated, rows)) for each in self._highest])

    def forget(self, bounds: Sequence[Bound]) -> None:
        """What holds for all need not be known of groups."""
        for highest, bound in zip(self._highest, bounds, strict=False):
            highest.forget(bound)

    def _begin(self, keys: list[int]) -> None:
        self._keys = keys
        types = [self._types[key] for key in keys]
        self._highest = [HighestBounds(types) for _ in self._bounds]

    def save(self, store: ChunkStore) -> None:
        if self._highest:
            store.put("punctuated keys", self._keys)
        for number, highest in enumerate(self._highest):
            highest.save(Within(store, f"punctuated/{number}/"))

    def load(self, store: ChunkStore) -> None:
        keys = store.get("punctuated keys")
        if keys is not None:
            self._begin(keys)
        for number, highest in enumerate(self._highest):
            highest.load(Within(store, f"punctuated/{number}/"))
