"""Folding of batches: arguments of aggregates, group codes, partial results of all aggregates,
eviction of dead keys, and small batches that wait to be folded together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import arrow
from penstock.expressions.compiler import compile_expression, compile_predicate
from penstock.kernel.aggregates.aggregate import Aggregate
from penstock.kernel.aggregates.build import build
from penstock.kernel.aggregates.sums import Count, Counts
from penstock.kernel.batch import Batch
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.types import Schema
from penstock.plan.expressions import AggregateCall, Column, Named, columns_of
from penstock.plan.nodes.aggregation import NamedAggregate


@dataclass(slots=True)  # not frozen, like batches
class Arguments:
    """Arguments of one aggregate for some rows: the rows that pass its FILTER and have no NULLs
    (None: all), and the columns there."""

    chosen: Mask | None
    columns: list[pa.Array]


NO_ARGUMENTS = Arguments(None, [])


class ArgumentsOf:
    """Arguments of an aggregate that differ from row to row: without the constants at the end."""

    def __init__(self, call: AggregateCall, schema: Schema) -> None:
        arguments = call.arguments[: len(call.arguments) - call.function.constants]
        self._holds = compile_predicate(call.where, schema) if call.where is not None else None
        self._positions: list[int] | None = None  # of the columns that are looked at, if filtered
        if self._holds is not None and not all(isinstance(each, Column) for each in arguments):
            used = {column.position(schema) for each in arguments for column in columns_of(each)}
            self._positions = sorted(used)
            schema = Schema(tuple(schema.fields[position] for position in self._positions))
            self._schema = schema.arrow
        self._columns = [compile_expression(each, schema) for each in arguments]
        # whether all rows count, regardless of their values
        self.takes_all = self._holds is None and not self._columns

    def of(self, batch: pa.RecordBatch) -> Arguments:
        if self._holds is None:
            return _without_nulls([column(batch) for column in self._columns], None)
        mask = self._holds(batch)
        if self._positions is None:
            columns = [column(batch).filter(mask) for column in self._columns]
        else:
            columns = [column(self._passing(batch, mask)) for column in self._columns]
        return _without_nulls(columns, np.asarray(mask))

    def _passing(self, batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
        assert self._positions is not None
        if not self._positions:  # constants: as many as there are rows
            return batch.select([0]).filter(mask)
        arrays = [batch.column(position).filter(mask) for position in self._positions]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _without_nulls(columns: list[pa.Array], mask: Mask | None) -> Arguments:
    """The columns have a value for each row of the mask."""
    if any(column.null_count for column in columns):
        valid = np.ones(len(columns[0]), np.bool_)
        for column in columns:
            valid &= np.asarray(pc.is_valid(column))
        columns = [column.filter(pa.array(valid)) for column in columns]
        if mask is None:
            mask = valid
        else:
            mask = mask.copy()
            mask[mask] = valid
    return Arguments(mask, columns)


# From batches to the rows that window algorithms fold: ticks, group codes and aggregate arguments.
#
# `Folder` is the part of aggregation that all algorithms share; they differ in which partial
# results they keep.

_TAKE = arrow("take", pc.TakeOptions(boundscheck=False))


@dataclass
class Partials:
    """The partial results of all aggregates over some tuples, and how many tuples there were.  What
    count(*) has as its part may be `rows` itself: then it is folded and merged with them."""

    rows: Counts
    parts: list[Any]


@dataclass(slots=True)  # not frozen, like batches
class Rows:
    """Some rows, ready to be folded."""

    codes: Codes
    positions: Ints
    arguments: list[Arguments]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, order: Ints) -> Rows:
        """The rows in another order, or some of them."""
        return Rows(self.codes[order], self.positions[order], self.arguments_at(order))

    def arguments_at(self, order: Ints) -> list[Arguments]:
        arguments = []
        indices: pa.Array | None = None
        for each in self.arguments:
            if each.chosen is None:
                indices = pa.array(order) if indices is None and each.columns else indices
                columns = [_TAKE(column, indices) for column in each.columns]
                arguments.append(Arguments(None, columns))
            else:
                chosen = each.chosen[order]
                place = np.cumsum(each.chosen) - 1
                inner = pa.array(place[order[chosen]])
                arguments.append(Arguments(chosen, [_TAKE(c, inner) for c in each.columns]))
        return arguments

    def slice(self, begin: int, end: int) -> Rows:
        """Neighbouring rows, without copying."""
        arguments = []
        for each in self.arguments:
            if each.chosen is None:
                columns = [column.slice(begin, end - begin) for column in each.columns]
                arguments.append(Arguments(None, columns))
            else:
                before = int(np.count_nonzero(each.chosen[:begin]))
                chosen = each.chosen[begin:end]
                count = int(np.count_nonzero(chosen))
                columns = [column.slice(before, count) for column in each.columns]
                arguments.append(Arguments(chosen, columns))
        return Rows(self.codes[begin:end], self.positions[begin:end], arguments)

    def save(self) -> Tree:
        arguments = [[each.chosen, each.columns] for each in self.arguments]
        return {"codes": self.codes, "positions": self.positions, "arguments": arguments}

    @staticmethod
    def load(saved: Tree) -> Rows:
        arguments = [Arguments(chosen, columns) for chosen, columns in saved["arguments"]]
        return Rows(saved["codes"], saved["positions"], arguments)


class Folder:
    """The keys and aggregates of one aggregation."""

    def __init__(
        self,
        keys: Sequence[Named],
        calls: Sequence[NamedAggregate],
        schema: Schema,
        key_order: Sequence[int] = (),
    ) -> None:
        self.keys = KeyCodes([key.expression.type for key in keys], key_order)
        self._key_columns = [compile_expression(key.expression, schema) for key in keys]
        self.aggregates: list[Aggregate[Any]] = [build(each.call) for each in calls]
        self._arguments = [ArgumentsOf(each.call, schema) for each in calls]
        self._counts_rows = [
            isinstance(made, Count) and not each.call.arguments and each.call.where is None
            for made, each in zip(self.aggregates, calls, strict=True)
        ]

    @property
    def differential(self) -> bool:
        return all(aggregate.differential for aggregate in self.aggregates)

    def rows(self, batch: pa.RecordBatch, positions: Ints) -> Rows:
        """Rows that count: keys and arguments need not have a value for any others."""
        codes = self.codes(batch)
        return Rows(codes, positions, [each.of(batch) for each in self._arguments])

    def row(self, batch: Batch, position: int) -> Rows:
        """Prepare a single tuple; its columns are made only if they are used."""
        codes = self.codes(batch.rows) if self._key_columns else np.zeros(1, np.int64)
        arguments = [
            NO_ARGUMENTS if each.takes_all else each.of(batch.rows) for each in self._arguments
        ]
        return Rows(codes, np.array([position]), arguments)

    def codes(self, batch: pa.RecordBatch) -> Codes:
        """The groups of rows."""
        keys = [column(batch) for column in self._key_columns]
        return self.keys.encode(keys, batch.num_rows)

    def new(self) -> Partials:
        return self._of_size(max(1, len(self.keys)))

    def _of_size(self, size: int) -> Partials:
        rows = Counts(size)
        pairs = zip(self.aggregates, self._counts_rows, strict=True)
        return Partials(rows, [rows if counts else each.new(size) for each, counts in pairs])

    def folded(self, rows: Rows, size: int) -> Partials:
        """New partial results of `size` groups that the codes of the rows number."""
        partials = self._of_size(size)
        self._fold(partials, rows)
        return partials

    def fold(self, partials: Partials, rows: Rows) -> None:
        self.grow(partials)
        self._fold(partials, rows)

    def _fold(self, partials: Partials, rows: Rows) -> None:
        counts = partials.rows
        counts.fold(rows.codes)
        pairs = zip(self.aggregates, partials.parts, rows.arguments, strict=True)
        for aggregate, part, arguments in pairs:
            if part is counts:
                continue
            if arguments.chosen is None:
                aggregate.fold(part, rows.codes, arguments.columns, rows.positions)
            elif arguments.chosen.any():
                codes, positions = rows.codes[arguments.chosen], rows.positions[arguments.chosen]
                aggregate.fold(part, codes, arguments.columns, positions)

    def fold_apart(self, partials: Partials, rows: Rows, size: int) -> None:
        """Fold rows whose codes number something else than keys, `size` of them."""
        self.grow_to(partials, size)
        self._fold(partials, rows)

    def grow(self, partials: Partials, least: int = 0) -> None:
        """Make room for all groups so far, and for at least `least`."""
        self.grow_to(partials, max(len(self.keys), least))

    def grow_to(self, partials: Partials, size: int) -> None:
        counts = partials.rows
        if size > len(counts.rows):
            counts.grow(size)
            size = len(counts.rows)
            for aggregate, part in zip(self.aggregates, partials.parts, strict=True):
                if part is not counts:
                    aggregate.grow(part, size)

    def merge(self, partials: Partials, other: Partials) -> None:
        self.grow_to(partials, len(other.rows.rows))
        self.merge_apart(partials, other)

    def merge_apart(self, partials: Partials, other: Partials) -> None:
        """Merge where there is room for all groups, which are numbered apart."""
        counts = partials.rows
        counts.merge(other.rows)
        for aggregate, part, its in zip(self.aggregates, partials.parts, other.parts, strict=True):
            if part is not counts:
                aggregate.merge(part, its)

    def subtract(self, partials: Partials, other: Partials) -> None:
        self.grow_to(partials, len(other.rows.rows))  # a pane may have grown since it was merged
        self.subtract_apart(partials, other)

    def subtract_apart(self, partials: Partials, other: Partials) -> None:
        """Subtract where there is room for all groups, which are numbered apart."""
        counts = partials.rows
        counts.subtract(other.rows)
        for aggregate, part, its in zip(self.aggregates, partials.parts, other.parts, strict=True):
            if part is not counts:
                aggregate.subtract(part, its)

    def take(self, partials: Partials, codes: Codes) -> Partials:
        """The partial results of some groups, numbered by their place in `codes`."""
        self.grow(partials)
        return self.take_apart(partials, codes)

    def take_apart(self, partials: Partials, codes: Codes) -> Partials:
        """Take groups of partial results whose groups are numbered apart."""
        parts = [
            aggregate.take(part, codes)
            for aggregate, part in zip(self.aggregates, partials.parts, strict=True)
        ]
        return Partials(partials.rows.take(codes), parts)

    def spread(self, partials: Partials, codes: Codes) -> Partials:
        """Inverse of `take`: groups 0, 1, … become `codes`."""
        return self.spread_apart(partials, codes, max(1, len(self.keys)))

    def spread_apart(self, partials: Partials, codes: Codes, size: int) -> Partials:
        """Inverse of `take_apart`, among `size` groups that are numbered apart."""
        parts = [
            aggregate.spread(part, codes, size)
            for aggregate, part in zip(self.aggregates, partials.parts, strict=True)
        ]
        return Partials(partials.rows.spread(codes, size), parts)

    def save(self, partials: Partials, codes: Codes | None = None) -> Tree:
        """The groups that have rows, by their codes; `codes` if the groups are numbered apart."""
        if codes is None:
            codes = np.flatnonzero(partials.rows.rows)
            partials = self.take(partials, codes)
        pairs = zip(self.aggregates, partials.parts, strict=True)
        parts = [aggregate.save(part) for aggregate, part in pairs]
        return {"codes": codes, "rows": partials.rows.rows, "parts": parts}

    def load(self, saved: Tree) -> Partials:
        codes, partials = self.load_apart(saved)
        return self.spread(partials, codes)

    def load_apart(self, saved: Tree) -> tuple[Codes, Partials]:
        """Codes, and the partial results of groups that are numbered by their place in them."""
        pairs = zip(self.aggregates, saved["parts"], strict=True)
        parts = [aggregate.load(part) for aggregate, part in pairs]
        return saved["codes"], Partials(Counts.load(saved["rows"]), parts)

    def present(self, partials: Partials) -> Codes:
        """The groups that have rows, in the order of their keys: so they leave a window."""
        return self.keys.present(partials.rows.rows)

    def finish(self, partials: Partials, codes: Codes) -> list[pa.Array]:
        """The keys and the results of some groups."""
        self.grow(partials)
        return [*self.keys.take(codes), *self.results(partials, codes)]

    def results(self, partials: Partials, codes: Codes) -> list[pa.Array]:
        """The results of some groups, without their keys."""
        return [
            aggregate.finish(part, codes)
            for aggregate, part in zip(self.aggregates, partials.parts, strict=True)
        ]


# Eviction of keys: the numbers of groups without any state are given up.

MANY = 4096  # groups below which nothing is forgotten


class DeadKeys:
    """Eviction of dead groups.

    Looks for dead groups whenever there are twice as many groups as were alive the last time, so
    that looking costs little for each group.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._look_again = 0

    def forget(
        self, mark: Callable[[Mask], None], renumber: Callable[[Codes, Codes], None]
    ) -> None:
        """Evict dead groups: `mark` marks the groups with state; `renumber` is called with the
        groups that stay, and the new number of each old one."""
        size = len(self._folder.keys)
        if size < max(MANY, self._look_again):
            return
        live = np.zeros(size, np.bool_)
        mark(live)
        codes = np.flatnonzero(live)
        if 2 * len(codes) < size:
            place = np.zeros(size, np.int64)
            place[codes] = np.arange(len(codes))
            renumber(codes, place)
            self._folder.keys = self._folder.keys.only(codes)
        self._look_again = 2 * len(codes)


def mark_groups(live: Mask, partials: Partials) -> None:
    """The groups that partial results have rows of."""
    rows = partials.rows.rows[: len(live)]
    live[: len(rows)] |= rows > 0


# Partial results of several parts of the same thing, as one.


def united(folder: Folder, partials: Partials, parts: Codes, wholes: Ints) -> Partials:
    """The partial results of wholes 0, 1, …; `wholes` says, ascending, to which each part belongs.

    Neighbours are merged two by two, so a whole of many parts takes few steps."""
    found = folder.take_apart(partials, parts)
    while len(wholes) > 1 and (wholes[1:] == wholes[:-1]).any():
        begins = np.flatnonzero(np.diff(wholes, prepend=-1))
        within = np.arange(len(wholes)) - np.repeat(begins, np.diff([*begins, len(wholes)]))
        even = np.flatnonzero(within % 2 == 0)
        odd = np.flatnonzero(within % 2)
        stays = folder.take_apart(found, even)
        goes = folder.take_apart(found, odd)
        places = np.searchsorted(even, odd) - 1
        folder.merge_apart(stays, folder.spread_apart(goes, places, len(even)))
        found, wholes = stays, wholes[even]
    return found


# Batches too small to be worth folding one by one: they wait until there are many.
#
# The cost of a batch apart from its rows is paid once for all of them.  Results do not change,
# because they leave with progress: waiting batches are folded before any window is released or
# state is saved.

_ENOUGH = 1 << 13  # rows that are worth folding
_MANY = 128  # batches that are, so that no single tuple pays for too many others


class SmallBatches:
    """
    >>> waiting = SmallBatches()
    >>> waiting.add(Batch(pa.record_batch({"v": [1]})))
    []
    >>> waiting.add(Batch(pa.record_batch({"v": [2]})))
    []
    >>> [batch.rows.to_pydict() for batch in waiting.take()]
    [{'v': [1, 2]}]
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._rows = 0

    def add(self, batch: Batch) -> list[Batch]:
        """Add a batch, of which nothing but rows is kept; return the batches that are large enough
        by now, if any."""
        ready = []
        if self.batches and not _alike(batch, self.batches[0]):
            ready = self.take()
        self.batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _ENOUGH or len(self.batches) >= _MANY:
            ready += self.take()
        return ready

    def take(self) -> list[Batch]:
        """Take all waiting rows, as one batch (or some, where one cannot hold as much text)."""
        batches = self.batches
        if batches:
            self.batches, self._rows = [], 0
        if len(batches) < 2:
            return batches
        form = batches[0].form
        if form is not None and all(each.form is form for each in batches):
            joined = form.records([each.values for each in batches])
        else:
            joined = pa.Table.from_batches([each.rows for each in batches])
            joined = joined.combine_chunks().to_batches()
        return [Batch(each) for each in joined]

    @property
    def rows_held(self) -> int:
        return self._rows


def _alike(one: Batch, other: Batch) -> bool:
    if one.form is not None and one.form is other.form:
        return True
    return bool(one.rows.schema.equals(other.rows.schema))
