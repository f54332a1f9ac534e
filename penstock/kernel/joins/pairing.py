"""Building blocks of the joins: key codes, conditions on pairs, exchanged state, lineage of
inputs, and columns that are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import flags_of, present, values_of
from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.grouping.folding import MANY
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.joins.join_side import Pairs, Side
from penstock.kernel.operator import Progress
from penstock.kernel.retractions.lineage import NONE, lineage_of, made_of, of_branch, widened
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.types import Kind, Schema, Type
from penstock.plan.expressions import Expression, all_of, columns_of
from penstock.plan.nodes.join import Join, TimeCondition, by_risk
from penstock.plan.nodes.node import Node
from penstock.plan.properties import lineage_parts

_NUMBERS = (Kind.INT, Kind.BIGINT, Kind.DATE, Kind.TIMESTAMP)
_HASHED = 30  # bits, which leaves room for times
_NUMBERING = Lock()
_MIX = np.uint64(0x9E3779B97F4A7C15)


class SharedCodes:
    """Codes of keys that all inputs of a join share.

    Without any key there is one code, for all tuples. A key that is one whole number, or one time,
    is its own code; others are numbered.
    """

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = list(types)
        self._plain = len(types) == 1 and types[0].kind in _NUMBERS
        self._codes = KeyCodes([] if self._plain else self._types)
        self._look_again = MANY

    def of(self, columns: list[pa.Array], size: int) -> tuple[Codes, Mask | None]:
        """Codes of the keys of rows, and which rows can equal others: neither NULL nor NaN can.
        None: all of them.
        """
        if self._plain:
            (column,) = columns
            codes = values_of(column, self._types[0]).astype(np.int64, copy=False)
            return codes, present(column) if column.null_count else None
        equal = can_be_equal(columns, self._types)
        if equal is None:
            return self._encode(columns, size), None
        codes = np.zeros(size, np.int64)
        kept = pa.array(equal)
        some = [column.filter(kept) for column in columns]
        codes[equal] = self._encode(some, int(np.count_nonzero(equal)))
        return codes, equal

    def _encode(self, columns: list[pa.Array], size: int) -> Codes:
        """Number the keys, under a lock: new keys get numbers."""
        with _NUMBERING:
            return self._codes.encode(columns, size)

    def forget(self, sides: Sequence[Side]) -> None:
        """Drop the codes of keys without tuples, once these are the majority."""
        if len(self._codes) < self._look_again:
            return
        live = np.zeros(len(self._codes), np.bool_)
        for side in sides:
            side.mark(live)
        codes = np.flatnonzero(live)
        if 2 * len(codes) < len(live):
            place = np.zeros(len(live), np.int64)
            place[codes] = np.arange(len(codes))
            self._codes = self._codes.only(codes)
            for side in sides:
                side.recode(place)
        self._look_again = max(MANY, 2 * len(codes))


class HashedCodes:
    """Hash codes of several keys that are whole numbers or times.

    Codes are equal if all keys are, and seldom otherwise, so the caller must compare the keys of
    the tuples it finds. Nothing is remembered, so the cost does not depend on the number of
    distinct keys.
    """

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = list(types)

    @staticmethod
    def suit(types: Sequence[Type]) -> bool:
        return len(types) > 1 and all(each.kind in _NUMBERS for each in types)

    def of(self, columns: list[pa.Array], size: int) -> tuple[Codes, Mask | None]:
        mixed = np.zeros(size, np.uint64)
        for column, sql_type in zip(columns, self._types, strict=True):
            values = values_of(column, sql_type).astype(np.int64, copy=False).view(np.uint64)
            mixed = (mixed ^ values) * _MIX
            mixed ^= mixed >> np.uint64(29)
        codes: Codes = (mixed >> np.uint64(64 - _HASHED)).astype(np.int64)
        return codes, can_be_equal(columns, self._types)

    def forget(self, sides: Sequence[Side]) -> None:
        """No-op: there is no state."""


def can_be_equal(columns: Sequence[pa.Array], types: Sequence[Type]) -> Mask | None:
    """Select the rows without NULL or NaN in any of some columns; None: all of them."""
    equal: Mask | None = None
    for column, sql_type in zip(columns, types, strict=True):
        own: Mask | None = present(column) if column.null_count else None
        if sql_type.kind is Kind.DOUBLE:
            numbers = ~np.isnan(values_of(column, sql_type))
            own = numbers if own is None else own & numbers
        if own is not None and not own.all():
            equal = own if equal is None else equal & own
    return equal


# Residual conditions on pairs of tuples whose keys are equal and whose times fit.


class Condition:
    """Residual join condition, with further time conditions. Tests that may fail come last, and
    only see pairs for which all others hold.
    """

    def __init__(self, node: Join, others: list[Expression]) -> None:
        safe, risky = by_risk(all_of(others))
        tests = [_Test(node, safe, node.also), _Test(node, risky)]
        self._tests = [test for test in tests if test]

    def among(self, pairs: Pairs, port: int) -> Pairs:
        """Select the pairs that join; `port` is that of the tuples that arrived."""
        for test in self._tests:
            if len(pairs):
                pairs = pairs.filter(test.holds(pairs, port))
        return pairs


class _Test:
    """Some conditions, computed on the columns that they need."""

    def __init__(
        self, node: Join, conditions: list[Expression], also: tuple[TimeCondition, ...] = ()
    ) -> None:
        columns = [column for each in conditions for column in columns_of(each)]
        columns += [column for each in also for column in (each.left, each.right)]
        places = sorted({column.position(node.pair_schema) for column in columns})
        schema = Schema(tuple(node.pair_schema.fields[place] for place in places))
        width = len(node.branches[0].schema)
        self._schema = schema.arrow
        self._left = [place for place in places if place < width]
        self._right = [place - width for place in places if place >= width]
        self._tests: list[Callable[[pa.RecordBatch], Mask]] = [
            condition_test(each, schema) for each in conditions
        ]
        self._tests += [time_test(each, schema) for each in also]

    def __bool__(self) -> bool:
        return bool(self._tests)

    def holds(self, pairs: Pairs, port: int) -> Mask:
        sides = ((self._left, port == 0), (self._right, port == 1))
        columns = [c for which, came in sides if which for c in pairs.columns(came, which)]
        if columns:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        else:  # a condition without columns
            batch = pa.record_batch({"nothing": pa.nulls(len(pairs))})
        found: Mask = np.logical_and.reduce([test(batch) for test in self._tests])
        return found


def condition_test(condition: Expression, schema: Schema) -> Callable[[pa.RecordBatch], Mask]:
    """Compile a condition into a test of rows that have its columns."""
    compiled = compile_expression(condition, schema)
    return lambda batch: flags_of(compiled(batch))


def time_test(also: TimeCondition, schema: Schema) -> Callable[[pa.RecordBatch], Mask]:
    """Compile a time condition into a test of rows that have both columns."""
    left, right = also.left.position(schema), also.right.position(schema)

    def fits(batch: pa.RecordBatch) -> Mask:
        lefts = to_ticks(batch.column(left), also.left.type)
        return also.window.matches_columns(lefts, to_ticks(batch.column(right), also.right.type))

    return fits


# State that joins with the same results exchange, independent of their algorithms.

Rows: TypeAlias = tuple[pa.RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class JoinState:
    """State of a join, independent of the algorithm.

    `kept` are tuples of each input that have been joined with all others that are kept, and may be
    joined with more; `waiting` those that have arrived and not been joined. `results` are pairs
    that have not been emitted. `progress` is that of each input, and `promised` that of the
    results.
    """

    kept: tuple[Rows, ...]
    waiting: tuple[Rows, ...]
    results: Rows
    progress: tuple[Progress, ...]
    promised: Progress


def at_least(promised: Progress, before: Progress) -> Progress:
    """Raise bounds to at least those that another operator has promised before.

    >>> at_least(Progress({"a.t": 3, "b.t": 9}), Progress({"a.t": 5})).bounds
    {'a.t': 5, 'b.t': 9}
    """
    if promised.ended or not (before.ended or before.bounds):
        return promised
    if before.ended:
        return before
    bounds = {**promised.bounds}
    for name, bound in before.bounds.items():
        bounds[name] = max(bound, bounds.get(name, bound))
    return replace(promised, bounds=bounds)


# Lineage of the tuples of an input, in a join whose pairs may be retracted.

_GIVEN, _OWN = 0, 1  # branches: a tuple was numbered below the join, or by it


class InputLineage:
    """Lineage of the tuples of one input of a join.

    Plain tuples are numbered as they arrive: a pair is retracted because of one of its tuples, and
    has to be identified by both. Signed items have a lineage, except plain tuples among them. The
    lineage of all tuples of an input has the same width, so that a pair has the same lineage
    whenever it is made.
    """

    def __init__(self, node: Node) -> None:
        self._signed = node.signed
        self._width = 2 * lineage_parts(node)
        self.came = 0  # tuples that were numbered

    def of(self, batch: Batch) -> Ints:
        if not self._signed:
            return made_of(self._numbered(batch.num_rows))
        given = of_branch(widened(lineage_of(batch), self._width), _GIVEN, 2)
        plain = np.flatnonzero(given[:, 0] == NONE)
        if len(plain):
            own = widened(made_of(self._numbered(len(plain))), self._width)
            given[plain] = of_branch(own, _OWN, 2)
        return given

    def _numbered(self, size: int) -> Ints:
        first, self.came = self.came, self.came + size
        return np.arange(first, self.came)


def input_lineages(node: Join) -> tuple[InputLineage, ...]:
    """Lineages of the inputs; none if no pair is ever retracted."""
    return tuple(map(InputLineage, node.branches)) if node.signed else ()


# Columns of the inputs of a join that nothing reads: their values are replaced by NULLs.

_FEW = 64  # rows whose values are copied sooner than they are left out


class UnseenColumns:
    """Columns of each input that nothing reads; their values are replaced by NULLs to save memory.

    >>> unseen = UnseenColumns([(), (1,)])
    >>> rows = pa.record_batch({"id": range(99), "note": ["x"] * 99})
    >>> unseen.left_out(1, rows).column("note").null_count
    99
    """

    def __init__(self, places: Sequence[Sequence[int]] = ()) -> None:
        self._places = places  # by port

    def left_out(self, port: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._places or rows.num_rows <= _FEW or not self._places[port]:
            return rows
        columns = rows.columns
        for place in self._places[port]:
            columns[place] = pa.nulls(rows.num_rows, rows.schema.field(place).type)
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
