"""Rows that are too long are left out, and nothing else changes, wherever the bytes are cut."""

from __future__ import annotations

import io
import socket
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.formats.long_rows import CsvRowLimit, LineCutter, LongRow

Malformed = list[tuple[int, str]]
PIECES = ["a", '"', "bb", ",", "\n", '""', '"x"', '"a\nb"', "\r\n", "cccccccc"]


def as_arrow_reads(data: bytes) -> tuple[list[Any], Malformed]:
    bad: Malformed = []

    def skip(row: pa.csv.InvalidRow) -> str:
        bad.append((row.number, row.text))
        return "skip"

    table = pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(use_threads=False),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys("ab", pa.string())),
    )
    return table.to_pylist(), bad


def through(transform: Any, data: bytes, step: int) -> bytes:
    cut = [data[begin : begin + step] for begin in range(0, len(data), step)]
    return b"".join(map(transform, [*cut, b""]))


@settings(deadline=None)
@given(
    body=st.lists(st.sampled_from(PIECES), min_size=1, max_size=40).map("".join),
    limit=st.integers(3, 30),
    step=st.integers(1, 20),
)
def test_rows_of_csv(body: str, limit: int, step: int) -> None:
    data = f"a,b\n{body}".encode()
    limiter = CsvRowLimit(limit, 2)
    rows, bad = as_arrow_reads(data)
    left, malformed = as_arrow_reads(through(limiter, data, step))
    long = {number: limiter.of(text) for number, text in malformed if limiter.of(text)}
    assert len(left) + len(malformed) == len(rows) + len(bad)
    assert [each for each in malformed if each[0] not in long] == [
        each for each in bad if each[0] not in long
    ]
    assert all(row is not None and row.size > limit for row in long.values())
    if not long:
        assert through(CsvRowLimit(limit, 2), data, step) == data


@given(
    lines=st.lists(st.integers(0, 12), max_size=20),
    limit=st.integers(1, 8),
    step=st.integers(1, 40),
    ends=st.booleans(),
)
def test_lines(lines: list[int], limit: int, step: int, ends: bool) -> None:
    whole = [b"x" * length for length in lines]
    data = b"\n".join(whole) + (b"\n" if ends and lines else b"")
    cutter, found = LineCutter(limit), []
    for begin in range(0, len(data), step):
        found += cutter.cut(data[begin : begin + step])
    found += cutter.rest()
    sizes: list[int] = []
    for each in found:
        if isinstance(each, LongRow):
            assert each.size > limit
            sizes.append(each.size)
        else:
            parts = each.removesuffix(b"\n").split(b"\n")
            assert all(len(part) <= limit for part in parts)
            sizes += map(len, parts)
    expected = lines if ends or not lines or lines[-1] else lines[:-1]
    assert sizes == expected


FILES = {
    "s.csv": b"k,v\na,1\n%s,2\nb,3\n",
    "s.jsonl": b'{"k": "a", "v": 1}\n{"k": "%s", "v": 2}\n{"k": "b", "v": 3}\n',
}


def made(name: str, size: int) -> bytes:
    return FILES[name].replace(b"%s", b"x" * size)


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize("name", FILES)
def test_files(tmp_path: Path, name: str, engine: str) -> None:
    (tmp_path / name).write_bytes(made(name, 3000))
    for limit, rows in (("", 3), (" ROW LIMIT 2 KB", 2), (" ROW LIMIT 4000 BYTES", 3)):
        db = ps.connect(engine, base=tmp_path)
        db.sql(f"CREATE STREAM s (k STRING, v INT) FROM FILES '{name}'{limit}")
        query = db.sql("SELECT v FROM s")
        assert query.collect().column("v").to_pylist() == ([1, 2, 3] if rows == 3 else [1, 3])
        if rows == 2:
            (reject,) = query.rejected.to_pylist()
            assert reject["row"] == 2
            assert "a row may have 2,048 (ROW LIMIT)" in reject["reason"]
            assert len(reject["content"]) < 300


@pytest.mark.parametrize("name", FILES)
def test_memory_stays_bounded(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_bytes(made(name, 64 << 20))
    db = ps.connect(base=tmp_path)
    db.sql(f"CREATE STREAM s (k STRING, v INT) FROM FILES '{name}' ROW LIMIT 1 MB")
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        assert db.sql("SELECT v FROM s").collect().num_rows == 2
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_header_that_never_ends(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes(b"x" * 100_000)
    db = ps.connect(base=tmp_path)
    db.sql("CREATE STREAM s (k STRING) FROM FILES 's.csv' ROW LIMIT 10 KB")
    with pytest.raises(ps.SourceError, match=r"its first row has more than 10,240 bytes"):
        db.sql("SELECT k FROM s").collect()


def test_sockets() -> None:
    with socket.create_server(("localhost", 0)) as server:

        def send() -> None:
            connection, _ = server.accept()
            with connection, io.BytesIO(made("s.jsonl", 3000)) as data:
                while piece := data.read(100):
                    connection.sendall(piece)

        sender = threading.Thread(target=send)
        sender.start()
        db = ps.connect()
        port = server.getsockname()[1]
        db.sql(f"CREATE STREAM s (k STRING, v INT) FROM SOCKET 'localhost:{port}' ROW LIMIT 1 KB")
        query = db.sql("SELECT v FROM s")
        assert query.collect().column("v").to_pylist() == [1, 3]
        assert query.rejected.column("row").to_pylist() == [2]
        sender.join(60)
