"""Schemas: columns by name and relation."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import PlanError
from penstock.model.types import INT, STRING, TIMESTAMP, Field, Schema, decimal_type

READINGS = Schema((Field("id", INT), Field("at", TIMESTAMP), Field("price", decimal_type(9, 2))))


def test_what_it_says() -> None:
    assert str(READINGS) == "id INT, at TIMESTAMP, price DECIMAL(9,2)"
    assert str(READINGS.under("r")) == "r.id INT, r.at TIMESTAMP, r.price DECIMAL(9,2)"
    assert READINGS.names == ("id", "at", "price")
    assert len(READINGS) == 3
    assert [field.name for field in READINGS] == ["id", "at", "price"]


def test_arrow() -> None:
    expected = [
        ("r.id", pa.int32()),
        ("r.at", pa.timestamp("us", tz="UTC")),
        ("r.price", pa.decimal128(9, 2)),
    ]
    assert READINGS.under("r").arrow == pa.schema(expected)


def test_index() -> None:
    both = READINGS.under("a") + READINGS.under("b")
    assert both.index("id", "a") == 0
    assert both.index("at", "b") == 4
    assert READINGS.index("price") == 2


@pytest.mark.parametrize(("name", "relation"), [("id", None), ("id", "c"), ("ID", "a"), ("x", "a")])
def test_index_of_a_column_that_is_not_there(name: str, relation: str | None) -> None:
    with pytest.raises(PlanError, match=r"no column .* among a\.id, a\.at, a\.price"):
        READINGS.under("a").index(name, relation)


def test_two_columns_of_one_name() -> None:
    with pytest.raises(PlanError, match=r"two columns are called a\.id"):
        READINGS.under("a") + Schema((Field("id", STRING, "a"),))
    # of different relations they are two
    assert len(READINGS.under("a") + READINGS) == 6


def test_under_replaces_the_relation() -> None:
    assert READINGS.under("a").under(None) == READINGS
