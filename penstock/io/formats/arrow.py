"""Arrow data, read as a declared schema: lossless casts, and the rows with values that do not fit.

Which Arrow types may stand for a declared type is a matter of the column, and an error if not;
whether a value fits (an int64 in an INT) is a matter of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SourceError
from penstock.io.formats.epochs import floor_divided, from_decimals, from_doubles, from_integers
from penstock.io.formats.text_values import Converted, all_good, find_columns, whole_rows
from penstock.io.sources.rejects import StreamRejects, does_not_fit, row_as_json
from penstock.model.types import EPOCHS, Field, Kind, Schema, Type


def fit_batches(
    batches: Iterable[pa.RecordBatch], schema: Schema, source: str, rejects: StreamRejects
) -> Iterator[pa.RecordBatch]:
    """Yield the batches in the declared schema, without the rows that do not fit it."""
    rows_before = 0
    checked: pa.Schema | None = None
    for batch in batches:
        if checked is None or not batch.schema.equals(checked, check_metadata=True):
            checked = batch.schema
            positions = check_columns(checked, schema, source)
            fits = _fits_as_it_is(checked, schema)
        if fits:
            yield batch
        else:
            found = [batch.column(position) for position in positions]
            yield _fit(found, schema, source, rows_before, rejects)
        rows_before += batch.num_rows


def _fits_as_it_is(found: pa.Schema, schema: Schema) -> bool:
    """Whether there is nothing to do: exactly the declared columns, and no decimals, which may have
    more digits than their type says."""
    exact = all(field.type.kind is not Kind.DECIMAL for field in schema)
    return exact and bool(found.equals(schema.arrow, check_metadata=True))


def check_columns(found: pa.Schema, schema: Schema, source: str) -> list[int]:
    """Positions of the declared columns; an error if one is missing or can never fit."""
    where = source or "the data"
    positions = find_columns(schema, found.names, where)
    for field, position in zip(schema, positions, strict=True):
        if not castable(found.field(position).type, field.type):
            raise SourceError(
                f"{where}: column {field.name} is declared {field.type},"
                f" but holds {found.field(position).type}",
                expected=f"{_EXPECTED[field.type.kind]} for {field.type}",
                hint=_as_times(found.field(position).type, field),
            )
    return positions


def _fit(
    found: list[pa.Array], schema: Schema, source: str, rows_before: int, rejects: StreamRejects
) -> pa.RecordBatch:
    def report(row: int, column: int) -> None:
        field = schema.fields[column]
        content = {
            each.name: _readable(array, row) for each, array in zip(schema, found, strict=True)
        }
        reason = does_not_fit(str(content[field.name]), field.type)
        number = rows_before + row + 1
        rejects.bad_row(source, number, field.name, reason, row_as_json(content))

    columns = [fit_column(array, field.type) for array, field in zip(found, schema, strict=True)]
    return whole_rows(schema, columns, report)


def _readable(array: pa.Array, row: int) -> object:
    """Format a value for messages: times as text in UTC, because `datetime` does not hold them
    all."""
    cell = array[row : row + 1]
    if pa.types.is_timestamp(cell.type):
        cell = cell.cast(pa.timestamp(cell.type.unit))
    return cell.cast(pa.string())[0].as_py() if pa.types.is_temporal(cell.type) else cell[0].as_py()


def castable(found: pa.DataType, declared: Type) -> bool:
    """Whether values of an Arrow type may be taken as values of a declared type."""
    is_ = pa.types
    if is_.is_dictionary(found):
        return castable(found.value_type, declared)
    if is_.is_null(found):
        return True
    if declared.is_nested:
        return _nested_castable(found, declared)
    match declared.kind:
        case Kind.BOOLEAN:
            fits = is_.is_boolean(found)
        case Kind.INT | Kind.BIGINT:
            fits = is_.is_integer(found)
        case Kind.DOUBLE:
            fits = is_.is_floating(found) or is_.is_integer(found)
        case Kind.DECIMAL:
            fits = is_.is_integer(found) or (is_.is_decimal(found) and found.precision <= 38)
        case Kind.STRING:
            fits = is_.is_string(found) or is_.is_large_string(found) or is_.is_string_view(found)
        case Kind.BINARY:
            fits = (
                is_.is_binary(found)
                or is_.is_large_binary(found)
                or is_.is_binary_view(found)
                or is_.is_fixed_size_binary(found)
            )
        case Kind.DATE:
            fits = is_.is_date(found) or _may_count(found, declared)
        case Kind.TIMESTAMP:
            times = is_.is_timestamp(found) or is_.is_date(found)
            fits = times or _may_count(found, declared)
        case _:
            fits = False
    return bool(fits)


def _may_count(found: pa.DataType, declared: Type) -> bool:
    """Whether numbers of the Arrow type are times, because the column says so."""
    is_ = pa.types
    numeric = is_.is_integer(found) or is_.is_floating(found) or is_.is_decimal(found)
    return declared.epoch is not None and numeric


def _nested_castable(found: pa.DataType, declared: Type) -> bool:
    is_ = pa.types
    match declared.kind:
        case Kind.ARRAY:
            lists = is_.is_list(found) or is_.is_large_list(found) or is_.is_fixed_size_list(found)
            return lists and castable(found.value_type, declared.item)
        case Kind.MAP:
            (_, key), (_, item) = declared.parts
            fits = is_.is_map(found) and castable(found.key_type, key)
            return fits and castable(found.item_type, item)
        case _:
            names = [found.field(i).name for i in range(found.num_fields * is_.is_struct(found))]
            return names == [name for name, _ in declared.parts] and all(
                castable(found.field(i).type, part) for i, (_, part) in enumerate(declared.parts)
            )


def _as_times(found: pa.DataType, field: Field) -> str | None:
    if field.type.kind not in EPOCHS:
        return None
    if not (pa.types.is_integer(found) or pa.types.is_floating(found)):
        return "cast the column; only dicts and tuples may hold times as texts"
    units = " or ".join(each.value for each in EPOCHS[field.type.kind])
    return f"{field.name} {field.type} EPOCH {units}, whichever the numbers count since 1970"


_EXPECTED = {
    Kind.NULL: "no column",
    Kind.BOOLEAN: "booleans",
    Kind.INT: "integers",
    Kind.BIGINT: "integers",
    Kind.DECIMAL: "decimals of at most 38 digits or integers",
    Kind.DOUBLE: "floats or integers",
    Kind.STRING: "strings",
    Kind.BINARY: "binary",
    Kind.DATE: "dates",
    Kind.TIMESTAMP: "timestamps or dates",
    Kind.INTERVAL: "no column",
    Kind.ARRAY: "lists of such values",
    Kind.STRUCT: "structs with these fields in this order",
    Kind.MAP: "maps of such values",
}


def fit_column(array: pa.Array, declared: Type) -> Converted:
    """Cast a column to the declared type. Returns it with a mask of the values that do not fit,
    which are NULL in it."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    cast = _CASTS.get(declared.kind, _to_type)
    try:
        return all_good(cast(array, declared))
    except pa.ArrowInvalid:
        return _halves(array, declared, cast)


_Cast = Callable[[pa.Array, Type], pa.Array]


def _halves(array: pa.Array, declared: Type, cast: _Cast) -> Converted:
    """Cast an array that does not fit as a whole by halving it down to the bad values."""
    pieces: list[pa.Array] = []
    bad = np.zeros(len(array), dtype=np.bool_)
    todo = [(0, len(array))]
    while todo:
        start, end = todo.pop()
        try:
            pieces.append(cast(array[start:end], declared))
        except pa.ArrowInvalid:
            if end - start == 1:
                bad[start] = True
                pieces.append(pa.nulls(1, declared.arrow))
            else:
                middle = (start + end) // 2
                todo += [(middle, end), (start, middle)]  # the left half is popped first
    return pa.concat_arrays(pieces), bad


def _to_type(array: pa.Array, declared: Type) -> pa.Array:
    return array.cast(declared.arrow)


def _to_time(array: pa.Array, declared: Type) -> pa.Array:
    """Cast to DATE or TIMESTAMP; digits finer than the microsecond are cut off."""
    if pa.types.is_integer(array.type):
        return from_integers(array, declared)
    if pa.types.is_floating(array.type):
        return from_doubles(array, declared)
    if pa.types.is_decimal(array.type):
        return from_decimals(array, declared)
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        micros = floor_divided(array.cast(pa.int64()), 1000)
        return micros.cast(declared.arrow)
    return array.cast(declared.arrow)


def _to_nested(array: pa.Array, declared: Type) -> pa.Array:
    """Cast part by part, because Arrow neither counts nor cuts off."""
    if pa.types.is_null(array.type) or not _holds_times(declared):
        return array.cast(declared.arrow)
    nulls = array.is_null() if array.null_count else None
    if declared.kind is Kind.STRUCT:
        parts = [
            _to_type_of(part, of_part)
            for part, (_, of_part) in zip(array.flatten(), declared.parts, strict=True)
        ]
        fields = list(declared.arrow)
        return pa.StructArray.from_arrays(parts, fields=fields, mask=nulls)
    is_map = declared.kind is Kind.MAP
    pairs = array.cast(_as_list_type(array.type)) if is_map else array
    lengths = pc.fill_null(pc.list_value_length(pairs), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    items = pairs.flatten()
    if not is_map:
        made = _to_type_of(items, declared.item)
        return pa.ListArray.from_arrays(offsets, made, type=declared.arrow, mask=nulls)
    key, value = (
        _to_type_of(part, of_part)
        for part, (_, of_part) in zip(items.flatten(), declared.parts, strict=True)
    )
    return pa.MapArray.from_arrays(offsets, key, value, type=declared.arrow, mask=nulls)


def _as_list_type(found: pa.MapType) -> pa.DataType:
    """Type of a nested array as a list; a map is a list of pairs."""
    return pa.list_(pa.struct([("key", found.key_type), ("value", found.item_type)]))


def _holds_times(declared: Type) -> bool:
    return declared.kind is Kind.TIMESTAMP or any(_holds_times(part) for _, part in declared.parts)


def _to_type_of(array: pa.Array, declared: Type) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return _CASTS.get(declared.kind, _to_type)(array, declared)


def _to_decimal(array: pa.Array, declared: Type) -> pa.Array:
    """Cast through 256 bits: in 128, Arrow wraps around when it shifts the digits to a larger
    scale."""
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    if pa.types.is_null(array.type):
        return array.cast(declared.arrow)
    scale = array.type.scale
    wide = array.cast(pa.decimal256(76, scale)).cast(pa.decimal256(76, max(scale, declared.scale)))
    return wide.cast(declared.arrow)


_CASTS: dict[Kind, _Cast] = {
    Kind.DECIMAL: _to_decimal,
    Kind.DATE: _to_time,
    Kind.TIMESTAMP: _to_time,
    Kind.ARRAY: _to_nested,
    Kind.STRUCT: _to_nested,
    Kind.MAP: _to_nested,
}
