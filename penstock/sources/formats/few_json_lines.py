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

from penstock.model.schema import Schema
from penstock.model.types import Kind, Type
from penstock.sources.fitting.text import parse_column

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
    classes = _CLASSES.get(sql_type.kind, ())
    for value in values:
        if value is not None and type(value) not in classes:
            return None
        if type(value) is float and not isfinite(value):
            return None
    if sql_type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        return pa.array(values, sql_type.arrow)
    column, bad = parse_column(pa.array(values, pa.string()), sql_type)
    return None if np.count_nonzero(bad) else column
