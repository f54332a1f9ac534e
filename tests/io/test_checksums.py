"""Checksums of rows: a function of the values, not of how Arrow holds them or how they are cut."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.io.checksums import RowDigest, rows_checksum

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64()), ("y", pa.float64()), ("b", pa.bool_())])
ROWS = st.lists(
    st.tuples(
        st.none() | st.text(max_size=3),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(allow_nan=False),
        st.none() | st.booleans(),
    ),
    max_size=12,
)


def batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in SCHEMA]
    arrays = [pa.array(values, each.type) for values, each in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@given(rows=ROWS, before=st.integers(0, 3), cut=st.integers(0, 12))
def test_the_same_values(rows: list[tuple[object, ...]], before: int, cut: int) -> None:
    whole = batch(rows)
    beside = batch([(None, 5, 1.0, True)] * before + rows + [("z", 7, None, False)])
    sliced = beside.slice(before, len(rows))
    expected = rows_checksum(pa.Table.from_batches([whole]))
    assert rows_checksum(pa.Table.from_batches([sliced])) == expected
    parts = [sliced.slice(0, cut), sliced.slice(cut)]
    assert rows_checksum(pa.Table.from_batches(parts, SCHEMA)) == expected
    one, other = RowDigest(), RowDigest()
    one.add(whole)
    for part in parts:
        other.add(part)
    assert one.value == other.value


@given(rows=ROWS.filter(bool), place=st.integers(0, 11))
def test_another_value(rows: list[tuple[object, ...]], place: int) -> None:
    place %= len(rows)
    others = list(rows)
    key, *rest = others[place]
    others[place] = (f"{key}!" if key is not None else "", *rest)
    one, other = RowDigest(), RowDigest()
    one.add(batch(rows))
    other.add(batch(others))
    assert one.value != other.value


@pytest.mark.parametrize(
    "values",
    [
        [Decimal("1.50"), None],
        [date(2026, 1, 31), None],
        [datetime(2026, 1, 31, tzinfo=UTC), None],
        [b"\x00", b"", None],
        [None, None],
        [[1, None, 3], None, []],
        [[["a"], None, []], [], None],
        [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}],
        pa.array([[("k", 1)], None, [("a", None), ("b", 2)]], pa.map_(pa.string(), pa.int32())),
    ],
)
def test_every_type(values: object) -> None:
    table = pa.table({"x": values})
    held_otherwise = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert rows_checksum(table) == rows_checksum(held_otherwise) != rows_checksum(table[:1])


def test_another_value_within_an_array() -> None:
    one, *others = (
        rows_checksum(pa.table({"x": pa.array(rows, pa.list_(pa.list_(pa.int32())))}))
        for rows in ([[[1], [2]]], [[[1, 2]]], [[[1], [3]]], [[[1], [2], None]], [[[1]], [[2]]])
    )
    assert one not in others


def test_what_stands_under_null_does_not_count() -> None:
    valid = pa.py_buffer(b"\x01")
    arrays = [
        pa.Array.from_buffers(pa.int64(), 2, [valid, pa.array([1, hidden]).buffers()[1]])
        for hidden in (0, 99)
    ]
    digests = [RowDigest(), RowDigest()]
    for digest, array in zip(digests, arrays, strict=True):
        digest.add(pa.RecordBatch.from_arrays([array], ["x"]))
    assert digests[0].value == digests[1].value


def test_many_rows() -> None:
    """More than are looked at together, and the last ones count as well as the first."""
    rows = pa.RecordBatch.from_pydict({"n": range(10_000)})
    cut, changed, fewer = RowDigest(), RowDigest(), RowDigest()
    whole = RowDigest()
    whole.add(rows)
    for start in range(0, 10_000, 999):
        cut.add(rows.slice(start, 999))
    changed.add(rows.slice(0, 5000))
    changed.add(pa.RecordBatch.from_pydict({"n": [0]}))
    changed.add(rows.slice(5001))
    fewer.add(rows.slice(0, 9999))
    assert whole.value == cut.value
    assert len({whole.value, changed.value, fewer.value}) == 3
