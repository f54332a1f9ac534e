"""Group-wise punctuation: bounds on the tuples of single groups, in addition to those on all
tuples; as they pass operators and unions, and as a source computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.progress.sub_sources import BySubSource
from penstock.kernel.state import ChunkStore, Tree, Within, required
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, INT64_MIN, Schema, Type
from penstock.plan.expressions import Column

NONE = INT64_MIN  # the bound of a group without one
_MANY_BOUNDS = 4096  # groups below which none is forgotten
_BOUNDS_A_BLOCK = 1024  # bounds that are saved together


@dataclass(frozen=True, slots=True, eq=False)
class GroupBounds:
    """Group-wise punctuation.

    Punctuations of groups: no later tuple that has the values of row i of `keys` in `columns` is
    below `bounds[attribute][i]`, in ticks.  Columns go by their qualified names; no group is named
    twice.
    """

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
        self._look_again = _MANY_BOUNDS
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
            self._touched.update(np.unique(codes // _BOUNDS_A_BLOCK).tolist())

    def forget(self, bound: Bound) -> bool:
        """Evict the groups without a bound above the one that holds for all, once they are the
        majority; return whether that was so."""
        if len(self) < self._look_again or bound == END:
            return False
        least = NONE if bound == BEGINNING else int(bound)
        kept = np.flatnonzero(self._bounds[: len(self)] > least)
        self._look_again = max(_MANY_BOUNDS, 2 * len(kept))
        if 2 * len(kept) > len(self):
            return False
        self._keys = self._keys.only(kept)
        self._bounds = self._bounds[kept]
        self._touched = set(range(self._blocks))
        return True

    @property
    def _blocks(self) -> int:
        return -(-len(self) // _BOUNDS_A_BLOCK)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Write the blocks in which bounds have risen or groups are new."""
        self._keys.save(store)
        new = set(range(self._blocks)) - self._stored
        for block in sorted(self._touched | new):
            size = min(len(self), (block + 1) * _BOUNDS_A_BLOCK)
            store.put(f"group bounds/{block}", self._bounds[block * _BOUNDS_A_BLOCK : size])
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
            self._bounds[block * _BOUNDS_A_BLOCK : block * _BOUNDS_A_BLOCK + len(saved)] = saved
        self.highest = int(self._bounds.max(initial=NONE))


# Group-wise punctuation through a union: a bound on a group holds as far as every input has that
# bound, on the group or on all of its tuples.

_MANY_GROUPS = 4096  # groups below which none is forgotten
_GROUPS_A_BLOCK = 1024  # groups that are saved together


class MeldedGroups:
    """Bounds that the inputs of a union have on groups, by the columns that tell groups apart and
    the column that is bounded: inputs may punctuate by different columns.  Columns go by their
    origins, because they may have other names when a run continues."""

    def __init__(self, types: Mapping[str, Type], origins: Mapping[str, str], ports: int) -> None:
        """The types and `origins` of the columns of the union, by name."""
        self._types = types
        self._origins = origins
        self._ports = ports
        self._melded: dict[tuple[str, ...], _Melded] = {}

    def __len__(self) -> int:
        """Number of kinds of groups that have had bounds."""
        return len(self._melded)

    def risen(
        self,
        port: int,
        groups: GroupBounds | None,
        whole: Callable[[str], list[Bound]],
    ) -> list[GroupBounds]:
        """Merge the bounds of a port; return the bounds that have risen: for groups, under the
        names of the union, or for all tuples.  `whole` has the bounds of every port for all tuples,
        on a column."""
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
    """Groups by the values of some columns: a row of bounds for each port, and one of the bounds
    that have been emitted."""

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
        self._look_again = _MANY_GROUPS
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
        """Emit the groups whose bounds are higher than those emitted before, and than the bound on
        all tuples; the bounds of some have `risen`, those of others may have if those on all tuples
        have."""
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
        """Evict the groups on which no port has a higher bound than on all tuples, once they are
        the majority."""
        size = len(self._keys)
        if size < self._look_again:
            return
        needed = np.zeros(size, np.bool_)
        for own, bound in zip(self._bounds[:-1, :size], whole, strict=True):
            if bound != END:
                needed |= own > (NONE if bound == BEGINNING else int(bound))
        kept = np.flatnonzero(needed)
        self._look_again = max(_MANY_GROUPS, 2 * len(kept))
        if 2 * len(kept) <= size:
            self._keys = self._keys.only(kept)
            self._bounds = self._bounds[:, kept]
            self._touched = set(range(self._blocks))

    @property
    def _blocks(self) -> int:
        return -(-len(self._keys) // _GROUPS_A_BLOCK)

    def _touch(self, codes: Codes) -> None:
        self._touched.update(np.unique(codes // _GROUPS_A_BLOCK).tolist())

    def save(self, store: ChunkStore) -> None:
        self._keys.save(store)
        for block in sorted(self._touched):
            part = self._bounds[:, : len(self._keys)][
                :, block * _GROUPS_A_BLOCK : (block + 1) * _GROUPS_A_BLOCK
            ]
            store.put(f"bounds/{block}", part)
        for block in range(self._blocks, self._stored):
            store.drop(f"bounds/{block}")
        self._stored, self._touched = self._blocks, set()

    def load(self, store: ChunkStore) -> None:
        self._keys.load(store)
        self._stored = self._blocks
        parts = [required(store, f"bounds/{block}") for block in range(self._stored)]
        self._bounds = np.concatenate([self._bounds, *parts], axis=1)


# Bounds of a source group by group, computed on whole columns.


class GroupPromises:
    """Bounds of groups while a stream is read.  A tuple that is not below the highest of them
    breaks no bound, so that only other tuples are looked up."""

    def __init__(
        self, group: tuple[Column, ...], schema: Schema, attribute: str, names: list[str]
    ) -> None:
        """`attribute` and `names` are what the plan calls the progressing column, and all."""
        self._columns = [compile_expression(column, schema) for column in group]
        self._names = tuple(names[column.position(schema)] for column in group)
        self._attribute = attribute
        self._highest = HighestBounds([column.type for column in group])
        self._risen: list[Codes] = []  # groups whose bounds have not been emitted yet

    def before(
        self, batch: pa.RecordBatch, ticks: Ints, punctuates: Mask, said: Ints
    ) -> Ints | None:
        """The bound of its group before each row, NONE if there was none; None if no tuple is below
        a bound.  `ticks` of punctuations are lower than all bounds; `said` has the bounds of the
        punctuations, in their order."""
        highest = max(self._highest.highest, int(said.max(initial=NONE)))
        rows = np.flatnonzero(ticks < highest)
        if not len(rows):
            return None
        some = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        codes = self._highest.codes([column(some) for column in self._columns], len(rows))
        started = self._highest.of(codes)
        if len(said):
            promising = punctuates[rows]
            after = np.full(len(rows), NONE)
            after[promising] = said
            found = running_highest(codes, started, after)
            self._raise(codes[promising], said)
        else:
            found = started
        before = np.full(batch.num_rows, NONE)
        before[rows] = found
        return before if ((ticks < before) & ~punctuates).any() else None

    def of(self, keys: list[pa.Array]) -> Ints:
        """The bounds of some groups, NONE of those that have none."""
        if self._highest.highest == NONE:
            return np.full(len(keys[0]), NONE)
        return self._highest.of(self._highest.codes(keys, len(keys[0])))

    def raise_to(self, keys: list[pa.Array], said: Ints) -> None:
        """Merge bounds that were read elsewhere."""
        self._raise(self._highest.codes(keys, len(said)), said)

    def _raise(self, codes: Codes, said: Ints) -> None:
        groups = np.unique(codes)
        before = self._highest.of(groups)
        self._highest.raise_to(codes, said)
        self._risen.append(groups[self._highest.of(groups) > before])

    def told(self, low: Bound) -> GroupBounds | None:
        """Emit the bounds that have risen since the last time, as far as they are above the one
        that holds for all tuples; others are evicted."""
        told = None
        if self._risen:
            codes = np.unique(np.concatenate(self._risen))
            codes = codes[self._highest.of(codes) > low]
            self._risen = []
            if len(codes):
                bounds = {self._attribute: self._highest.of(codes)}
                told = GroupBounds(self._names, self._highest.keys(codes), bounds)
        self._highest.forget(low)
        return told

    def save(self, store: ChunkStore) -> None:
        self._highest.save(store)

    def load(self, store: ChunkStore) -> None:
        self._highest.load(store)


def running_highest(codes: Codes, started: Ints, after: Ints) -> Ints:
    """For each row, the highest of the bound that its group started with and of those after the
    rows of the group before it.

    >>> codes, started = np.array([0, 1, 0, 0, 1]), np.array([5, 2, 5, 5, 2])
    >>> running_highest(codes, started, np.array([7, 9, 1, 8, 3]))
    array([5, 2, 7, 7, 9])
    """
    rows = BySubSource.of(codes)
    before, _ = rows.highest_before(rows.sorted(started)[rows.begins], rows.sorted(after))
    return rows.restored(before)
