"""JSON lines: exact texts, and every value of every type there and back again."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.io.sinks.text import write_json_lines
from penstock.model.durations import parse_duration
from penstock.model.types import Kind, Type
from penstock.model.values import to_arrow
from tests.model.strategies import all_types, columns, values


def written(table: pa.Table) -> str:
    out = io.StringIO()
    write_json_lines(table, out)
    return out.getvalue()


def test_exactly() -> None:
    table = pa.table(
        {
            "t": pa.array([1769903999000000, None], pa.timestamp("us", tz="UTC")),
            "d": pa.array([20_484, None], pa.date32()),
            "i": pa.array([1, None], pa.int32()),
            "n": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "f": [0.1, None],
            "b": [True, None],
            "s": ['a"\n', None],
            "x": [b"\x00\xff", None],
        }
    )
    assert written(table) == (
        '{"t": "2026-01-31T23:59:59.000000Z", "d": "2026-01-31", "i": 1, "n": 1.50, "f": 0.1, '
        '"b": true, "s": "a\\"\\n", "x": "00ff"}\n'
        '{"t": null, "d": null, "i": null, "n": null, "f": null, "b": null, "s": null, "x": null}\n'
    )


def test_what_json_has_no_number_for_is_text() -> None:
    table = pa.table({"f": [math.nan, math.inf, -math.inf, -0.0, 1e300]})
    assert written(table).splitlines() == [
        '{"f": "NaN"}',
        '{"f": "Infinity"}',
        '{"f": "-Infinity"}',
        '{"f": -0.0}',
        '{"f": 1e+300}',
    ]


def test_letters_stay_letters() -> None:
    assert written(pa.table({"größe": ["日本"]})) == '{"größe": "日本"}\n'


def test_no_rows_are_no_lines() -> None:
    assert written(pa.table({"a": pa.array([], pa.int32())})) == ""
    assert written(pa.table({})) == ""


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def _double(found: Any) -> float:
    return float(found.lower().replace("infinity", "inf")) if isinstance(found, str) else found


_BACK: dict[Kind, Callable[[Any], Any]] = {
    Kind.DOUBLE: lambda found: float(_double(found)),
    Kind.DECIMAL: Decimal,
    Kind.BINARY: bytes.fromhex,
    Kind.DATE: lambda text: int(np.datetime64(text, "D").astype(np.int64)),
    Kind.TIMESTAMP: lambda text: int(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64)),
    Kind.INTERVAL: parse_duration,
}


@given(
    st.text(),
    all_types.flatmap(lambda each: st.tuples(st.just(each), columns(each))),
)
@settings(deadline=None)
def test_there_and_back_again(name: str, typed: tuple[Type, list[Any]]) -> None:
    sql_type, given_values = typed
    assume(sql_type.kind is not Kind.NULL)  # no column of a result has that type
    lines = written(pa.table({name: to_arrow(given_values, sql_type)})).split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(given_values)
    for line, value in zip(lines, given_values, strict=True):
        parsed = json.loads(line, parse_float=Decimal, parse_constant=_no_constant)
        assert list(parsed) == [name]
        back = _BACK.get(sql_type.kind, lambda found: found)
        found = None if parsed[name] is None else back(parsed[name])
        assert repr(found) == repr(value)


def test_dates_go_further_than_timestamps() -> None:
    ends = to_arrow([-(2**31), 2**31 - 1], Type(Kind.DATE))
    assert written(pa.table({"d": ends})) == '{"d": "-5877641-06-23"}\n{"d": "5881580-07-11"}\n'


@given(st.lists(st.tuples(values(Type(Kind.STRING)), st.integers(0, 9)), max_size=5))
def test_columns_side_by_side(rows: list[tuple[str, int]]) -> None:
    texts, numbers = [row[0] for row in rows], [row[1] for row in rows]
    table = pa.table({"s": pa.array(texts, pa.string()), "n": pa.array(numbers, pa.int64())})
    found = [json.loads(line) for line in written(table).split("\n")[:-1]]
    assert found == [{"s": text, "n": number} for text, number in rows]
