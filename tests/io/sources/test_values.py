"""VALUES: one chunk of plain values."""

from decimal import Decimal
from typing import Any

import pytest

from penstock.errors import SourceError
from penstock.io.sources.memory import ValuesSource


def test_rows(schema: Any, read: Any) -> None:
    rows = ((1, "a", 1_000_000, 3, Decimal("1.50"), None), (None, "b", -1, -1, None, b"x"))
    source = ValuesSource(rows)
    columns = schema(i="INT", s="STRING", t="TIMESTAMP", d="DATE", m="DECIMAL(5,2)", y="BINARY")
    assert read(source, columns)[0] == list(rows)
    assert source.parts() == [""]
    assert source.describe() == "VALUES (2 rows)"
    assert ValuesSource(rows[:1]).describe() == "VALUES (1 row)"


def test_no_rows(schema: Any, read: Any) -> None:
    assert read(ValuesSource(()), schema(a="INT"))[0] == []


def test_wrong_number_of_values(schema: Any, read: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read(ValuesSource(((1, 2), (1,))), schema(a="INT", b="INT"))
    assert str(caught.value) == "row 2 of VALUES has 1 value\n  expected: 2, one for each of: a, b"


@pytest.mark.parametrize("value", ["x", 2**31, 2**70])
def test_wrong_value(schema: Any, read: Any, value: object) -> None:
    with pytest.raises(SourceError, match=r"VALUES: column a: .*\n  expected: values of INT"):
        read(ValuesSource(((value,),)), schema(a="INT"))
