"""What an engine hands out: the rows of a query, and an account of the tuples left out."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.sinks.cells import column_texts
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


def plainly_named(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns without the relation before their names, where they can be told apart without it."""
    plain = [name.rpartition(".")[2] for name in batch.schema.names]
    return batch.rename_columns(plain) if len(set(plain)) == len(plain) else batch


def join_tables(tables: list[pa.Table]) -> pa.Table:
    """The late tuples of several operators in one table.  Columns that have one name but different
    types become texts."""
    filled = [table for table in tables if table.num_rows] or tables[:1]
    if not filled:
        return pa.table({})
    types: dict[str, set[pa.DataType]] = {}
    for table in filled:
        for field in table.schema:
            types.setdefault(field.name, set()).add(field.type)
    mixed = {name for name, found in types.items() if len(found) > 1}
    alike = [
        pa.table(
            {
                name: pa.array(column_texts(column), pa.string()) if name in mixed else column
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
        )
        for table in filled
    ]
    return pa.concat_tables(alike, promote_options="default")
