"""Data in memory: frames, tables, readers, rows; inferred and given schemas; reading again."""

import datetime
import subprocess
import sys
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from penstock.errors import SourceError
from penstock.io.formats.rows import ROWS_A_BATCH, RowSource
from penstock.io.sources.memory import BatchSource, MemorySource, memory_source
from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import can_be_read_again
from penstock.model.types import Schema

TABLE = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})
ROWS = [(1, "a"), (2, None), (3, "c")]


def batches() -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches(max_chunksize=2)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (TABLE, "pyarrow.Table"),
        (TABLE.to_batches()[0], "pyarrow.RecordBatch"),
        (pa.RecordBatchReader.from_batches(TABLE.schema, batches()), "pyarrow.RecordBatchReader"),
        (TABLE.to_pandas(), "pandas.DataFrame"),
        (pl.from_arrow(TABLE), "polars.DataFrame"),
        (pl.DataFrame(TABLE).lazy(), "polars.LazyFrame"),
        (list(batches()), "list"),
        (batches(), "generator"),
        (batches, "function"),
        (TABLE.to_pylist, "method"),
        (lambda: iter(TABLE.to_pylist()), "function"),
        (lambda: TABLE, "function"),
        (lambda: TABLE.to_reader(), "function"),
        (deque(TABLE.to_pylist()), "collections.deque"),
        (TABLE.to_pylist(), "list"),
        ((row for row in TABLE.to_pylist()), "generator"),
        (map(OrderedDict, TABLE.to_pylist()), "map"),
        ([MappingProxyType(row) for row in TABLE.to_pylist()], "list"),
    ],
)
def test_all_kinds_of_data(data: Any, name: str, read: Any) -> None:
    source, schema = memory_source(data)
    assert str(schema) == "id BIGINT, name STRING"
    assert source.describe() == f"MEMORY ({name})"
    assert source.parts() == [""]
    rows, log = read(source, schema)
    assert rows == ROWS
    assert not len(log)
    assert can_be_read_again(source) == (not isinstance(data, Iterator))
    if can_be_read_again(source):
        assert read(source, schema)[0] == ROWS
    else:
        with pytest.raises(SourceError, match="stream s has been read already"):
            read(source, schema)


def test_given_schema_for_arrow(schema: Any, read: Any) -> None:
    table = pa.table({"x": [[1]] * 3, "ID": [1, 2**40, None], "name": ["a", "b", "c"]})
    source, given = memory_source(table, schema(id="INT"))
    assert given == schema(id="INT")
    rows, log = read(source, given)
    assert rows == [(1,), (None,)]
    (reject,) = log
    assert (reject.source, reject.row, reject.column) == ("", 2, "id")
    assert (reject.reason, reject.content) == (
        "1099511627776 does not fit INT",
        '{"id": 1099511627776}',
    )
    assert str(reject) == "stream s: row 2, column id: 1099511627776 does not fit INT"


def test_given_schema_is_checked_at_once(schema: Any) -> None:
    with pytest.raises(SourceError) as caught:
        memory_source(TABLE, schema(nam="STRING"))
    assert str(caught.value) == (
        "the data: there is no column nam\n  expected: one of its columns: id, name\n  try: name"
    )
    with pytest.raises(SourceError) as caught:
        memory_source(TABLE, schema(name="INT"))
    assert caught.value.message == "the data: column name is declared INT, but holds string"


def test_pandas_types(read: Any) -> None:
    frame = pd.DataFrame(
        {
            "n": [1.0, None],
            "c": pd.Categorical(["x", "y"]),
            "t": pd.to_datetime(["1970-01-01T00:00:01", None]),
            "z": pd.to_datetime(["1970-01-01T00:00:01+01:00"] * 2).tz_convert("Europe/Berlin"),
        },
        index=[7, 8],
    )
    source, schema = memory_source(frame)
    assert str(schema) == "n DOUBLE, c STRING, t TIMESTAMP, z TIMESTAMP"
    assert read(source, schema)[0] == [
        (1.0, "x", 1_000_000, -3_599_000_000),
        (None, "y", None, -3_599_000_000),
    ]


def test_pandas_that_arrow_cannot_take() -> None:
    for frame in (pd.DataFrame({"a": [1, "x"]}), pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(SourceError, match="the DataFrame cannot be converted to Arrow: "):
            memory_source(frame)


class Frame(pd.DataFrame):  # type: ignore[misc]
    """A subclass, as GeoPandas has one."""


def test_subclass_of_a_frame(read: Any) -> None:
    source, schema = memory_source(Frame({"a": [1]}))
    assert read(source, schema)[0] == [(1,)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[datetime.time(1)]]),
        pa.array([datetime.timedelta(1)]),
        pa.array([datetime.time(1)]),
        pa.array([1], pa.int32())
        .cast(pa.decimal128(12, 2))
        .cast(pa.decimal128(12, -2), safe=False),
    ],
)
def test_arrow_type_that_streams_do_not_have(column: pa.Array) -> None:
    with pytest.raises(SourceError) as caught:
        memory_source(pa.table({"ok": [1], "odd": column}))
    assert caught.value.message == f"column odd: a stream cannot carry {column.type}"
    assert caught.value.hint == "give a schema without the column"


def test_arrow_columns_with_one_name() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SourceError, match="the data cannot be a stream: two columns are called a"):
        memory_source(table)
    with pytest.raises(SourceError, match="the data has no columns"):
        memory_source(pa.table({}))


def test_inference_from_dicts() -> None:
    rows: list[dict[str, object]] = [
        {"b": True, "i": 1, "x": 1, "s": "a", "y": b"a", "none": None},
        {"d": datetime.date(2020, 1, 1), "u": datetime.datetime(2020, 1, 1), "x": 0.5},
        {"m": Decimal("1.50"), "w": Decimal("12345678901234567890.5"), "mix": 5},
        {"m": Decimal("100"), "mix": Decimal("0.25"), "du": datetime.date(2020, 1, 1)},
        {"du": datetime.datetime(2020, 1, 1), "m": Decimal("NaN")},
    ]
    assert str(memory_source(rows)[1]) == (
        "b BOOLEAN, i BIGINT, x DOUBLE, s STRING, y BINARY, none STRING, d DATE, u TIMESTAMP,"
        " m DECIMAL(18,2), w DECIMAL(38,1), mix DECIMAL(38,2), du TIMESTAMP"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "a"], "column v mixes BIGINT and STRING"),
        ([True, 1], "column v mixes BOOLEAN and BIGINT"),
        (["a", b"a"], "column v mixes STRING and BINARY"),
        ([1.5, Decimal("1.5")], "column v mixes DOUBLE and DECIMAL(2,1)"),
        ([datetime.timedelta(1)], "column v: a stream cannot carry timedelta values"),
        ([{1}], "column v: a stream cannot carry set values"),
        (
            [Decimal("1e30"), Decimal("1e-30")],
            "column v: 31 digits before and 30 after the point are too many",
        ),
    ],
)
def test_inference_fails(values: list[object], message: str) -> None:
    with pytest.raises(SourceError) as caught:
        memory_source([{"v": value} for value in values])
    assert caught.value.message == message


def test_inference_needs_names() -> None:
    with pytest.raises(SourceError) as caught:
        memory_source([(1, 2)])
    assert str(caught.value) == (
        "rows of class tuple do not name their columns\n  expected: a schema, or dicts"
    )
    with pytest.raises(SourceError, match="there are no rows to take a schema from"):
        memory_source([])
    with pytest.raises(SourceError, match="the key 1 is not a string"):
        memory_source([{1: 2}])


@pytest.mark.parametrize("data", ["a.csv", b"x", {"a": [1]}, 5, None, pd.Series([1])])
def test_not_a_table(data: object) -> None:
    with pytest.raises(SourceError) as caught:
        memory_source(data)
    if not isinstance(data, pd.Series):
        named = "'a.csv' is a text, and a text" if data == "a.csv" else f"a {type(data).__name__}"
        assert caught.value.message == f"{named} is not a table"
        assert "iterable of dicts" in str(caught.value)


def test_inference_reads_only_a_sample(read: Any) -> None:
    taken = []

    def numbers() -> Iterator[dict[str, object]]:
        for number in range(10_000):
            taken.append(number)
            yield {"n": number if number < 5_000 else str(number)}

    source, schema = memory_source(numbers())
    assert len(taken) == 1_000
    assert str(schema) == "n BIGINT"
    rows, log = read(source, schema)
    assert len(rows) == 5_000
    assert log.count() == 5_000
    first = next(iter(log))
    assert (first.row, first.column) == (5_001, "n")
    assert first.reason == "the str '5000' is not a BIGINT"
    assert first.content == '{"n": "5000"}'


def test_endless_generator(schema: Any) -> None:
    def forever() -> Iterator[tuple[int]]:
        number = 0
        while True:
            yield (number,)
            number += 1

    source, given = memory_source(forever(), schema(n="BIGINT"))
    numbers: list[int] = []
    for chunk in source.read(given, RejectLog().of("s")):
        assert 0 < chunk.batch.num_rows <= ROWS_A_BATCH
        numbers += chunk.batch["n"].to_pylist()
        if len(numbers) >= 3 * ROWS_A_BATCH:
            break
    assert numbers == list(range(len(numbers)))


def test_tuples_and_lists(schema: Any, read: Any) -> None:
    point = namedtuple("point", "a b")
    columns = schema(a="INT", b="STRING")
    source, _ = memory_source([(1, "x"), [2, "y"], point(3, "z")], columns)
    assert read(source, columns)[0] == [(1, "x"), (2, "y"), (3, "z")]


def test_rows_that_do_not_fit(schema: Any, read: Any, listed: Any) -> None:
    columns = schema(a="INT", b="STRING")
    data = [(1, "x"), (1,), (1, "x", 2), {"b": "q", "c": 1}, 5, None, "ab", (2**31, "y"), (8, 9)]
    for given in (data, iter(data)):
        source, _ = memory_source(given, columns)
        rows, log = read(source, columns)
        assert rows == [(1, "x"), (None, "q")]
        assert listed(log) == [
            (2, None, "1 values instead of 2"),
            (3, None, "3 values instead of 2"),
            (5, None, "a row must be a dict, a tuple or a list, not int"),
            (6, None, "a row must be a dict, a tuple or a list, not NoneType"),
            (7, None, "a row must be a dict, a tuple or a list, not str"),
            (8, "a", "the int 2147483648 does not fit INT"),
            (9, "b", "the int 9 is not a STRING"),
        ]
        assert [each.content for each in log][:4] == ["[1]", '[1, "x", 2]', "5", "null"]


def test_timestamps_in_rows(schema: Any, read: Any) -> None:
    columns = schema(t="TIMESTAMP")
    data = [
        {"t": datetime.datetime(1970, 1, 1, 0, 0, 1)},
        {"t": "1970-01-01T00:00:01Z"},
        {"t": "1970-01-01T00:00:01.000000999Z"},
        {},
    ]
    source, _ = memory_source(data, columns)
    assert read(source, columns)[0] == [(1_000_000,), (1_000_000,), (1_000_000,), (None,)]


def test_strict(schema: Any, read: Any) -> None:
    source, columns = memory_source([{"a": 1}, {"a": "x"}], schema(a="INT"))
    with pytest.raises(SourceError, match="stream s: row 2, column a: the str 'x' is not an INT"):
        read(source, columns, strict=True)


def test_failing_generator(schema: Any, read: Any) -> None:
    def broken() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise ZeroDivisionError("oops")

    source, columns = memory_source(broken(), schema(a="INT"))
    for _ in range(2):  # it must not look like a shorter source the second time
        with pytest.raises(SourceError) as caught:
            read(source, columns)
        assert str(caught.value) == "the data broke off after item 1: ZeroDivisionError: oops"
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


class OnceOnly:
    """An iterable that is not its own iterator, but has only one."""

    def __init__(self, rows: list[object]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[object]:
        return self._rows


def test_iterables_with_one_iterator(read: Any) -> None:
    source, schema = memory_source(OnceOnly([{"a": 1}, {"a": 2}]))
    assert read(source, schema)[0] == [(1,), (2,)]
    with pytest.raises(SourceError, match="the same iterator a second time"):
        read(source, schema)


def test_batches_must_stay_batches(read: Any) -> None:
    source, schema = memory_source(iter([*batches(), {"id": 1}]))
    with pytest.raises(SourceError) as caught:
        read(source, schema)
    assert str(caught.value) == (
        "item 3 of the batches is a dict\n  expected: a RecordBatch, like the first one"
    )


def test_empty_data_with_a_schema(schema: Any, read: Any) -> None:
    empty: list[Any] = [[], iter([]), pa.table({"a": pa.array([], pa.int64())})]
    for data in empty:
        source, columns = memory_source(data, schema(a="INT"))
        assert read(source, columns)[0] == []


def test_classes(schema: Any) -> None:
    source: MemorySource = memory_source([{"a": 1}])[0]
    assert isinstance(source, RowSource)
    assert isinstance(memory_source(TABLE)[0], BatchSource)
    assert isinstance(memory_source(TABLE)[1], Schema)


def test_works_without_pandas_and_polars() -> None:
    code = """
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "polars"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
import pyarrow as pa
from penstock.io.sources.memory import memory_source
from penstock.io.sources.rejects import RejectLog
log = RejectLog()
for data in (pa.table({"t": pa.array([1000], pa.timestamp("ns"))}), [{"a": 1}]):
    source, schema = memory_source(data)
    assert sum(chunk.batch.num_rows for chunk in source.read(schema, log.of("s"))) == 1
assert log.count() == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rows_before_a_failure_come_first(schema: Any) -> None:
    def rows() -> Iterator[dict[str, int]]:
        yield from ({"k": number} for number in range(3))
        raise OSError("the cable is out")

    source, columns = memory_source(rows(), schema(k="INT"))
    chunks = iter(source.read(columns, RejectLog().of("s")))
    assert next(chunks).batch.to_pydict() == {"k": [0, 1, 2]}
    with pytest.raises(SourceError, match="broke off after item 3: OSError: the cable is out"):
        next(chunks)
