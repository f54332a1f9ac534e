"""Lookup: every tuple with the rows of a table that it matches, found for whole columns at a time.

`TableIndex` numbers the keys of the complete table once; keys that are looked up are never added.
Equality is that of `=`: NULL equals nothing, and neither does NaN.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import EngineError
from penstock.expressions.columns import flags_of, present, values_of
from penstock.expressions.compiler import compile_expression, compile_predicate
from penstock.kernel.batch import Batch
from penstock.kernel.grouping.key_codes import TextKeys
from penstock.kernel.operator import Item, Progress, at_once
from penstock.kernel.retractions.lineage import beside_rows
from penstock.kernel.stateless import Stateless
from penstock.model.arrays import Codes, Ints, Mask, extremes, stable_order
from penstock.model.types import Kind, Schema, Type
from penstock.model.values import to_python
from penstock.plan.expressions import Expression, all_of, columns_of
from penstock.plan.nodes.join import JoinKind, Lookup, equal_keys

_NONE = -1
_SMALL = 32  # rows that Python looks at faster
_MANY_TEXTS = 1_000_000  # texts that Python does not hold for that alone
_SPAN = 4096  # of a table by value that is always allowed
_SPARSE = 8  # how many places a longer one may have for each value


class TableIndex:
    """Index of the rows of a table by the values of its key columns.

    >>> from penstock.model.types import STRING
    >>> index = TableIndex([pa.array(["b", "a", None, "b"])], [STRING], 4)
    >>> begin, count = index.find([pa.array(["b", "c", None])], 3)
    >>> count, index.rows[begin[0] : begin[0] + count[0]]
    (array([2, 0, 0]), array([0, 3]))
    """

    def __init__(self, columns: Sequence[pa.Array], types: Sequence[Type], size: int) -> None:
        self._columns = [_numbering(*each) for each in zip(columns, types, strict=True)]
        self._steps: list[Ints] = []  # for each column but the first: the pairs that there are
        codes = self._codes(columns, size, learn=True)
        there = np.flatnonzero(codes >= 0)
        self.rows: Ints = there[stable_order(codes[there])]  # by key, then by place
        # the last place is that of keys without rows, which have the number −1
        self._counts: Ints = np.append(np.bincount(codes[there]), 0)
        self._begins: Ints = np.cumsum(self._counts) - self._counts

    def find(self, columns: Sequence[pa.Array], size: int) -> tuple[Ints, Ints]:
        """For every row, the position in `rows` where the matching rows of the table begin, and
        their count.
        """
        codes = self._codes(columns, size)
        return self._begins[codes], self._counts[codes]

    def _codes(self, columns: Sequence[pa.Array], size: int, learn: bool = False) -> Codes:
        """Number the key of each row; −1 for keys that the table does not have."""
        if not self._columns:
            return np.zeros(size, np.int64)
        codes = self._columns[0].find(columns[0])
        for place, (known, column) in enumerate(zip(self._columns[1:], columns[1:], strict=True)):
            other = known.find(column)
            pairs = np.where((codes >= 0) & (other >= 0), codes * known.size + other, _NONE)
            if learn:
                self._steps.append(np.unique(pairs[pairs >= 0]))
            codes = _places(self._steps[place], pairs)
        return codes


class _Numbering(Protocol):
    """Numbering of the distinct values of a column."""

    size: int

    def find(self, column: pa.Array) -> Codes:
        """Return the number of each value, −1 for unknown ones."""
        ...


def _numbering(column: pa.Array, sql_type: Type) -> _Numbering:
    match sql_type.kind:
        case Kind.STRING:
            return _Texts(column, sql_type)
        case Kind.BINARY | Kind.DECIMAL:
            return _Objects(column, sql_type)
        case _:
            return _Sorted(column, sql_type)


class _Sorted:
    """Numbering of fixed-width values, sorted; dense whole numbers get a table by value."""

    def __init__(self, column: pa.Array, sql_type: Type) -> None:
        self._type = sql_type
        values, usable = self._values(column)
        self._known = np.unique(values if usable is None else values[usable])
        self.size = len(self._known)
        self._table: Codes | None = None
        if self.size and sql_type.kind is not Kind.DOUBLE:
            self._lowest, highest = extremes(self._known)
            if highest - self._lowest < _SPAN + _SPARSE * self.size:
                self._table = np.full(highest - self._lowest + 2, _NONE, np.int64)
                self._table[self._known - self._lowest] = np.arange(self.size)

    def find(self, column: pa.Array) -> Codes:
        values, usable = self._values(column)
        if self._table is None:
            codes = _places(self._known, values)
        else:  # values outside the table, on either side, map to its last place, which is empty
            places = (values - self._lowest).view(np.uint64)
            codes = self._table[np.minimum(places, np.uint64(len(self._table) - 1)).view(np.int64)]
        if usable is not None:
            codes[~usable] = _NONE
        return codes

    def _values(self, column: pa.Array) -> tuple[npt.NDArray[Any], Mask | None]:
        """The values, and which of them can equal others; None: all."""
        usable = present(column) if column.null_count else None
        if self._type.kind is Kind.BOOLEAN:
            return np.asarray(column.cast(pa.int8()).fill_null(0)).astype(np.int64), usable
        values = values_of(column, self._type)
        if self._type.kind is not Kind.DOUBLE:
            return values.astype(np.int64, copy=False), usable
        numbers = ~np.isnan(values)
        return values, numbers if usable is None else numbers & usable


class _Objects:
    """Numbering by Python objects: each distinct value of a batch is looked up once."""

    def __init__(self, column: pa.Array, sql_type: Type) -> None:
        self._type = sql_type
        known = to_python(column.drop_null().unique(), sql_type)
        self._codes: dict[Hashable, int] = {value: code for code, value in enumerate(known)}
        self.size = len(self._codes)

    def find(self, column: pa.Array) -> Codes:
        if len(column) <= _SMALL:
            few = to_python(column, self._type)
            return np.array([self._codes.get(value, _NONE) for value in few], np.int64)
        encoded = column.dictionary_encode(null_encoding="encode")
        values = to_python(encoded.dictionary, self._type)
        found = np.array([self._codes.get(value, _NONE) for value in values], np.int64)
        codes: Codes = found[np.asarray(encoded.indices)]
        return codes


class _Texts:
    """Numbering of texts by a hash table, and in Python for those that it does not cover."""

    def __init__(self, column: pa.Array, sql_type: Type) -> None:
        self._known = column.drop_null().unique()
        self._type = sql_type
        self.size = len(self._known)
        self._longest = pc.max(pc.binary_length(self._known)).as_py() or 0  # bytes
        self._table: TextKeys | None = TextKeys()
        if self.size and not self._table.add(self._known, np.arange(self.size)):
            self._table = None

    def find(self, column: pa.Array) -> Codes:
        if len(column) <= _SMALL and self.size <= _MANY_TEXTS:
            return self._by_python.find(column)
        usable = pc.less_equal(pc.binary_length(column), self._longest)
        if not column.null_count and usable.true_count == len(column):
            return self._find(column)
        codes = np.full(len(column), _NONE, np.int64)
        codes[flags_of(usable)] = self._find(column.filter(usable))
        return codes

    def _find(self, texts: pa.Array) -> Codes:
        """Look up texts that are no longer than the longest known one."""
        codes = self._table.find(texts) if self._table is not None and len(texts) else None
        return codes if codes is not None else self._by_python.find(texts)

    @cached_property
    def _by_python(self) -> _Objects:
        return _Objects(self._known, self._type)


def _places(known: npt.NDArray[Any], values: npt.NDArray[Any]) -> Codes:
    """Positions of values in a sorted array, −1 for those that it does not contain.

    >>> _places(np.array([2, 5]), np.array([5, 3, 9, 2]))
    array([ 1, -1, -1,  0])
    """
    if not len(known):
        return np.full(len(values), _NONE, np.int64)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    codes: Codes = np.where(known[places] == values, places, _NONE)
    return codes


# The operator.
#
# The table is set, complete, before the first tuple.  No tuple is kept, so bounds, signs and
# progress pass through, and results are in the order of the tuples, then of the table.

AT_ONCE = 1 << 16  # pairs that are tested together
_MANY_PAIRS = 1 << 18  # pairs that are more than is held in memory at once


class LookupOperator(Stateless):
    """Join of a stream with a complete table: INNER, LEFT, SEMI or ANTI. Stateless apart from the
    table.
    """

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
        """Set the whole table, before the first batch."""
        self._table, self._index = table, None

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:  # noqa: ARG002
        """Look up the tuples; if there are very many pairs, they are produced piece by piece, as
        the caller iterates.
        """
        if self._table is None:
            raise EngineError("tuples are looked up in a table that nobody has read")
        begins, counts = self._candidates(batch.rows, self._table)
        items = self._looked_up(batch, begins, counts)
        return items if int(counts.sum()) > _MANY_PAIRS else list(items)

    def _looked_up(self, batch: Batch, begins: Ints, counts: Ints) -> Iterator[Item]:
        for first, end in _pieces(counts, self._together):
            matched = np.zeros(end - first, np.bool_)
            # a tuple that has many candidates is alone, and its results come piece by piece
            many = int(counts[first]) > self._together
            for own, its in self._pairs(batch.rows, first, begins[first:end], counts[first:end]):
                matched[own - first] = True
                if self._kind is JoinKind.LEFT and not many:
                    own, its = _with_unmatched(own, its, matched, first)
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
        """For every tuple, the position in the index where the table rows with its keys begin, and
        their count.

        Keys are not computed if there are no table rows or no tuples: an error in a key does not
        matter where there is nothing to compare it with.
        """
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
        """Yield pairs that match: numbers of tuples, from `first` on, and of rows of the table."""
        for own, its in _expanded(begins, counts, self._together):
            if len(own):
                assert self._index is not None
                own, its = own + first, self._index.rows[its]
                if self._condition is not None:
                    holds = self._condition.holds(rows, own, self._table, its)
                    own, its = own[holds], its[holds]
            yield own, its

    def _joined(self, batch: Batch, own: Ints, its: Ints) -> Iterator[Item]:
        """Emit tuples joined with rows of the table; −1 stands for no row."""
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
    """Residual condition besides the equal keys, computed on the columns that it needs."""

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
    """Repeat every tuple once per candidate and pair it with the candidate's position; at most
    `together` pairs at a time.

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
    """Cut tuples into ranges that have at most `together` candidates, or one tuple that has more.

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


def _with_unmatched(own: Ints, its: Ints, matched: Mask, first: int) -> tuple[Ints, Ints]:
    """Insert the tuples that have no partner, with −1, at their places."""
    if matched.all():
        return own, its
    alone = np.flatnonzero(~matched) + first
    own = np.concatenate([own, alone])
    its = np.concatenate([its, np.full(len(alone), -1)])
    order = stable_order(own)
    return own[order], its[order]
