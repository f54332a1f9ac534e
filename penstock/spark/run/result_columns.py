"""The columns of the DataFrames that users get: results, late tuples or rejected rows, with counts.

A step that emits such columns emits one more row wherever it has counted something, which has the
counts and nothing else.  Spark sums them up while rows pass, and leaves those rows out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.io.sources.rejects import REJECT_COLUMNS
from penstock.kernel.state import unpack
from penstock.model.punctuation import sign_name
from penstock.model.types import LATE, free_name
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import late_layouts
from penstock.runs.answer import Account, Decision, LateColumns
from penstock.spark.session.worker_errors import freeze_imports
from penstock.spark.tasks.messages import Packed, PackedKind, unpack_rows

Positions: TypeAlias = tuple[int | None, ...]

COUNTED = ("read", "late", "rejected")  # in the order that an account has them
NOTHING = Account(0, 0, 0)
_COUNTS = tuple(f"_penstock_{name}" for name in COUNTED)
_DECISIONS = "_penstock_decisions"


def counted_in(packed: Iterable[Packed]) -> Account:
    """Counts of tasks and buckets in packed rows."""
    counted = [(each.read, each.late, each.rejected) for each in packed]
    return Account(*(sum(numbers) for numbers in zip((0, 0, 0), *counted, strict=True)))


@dataclass(frozen=True)
class FrameColumns:
    """Rows of one `kind` as columns.  `positions` has the position of each column in the output of
    the job, None if it is missing there: one tuple for all, or one for each list of column names.
    Further columns have the `counts` and, where operators may be exchanged, the `decisions` as
    text."""

    kind: PackedKind
    shown: pa.Schema
    positions: Positions | Mapping[tuple[str, ...], Positions]
    counts: tuple[str, ...]
    decisions: str | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns that users do not see."""
        return self.counts if self.decisions is None else (*self.counts, self.decisions)

    @property
    def arrow(self) -> pa.Schema:
        """Schema, with the columns that users do not see."""
        return pa.schema([*self.shown, *self._hidden_types])

    @property
    def _hidden_types(self) -> list[pa.Field]:
        texts = [] if self.decisions is None else [pa.field(self.decisions, pa.string())]
        return [*(pa.field(name, pa.int64()) for name in self.counts), *texts]

    def tables(self, packed: Sequence[Packed]) -> Iterator[pa.Table]:
        """Yield the rows, and a row with counts."""
        made = [unpack_rows(each.payload) for each in packed if each.kind == self.kind]
        tables = [self.fitted(rows) for rows in made]
        counted, decided = counted_in(packed), self._decided(packed)
        if counted != NOTHING or decided is not None:
            row = self.counted(counted, decided)
            # with other rows: every table costs Spark a little
            tables[-1:] = [pa.concat_tables([*tables[-1:], row]).combine_chunks()]
        yield from tables

    def _decided(self, packed: Iterable[Packed]) -> str | None:
        """Decisions of buckets as text, a line each."""
        if self.decisions is None:
            return None
        said = [each.payload for each in packed if each.kind == PackedKind.STATUS and each.payload]
        found = [status.get("decisions", ()) for status in map(unpack, said)]
        return "\n".join(str(Decision.load(one)) for several in found for one in several) or None

    def unpacked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the output of tasks into rows and counts."""
        for batch in batches:
            for table in self.tables([Packed(**row) for row in batch.to_pylist()]):
                yield from table.to_batches()
        freeze_imports()

    def counted(self, account: Account, decided: str | None = None) -> pa.Table:
        """Row with nothing but counts and decisions."""
        nothing = [pa.nulls(1, field.type) for field in self.shown]
        values = zip([*astuple(account), decided], self._hidden_types, strict=False)
        hidden = [pa.array([value], field.type) for value, field in values]
        return pa.Table.from_arrays([*nothing, *hidden], schema=self.arrow)

    def fitted(self, rows: pa.Table) -> pa.Table:
        places = self.positions
        if isinstance(places, Mapping):
            places = places[tuple(rows.column_names)]
        columns = [
            self._column(rows, position, field)
            for position, field in zip(places, self.shown, strict=True)
        ]
        uncounted = [pa.nulls(rows.num_rows, field.type) for field in self._hidden_types]
        return pa.Table.from_arrays([*columns, *uncounted], schema=self.arrow)

    def _column(self, rows: pa.Table, position: int | None, field: pa.Field) -> pa.ChunkedArray:
        if position is None:
            return pa.nulls(rows.num_rows, field.type)
        if position == rows.num_columns:  # a sign, which is left out where nothing is taken back
            return pa.array(np.ones(rows.num_rows, np.int8))
        return rows.column(position)


def result_columns(query: QueryPlan, streaming: bool, decides: bool = False) -> FrameColumns:
    """Columns of results.  Rows of a table are final; those of a stream have a sign if they may be
    retracted.  Items of a difference always have one.  `decides` if operators may be exchanged."""
    schema = pa.schema([(each.name, each.type.arrow) for each in query.schema])
    taken = {name.lower() for name in schema.names}
    if query.signed or (query.revises and streaming):
        schema = schema.append(pa.field(_free(sign_name([]), taken), pa.int8()))
    counts = tuple(_free(name, taken) for name in _COUNTS)
    decisions = _free(_DECISIONS, taken) if decides else None
    return FrameColumns(PackedKind.ROWS, schema, tuple(range(len(schema))), counts, decisions)


def reject_columns() -> FrameColumns:
    return FrameColumns(
        PackedKind.REJECTED, REJECT_COLUMNS, tuple(range(len(REJECT_COLUMNS))), _COUNTS
    )


def late_frame_columns(query: QueryPlan, nodes: Sequence[Node]) -> list[FrameColumns | None]:
    """Columns of the tuples that are late for each of the nodes; None if none can be.  All have the
    columns of all of them, because they become one DataFrame."""
    given = [
        # rows that wait for their order may be late for that; so may tuples for any other node
        late_layouts(
            node if isinstance(node, QueryPlan) else replace(query, input=node, in_order=False)
        )
        for node in nodes
    ]
    schemas = [schema for layouts in given for schema in layouts.values()]
    if not schemas:
        return [None for _ in nodes]
    own = len(LATE) if query.amend_for is not None else len(LATE) - 1
    taken = {name.lower() for schema in schemas for name in schema.names[:-own]}
    ours = [_free(name, taken) for name in LATE[:own]]
    counts = tuple(_free(name, taken) for name in _COUNTS)

    def named(schema: pa.Schema) -> pa.Schema:
        return pa.schema(list(zip([*schema.names[:-own], *ours], schema.types, strict=True)))

    columns = LateColumns(list(map(named, schemas))).names.items()
    in_order = sorted(columns, key=lambda column: column[0][0] in ours)  # the user's come first
    shown = pa.schema([(name, of_type) for (_, of_type), name in in_order])
    wanted = [column for column, _ in in_order]

    def columns_of(layouts: dict[tuple[str, ...], pa.Schema]) -> FrameColumns | None:
        places = {inside: _positions(named(each), wanted) for inside, each in layouts.items()}
        return FrameColumns(PackedKind.LATE, shown, places, counts) if layouts else None

    return [columns_of(layouts) for layouts in given]


def _positions(schema: pa.Schema, wanted: Iterable[tuple[str, pa.DataType]]) -> Positions:
    """Positions of columns with a name and a type."""
    own = [(field.name, field.type) for field in schema]
    return tuple(own.index(each) if each in own else None for each in wanted)


def _free(name: str, taken: set[str]) -> str:
    """Choose a name that no other column has; Spark ignores case."""
    name = free_name(name, taken)
    taken.add(name.lower())
    return name
