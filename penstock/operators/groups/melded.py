"""Group-wise punctuation through a union: a bound on a group holds as far as every input has
promised it, for the group or for all of its tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, Type
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.groups.bounds import NONE, GroupBounds
from penstock.state.chunks import ChunkStore, Tree, Within, required

_MANY = 4096  # groups below which none is forgotten
_BLOCK = 1024  # groups that are saved together


class MeldedGroups:
    """What inputs have promised for groups, by the columns that tell groups apart and the column
    that is bounded: inputs may differ in what they speak of.  Columns go by where they come from,
    because they may be called something else when a run goes on."""

    def __init__(self, types: Mapping[str, Type], origins: Mapping[str, str], ports: int) -> None:
        """The types and `origins` of the columns of the union, by name."""
        self._types = types
        self._origins = origins
        self._ports = ports
        self._melded: dict[tuple[str, ...], _Melded] = {}

    def __len__(self) -> int:
        """How many kinds of groups have been spoken of."""
        return len(self._melded)

    def risen(
        self,
        port: int,
        groups: GroupBounds | None,
        whole: Callable[[str], list[Bound]],
    ) -> list[GroupBounds]:
        """The bounds that have risen when a port has promised something: for groups, under the
        names of the union, or for all tuples.  `whole` says what every port has promised for all,
        about a column."""
        raised: dict[_Melded, Codes] = {}
        if groups is not None:
            pairs = sorted(
                zip(groups.columns, groups.keys, strict=True), key=lambda pair: self._origin(pair)
            )
            columns = tuple(column for column, _ in pairs)
            for attribute, ticks in groups.bounds.items():
                melded = self._of(columns, attribute)
                raised[melded] = melded.raise_to(port, [key for _, key in pairs], ticks)
        found = []
        for melded in self._melded.values():
            bounds = whole(melded.attribute)
            told = melded.told(bounds, raised.get(melded))
            if told is not None:
                keys, ticks = told
                found.append(GroupBounds(melded.columns, keys, {melded.attribute: ticks}))
            melded.forget(bounds)
        return found

    def _origin(self, pair: tuple[str, pa.Array]) -> str:
        return self._origins[pair[0]]

    def _of(self, columns: tuple[str, ...], attribute: str) -> _Melded:
        key = tuple(self._origins[name] for name in (*columns, attribute))
        if key not in self._melded:
            number = 1 + max((each.number for each in self._melded.values()), default=-1)
            self._melded[key] = self._new(number, columns, attribute)
        return self._melded[key]

    def _new(self, number: int, columns: tuple[str, ...], attribute: str) -> _Melded:
        types = [self._types[column] for column in columns]
        return _Melded(number, columns, attribute, types, self._ports)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        if self._melded:
            kinds: Tree = [[each.number, list(key)] for key, each in self._melded.items()]
            store.put("groups", kinds)
        for each in self._melded.values():
            each.save(Within(store, f"groups/{each.number}/"))

    def load(self, store: ChunkStore) -> None:
        names = {origin: name for name, origin in self._origins.items()}
        for number, key in store.get("groups") or ():
            own = Within(store, f"groups/{number}/")
            if not names.keys() >= set(key):  # the query has done without some column since
                for chunk in list(own.names()):
                    own.drop(chunk)
                continue
            *columns, attribute = (names[origin] for origin in key)
            self._melded[tuple(key)] = melded = self._new(number, tuple(columns), attribute)
            melded.load(own)


class _Melded:
    """Groups by the values of some columns: a row of bounds for each port, and one of what has been
    told."""

    def __init__(
        self,
        number: int,
        columns: tuple[str, ...],
        attribute: str,
        types: Sequence[Type],
        ports: int,
    ) -> None:
        self.number = number  # of its chunks
        self.columns = columns
        self.attribute = attribute
        self._keys = KeyCodes(types)
        self._bounds: Ints = np.zeros((ports + 1, 0), np.int64)
        self._whole: Sequence[Bound] = ()  # as it was the last time
        self._look_again = _MANY
        self._touched: set[int] = set()  # blocks, since the last save
        self._stored = 0

    def raise_to(self, port: int, keys: list[pa.Array], ticks: Ints) -> Codes:
        codes = self._keys.encode(keys, len(ticks))
        size = len(self._keys)
        if self._bounds.shape[1] < size:
            more = np.full((len(self._bounds), max(size, 64) * 2), NONE)
            more[:, : self._bounds.shape[1]] = self._bounds
            self._bounds = more
        np.maximum.at(self._bounds[port], codes, ticks)
        self._touch(codes)
        return codes

    def told(
        self, whole: Sequence[Bound], risen: Codes | None
    ) -> tuple[list[pa.Array], Ints] | None:
        """The groups whose bounds are higher than what has been told, and than what holds for all;
        the bounds of some have `risen`, those of others may have if those on all tuples have."""
        if whole != self._whole:
            codes = np.arange(len(self._keys))
            self._whole = whole
        elif risen is not None:
            codes = np.unique(risen)
        else:
            return None
        lowest: Ints = np.full(len(codes), INT64_MAX)
        for own, bound in zip(self._bounds[:-1], whole, strict=True):
            if bound != END:
                least = NONE if bound == BEGINNING else int(bound)
                lowest = np.minimum(lowest, np.maximum(own[codes], least))
        above = lowest > self._bounds[-1][codes]
        slowest = min(whole)
        if slowest != BEGINNING:
            above &= lowest > slowest
        codes, lowest = codes[above], lowest[above]
        if not len(codes):
            return None
        self._bounds[-1][codes] = lowest
        self._touch(codes)
        return self._keys.take(codes), lowest

    def forget(self, whole: Sequence[Bound]) -> None:
        """Give up the groups about which no port has promised more than about all tuples, once they
        are the most."""
        size = len(self._keys)
        if size < self._look_again:
            return
        needed = np.zeros(size, np.bool_)
        for own, bound in zip(self._bounds[:-1, :size], whole, strict=True):
            if bound != END:
                needed |= own > (NONE if bound == BEGINNING else int(bound))
        kept = np.flatnonzero(needed)
        self._look_again = max(_MANY, 2 * len(kept))
        if 2 * len(kept) <= size:
            self._keys = self._keys.only(kept)
            self._bounds = self._bounds[:, kept]
            self._touched = set(range(self._blocks))

    @property
    def _blocks(self) -> int:
        return -(-len(self._keys) // _BLOCK)

    def _touch(self, codes: Codes) -> None:
        self._touched.update(np.unique(codes // _BLOCK).tolist())

    def save(self, store: ChunkStore) -> None:
        self._keys.save(store)
        for block in sorted(self._touched):
            part = self._bounds[:, : len(self._keys)][:, block * _BLOCK : (block + 1) * _BLOCK]
            store.put(f"bounds/{block}", part)
        for block in range(self._blocks, self._stored):
            store.drop(f"bounds/{block}")
        self._stored, self._touched = self._blocks, set()

    def load(self, store: ChunkStore) -> None:
        self._keys.load(store)
        self._stored = self._blocks
        parts = [required(store, f"bounds/{block}") for block in range(self._stored)]
        self._bounds = np.concatenate([self._bounds, *parts], axis=1)
