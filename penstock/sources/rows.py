"""Rows of Python objects: dicts by the names of the columns, tuples and lists by position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from penstock.model.row_form import RowForm
from penstock.model.schema import Schema
from penstock.sources.fitting.columns import whole_rows
from penstock.sources.fitting.objects import fit_objects, fit_row, why_misfit
from penstock.sources.reasons import row_as_json
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk

BATCH = 4096  # rows


@dataclass(frozen=True, slots=True)
class RowSource:
    rows: Sequence[object]
    name: str

    def describe(self) -> str:
        return f"MEMORY ({self.name})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        rest, chunks = iter(self.rows), RowChunks(schema, rejects)
        while rows := list(islice(rest, BATCH)):
            chunk = chunks.of(rows)
            del rows  # nobody needs them while the chunk is worked on
            if chunk is not None:
                yield chunk


class RowChunks:
    """Rows become chunks, one after the other; those that do not fit are counted along."""

    def __init__(self, schema: Schema, rejects: StreamRejects) -> None:
        self._schema = schema
        self._rejects = rejects
        self._form = RowForm(schema)
        self._before = 0

    def of(self, rows: list[object]) -> Chunk | None:
        """None if none of them fits."""
        chunk = read_rows(rows, self._schema, self._before, self._rejects, self._form)
        self._before += len(rows)
        return chunk if chunk.num_rows else None


def read_rows(
    rows: list[object],
    schema: Schema,
    rows_before: int,
    rejects: StreamRejects,
    form: RowForm,
) -> Chunk:
    """A row that comes alone is written in a `form`, which whoever reads on and on has once."""
    if len(rows) == 1:
        chunk = _single(rows[0], form)
        if chunk is not None:
            return chunk
    malformed, columns = _columns(rows, schema)

    def report(row: int, column: int) -> None:
        field = schema.fields[column]
        name, reason = None, malformed.get(row)
        if reason is None:
            name, reason = field.name, why_misfit(columns[column][row], field.type)
        rejects.bad_row("", rows_before + row + 1, name, reason, row_as_json(rows[row]))

    fitted = [
        fit_objects(column, field.type) for column, field in zip(columns, schema, strict=True)
    ]
    if malformed:  # bad in whichever column
        fitted[0][1][np.array(list(malformed))] = True
    return Chunk(whole_rows(schema, fitted, report))


def _single(row: object, form: RowForm) -> Chunk | None:
    """A row that comes alone, if there is nothing special about it."""
    if type(row) is dict:
        given: Sequence[object] = [row.get(name) for name in form.names]
    elif type(row) in (tuple, list) and len(row) == len(form.names):  # type: ignore[arg-type]
        given = row  # type: ignore[assignment]
    else:
        return None
    values = fit_row(given, form.types)
    return None if values is None else Chunk.single(values, form)


def _columns(
    rows: Sequence[object], schema: Schema
) -> tuple[dict[int, str], Sequence[Sequence[object]]]:
    """The rows that are none, with the reason, and the values column by column."""
    classes = set(map(type, rows))
    if classes == {dict}:
        return {}, [[row.get(name) for row in rows] for name in schema.names]  # type: ignore[attr-defined]
    malformed: dict[int, str] = {}
    cells: list[Sequence[object]] = []
    for position, row in enumerate(rows):
        reason = _why_malformed(row, schema)
        if reason is not None:
            malformed[position] = reason
            cells.append([None] * len(schema))
        elif isinstance(row, Mapping):
            cells.append([row.get(name) for name in schema.names])
        else:
            cells.append(row)  # type: ignore[arg-type]
    return malformed, list(zip(*cells, strict=True))


def _why_malformed(row: object, schema: Schema) -> str | None:
    if isinstance(row, Mapping):
        return None
    if not isinstance(row, tuple | list):
        return f"a row must be a dict, a tuple or a list, not {type(row).__name__}"
    if len(row) != len(schema):
        return f"{len(row)} values instead of {len(schema)}"
    return None
