"""What has been said about groups, and how it differs from what is to be said now.

Results that may be revised are remembered as they were given out, so that a negative item always
takes back a row that is there, whatever an aggregate would compute the second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.model.arrays import Codes, Mask
from penstock.operators.folding.key_order import comparable
from penstock.state.chunks import Tree


@dataclass(frozen=True, slots=True)
class Groups:
    """Some groups by their codes, which ascend, and the columns of their results; besides, groups
    whose results have no value, and why."""

    codes: Codes
    columns: list[pa.Array]
    failing: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    error: RunError | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, places: Codes) -> Groups:
        if len(places) == len(self.codes):
            return self  # all of them; places ascend
        indices = pa.array(places)
        return Groups(self.codes[places], [column.take(indices) for column in self.columns])

    def in_order(self, places: Codes) -> Groups:
        """The same groups in another order, to be given out."""
        indices = pa.array(places)
        return Groups(self.codes[places], [column.take(indices) for column in self.columns])


class Emitted:
    """What has been said about the groups of one window."""

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups

    def revise(self, now: Groups, among: Codes | None = None) -> tuple[Groups | None, Groups]:
        """The rows to take back and the rows to give, so that what has been said becomes `now`.
        If `among` names groups (ascending), the others stay as they are."""
        before = self._groups
        if before is None or len(before) == 0:
            self._groups = now
            return None, now
        place, found = _places(before.codes, now.codes)
        stays = np.zeros(len(before), np.bool_)
        old, new = np.flatnonzero(found), place[found]
        same = same_rows(before.take(old).columns, [column.take(new) for column in now.columns])
        stays[old] = True if same is None else same
        fresh = np.ones(len(now), np.bool_)
        fresh[new] = ~stays[old]
        if among is not None:
            stays |= ~_places(before.codes, among)[1]
        taken, given = before.take(np.flatnonzero(~stays)), now.take(np.flatnonzero(fresh))
        if len(taken) or len(given):
            self._groups = _joined(before.take(np.flatnonzero(stays)), given)
        return taken, given

    def renumber(self, place: Codes) -> None:
        """Give every group a new code; their order stays."""
        if self._groups is not None:
            self._groups = Groups(place[self._groups.codes], self._groups.columns)

    def save(self) -> Tree:
        return None if self._groups is None else [self._groups.codes, self._groups.columns]

    @staticmethod
    def load(saved: Tree) -> Emitted:
        return Emitted(None if saved is None else Groups(saved[0], saved[1]))


def _places(codes: Codes, among: Codes) -> tuple[Codes, Mask]:
    """Where each code is among others, and whether it is there at all."""
    if len(among) == 0:
        return np.zeros(len(codes), np.int64), np.zeros(len(codes), np.bool_)
    place = np.minimum(np.searchsorted(among, codes), len(among) - 1)
    return place, among[place] == codes


def same_rows(before: Sequence[pa.Array], now: Sequence[pa.Array]) -> Mask | None:
    """Which rows are the same in every column, to the last bit; None if there are no columns."""
    same: Mask | None = None
    for old, new in zip(before, now, strict=True):
        equal = _equal(old, new)
        same = equal if same is None else same & equal
    return same


def _equal(old: pa.Array, new: pa.Array) -> Mask:
    both_null = np.asarray(pc.and_(old.is_null(), new.is_null()))
    if pa.types.is_floating(old.type):  # NaN is itself here, and −0.0 is not 0.0
        bits = [np.asarray(each.fill_null(0.0)).view(np.int64) for each in (old, new)]
        equal = (bits[0] == bits[1]) & np.asarray(pc.and_(old.is_valid(), new.is_valid()))
    elif pa.types.is_nested(old.type):
        ranks = np.asarray(comparable(pa.concat_arrays([old, new])))
        equal = ranks[: len(old)] == ranks[len(old) :]
    else:
        equal = np.asarray(pc.equal(old, new).fill_null(False))
    same: Mask = equal | both_null
    return same


def _joined(one: Groups, other: Groups) -> Groups:
    codes = np.concatenate([one.codes, other.codes])
    order = np.argsort(codes)
    pairs = zip(one.columns, other.columns, strict=True)
    indices = pa.array(order)
    columns = [pa.concat_arrays(pair).take(indices) for pair in pairs]
    return Groups(codes[order], columns)
