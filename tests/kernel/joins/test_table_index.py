"""Rows of a table by key: what `=` says, for every type, one column or several."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.joins.lookup import TableIndex
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    decimal_type,
)
from penstock.model.values import to_arrow

NAN = float("nan")
LONG = "x" * 70  # too long for a table by hash
VALUES: dict[Type, list[Any]] = {
    INT: [0, 1, -(2**31), 2**31 - 1],
    BIGINT: [0, 5, -(2**63), 2**63 - 1],
    DOUBLE: [0.0, -0.0, 1.5, NAN, float("inf")],
    BOOLEAN: [True, False],
    STRING: ["", "a", "b", "ü", LONG],
    BINARY: [b"", b"a", b"\0"],
    DATE: [0, -1, 2**31 - 1],
    TIMESTAMP: [0, -1, 2**62],
    decimal_type(9, 2): [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")],
}


def by_definition(table: list[tuple[Any, ...]], asked: list[tuple[Any, ...]]) -> list[list[int]]:
    return [
        [
            number
            for number, row in enumerate(table)
            if all(
                a is not None and b is not None and a == b for a, b in zip(row, key, strict=True)
            )
        ]
        for key in asked
    ]


def found(index: TableIndex, columns: list[pa.Array], size: int) -> list[list[int]]:
    begins, counts = index.find(columns, size)
    return [
        index.rows[begin : begin + count].tolist()
        for begin, count in zip(begins, counts, strict=True)
    ]


def columns_of(rows: list[tuple[Any, ...]], types: list[Type]) -> list[pa.Array]:
    return [to_arrow([row[i] for row in rows], each) for i, each in enumerate(types)]


@settings(deadline=None, max_examples=150)
@given(data=st.data(), types=st.lists(st.sampled_from(list(VALUES)), min_size=0, max_size=3))
def test_what_equality_says(data: st.DataObject, types: list[Type]) -> None:
    row = st.tuples(*(st.sampled_from([None, *VALUES[each]]) for each in types))
    table, asked = (data.draw(st.lists(row, max_size=9)) for _ in range(2))
    asked *= data.draw(st.sampled_from([1, 8]))  # few rows are looked at in another way
    index = TableIndex(columns_of(table, types), types, len(table))
    expected = by_definition(table, asked)
    assert found(index, columns_of(asked, types), len(asked)) == expected


def test_a_column_that_was_cut_off_another() -> None:
    texts = pa.array(["z", "a", "b", "a"])[1:]
    index = TableIndex([texts], [STRING], 3)
    assert found(index, [pa.array(["q", "a", None, "b"])[1:]], 3) == [[0, 2], [], [1]]


@pytest.mark.parametrize("size", [3, 5000])
def test_many_rows(size: int) -> None:
    rng = np.random.default_rng(7)
    keys, asked = rng.integers(0, 1000, size), rng.integers(-500, 1500, size)
    texts = [f"text {each}" for each in keys]
    index = TableIndex([pa.array(keys), pa.array(texts)], [BIGINT, STRING], size)
    begins, counts = index.find([pa.array(asked), pa.array([f"text {k}" for k in asked])], size)
    expected = [int((keys == each).sum()) for each in asked]
    assert counts.tolist() == expected
    for begin, count, key in zip(begins, counts, asked, strict=True):
        assert (keys[index.rows[begin : begin + count]] == key).all()
