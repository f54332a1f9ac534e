"""Numbers that count the time since 1970: however they come, they are the same moments."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.io.formats.arrow import fit_column
from penstock.io.formats.epochs import moment_of
from penstock.io.formats.json_lines import LinesAlone, read_block
from penstock.io.formats.rows import fit_objects
from penstock.io.formats.text_values import parse_cells, parse_column
from penstock.io.sources.rejects import RejectLog
from penstock.model.types import (
    EPOCHS,
    Epoch,
    Field,
    Kind,
    Schema,
    Type,
    array_of,
    map_of,
    struct_of,
)
from penstock.model.values import to_python

COUNTED = [Type(kind, epoch=each) for kind, units in EPOCHS.items() for each in units]
SECONDS = Type(Kind.TIMESTAMP, epoch=Epoch.SECONDS)


def ids(sql_type: Type) -> str:
    return str(sql_type)


@pytest.mark.parametrize("sql_type", COUNTED, ids=ids)
@settings(deadline=None)
@given(
    st.lists(
        st.none()
        | st.integers(-(2**65), 2**65)
        | st.integers(-(10**13), 10**13)
        | st.decimals(-(10**13), 10**13, places=9),
        min_size=1,
        max_size=30,
    )
)
def test_every_way_of_reading_agrees(sql_type: Type, numbers: list[int | Decimal | None]) -> None:
    texts = [None if each is None else format(Decimal(each), "f") for each in numbers]
    moments = [None if each is None else moment_of(each, sql_type) for each in numbers]
    bad = [
        each is None and number is not None for each, number in zip(moments, numbers, strict=True)
    ]
    column = pa.array(texts, pa.string())
    lines = b"\n".join(json.dumps({"t": 0}).replace("0", each or "null").encode() for each in texts)
    for read, mask in (
        parse_column(column, sql_type),
        parse_cells(column, sql_type),
        fit_objects(numbers, sql_type),
        fit_column(pa.array(map(decimal_or_none, numbers), pa.decimal128(38, 9)), sql_type),
    ):
        assert to_python(read, sql_type) == moments
        assert mask.tolist() == bad
    schema, good = (
        Schema((Field("t", sql_type),)),
        [m for m, b in zip(moments, bad, strict=True) if not b],
    )
    for given_lines in (lines, b"\n".join([lines] * 20)):
        batch, rows = read_block(given_lines, schema, "", 0, RejectLog().of("s"))
        times = 1 if given_lines is lines else 20
        assert rows == len(numbers) * times
        assert to_python(batch.column(0), sql_type) == good * times
    alone = LinesAlone(schema)
    for line, moment in zip(lines.split(b"\n"), moments, strict=True):
        chunk = alone.read(line)
        assert chunk is None or chunk.values == (moment,)


def decimal_or_none(number: int | Decimal | None) -> Decimal | None:
    return None if number is None else Decimal(number)


@pytest.mark.parametrize("sql_type", COUNTED, ids=ids)
@settings(deadline=None)
@given(st.lists(st.none() | st.floats() | st.floats(1e9, 2e9), max_size=30))
def test_doubles_are_what_their_texts_say(sql_type: Type, numbers: list[float | None]) -> None:
    column, bad = fit_column(pa.array(numbers, pa.float64(), from_pandas=False), sql_type)
    objects, bad_objects = fit_objects(numbers, sql_type)
    assert to_python(column, sql_type) == to_python(objects, sql_type)
    assert bad.tolist() == bad_objects.tolist()
    for number, moment in zip(numbers, to_python(column, sql_type), strict=True):
        if moment is not None and number is not None:
            assert moment == moment_of(Decimal(repr(number)), sql_type)


def test_in_arrays_structs_and_maps() -> None:
    declared = struct_of(
        [
            ("at", SECONDS),
            ("all", array_of(SECONDS)),
            ("by", map_of(Type(Kind.STRING), SECONDS)),
        ]
    )
    rows = [
        {"at": 1, "all": [1, None, 2], "by": [("x", 3)]},
        None,
        {"at": None, "all": None, "by": None},
        {"at": 2**62, "all": [], "by": []},
    ]
    found = pa.array(
        rows,
        pa.struct(
            [
                ("at", pa.int64()),
                ("all", pa.list_(pa.int64())),
                ("by", pa.map_(pa.string(), pa.int64())),
            ]
        ),
    )
    expected = [
        (1_000_000, (1_000_000, None, 2_000_000), (("x", 3_000_000),)),
        None,
        (None, None, None),
        None,
    ]
    column, bad = fit_column(found, declared)
    assert column.type == declared.arrow
    assert to_python(column, declared) == expected
    assert bad.tolist() == [False, False, False, True]
    assert to_python(fit_column(found[1:3], declared)[0], declared) == expected[1:3]
    objects, bad = fit_objects(rows, declared)
    assert to_python(objects, declared) == expected
    assert bad.tolist() == [False, False, False, True]


def test_nanoseconds_in_arrays_are_cut_off() -> None:
    column, bad = fit_column(
        pa.array([[1_999, -1], None], pa.list_(pa.timestamp("ns"))), array_of(Type(Kind.TIMESTAMP))
    )
    assert to_python(column, array_of(Type(Kind.TIMESTAMP))) == [(1, -1), None]
    assert not bad.any()
