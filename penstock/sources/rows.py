"""Rows of Python objects: dicts by the names of the columns, tuples and lists by position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from penstock.model.row_form import RowForm
from penstock.model.schema import Schema
from penstock.sources.fitting.columns import whole_rows
from penstock.sources.fitting.objects import fit_objects, fit_row, why_misfit
from penstock.sources.reasons import row_as_json
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk

BATCH = 4096  # rows
PATIENCE = 0.01  # seconds that rows may have to wait for others; no answer depends on it
AWAITED = 0.0003  # seconds that a row takes which somebody waits for: longer than to handle it


@dataclass(frozen=True, slots=True)
class RowSource:
    rows: Sequence[object]
    name: str

    def describe(self) -> str:
        return f"MEMORY ({self.name})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        rest = iter(self.rows)
        return read_batches(lambda: list(islice(rest, BATCH)), schema, rejects)


def read_batches(
    take: Callable[[], list[object]], schema: Schema, rejects: StreamRejects
) -> Iterator[Chunk]:
    """The rows that `take` gives out, some at a time, until there are none."""
    rows_before, form = 0, RowForm(schema)
    while rows := take():
        batch = read_rows(rows, schema, rows_before, rejects, form)
        rows_before += len(rows)
        del rows  # nobody needs them while the batch is worked on
        if batch.num_rows:
            yield Chunk(batch)


class Promptly:
    """Rows that somebody makes, in batches: a full one, or what there is when it takes long.  A row
    that was waited for does not wait for the next one, which may take as long.  If making them
    fails, those that there are come first."""

    def __init__(self, rest: Iterator[object]) -> None:
        self._rest = rest
        self._failure: Exception | None = None

    def take(self) -> list[object]:
        if self._failure is not None:
            raise self._failure
        rows: list[object] = []
        begun = last = time.monotonic()
        try:
            for row in islice(self._rest, BATCH):
                rows.append(row)
                now = time.monotonic()
                if now - last > AWAITED or now - begun > PATIENCE:
                    break
                last = now
        except Exception as error:
            if not rows:
                raise
            self._failure = error
        return rows


def read_rows(
    rows: list[object],
    schema: Schema,
    rows_before: int,
    rejects: StreamRejects,
    form: RowForm | None = None,
) -> pa.RecordBatch:
    """Whoever reads on and on says in which `form` a row is written that comes alone."""
    if form is not None and len(rows) == 1:
        batch = _single(rows[0], form)
        if batch is not None:
            return batch
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
    return whole_rows(schema, fitted, report)


def _single(row: object, form: RowForm) -> pa.RecordBatch | None:
    """A row that comes alone, if there is nothing special about it."""
    if type(row) is dict:
        given: Sequence[object] = [row.get(name) for name in form.names]
    elif type(row) in (tuple, list) and len(row) == len(form.names):  # type: ignore[arg-type]
        given = row  # type: ignore[assignment]
    else:
        return None
    values = fit_row(given, form.types)
    return None if values is None else form.record(values)


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
