"""Group-wise punctuation: bounds on the tuples of single groups, beside those on all tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MIN, Type
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.folding.scatter import grown
from penstock.state.chunks import ChunkStore, required

NONE = INT64_MIN  # the bound of a group about which nothing was said
_MANY = 4096  # groups below which none is forgotten
_BLOCK = 1024  # bounds that are saved together


@dataclass(frozen=True, slots=True, eq=False)
class GroupBounds:
    """Punctuations of groups: no later tuple that has the values of row i of `keys` in `columns` is
    below `bounds[attribute][i]`, in ticks.  Columns go by their qualified names; no group is named
    twice."""

    columns: tuple[str, ...]
    keys: list[pa.Array]
    bounds: Mapping[str, Ints]

    def __len__(self) -> int:
        return len(self.keys[0])

    def renamed(self, names: Mapping[str, str]) -> GroupBounds:
        columns = tuple(names[column] for column in self.columns)
        bounds = {names[name]: ticks for name, ticks in self.bounds.items()}
        return GroupBounds(columns, self.keys, bounds)


class HighestBounds:
    """The highest bound of each group that has had one, by the number of the group."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = list(types)
        self._keys = KeyCodes(self._types)
        self._bounds: Ints = np.zeros(0, np.int64)
        self.highest = NONE  # of all groups
        self._look_again = _MANY
        self._touched: set[int] = set()  # blocks, since the last save
        self._stored: set[int] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def codes(self, columns: Sequence[pa.Array], rows: int) -> Codes:
        codes = self._keys.encode(columns, rows)
        self._bounds = grown(self._bounds, len(self._keys), NONE)
        return codes

    def keys(self, codes: Codes) -> list[pa.Array]:
        return self._keys.take(codes)

    def of(self, codes: Codes) -> Ints:
        bounds: Ints = self._bounds[codes]
        return bounds

    def raise_to(self, codes: Codes, bounds: Ints) -> None:
        """Bounds never move back."""
        if len(codes):
            np.maximum.at(self._bounds, codes, bounds)
            self.highest = max(self.highest, int(bounds.max()))
            self._touched.update(np.unique(codes // _BLOCK).tolist())

    def forget(self, bound: Bound) -> bool:
        """Give up the groups that have no bound above one that holds for all, once they are the
        most; whether that was so, and the others have new numbers."""
        if len(self) < self._look_again or bound == END:
            return False
        least = NONE if bound == BEGINNING else int(bound)
        kept = np.flatnonzero(self._bounds[: len(self)] > least)
        self._look_again = max(_MANY, 2 * len(kept))
        if 2 * len(kept) > len(self):
            return False
        self._keys = self._keys.only(kept)
        self._bounds = self._bounds[kept]
        self._touched = set(range(self._blocks))
        return True

    @property
    def _blocks(self) -> int:
        return -(-len(self) // _BLOCK)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Write the blocks in which bounds have risen or groups are new."""
        self._keys.save(store)
        new = set(range(self._blocks)) - self._stored
        for block in sorted(self._touched | new):
            size = min(len(self), (block + 1) * _BLOCK)
            store.put(f"group bounds/{block}", self._bounds[block * _BLOCK : size])
        for block in self._stored - set(range(self._blocks)):
            store.drop(f"group bounds/{block}")
        self._stored = set(range(self._blocks))
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        self._keys.load(store)
        self._bounds = grown(self._bounds, len(self._keys), NONE)
        self._stored = set(range(self._blocks))
        for block in self._stored:
            saved: Ints = required(store, f"group bounds/{block}")
            self._bounds[block * _BLOCK : block * _BLOCK + len(saved)] = saved
        self.highest = int(self._bounds.max(initial=NONE))
