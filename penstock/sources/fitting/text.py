"""Columns of text, read as a declared type: by Arrow at once, or cell by cell if a cell is odd.

Arrow's casts are not exactly the rules of `cells.py`: they are stricter (no spaces, no `yes`),
which only costs time, and here and there laxer, which the guards below catch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.plain_values import to_arrow
from penstock.model.types import Kind, Type
from penstock.sources.fitting.cells import parse_cell
from penstock.sources.fitting.columns import Converted, all_good
from penstock.sources.fitting.epochs import from_texts

_FIRST_DAY = -719_162  # 0001-01-01; Arrow also knows a year 0
_TO_THE_MICROSECOND = len("2026-01-31T23:59:59.123456")
_FINER = r"(:[0-9]{2}\.[0-9]{6})[0-9]+"  # digits behind the microsecond, which are cut off


def parse_column(texts: pa.StringArray, sql_type: Type) -> Converted:
    """The column and a mask of the cells that could not be read, which are NULL in the column."""
    whole = parse_whole(texts, sql_type)
    return parse_cells(texts, sql_type) if whole is None else all_good(whole)


def parse_whole(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    """The column, if Arrow reads every cell as the rules say."""
    if sql_type.kind is Kind.STRING:
        return texts
    parser = _WHOLE.get(sql_type.kind)
    try:
        return parser(texts, sql_type) if parser else None
    except pa.ArrowInvalid:
        return None


def parse_cells(texts: pa.StringArray, sql_type: Type) -> Converted:
    cells = texts.to_pylist()
    values = [None if text is None else parse_cell(text, sql_type) for text in cells]
    column = to_arrow(values, sql_type)
    bad = np.fromiter(
        (value is None and text is not None for value, text in zip(values, cells, strict=True)),
        dtype=np.bool_,
        count=len(cells),
    )
    return column, bad


def _cast(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    return texts.cast(sql_type.arrow)


def _integers(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    # Arrow takes hexadecimal digits after 0x.
    return None if _holds(texts, "x", "X") else texts.cast(sql_type.arrow)


def _doubles(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    # Arrow takes C's nan(...).
    return None if _holds(texts, "(") else texts.cast(sql_type.arrow)


def _decimals(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    # Arrow's 128 bits wrap around without a word when shifting the digits to the scale takes more.
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest + sql_type.scale > 38 or _holds(texts, "e", "E"):
        return None
    return texts.cast(sql_type.arrow)


def _dates(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    if sql_type.epoch is not None and (counted := _counted(texts, sql_type)) is not None:
        return counted
    days = texts.cast(sql_type.arrow)
    lowest = pc.min(days.cast(pa.int32())).as_py()
    return days if lowest is None or lowest >= _FIRST_DAY else None


def _counted(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    """The column, if all of it is numbers."""
    try:
        return from_texts(texts, sql_type)
    except pa.ArrowInvalid:
        return None


def _timestamps(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    if sql_type.epoch is not None and (counted := _counted(texts, sql_type)) is not None:
        return counted
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _TO_THE_MICROSECOND:
        texts = pc.replace_substring_regex(texts, _FINER, r"\1")
    try:
        moments = texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:  # Arrow wants to know beforehand whether there are zones
        moments = texts.cast(sql_type.arrow)
    lowest = pc.min(moments.cast(pa.int64())).as_py()
    # A day's margin, because a zone may move the first moment of the year 1.
    if lowest is not None and lowest < (_FIRST_DAY + 1) * 86_400_000_000:
        return None
    return moments.cast(sql_type.arrow)


def _holds(texts: pa.StringArray, *letters: str) -> bool:
    return any(pc.any(pc.match_substring(texts, letter)).as_py() for letter in letters)


_WHOLE: dict[Kind, Callable[[pa.StringArray, Type], pa.Array | None]] = {
    Kind.BOOLEAN: _cast,
    Kind.INT: _integers,
    Kind.BIGINT: _integers,
    Kind.DOUBLE: _doubles,
    Kind.DECIMAL: _decimals,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _timestamps,
}
