"""What the tests of the sources share: schemas in short, and reading a source to the end."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.io.sources.files import FileSource
from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import Source
from penstock.model.types import Field, Kind, Schema, Type, decimal_type
from penstock.model.values import to_python

Rows = list[tuple[Any, ...]]


def make_type(text: str) -> Type:
    if match := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", text):
        return decimal_type(int(match[1]), int(match[2]))
    return Type(Kind[text])


def make_schema(**columns: str) -> Schema:
    return Schema(tuple(Field(name, make_type(text)) for name, text in columns.items()))


def read_source(source: Source, schema: Schema, strict: bool = False) -> tuple[Rows, RejectLog]:
    """The rows as plain values, and the rejects; every batch must have the declared schema."""
    log = RejectLog(strict)
    rows: Rows = []
    for chunk in source.read(schema, log.of("s")):
        assert chunk.batch.schema.equals(schema.arrow)
        assert chunk.batch.num_rows
        chunk.batch.validate(full=True)
        columns = [
            to_python(column, field.type)
            for column, field in zip(chunk.batch.columns, schema, strict=True)
        ]
        rows += zip(*columns, strict=True)
    return rows, log


@pytest.fixture
def schema() -> Callable[..., Schema]:
    return make_schema


@pytest.fixture
def read() -> Callable[..., tuple[Rows, RejectLog]]:
    return read_source


@pytest.fixture
def read_file(tmp_path: Path) -> Callable[..., tuple[Rows, RejectLog]]:
    """Write a file and read it under the columns."""

    def run(name: str, content: bytes | str, /, **columns: str) -> tuple[Rows, RejectLog]:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
        return read_source(FileSource(name, base=tmp_path), make_schema(**columns))

    return run


@pytest.fixture
def listed() -> Callable[[RejectLog], list[tuple[int, str | None, str]]]:
    """Row, column and reason of every reject."""
    return lambda log: [(each.row, each.column, each.reason) for each in log]
