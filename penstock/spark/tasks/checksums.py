"""Checksums of rows: the same for the same values, however Arrow happens to hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def text_checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def rows_checksum(*tables: pa.Table) -> str:
    """
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


def _bytes_of(column: pa.ChunkedArray) -> Iterator[bytes | memoryview]:
    """Which rows are NULL, and the values of the others."""
    for chunk in column.chunks:
        yield np.asarray(chunk.is_valid()).tobytes()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    chunks = [chunk.drop_null() for chunk in column.chunks]
    if pa.types.is_null(column.type):
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
