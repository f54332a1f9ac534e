"""What an engine hands out: the rows of a query, and an account of the tuples left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.model.names import free_name
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties.late_columns import late_schemas
from penstock.sources.rejects import RejectKind, RejectLog


@dataclass(frozen=True, slots=True)
class Answer:
    table: pa.Table
    late: pa.Table
    rejects: RejectLog
    delivered: int  # rows that the sources could read
    counted_late: int | None = None  # where late tuples are counted but not kept

    @property
    def account(self) -> Account:
        read = self.delivered + self.rejects.count(RejectKind.BAD_ROW)
        late = self.late.num_rows if self.counted_late is None else self.counted_late
        return Account(read, late, self.rejects.count())


@dataclass(frozen=True, slots=True)
class Account:
    """Where the tuples went that a query read."""

    read: int
    late: int
    rejected: int

    def plus(self, other: Account) -> Account:
        return Account(
            self.read + other.read, self.late + other.late, self.rejected + other.rejected
        )


def plainly_named(
    batch: pa.RecordBatch, known: Mapping[tuple[str, ...], list[str]] | None = None
) -> pa.RecordBatch:
    """Columns without the relation before their names, where they can be told apart without it;
    `known` says what late tuples of a query are called (see `plain_names`)."""
    for inside, outside in (known or {}).items():
        if tuple(batch.schema.names[: len(inside)]) == inside:
            return batch.rename_columns([*outside, *batch.schema.names[len(inside) :]])
    plain = [name.rpartition(".")[2] for name in batch.schema.names]
    return batch.rename_columns(plain) if len(set(plain)) == len(plain) else batch


class LateColumns:
    """Columns for the late tuples of several operators.  Those that have one name and one type are
    one; of several types that share a name, the first one keeps it, and the others get a number
    behind it.

    >>> late = LateColumns([pa.schema([("t", pa.int32())]), pa.schema([("t", pa.date32())])])
    >>> late.schema.names
    ['t', 't_1']
    >>> late.aligned(pa.table({"t": pa.array([7], pa.int32())})).to_pylist()
    [{'t': 7, 't_1': None}]
    """

    def __init__(self, schemas: Sequence[pa.Schema]) -> None:
        types: dict[str, list[pa.DataType]] = {}
        for schema in schemas:
            for field in schema:
                found = types.setdefault(field.name, [])
                if field.type not in found:
                    found.append(field.type)
        self.names: dict[tuple[str, pa.DataType], str] = {}
        taken = {name.lower() for name in types}  # Spark does not look at the case of letters
        for name, several in types.items():
            for number, each in enumerate(several):
                chosen = free_name(name, taken) if number else name
                self.names[name, each] = chosen
                taken.add(chosen.lower())
        fields = [(name, each) for (_, each), name in self.names.items()]
        self.schema = pa.schema(fields)

    def aligned(self, table: pa.Table) -> pa.Table:
        """Late tuples in these columns, NULL in those that they do not have."""
        own = {
            self.names[field.name, field.type]: column
            for field, column in zip(table.schema, table.columns, strict=True)
        }
        rest = {
            field.name: pa.nulls(table.num_rows, field.type)
            for field in self.schema
            if field.name not in own
        }
        return pa.table({**own, **rest}).select(self.schema.names)


def join_tables(tables: Sequence[pa.Table], query: QueryPlan | None = None) -> pa.Table:
    """The late tuples of several operators in one table, which has the columns that late tuples of
    the query can have, whether or not there are such."""
    filled = [table for table in tables if table.num_rows]
    schemas = late_schemas(query) if query is not None else []
    columns = LateColumns([*schemas, *(table.schema for table in filled or tables[:1])])
    return pa.concat_tables(
        [columns.schema.empty_table(), *(columns.aligned(table) for table in filled)]
    )
