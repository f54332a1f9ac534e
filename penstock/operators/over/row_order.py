"""The order of rows within their partitions, found no further than rows are equal.

Rows are sorted by partition; among those that are still equal, one key after the other decides.
Most rows differ in the first key or two, so the others are seldom looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints
from penstock.model.schema import Schema
from penstock.model.stable_order import stable_order, stable_order_by
from penstock.operators.over.sort_numbers import sort_numbers
from penstock.plan.expressions import Column
from penstock.plan.nodes.over_calls import (
    FramedAggregate,
    FrameUnit,
    Numbering,
    NumberKind,
    OverCall,
    Standing,
    StandingKind,
)
from penstock.plan.nodes.rows_over import RowsOver


@dataclass(slots=True)
class RowPlaces:
    """`places` puts rows in order; `peers` has a number for each of the rows in that order, the
    same for those that are equal in partition and order."""

    places: Ints
    peers: Ints


class RowOrder:
    """With `total`, only rows that are the same in all columns are equal."""

    def __init__(self, node: RowsOver, schema: Schema, total: bool = False) -> None:
        self._keys = [
            _Key(compile_expression(key.expression, schema), key.descending, key.nulls_first)
            for key in node.order
        ]
        self._ties = [_Key(compile_expression(each, schema), exact=True) for each in node.ties]
        if node.most is None and not any(_goes_by_place(each.call) for each in node.calls):
            self._ties = []  # nobody can tell which of equal rows comes first
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
    """How to sort by runs, which ascend, and then by numbers; equal ones stay as they are."""
    return stable_order_by(runs, numbers)
