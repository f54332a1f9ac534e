"""The ledger of emitted rows: comparing sets of rows to the last bit, the rows emitted for groups
and windows, results that have no value yet, and the steps above that may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.kernel.batch import Batch, Signs
from penstock.kernel.grouping.folding import Folder
from penstock.kernel.grouping.keys import comparable
from penstock.kernel.state import Tree
from penstock.kernel.stateless import WayOut
from penstock.kernel.windows.results import window_columns
from penstock.model.arrays import Codes, Ints, Mask, first_rows, stable_order
from penstock.plan.expressions import may_fail
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.node import Filter, Node, Project
from penstock.plan.physical import Steps

# Rows that are the same to the last bit, and the difference of two sets of rows.


def numbers_of(columns: Iterable[pa.Array], size: int) -> Ints:
    """A number for each of so many rows, the same for rows that are alike.

    >>> numbers_of([pa.array([1.0, None, 1.0]), pa.array(["a", "a", "a"])], 3)
    array([0, 1, 0])
    """
    numbers: Ints = np.zeros(size, np.int64)
    for array in columns:
        if pa.types.is_floating(array.type):
            bits = np.asarray(array.fill_null(0.0)).view(np.int64)
            array = pa.array(bits, mask=np.asarray(array.is_null()))
        elif pa.types.is_nested(array.type):  # which Arrow does not number
            array = pa.array(map(repr, array.to_pylist()), pa.string())
        encoded = array.dictionary_encode(null_encoding="encode")
        size = len(encoded.dictionary)
        # numbered again after every column, so that no product can overflow
        numbers = first_rows(numbers * size + np.asarray(encoded.indices))[1]
    return numbers


def apart(before: pa.RecordBatch, now: pa.RecordBatch) -> tuple[Ints, Ints]:
    """The places of rows that are only among those `before`, and of those that are only among those
    `now`; of rows alike, as many as there are more of.

    >>> before, now = pa.record_batch({"v": [1, 1, 2]}), pa.record_batch({"v": [2, 1, 3]})
    >>> apart(before, now)
    (array([1]), array([2]))
    """
    pairs = zip(before.columns, now.columns, strict=True)
    joined = (pa.concat_arrays(pair) for pair in pairs)
    numbers = numbers_of(joined, before.num_rows + now.num_rows)
    old, new = numbers[: before.num_rows], numbers[before.num_rows :]
    return _beyond(old, new), _beyond(new, old)


def _beyond(numbers: Ints, others: Ints) -> Ints:
    """The places of numbers that the others do not have, or not as often: the last of them."""
    order = stable_order(numbers)
    ordered = numbers[order]
    within = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, "left")
    others = np.sort(others)
    there = np.searchsorted(others, ordered, "right") - np.searchsorted(others, ordered, "left")
    return np.sort(order[within >= there])


# Rows that have been emitted for groups, and the changes that lead from them to new rows.
#
# Results that may be revised are remembered as they were emitted, so that a retraction always
# refers to a row that was emitted, whatever an aggregate would compute the second time.


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups by their codes, which ascend, and the columns of their results; also, groups whose
    results have no value, and why."""

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
        """Reorder the groups, for emission."""
        indices = pa.array(places)
        return Groups(self.codes[places], [column.take(indices) for column in self.columns])


class Emitted:
    """Rows that have been emitted for the groups of one window."""

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups

    def revise(self, now: Groups, among: Codes | None = None) -> tuple[Groups | None, Groups]:
        """Rows to retract and rows to emit, so that the emitted rows become `now`.  If `among`
        names groups (ascending), the others do not change."""
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
    """Place of each code among others, and whether it is there at all."""
    if len(among) == 0:
        return np.zeros(len(codes), np.int64), np.zeros(len(codes), np.bool_)
    place = np.minimum(np.searchsorted(among, codes), len(among) - 1)
    return place, among[place] == codes


def same_rows(before: Sequence[pa.Array], now: Sequence[pa.Array]) -> Mask | None:
    """Mask of the rows that are the same in every column, to the last bit; None if there are no
    columns."""
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


# Results that are not final yet, and may have no value: a sum can be too large for its type until
# the tuple comes that brings it down again.
#
# Such a result is not emitted.  It is an error only if it is one when nothing can change it any
# more, so it does not depend on which tuples came together.

Finish = Callable[[Codes], list[pa.Array]]


class Provisional(NamedTuple):
    """The groups that have a value and their results, those that have none, and why."""

    codes: Codes
    columns: list[pa.Array]
    failing: Codes
    error: RunError | None


def provisional(finish: Finish, codes: Codes) -> Provisional:
    """Compute the results of some groups, as far as they have a value; halve the groups to find
    those that fail."""
    try:
        return Provisional(codes, finish(codes), codes[:0], None)
    except RunError as error:
        if len(codes) == 1:
            return Provisional(codes[:0], finish(codes[:0]), codes, error)
    half = len(codes) // 2
    first, second = provisional(finish, codes[:half]), provisional(finish, codes[half:])
    pairs = zip(first.columns, second.columns, strict=True)
    return Provisional(
        np.concatenate([first.codes, second.codes]),
        [pa.concat_arrays(pair) for pair in pairs],
        np.concatenate([first.failing, second.failing]),
        first.error or second.error,
    )


class Failing:
    """Groups of windows whose results have no value at present."""

    def __init__(self) -> None:
        self._codes: dict[int, set[int]] = {}

    def note(self, wid: int, failing: Codes, among: Codes | None) -> None:
        """Register the groups that fail now, of all groups of a window, or `among` some."""
        left = set() if among is None else self._codes.get(wid, set()) - set(among.tolist())
        left.update(failing.tolist())
        if left:
            self._codes[wid] = left
        else:
            self._codes.pop(wid, None)

    def upto(self, last: float) -> Iterable[tuple[int, Codes]]:
        """Windows up to `last` that have failing groups, and those groups."""
        for wid in sorted(self._codes):
            if wid <= last:
                yield wid, np.array(sorted(self._codes[wid]), np.int64)

    def renumber(self, place: Codes) -> None:
        self._codes = {wid: {int(place[c]) for c in codes} for wid, codes in self._codes.items()}

    def save(self) -> Tree:
        return [[wid, sorted(codes)] for wid, codes in self._codes.items()]

    def load(self, saved: Tree) -> None:
        self._codes = {wid: set(codes) for wid, codes in saved or []}


# Signed rows of a window aggregation: retractions, and the rows that replace them.


class Revisions:
    """Gathers the changes of several windows into one batch."""

    def __init__(self, node: WindowAggregate, folder: Folder) -> None:
        self._node = node
        self._folder = folder
        self._ids: list[Ints] = []
        self._groups: list[Groups] = []
        self._signs: list[Signs] = []

    def add(self, wid: int, taken: Groups | None, given: Groups) -> None:
        for sign, groups in ((-1, taken), (1, given)):
            if groups is not None and len(groups):
                groups = groups.in_order(self._folder.keys.order_of(groups.codes))
                self._ids.append(np.full(len(groups), wid, np.int64))
                self._groups.append(groups)
                self._signs.append(np.full(len(groups), sign, np.int8))

    def batch(self) -> Batch | None:
        if not self._groups:
            return None
        ids = np.concatenate(self._ids)
        columns = _columns(self._node, self._folder, ids, joined(self._groups))
        return signed(columns, self._node.schema.arrow, np.concatenate(self._signs))


def result_rows(
    node: WindowAggregate, folder: Folder, found: list[tuple[int, Groups]]
) -> pa.RecordBatch:
    """Results of windows as rows, in the order in which they are given."""
    schema = node.schema.arrow
    if not found:
        return pa.RecordBatch.from_pylist([], schema)
    ids = np.repeat([wid for wid, _ in found], [len(groups) for _, groups in found])
    columns = _columns(node, folder, ids, joined([groups for _, groups in found]))
    return pa.RecordBatch.from_arrays(typed(columns, schema.types), schema=schema)


def _columns(node: WindowAggregate, folder: Folder, ids: Ints, groups: Groups) -> list[pa.Array]:
    return [*window_columns(node, ids), *folder.keys.take(groups.codes), *groups.columns]


def joined(several: list[Groups]) -> Groups:
    """Groups behind each other."""
    if len(several) == 1:
        return several[0]
    columns = zip(*(groups.columns for groups in several), strict=True)
    codes = np.concatenate([groups.codes for groups in several])
    return Groups(codes, [pa.concat_arrays(parts) for parts in columns])


def signed(columns: list[pa.Array], schema: pa.Schema, signs: Signs) -> Batch:
    """The columns in the types of a schema, and a sign for each row."""
    batch = pa.RecordBatch.from_arrays(typed(columns, schema.types), schema=schema)
    return Batch(batch, signs)


def typed(columns: list[pa.Array], types: list[pa.DataType]) -> list[pa.Array]:
    pairs = zip(columns, types, strict=True)
    return [column if column.type == each else column.cast(each) for column, each in pairs]


# Check of provisional rows against the steps above: the filters and projections between the
# operator that emits them and the end of the query.
#
# A row that would fail there is not emitted before it is final, as if the aggregate itself
# had no value: so the operator tries its results first.  Only it knows which are final.

Found = list[tuple[int, Groups]]  # results by window


class Above:
    """Check of results against the next steps, as far as one of these may fail."""

    def __init__(self, steps: Steps) -> None:
        self._way = WayOut(steps)

    @staticmethod
    def of(steps: Steps) -> Above | None:
        """Make a check; None if nothing can fail there."""
        failing = [place for place, (node, _) in enumerate(steps) if _may_fail(node)]
        return Above(steps[: failing[-1] + 1]) if failing else None

    def attempt(self, rows: pa.RecordBatch) -> None:
        """Raise the error of rows that fail, if there are any."""
        if rows.num_rows:
            self._way.through(Batch(rows))

    def tried(
        self, node: WindowAggregate, folder: Folder, found: Iterable[tuple[int, Groups]]
    ) -> Found:
        """The results of windows, without the groups that fail."""
        several = [(wid, groups) for wid, groups in found]
        rows = result_rows(node, folder, several)
        failing = self.failing(rows).failing
        if len(failing) == 0:
            return several
        made, begin = [], 0
        for wid, groups in several:
            inside = (failing >= begin) & (failing < begin + len(groups))
            places = failing[inside] - begin
            if len(places):
                # an error of its own: that of another window may never come to be
                error = self.failing(rows.slice(begin + int(places[0]), 1)).error
                made.append((wid, _without(groups, places, error)))
            else:
                made.append((wid, groups))
            begin += len(groups)
        return made

    def failing(self, rows: pa.RecordBatch) -> Provisional:
        """Find the rows that fail, by their places."""

        def finish(places: Codes) -> list[pa.Array]:
            self.attempt(rows if len(places) == len(rows) else rows.take(pa.array(places)))
            return []

        return provisional(finish, np.arange(rows.num_rows))


def _without(groups: Groups, places: Codes, error: RunError | None) -> Groups:
    left = groups.take(np.setdiff1d(np.arange(len(groups)), places))
    failing = np.union1d(groups.failing, groups.codes[places])
    return Groups(left.codes, left.columns, failing, groups.error or error)


def _may_fail(node: Node) -> bool:
    match node:
        case Filter():
            return may_fail(node.predicate)
        case Project():
            return any(may_fail(column.expression) for column in node.columns)
    return False
