"""Checksums of rows: equal for equal values, however Arrow lays them out. By them a run notices
that a source has changed since it was read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TOGETHER = 4096  # rows of a stream that are hashed together


def text_checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def rows_checksum(*tables: pa.Table) -> str:
    """Checksum of the rows of several tables, whatever their chunks are.

    >>> whole = pa.table({"k": ["a", None, "c"]})
    >>> cut = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    >>> rows_checksum(whole) == rows_checksum(cut), rows_checksum(whole) == rows_checksum(cut[:2])
    (True, False)
    """
    digest = hashlib.sha256()
    for table in tables:
        digest.update(f"{table.num_rows}".encode())
        for name, column in zip(table.column_names, table.columns, strict=True):
            digest.update(f"{name} {column.type}".encode())
            for piece in _bytes_of(column):
                digest.update(piece)
    return digest.hexdigest()[:32]


class RowDigest:
    """A checksum of the rows of a stream in their order, however they are cut into batches.

    >>> rows = pa.RecordBatch.from_pydict({"n": range(10_000)})
    >>> one, other = RowDigest(), RowDigest()
    >>> one.add(rows), other.add(rows.slice(0, 7)), other.add(rows.slice(7))
    (None, None, None)
    >>> one.value == other.value
    True
    """

    def __init__(self) -> None:
        self._rows = 0
        self._check = ""
        self._waiting: list[pa.RecordBatch] = []
        self._room = _TOGETHER

    def add(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            piece = batch.slice(0, self._room)
            batch = batch.slice(piece.num_rows)
            self._rows += piece.num_rows
            self._waiting.append(piece)
            self._room -= piece.num_rows
            if not self._room:
                self._check = self._checked()
                self._waiting, self._room = [], _TOGETHER

    @property
    def value(self) -> tuple[int, str]:
        """Number of rows so far, and their checksum."""
        return self._rows, self._checked()

    def _checked(self) -> str:
        if not self._waiting:
            return self._check
        waiting = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting = waiting.to_batches()  # small ones are not put together again next time
        return text_checksum(self._check + rows_checksum(waiting))


def _bytes_of(column: pa.ChunkedArray) -> Iterator[bytes | memoryview]:
    """Yield the validity of all rows, then the values that are not NULL."""
    for chunk in column.chunks:
        yield np.asarray(chunk.is_valid()).tobytes()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    chunks = [chunk.drop_null() for chunk in column.chunks]
    if pa.types.is_null(column.type):
        return
    if pa.types.is_nested(column.type):
        yield from _bytes_of_nested(chunks, column.type)
        return
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        for chunk in chunks:
            yield np.asarray(pc.binary_length(chunk)).tobytes()
        for chunk in chunks:
            if len(chunk):
                offsets = np.frombuffer(chunk.buffers()[1], np.int32)
                begin, end = offsets[chunk.offset], offsets[chunk.offset + len(chunk)]
                yield memoryview(chunk.buffers()[2] or b"")[begin:end]
        return
    width = column.type.bit_width // 8
    for chunk in chunks:
        if len(chunk):
            begin = chunk.offset * width
            yield memoryview(chunk.buffers()[1])[begin : begin + len(chunk) * width]


def _bytes_of_nested(chunks: list[pa.Array], nested: pa.DataType) -> Iterator[bytes | memoryview]:
    """Yield the lengths of arrays and maps and all their elements; for structs, their fields."""
    if pa.types.is_struct(nested):
        for place in range(nested.num_fields):
            of_field = [chunk.flatten()[place] for chunk in chunks]
            yield from _bytes_of(pa.chunked_array(of_field, nested.field(place).type))
        return
    for chunk in chunks:
        yield np.asarray(pc.list_value_length(_as_list(chunk))).tobytes()
    elements = [_as_list(chunk).flatten() for chunk in chunks]
    yield from _bytes_of(pa.chunked_array(elements, _as_list_type(nested).value_type))


def _as_list_type(nested: pa.DataType) -> pa.DataType:
    """Type of a nested array as a list; a map is a list of pairs."""
    if not pa.types.is_map(nested):
        return nested
    pair = pa.struct([nested.key_field, nested.item_field])
    return pa.list_(pair)


def _as_list(array: pa.Array) -> pa.Array:
    return array.cast(_as_list_type(array.type)) if pa.types.is_map(array.type) else array
