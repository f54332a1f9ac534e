"""The order of rows within their partitions, as OVER asks for it: sorting, calls over sorted rows,
limits, and the first row of each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.bounds import to_ticks
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.over.frames import RowsInPartitions, call_over_rows, sort_numbers
from penstock.model.arrays import Codes, Ints, Mask, stable_order, stable_order_by
from penstock.model.types import Schema
from penstock.plan.expressions import Column
from penstock.plan.nodes.over import (
    FramedAggregate,
    FrameUnit,
    Numbering,
    NumberKind,
    OverCall,
    RowsOver,
    Standing,
    StandingKind,
    frames_of,
)


@dataclass(slots=True)
# The order of rows, found no further than rows are equal.
#
# Rows are sorted by partition; among those that are still equal, one key after the other decides.
# Most rows differ in the first key or two, so the others are seldom computed.


class RowPlaces:
    """Result of sorting rows.

    `places` puts rows in order; `peers` has a number for each of the rows in that order, the
    same for those that are equal in partition and order.
    """

    places: Ints
    peers: Ints


class RowOrder:
    """Order of the rows of partitions by the keys of OVER.  With `total`, only rows that are the
    same in all columns are equal."""

    def __init__(self, node: RowsOver, schema: Schema, total: bool = False) -> None:
        self._keys = [
            _Key(compile_expression(key.expression, schema), key.descending, key.nulls_first)
            for key in node.order
        ]
        self._ties = [_Key(compile_expression(each, schema), exact=True) for each in node.ties]
        if node.most is None and not any(_goes_by_place(each.call) for each in node.calls):
            self._ties = []  # the order of equal rows makes no difference
        if total:
            columns = [compile_expression(Column.of(field), schema) for field in schema]
            self._keys += [*self._ties, *(_Key(each, exact=True) for each in columns)]
            self._ties = []

    def sort(self, rows: pa.RecordBatch, codes: Ints, ticks: Ints | None = None) -> RowPlaces:
        """Rows of partitions that have codes; with `ticks` these are the first key, and ascend."""
        keys = self._keys
        places = stable_order(codes)
        groups = codes[places]
        if ticks is not None:
            keys = keys[1:]
            runs = _runs(groups, ticks[places])
        else:
            runs = _runs(groups)
        places, runs = _refined(places, runs, rows, keys)
        peers = runs
        places, _ = _refined(places, runs, rows, self._ties)
        return RowPlaces(places, peers)


def _goes_by_place(call: OverCall) -> bool:
    """Whether it matters which of several rows of equal order comes first."""
    match call:
        case Numbering(kind=kind):
            return kind is NumberKind.ROW_NUMBER
        case Standing(kind=share):
            return share is StandingKind.NTILE
        case FramedAggregate(frame=frame):
            return frame.unit is FrameUnit.ROWS and not (frame.first is None and frame.last is None)
    return True


class _Key:
    def __init__(
        self,
        column: Callable[[pa.RecordBatch], pa.Array],
        descending: bool = False,
        nulls_first: bool = False,
        exact: bool = False,
    ) -> None:
        self._column, self._exact = column, exact
        self._descending, self._nulls_first = descending, nulls_first

    def numbers(self, rows: pa.RecordBatch, places: Ints) -> Ints:
        column = self._column(rows)
        if len(places) < rows.num_rows:
            column = column.take(pa.array(places))
            return sort_numbers(column, self._descending, self._nulls_first, self._exact)
        return sort_numbers(column, self._descending, self._nulls_first, self._exact)[places]


def _runs(*columns: Ints) -> Ints:
    """A number for each row, which rises where it differs from the one before.

    >>> _runs(np.array([4, 4, 7, 7]), np.array([1, 2, 2, 2]))
    array([0, 1, 2, 2])
    """
    size = len(columns[0])
    differs = np.zeros(size, np.bool_)
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.cumsum(differs)


def _refined(
    places: Ints, runs: Ints, rows: pa.RecordBatch, keys: Iterable[_Key]
) -> tuple[Ints, Ints]:
    """Places in which keys decide, one after the other, what is equal so far."""
    for key in keys:
        if not len(runs) or runs[-1] == len(runs) - 1:
            break
        equal = np.zeros(len(runs), np.bool_)
        same = runs[1:] == runs[:-1]
        equal[1:] |= same
        equal[:-1] |= same
        tied = np.flatnonzero(equal)
        numbers = key.numbers(rows, places[tied])
        own = runs[tied]
        order = _sorted(own, numbers)
        places = places.copy()
        places[tied] = places[tied][order]
        differs = np.zeros(len(runs), np.bool_)
        differs[1:] = runs[1:] != runs[:-1]
        numbers = numbers[order]
        # neighbours among the tied are neighbours among all if they are of one run
        apart = np.flatnonzero((own[1:] == own[:-1]) & (numbers[1:] != numbers[:-1])) + 1
        differs[tied[apart]] = True
        runs = np.cumsum(differs)
    return places, runs


def _sorted(runs: Ints, numbers: Ints) -> Ints:
    """Order by runs, which ascend, and then by numbers; stable."""
    return stable_order_by(runs, numbers)


# Rows of partitions in the order of OVER, and the values of its calls.


class PartitionSorter:
    """Sort rows by partition and order, compute the calls of OVER on them, and apply its limit."""

    def __init__(self, node: RowsOver) -> None:
        given = node.input.schema
        self._node = node
        self._partition = [compile_expression(each, given) for each in node.partition]
        self._calls = [call_over_rows(each.call, given) for each in node.calls]
        self._order = RowOrder(node, given)
        self._measured = any(frame.has_lengths for frame in frames_of(node.calls))
        self._times = [compile_expression(key.expression, given) for key in node.order[:1]]

    def keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Columns of the partition keys."""
        return [column(rows) for column in self._partition]

    def sort(self, rows: pa.RecordBatch, codes: Codes) -> tuple[RowsInPartitions, Ints]:
        """Rows by partition and order, and which ones they are."""
        order = self._order.sort(rows, codes)
        places = order.places
        sorted_rows = rows.take(pa.array(places))
        given = RowsInPartitions(sorted_rows, codes[places], order.peers)
        if self._measured:
            given.ticks, given.timed = self._ticks(sorted_rows)
            given.nulls_first = self._node.order[0].nulls_first
        return given, places

    def _ticks(self, rows: pa.RecordBatch) -> tuple[Ints, Mask | None]:
        column = self._times[0](rows)
        key = self._node.order[0]
        timed = np.asarray(column.is_valid()) if column.null_count else None
        ticks = np.zeros(len(column), np.int64)
        ticks[timed if timed is not None else slice(None)] = to_ticks(
            column.drop_null(), key.expression.type
        )
        # turned round, the greatest is the least, and distances are what they were
        return ~ticks if key.descending else ticks, timed

    def answered(self, given: RowsInPartitions, targets: Ints) -> list[pa.Array]:
        """Values of the calls for the rows at some places."""
        return [] if self._node.bare else [call.of(given, targets) for call in self._calls]

    def shown(self, given: RowsInPartitions) -> Ints:
        """The places of the rows of the result."""
        within = self.within_limit(given)
        if not self._node.skip:
            return within
        numbers = np.asarray(self._calls[0].of(given, within))
        return within[numbers > self._node.skip]

    def within_limit(self, given: RowsInPartitions) -> Ints:
        """The places of the rows of the result, and of those that decide which ones these are."""
        if self._node.most is None:
            return np.arange(len(given))
        return np.flatnonzero(self.limited_numbers(given) <= self.limit)

    @property
    def limit(self) -> int:
        assert self._node.most is not None
        return self._node.most[1]

    def limited_numbers(self, given: RowsInPartitions) -> Ints:
        """The numbers of rows that have a limit."""
        assert self._node.most is not None
        return np.asarray(self._calls[self._node.most[0]].of(given, np.arange(len(given))))


# The first row of every partition among rows that leave in the order of their times, and none of a
# partition that has had one: `row_number() … = 1`.
#
# Partitions have codes, and a row finds the first one of its own in a table by them, so that
# nothing is sorted but the few rows that share their time with the first.


class FirstOfEach:
    """Find the first row of each partition, by the order of OVER."""

    def __init__(self, order: RowOrder) -> None:
        self._order = order
        self._first: Ints = np.zeros(0, np.int64)  # by code: means something for those asked for

    def of(self, rows: pa.RecordBatch, codes: Codes, ticks: Ints) -> Ints:
        """The places of the first rows, ascending; `ticks` ascend."""
        size = len(codes)
        if not size:
            return np.zeros(0, np.int64)
        self._first = grown(self._first, int(codes.max()) + 1, 0)
        places = np.arange(size)
        self._first[codes[::-1]] = places[::-1]  # the last that is written is the first row
        first = self._first[codes]
        chosen = first == places
        tied = np.flatnonzero(~chosen & (ticks[first] == ticks))
        if len(tied):
            self._decide(rows, codes, ticks, tied, chosen)
        return np.flatnonzero(chosen)

    def _decide(
        self, rows: pa.RecordBatch, codes: Codes, ticks: Ints, tied: Ints, chosen: Mask
    ) -> None:
        """Decide among rows that come at the time of the first one, by the rest of the order."""
        own = np.unique(np.concatenate([tied, self._first[codes[tied]]]))
        chosen[own] = False
        part = rows.take(pa.array(own))
        order = self._order.sort(part, codes[own], ticks[own]).places
        in_order = codes[own][order]
        begins = np.ones(len(own), np.bool_)
        begins[1:] = in_order[1:] != in_order[:-1]
        chosen[own[order[begins]]] = True
