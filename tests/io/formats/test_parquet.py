"""Parquet: the declared columns only, lossless casts, and what is not Parquet at all."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import SourceError
from penstock.io.formats.data_file import DataFile
from penstock.io.formats.parquet import read_parquet
from penstock.io.sources.files import FileSource
from penstock.io.sources.rejects import RejectLog


@pytest.fixture
def read_table(tmp_path: Path, read: Any, schema: Any) -> Any:
    def run(table: pa.Table, **columns: str) -> Any:
        pq.write_table(table, tmp_path / "a.parquet")
        return read(FileSource("a.parquet", base=tmp_path), schema(**columns))

    return run


def test_declared_columns_in_declared_order(read_table: Any) -> None:
    table = pa.table({"x": [[1]], "ID": pa.array([7], pa.int64()), "name": ["a"]})
    assert read_table(table, name="STRING", id="INT")[0] == [("a", 7)]


def test_types_that_fit(read_table: Any) -> None:
    table = pa.table(
        {
            "i": pa.array([1], pa.uint8()),
            "x": pa.array([0.5], pa.float32()),
            "s": pa.array(["a"]).dictionary_encode(),
            "l": pa.array(["b"], pa.large_string()),
            "u": pa.array([1_000], pa.timestamp("ms", "Europe/Berlin")),
            "n": pa.array([2_000], pa.timestamp("ns")),
            "d": pa.array([3], pa.int32()).cast(pa.date32()),
            "y": pa.array([b"ab"], pa.binary(2)),
        }
    )
    rows, log = read_table(
        table,
        i="BIGINT",
        x="DOUBLE",
        s="STRING",
        l="STRING",
        u="TIMESTAMP",
        n="TIMESTAMP",
        d="DATE",
        y="BINARY",
    )
    assert rows == [(1, 0.5, "a", "b", 1_000_000, 2, 3, b"ab")]
    assert not len(log)


def test_missing_column(read_table: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read_table(pa.table({"id": [1], "tmie": [2]}), time="INT")
    assert str(caught.value) == (
        "a.parquet: there is no column time\n  expected: one of its columns: id, tmie\n  try: tmie"
    )


def test_type_that_never_fits(read_table: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read_table(pa.table({"id": ["1"]}), id="INT")
    assert str(caught.value) == (
        "a.parquet: column id is declared INT, but holds string\n  expected: integers for INT"
    )


def test_values_that_do_not_fit(tmp_path: Path, schema: Any) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2**31, None, 4, 5], pa.int64()),
            "t": pa.array([1000, 1000, None, 1, 5000], pa.timestamp("ns")),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    log = RejectLog()
    columns = schema(id="INT", t="TIMESTAMP")
    batches = list(read_parquet(DataFile(path, "a.parquet"), columns, log.of("s"), batch=2))
    assert [batch.column("id").to_pylist() for batch in batches] == [[1], [None, 4], [5]]
    assert [(each.row, each.column, each.reason, each.content) for each in log] == [
        (
            2,
            "id",
            "2147483648 does not fit INT",
            '{"id": 2147483648, "t": "1970-01-01 00:00:00.000001000"}',
        ),
    ]
    assert batches[1].column("t").cast(pa.int64()).to_pylist() == [None, 0]  # cut off


def test_old_timestamps_keep_their_century(tmp_path: Path, read: Any, schema: Any) -> None:
    far = 253_402_214_400_000_000  # 9999-12-31
    table = pa.table({"t": pa.array([far], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    rows, _ = read(FileSource("a.parquet", base=tmp_path), schema(t="TIMESTAMP"))
    assert rows == [(far,)]


def test_empty_table(read_table: Any) -> None:
    assert read_table(pa.table({"id": pa.array([], pa.int32())}), id="INT")[0] == []


@pytest.mark.parametrize("data", [b"", b"id,name\n1,2\n", b"PAR"])
def test_not_parquet(read_file: Any, data: bytes) -> None:
    with pytest.raises(SourceError) as caught:
        read_file("a.parquet", data, id="INT")
    assert str(caught.value) == (
        "a.parquet is not a Parquet file\n"
        "  expected: a file that begins with PAR1\n"
        "  try: FORMAT CSV or FORMAT JSON, if it is text"
    )


def test_broken_parquet(tmp_path: Path, read: Any, schema: Any) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": list(range(100_000))}), path)
    data = path.read_bytes()
    for broken in (b"PAR1", data[: len(data) // 2], data[:100] + b"\xff" * 5000 + data[5100:]):
        path.write_bytes(broken)
        with pytest.raises(SourceError, match=r"a\.parquet cannot be read: "):
            read(FileSource("a.parquet", base=tmp_path), schema(id="BIGINT"))
