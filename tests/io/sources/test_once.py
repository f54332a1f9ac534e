"""Data that can be had once: handed on, not remembered; functions that make it anew."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import SourceError
from penstock.io.formats.rows import ROWS_A_BATCH
from penstock.io.sources.memory import memory_source
from penstock.io.sources.rejects import RejectLog


class Row(dict[str, int]):
    """A row that can be watched: plain dicts have no weak references."""


def test_rows_are_gone_once_they_are_read(schema: Any) -> None:
    alive: weakref.WeakSet[Row] = weakref.WeakSet()
    most = 0

    def rows() -> Iterator[Row]:
        nonlocal most
        for number in range(20 * ROWS_A_BATCH):
            row = Row(a=number)
            alive.add(row)
            most = max(most, len(alive))
            yield row

    Row.__hash__ = object.__hash__  # type: ignore[assignment]
    source, columns = memory_source(rows(), schema(a="INT"))
    found = sum(chunk.batch.num_rows for chunk in source.read(columns, RejectLog().of("s")))
    assert found == 20 * ROWS_A_BATCH
    assert most <= 2 * ROWS_A_BATCH
    gc.collect()
    assert not alive


def test_batches_are_gone_once_they_are_read() -> None:
    schema = pa.schema([("a", pa.int64())])
    before = pa.total_allocated_bytes()
    held = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(50):
            held.append(pa.total_allocated_bytes() - before)
            yield pa.record_batch([pa.array(range(10_000), pa.int64())], schema=schema)

    for data in (batches(), pa.RecordBatchReader.from_batches(schema, batches())):
        source, columns = memory_source(data)
        for chunk in source.read(columns, RejectLog().of("s")):
            assert chunk.batch.num_rows == 10_000
    assert max(held) < 10 * 80_000


def test_a_look_ahead_loses_nothing_and_is_not_kept(read: Any) -> None:
    source, schema = memory_source({"a": n} for n in range(2_000))
    assert read(source, schema)[0] == [(n,) for n in range(2_000)]


def test_with_a_schema_nothing_is_asked_for_before_somebody_reads(schema: Any, read: Any) -> None:
    asked = []

    def rows() -> Iterator[dict[str, int]]:
        asked.append(1)
        yield {"a": 1}

    for data in (rows(), rows):
        source, columns = memory_source(data, schema(a="INT"))
        assert asked == []
        assert read(source, columns)[0] == [(1,)]
        asked.clear()


def test_leaving_early_closes_the_generator(schema: Any) -> None:
    closed = []

    def rows() -> Iterator[tuple[int]]:
        try:
            while True:
                yield (1,)
        finally:
            closed.append("closed")

    for data in (rows(), rows):
        source, columns = memory_source(data, schema(a="INT"))
        chunks: Any = source.read(columns, RejectLog().of("s"))
        next(chunks)
        assert closed == []
        chunks.close()
        assert closed == ["closed"]
        closed.clear()


def test_a_reading_that_was_begun_counts(schema: Any, read: Any) -> None:
    source, columns = memory_source(({"a": n} for n in range(10)), schema(a="INT"))
    next(iter(source.read(columns, RejectLog().of("s"))))
    with pytest.raises(SourceError) as caught:
        read(source, columns)
    assert str(caught.value) == (
        "stream s has been read already, and its data can be read only once\n"
        "  try: a list or a table can be read again, and so can the function that makes the"
        " iterator"
    )


def test_a_look_ahead_at_what_a_function_makes_is_the_first_readers(read: Any) -> None:
    made = []

    def rows() -> Iterator[dict[str, int]]:
        made.append(1)
        yield from ({"a": n} for n in range(3))

    source, schema = memory_source(rows)
    for times in (1, 2):
        assert read(source, schema)[0] == [(0,), (1,), (2,)]
        assert len(made) == times


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: 7, "a int is not a table"),
        (lambda: None, "a NoneType is not a table"),
        (lambda: {"a": [1]}, "a dict is not a table"),
        (lambda: 1 / 0, "the data cannot be read: ZeroDivisionError: division by zero"),
        (lambda rows: rows, r"the data cannot be read: TypeError: .* missing 1 required"),
    ],
)
def test_functions_that_make_no_data(function: Any, message: str, schema: Any, read: Any) -> None:
    with pytest.raises(SourceError, match=message):
        memory_source(function)
    source, columns = memory_source(function, schema(a="INT"))
    with pytest.raises(SourceError, match=message):
        read(source, columns)


def test_a_function_that_always_gives_the_same_iterator(schema: Any, read: Any) -> None:
    rows = iter([{"a": 1}])
    source, columns = memory_source(lambda: rows, schema(a="INT"))
    assert read(source, columns)[0] == [(1,)]
    with pytest.raises(SourceError, match="the same iterator a second time"):
        read(source, columns)


def test_what_a_function_makes_may_fail_and_be_made_again(schema: Any, read: Any) -> None:
    times = []

    def rows() -> Iterator[dict[str, int]]:
        times.append(1)
        yield {"a": 1}
        if len(times) == 1:
            raise OSError("the cable is out")

    source, columns = memory_source(rows, schema(a="INT"))
    with pytest.raises(SourceError, match="broke off after item 1: OSError: the cable is out"):
        read(source, columns)
    assert read(source, columns)[0] == [(1,)]


def test_failures_in_a_look_ahead() -> None:
    def rows() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise OSError("the cable is out")

    with pytest.raises(SourceError, match="broke off after item 1: OSError: the cable is out"):
        memory_source(rows())
