"""Lookup: every tuple with the rows of a table that it agrees with.

The table is handed in complete before the first tuple.  Nothing is kept of tuples, so bounds, signs
and progress pass, and results come in the order of the tuples, then of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.errors import EngineError
from penstock.expressions.columns import flags_of
from penstock.expressions.compile import compile_expression, compile_predicate
from penstock.model.arrays import Ints, Mask
from penstock.model.schema import Schema
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.joins.lookups.table_index import TableIndex
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.signed.lineage import beside_rows
from penstock.operators.stateless.stateless import Stateless
from penstock.plan.expressions import Expression, all_of, columns_of
from penstock.plan.nodes.joins import JoinKind, equal_keys
from penstock.plan.nodes.lookup import Lookup

AT_ONCE = 1 << 16  # pairs that are looked at together
_MANY = 1 << 18  # pairs that are more than is held in memory at once


class LookupOperator(Stateless):
    def __init__(self, node: Lookup, together: int = AT_ONCE) -> None:
        self._kind = node.kind
        self.schema = node.schema.arrow
        self._together = together
        keys, others = equal_keys(node.input.schema, node.table.schema, node.condition)
        self._own_keys = [compile_expression(own, node.input.schema) for own, _ in keys]
        self._table_keys = [compile_expression(its, node.table.schema) for _, its in keys]
        self._types = [own.type for own, _ in keys]
        rest = all_of(others)
        self._condition = None if rest is None else _Condition(rest, node)
        self._table: pa.RecordBatch | None = None
        self._index: TableIndex | None = None

    def fill(self, table: pa.RecordBatch) -> None:
        """The whole table, before the first batch."""
        self._table, self._index = table, None

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:  # noqa: ARG002
        """If there are very many pairs, they are made when somebody takes them, one piece after
        the other."""
        if self._table is None:
            raise EngineError("tuples are looked up in a table that nobody has read")
        begins, counts = self._candidates(batch.rows, self._table)
        items = self._looked_up(batch, begins, counts)
        return items if int(counts.sum()) > _MANY else list(items)

    def _looked_up(self, batch: Batch, begins: Ints, counts: Ints) -> Iterator[Item]:
        for first, end in _pieces(counts, self._together):
            matched = np.zeros(end - first, np.bool_)
            # a tuple that has many candidates is alone, and its results come piece by piece
            many = int(counts[first]) > self._together
            for own, its in self._pairs(batch.rows, first, begins[first:end], counts[first:end]):
                matched[own - first] = True
                if self._kind is JoinKind.LEFT and not many:
                    own, its = _with_alone(own, its, matched, first)
                if not self._kind.left_alone:
                    yield from self._joined(batch, own, its)
            if self._kind.left_alone:
                wanted = np.flatnonzero(matched == (self._kind is JoinKind.SEMI))
                if len(wanted):
                    yield batch.take(wanted + first)
            elif self._kind is JoinKind.LEFT and many and not matched[0]:
                yield from self._joined(batch, np.array([first]), np.array([-1]))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        yield progress

    def rows_held(self) -> int:
        return int(self._table.num_rows) if self._table is not None else 0

    def _candidates(self, rows: pa.RecordBatch, table: pa.RecordBatch) -> tuple[Ints, Ints]:
        """Where in the index the rows begin that have the keys of each tuple, and how many they
        are.  A key that has no value concerns nobody where there is nothing to compare it with."""
        if not table.num_rows or not rows.num_rows:
            nothing = np.zeros(rows.num_rows, np.int64)
            return nothing, nothing
        if self._index is None:
            columns = [key(table) for key in self._table_keys]
            self._index = TableIndex(columns, self._types, table.num_rows)
        return self._index.find([key(rows) for key in self._own_keys], rows.num_rows)

    def _pairs(
        self, rows: pa.RecordBatch, first: int, begins: Ints, counts: Ints
    ) -> Iterator[tuple[Ints, Ints]]:
        """Tuples, from the `first` on, and rows of the table that belong together."""
        for own, its in _expanded(begins, counts, self._together):
            if len(own):
                assert self._index is not None
                own, its = own + first, self._index.rows[its]
                if self._condition is not None:
                    holds = self._condition.holds(rows, own, self._table, its)
                    own, its = own[holds], its[holds]
            yield own, its

    def _joined(self, batch: Batch, own: Ints, its: Ints) -> Iterator[Item]:
        """Tuples beside rows of the table; −1 stands for no row."""
        if not len(own):
            return
        assert self._table is not None
        same = len(own) == batch.num_rows and bool((own == np.arange(len(own))).all())
        given = batch if same else batch.take(own)
        rows = self._table.take(pa.array(its, mask=its < 0))
        columns = [*given.rows.columns, *rows.columns]
        made = given.with_rows(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        if made.lineage is not None:
            made = replace(made, lineage=beside_rows(made.lineage, its))
        yield made


class _Condition:
    """What has to hold besides equal keys, on the columns that it looks at."""

    def __init__(self, condition: Expression, node: Lookup) -> None:
        wanted = {(column.name, column.relation) for column in columns_of(condition)}
        sides = [
            [place for place, each in enumerate(schema) if (each.name, each.relation) in wanted]
            for schema in (node.input.schema, node.table.schema)
        ]
        self._own, self._its = sides
        fields = [node.input.schema.fields[place] for place in self._own]
        fields += [node.table.schema.fields[place] for place in self._its]
        self._schema = Schema(tuple(fields))
        self._holds = compile_predicate(condition, self._schema)

    def holds(self, rows: pa.RecordBatch, own: Ints, table: pa.RecordBatch, its: Ints) -> Mask:
        if not len(self._schema):  # TRUE or FALSE
            given = pa.RecordBatch.from_arrays([pa.nulls(len(own))], ["nothing"])
        else:
            columns = [rows.column(place).take(pa.array(own)) for place in self._own]
            columns += [table.column(place).take(pa.array(its)) for place in self._its]
            given = pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)
        return flags_of(self._holds(given))


def _expanded(begins: Ints, counts: Ints, together: int) -> Iterator[tuple[Ints, Ints]]:
    """Every tuple as often as it has candidates, beside their places; so many at a time.

    >>> list(_expanded(np.array([4, 0, 7]), np.array([2, 0, 1]), 9))
    [(array([0, 0, 2]), array([4, 5, 7]))]
    """
    if counts.max(initial=0) <= 1 and len(counts) <= together:  # as in most tables
        own = np.flatnonzero(counts)
        yield own, begins[own]
        return
    total, ends = int(counts.sum()), np.cumsum(counts)
    for offset in range(0, max(1, total), together):
        numbers = np.arange(offset, min(total, offset + together))
        own = np.searchsorted(ends, numbers, "right")
        yield own, begins[own] + numbers - (ends[own] - counts[own])


def _pieces(counts: Ints, together: int) -> Iterator[tuple[int, int]]:
    """Tuples that together have at most so many candidates, or one that has more.

    >>> list(_pieces(np.array([1, 0, 2, 9, 0]), 3))
    [(0, 3), (3, 4), (4, 5)]
    """
    ends = np.cumsum(counts)
    first = 0
    if len(counts) and int(ends[-1]) <= together:
        yield first, len(counts)
        return
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(ends, before + together, "right")))
        yield first, end
        first = end


def _with_alone(own: Ints, its: Ints, matched: Mask, first: int) -> tuple[Ints, Ints]:
    """With the tuples that have no partner, at their places."""
    if matched.all():
        return own, its
    alone = np.flatnonzero(~matched) + first
    own = np.concatenate([own, alone])
    its = np.concatenate([its, np.full(len(alone), -1)])
    order = stable_order(own)
    return own[order], its[order]
