"""JSON Lines: the rules for values, rejected lines, and Arrow's way against line by line."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SourceError
from penstock.io.formats import json_lines
from penstock.io.formats.data_file import DataFile
from penstock.io.formats.json_lines import (
    LinesAlone,
    read_at_once,
    read_few_lines,
    read_json_lines,
    read_lines,
)
from penstock.io.sources.rejects import RejectLog
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    decimal_type,
)
from penstock.model.values import RowForm, to_python

ALL = Schema(
    (
        Field("b", BOOLEAN),
        Field("i", INT),
        Field("l", BIGINT),
        Field("d", decimal_type(9, 2)),
        Field("x", DOUBLE),
        Field("s", STRING),
        Field("y", BINARY),
        Field("t", DATE),
        Field("u", TIMESTAMP),
    )
)


def test_rows(read_file: Any) -> None:
    text = '{"id": 1, "name": "a", "more": [1, {"x": null}]}\n{"name": null}\n\n{}\n'
    rows, log = read_file("a.jsonl", text, id="INT", name="STRING")
    assert rows == [(1, "a"), (None, None), (None, None)]
    assert not len(log)


def test_every_type_at_once() -> None:
    line = (
        b'{"b":true,"i":-1,"l":9007199254740993,"d":1.50,"x":1,"s":"\\u00fc",'
        b'"y":"0aff","t":"1970-01-02","u":"1970-01-01T01:00:00+01:00"}'
    )
    batch = read_at_once(line + b"\n" + line.replace(b"1.50", b'"1.5"'), ALL)
    assert batch is not None
    assert batch.schema.equals(ALL.arrow)
    values = [
        to_python(column, field.type) for column, field in zip(batch.columns, ALL, strict=True)
    ]
    assert [str(value[0]) for value in values[3:4]] == ["1.50"]
    assert [value[0] for value in values if value is not values[3]] == [
        True,
        -1,
        9007199254740993,
        1.0,
        "ü",
        b"\x0a\xff",
        1,
        0,
    ]
    assert all(value[0] == value[1] for value in values)


@pytest.mark.parametrize(
    ("value", "sql_type", "reason"),
    [
        ("5", "STRING", "the number 5 is not a STRING"),
        ('"5"', "INT", "the string '5' is not an INT"),
        ('"5"', "DOUBLE", "the string '5' is not a DOUBLE"),
        ("1.5", "INT", "the number 1.5 is not an INT"),
        ("1.0", "INT", "the number 1.0 is not an INT"),
        ("1e2", "BIGINT", "the number 1e2 is not a BIGINT"),
        ("99999999999", "INT", "the number 99999999999 does not fit INT"),
        ("true", "INT", "true is not an INT"),
        ("1", "BOOLEAN", "the number 1 is not a BOOLEAN"),
        ('"true"', "BOOLEAN", "the string 'true' is not a BOOLEAN"),
        ("[1]", "INT", "an array is not an INT"),
        ('{"x":1}', "STRING", "an object is not a STRING"),
        ("1.234", "DECIMAL(5,2)", "the number 1.234 does not fit DECIMAL(5,2)"),
        ('"1.234"', "DECIMAL(5,2)", "'1.234' does not fit DECIMAL(5,2)"),
        ("12345", "DECIMAL(5,2)", "the number 12345 does not fit DECIMAL(5,2)"),
        ("11", "DECIMAL(38,38)", "the number 11 does not fit DECIMAL(38,38)"),
        ('"x"', "DECIMAL(5,2)", "'x' is not a DECIMAL(5,2)"),
        ("NaN", "DECIMAL(5,2)", "the number NaN is not a DECIMAL(5,2)"),
        (
            "1700000000",
            "TIMESTAMP",
            "the number 1700000000 is not a TIMESTAMP: declare it TIMESTAMP EPOCH SECONDS if it"
            " counts them since 1970",
        ),
        (
            "1",
            "DATE",
            "the number 1 is not a DATE: declare it DATE EPOCH DAYS if it counts them since 1970",
        ),
        ('"now"', "TIMESTAMP", "'now' is not a TIMESTAMP"),
        ('"xyz"', "BINARY", "'xyz' is not a BINARY"),
        ('"a\\ud800"', "STRING", "'a\\ud800' holds half a surrogate pair"),
    ],
)
def test_wrong_values(read_file: Any, listed: Any, value: str, sql_type: str, reason: str) -> None:
    rows, log = read_file("a.jsonl", f'{{"v":null}}\n{{"v":{value}}}\n{{}}\n', v=sql_type)
    assert rows == [(None,), (None,)]
    assert listed(log) == [(2, "v", reason)]
    assert next(iter(log)).content == f'{{"v":{value}}}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1, 2]", "an array is not an object"),
        (b"5", "the number 5 is not an object"),
        (b"null", "null is not an object"),
        (b'"x"', "the string 'x' is not an object"),
        (b"nonsense", "not JSON: Expecting value at character 1"),
        (b'{"v":1', "not JSON: Expecting ',' delimiter at character 7"),
        (b'{"v":"1', "not JSON: Unterminated string starting at character 6"),
        (b'{"v":1} {"v":2}', "not JSON: Extra data at character 9"),
        (b'{"v":1}null{"v":2}', "not JSON: Extra data at character 8"),
        (b'{"v":Inf}', "not JSON: Expecting value at character 6"),
        (b'{"v":-NaN}', "not JSON: Expecting value at character 6"),
        (b'{"w":"\xff"}', "not UTF-8 at byte 7"),
        (b'{"w":' + b"[" * 100_000 + b"]" * 99_999 + b"}", "nested too deeply"),
    ],
)
def test_lines_that_are_no_objects(read_file: Any, line: bytes, reason: str) -> None:
    for data in (line, b'{"v":7}\n\n' + line + b'\n{"v":8}\n'):
        rows, log = read_file("a.jsonl", data, v="INT")
        assert len(rows) == data.count(b'"v":7') + data.count(b'"v":8')
        (reject,) = log
        assert (reject.column, reject.reason) == (None, reason)
        assert reject.row == 1 + len(rows) // 2
        json.loads(reject.content if reason != "nested too deeply" else "0")


def test_null_as_the_first_line_does_not_crash(read_file: Any) -> None:
    # pyarrow.json 26 ends the whole process on it.
    rows, log = read_file("a.jsonl", 'null\n{"v":1}\n', v="INT")
    assert rows == [(1,)]
    assert log.count() == 1


def test_numbers_that_json_does_not_have(read_file: Any) -> None:
    rows, log = read_file(
        "a.jsonl", '{"v":Infinity}\n{"v":-Infinity}\n{"v":1e400}\n{"v":0}\n', v="DOUBLE"
    )
    assert rows == [(float("inf"),), (float("-inf"),), (float("inf"),), (0.0,)]
    assert not len(log)
    assert str(read_file("a.jsonl", '{"v":NaN}', v="DOUBLE")[0]) == "[(nan,)]"


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff", "\r\n"])
def test_files_without_rows(read_file: Any, text: str) -> None:
    assert read_file("a.jsonl", text, v="INT")[0] == []


def test_line_ends_and_byte_order_mark(read_file: Any) -> None:
    for text in ('\ufeff{"v":1}\r\n{"v":2}\r\n', ' {"v":1} \n\t{"v":2}', '{"v":1}\n\n{"v":2}\n\n'):
        assert read_file("a.jsonl", text, v="INT")[0] == [(1,), (2,)]


def test_object_over_several_lines_is_no_row(read_file: Any) -> None:
    rows, log = read_file("a.jsonl", '{"v":\n1}\n{"v":2}\n', v="INT")
    assert rows == [(2,)]
    assert [each.row for each in log] == [1, 2]


def test_keys_twice_take_the_last(read_file: Any) -> None:
    assert read_file("a.jsonl", '{"v":1,"v":2}', v="INT")[0] == [(2,)]


def test_binary_file(read_file: Any) -> None:
    with pytest.raises(SourceError, match=r"a\.json is not a text file: it holds NUL bytes"):
        read_file("a.json", b"PAR1\0\0", v="INT")


def test_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: Any) -> None:
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "a.json"
    path.write_bytes(b"[" + b" " * (3 << 20))
    log = RejectLog()
    read = read_json_lines(DataFile(path, "a.json"), schema(v="INT"), log.of("s"), 4096)
    assert sum(batch.num_rows for batch in read) == 0
    assert [(each.row, each.reason) for each in log] == [
        (1, "the row has 3,145,729 bytes, and a row may have 1,048,576 (ROW LIMIT)")
    ]


def test_row_numbers_over_blocks(tmp_path: Path, schema: Any) -> None:
    bad = {5, 77, 300, 999}
    lines = [f'{{"v":{"null" if n % 3 else n}}}' for n in range(1, 1001)]
    for number in bad:
        lines[number - 1] = '{"v":"x"}'
    path = tmp_path / "a.json"
    path.write_text("\n\n".join(lines[:100]) + "\n" + "\n".join(lines[100:]))
    log = RejectLog()
    batches = list(
        read_json_lines(DataFile(path, "a.json"), schema(v="INT"), log.of("s"), block=64)
    )
    assert len(batches) > 100
    assert sum(batch.num_rows for batch in batches) == 1000 - len(bad)
    assert [each.row for each in log] == sorted(bad)


VALUES: dict[str, st.SearchStrategy[str]] = {
    "b": st.booleans().map(json.dumps),
    "i": st.integers(-(2**31) - 1, 2**31).map(str),
    "l": st.integers(-(2**63) - 1, 2**63).map(str),
    "d": st.one_of(
        st.decimals(-(10**8), 10**8, places=2).map(str),
        st.decimals(-(10**8), 10**8, places=3).map('"{}"'.format),
        st.from_regex(r"-?[1-9][0-9]{0,10}(\.[0-9]{1,4})?([eE]-?[0-9])?", fullmatch=True),
    ),
    "x": st.one_of(
        st.floats().map(json.dumps),
        st.integers(-(2**70), 2**70).map(str),
        st.sampled_from(["-0", "Inf", "-Inf", "-NaN", "1e400", "1E5"]),
    ),
    "s": st.text().map(json.dumps) | st.text(max_size=5).map(lambda s: f'"{s}"'),
    "y": st.binary(max_size=4).map(lambda data: f'"{data.hex()}"'),
    "t": st.dates().map('"{}"'.format),
    "u": st.datetimes().map('"{}"'.format) | st.datetimes().map('"{}Z"'.format),
    "other": st.sampled_from(['{"i":1}', "[{}]", '"}\\n{"', "NaN", "Inf", "1e999"]),
}
ANY = st.sampled_from(["null", "1", "1.0", '"x"', "true", "[]", "{}", '"1"', '""'])
OBJECTS = st.dictionaries(st.sampled_from(list(VALUES)), st.just("")).flatmap(
    lambda keys: st.fixed_dictionaries({key: VALUES[key] | ANY for key in keys}).map(
        lambda cells: "{" + ", ".join(f'"{key}": {cell}' for key, cell in cells.items()) + "}"
    )
)
GOOD = st.fixed_dictionaries({key: VALUES[key] | st.just("null") for key in VALUES}).map(
    lambda cells: "{" + ",".join(f'"{key}":{cell}' for key, cell in cells.items()) + "}"
)
LINES = st.one_of(
    OBJECTS,
    OBJECTS,
    GOOD,
    GOOD,
    st.sampled_from(["", " ", "{}{}", "null", "{", "}", "[1]", "{}\r{}"]),
)


FEW = Schema(tuple(each for each in ALL if each.name not in ("d", "y")))


@settings(deadline=None, max_examples=300)
@given(st.lists(LINES, min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_arrow_and_lines_agree(lines: list[str], end: str) -> None:
    block = end.join(lines).encode("utf-8", "surrogatepass").strip(b" \t\r\n")
    block = block.replace(b"\r\n", b"\n")
    if block:
        compare(read_at_once(block, ALL), block, ALL)
        compare(read_few_lines(block, FEW), block, FEW)
        if b"\n" not in block:
            alone = LinesAlone(FEW).read(block)
            compare(alone and alone.batch, block, FEW)
            assert alone is None or alone.values == RowForm(FEW).values(alone.batch)


def compare(fast: pa.RecordBatch | None, block: bytes, schema: Schema) -> None:
    log = RejectLog()
    slow, count = read_lines(block, schema, "f", 0, log.of("s"))
    slow.validate(full=True)
    assert count == slow.num_rows + log.count()
    if fast is not None:
        fast.validate(full=True)
        assert not len(log)
        assert fast.schema.equals(slow.schema)
        for left, right, field in zip(fast.columns, slow.columns, schema, strict=True):
            assert str(to_python(left, field.type)) == str(to_python(right, field.type))


@settings(deadline=None)
@given(st.lists(GOOD, min_size=1, max_size=3))
def test_good_lines_go_at_once(lines: list[str]) -> None:
    """Not a matter of right or wrong, but of speed: ordinary lines do not take the slow way."""
    block = "\n".join(lines).encode("utf-8", "surrogatepass")
    log = RejectLog()
    read_lines(block, ALL, "f", 0, log.of("s"))
    odd = any(text in block for text in (b"Inf", b"NaN", b"1e400", b"1e999", b"\\u"))
    if not len(log) and not odd:
        assert read_at_once(block, ALL) is not None
        assert LinesAlone(FEW).read(lines[0].encode()) is not None
