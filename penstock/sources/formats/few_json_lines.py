"""A few JSON lines, which come one by one from a socket or a growing file: Arrow needs longer to
begin than Python needs to end.

Only values that Python and `json_values.py` are sure to take for the same are read here.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from penstock.model.row_form import RowForm
from penstock.model.schema import Schema
from penstock.model.types import Kind, Type
from penstock.sources.fitting.cells import parse_cell
from penstock.sources.fitting.objects import BAD, fit_objects, plain_value
from penstock.sources.fitting.text import parse_column
from penstock.sources.source import Chunk

FEW = 16  # lines
_CLASSES: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: (bool,),
    Kind.INT: (int,),
    Kind.BIGINT: (int,),
    Kind.DOUBLE: (float, int),
    Kind.STRING: (str,),
    Kind.DATE: (str,),
    Kind.TIMESTAMP: (str,),
}
_FAILURES = (pa.ArrowException, OverflowError, RecursionError, ValueError)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _whole(digits: str) -> int | float:
    """A DOUBLE has a negative zero."""
    return int(digits) if digits != "-0" else -0.0


_DECODE = json.JSONDecoder(parse_int=_whole, parse_constant=_refuse).decode


class LinesAlone:
    """Reads lines that come alone, one after the other."""

    def __init__(self, schema: Schema) -> None:
        self._form = RowForm(schema)
        self._columns = [
            (each.name, each.type, _classes(each.type), _is_text(each.type)) for each in schema
        ]

    def read(self, line: bytes) -> Chunk | None:
        """The row, or None if it needs a closer look."""
        try:
            found = _DECODE(line.decode())
        except _FAILURES:
            return None
        if type(found) is not dict:
            return None
        values = []
        for name, sql_type, classes, is_text in self._columns:
            value = found.get(name)
            if value is not None:
                kind = type(value)
                if kind not in classes or (kind is float and not isfinite(value)):
                    return None
                if is_text and kind is str:
                    value = parse_cell(value, sql_type)
                elif sql_type.kind is not Kind.DOUBLE:
                    value = plain_value(value, sql_type)
                elif kind is int:
                    value = _as_double(value)
                if value is None or value is BAD:
                    return None
            values.append(value)
        return Chunk.single(tuple(values), self._form)


def read_few_lines(lines: bytes, schema: Schema) -> pa.RecordBatch | None:
    """The rows, or None if one of them needs a closer look."""
    try:
        objects = [_DECODE(line) for line in lines.decode().split("\n")]
        if any(type(each) is not dict for each in objects):
            return None
        columns = []
        for field in schema:
            column = _column([each.get(field.name) for each in objects], field.type)
            if column is None:
                return None
            columns.append(column)
    except _FAILURES:
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def _column(values: list[Any], sql_type: Type) -> pa.Array | None:
    classes = _classes(sql_type)
    for value in values:
        if value is not None and type(value) not in classes:
            return None
        if type(value) is float and not isfinite(value):
            return None
    if not _is_text(sql_type):
        return pa.array(values, sql_type.arrow)
    if sql_type.epoch is not None:
        counted, bad = fit_objects(values, sql_type)
        return None if np.count_nonzero(bad) else counted
    column, bad = parse_column(pa.array(values, pa.string()), sql_type)
    return None if np.count_nonzero(bad) else column


def _classes(sql_type: Type) -> tuple[type, ...]:
    known = _CLASSES.get(sql_type.kind, ())
    return known if sql_type.epoch is None else (*known, int)


def _as_double(value: int) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _is_text(sql_type: Type) -> bool:
    """Whether JSON has it as a text that means something else."""
    return sql_type.kind in (Kind.DATE, Kind.TIMESTAMP)
