"""Patterns, formats by ending, compression, and files that are not what they should be."""

import bz2
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from penstock.errors import SourceError
from penstock.io.access import Allowed
from penstock.io.formats.data_file import DataFile
from penstock.io.sources.files import FileFormat, FileSource, NoFilesError, format_of, read_file
from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import Attention
from penstock.model.types import Schema


@pytest.fixture
def ids(schema: Any) -> Schema:
    return schema(id="INT")  # type: ignore[no-any-return]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """b.csv, a.csv, deep/er/c.csv, notes.txt"""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for number, name in enumerate(("b.csv", "a.csv", "deep/er/c.csv")):
        (tmp_path / name).write_text(f"id\n{number}\n")
    (tmp_path / "notes.txt").write_text("id\n9\n")
    return tmp_path


def test_files_in_name_order(data: Path, ids: Schema) -> None:
    source = FileSource("*.csv", base=data)
    assert source.parts() == ["a.csv", "b.csv"]
    chunks = list(source.read(ids, RejectLog().of("s")))
    assert [(chunk.part, chunk.batch.to_pylist()) for chunk in chunks] == [
        ("a.csv", [{"id": 1}]),
        ("b.csv", [{"id": 0}]),
    ]


def test_all_levels(data: Path) -> None:
    assert FileSource("**/*.csv", base=data).parts() == ["a.csv", "b.csv", "deep/er/c.csv"]
    assert FileSource("**", FileFormat.CSV, data).parts() == [
        "a.csv",
        "b.csv",
        "deep/er/c.csv",
        "notes.txt",
    ]


def test_absolute_and_current(
    data: Path, ids: Schema, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    absolute = FileSource(str(data / "*.csv"))
    assert absolute.parts() == [str(data / "a.csv"), str(data / "b.csv")]
    monkeypatch.chdir(data)
    assert read(FileSource("a.csv"), ids)[0] == [(1,)]


def test_file_with_a_pattern_for_a_name(tmp_path: Path, ids: Schema, read: Any) -> None:
    (tmp_path / "a[1].csv").write_text("id\n5\n")
    assert read(FileSource("a[1].csv", base=tmp_path), ids)[0] == [(5,)]


def test_row_numbers_start_anew_in_every_file(tmp_path: Path, ids: Schema, read: Any) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("id\n1\nx\n")
    _, log = read(FileSource("*.csv", base=tmp_path), ids)
    assert [(each.source, each.row) for each in log] == [("a.csv", 2), ("b.csv", 2)]


def test_describe() -> None:
    assert FileSource("data/*.csv").describe() == "FILES 'data/*.csv' FORMAT CSV"
    assert FileSource("data/*.jsonl.gz").describe() == "FILES 'data/*.jsonl.gz' FORMAT JSON"
    assert FileSource("it's/*").describe() == "FILES 'it''s/*'"
    assert FileSource("x", FileFormat.PARQUET).describe() == "FILES 'x' FORMAT PARQUET"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.parquet", FileFormat.PARQUET),
        ("a.PQ", FileFormat.PARQUET),
        ("a.b.CSV", FileFormat.CSV),
        ("a.csv.gz", FileFormat.CSV),
        ("a.json", FileFormat.JSON),
        ("a.jsonl.zst", FileFormat.JSON),
        ("a.ndjson.bz2", FileFormat.JSON),
        ("a.gz", None),
        ("a.txt", None),
        ("a", None),
        ("csv", None),
    ],
)
def test_formats(name: str, expected: FileFormat | None) -> None:
    assert format_of(name) is expected


def test_compressed(tmp_path: Path, ids: Schema, read: Any) -> None:
    text = b"id\n1\nx\n2\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text[:5]) + gzip.compress(text[5:]))
    (tmp_path / "b.csv.bz2").write_bytes(bz2.compress(text))
    (tmp_path / "c.csv.zst").write_bytes(pa.compress(text, "zstd", asbytes=True))
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b'{"id":3}\n{"id":"y"}'))
    rows, log = read(FileSource("*", base=tmp_path), ids)
    assert rows == [(1,), (2,)] * 3 + [(3,)]
    assert [each.row for each in log] == [2, 2, 2, 2]


def test_broken_compression(tmp_path: Path, ids: Schema, read: Any) -> None:
    whole = gzip.compress(os.urandom(100_000).hex().encode())
    for broken in (b"id\n1\n", whole[:1000], whole[:50] + b"\0" * 100 + whole[150:]):
        (tmp_path / "a.csv.gz").write_bytes(broken)
        with pytest.raises(SourceError, match=r"a\.csv\.gz"):
            read(FileSource("a.csv.gz", base=tmp_path), ids)


def test_format_given(data: Path, ids: Schema, read: Any) -> None:
    assert read(FileSource("notes.txt", FileFormat.CSV, data), ids)[0] == [(9,)]


def test_unknown_ending(data: Path, ids: Schema, read: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read(FileSource("*.*", base=data), ids)
    assert str(caught.value) == (
        "notes.txt: its ending does not tell its format\n"
        "  expected: one of .parquet, .pq, .csv, .json, .jsonl, .ndjson,"
        " or a FORMAT (PARQUET, CSV, JSON)\n"
        "  try: FORMAT CSV"
    )


def test_no_match(data: Path, ids: Schema, read: Any) -> None:
    for name in ("x.csv", "y.csv"):
        (data / "deep" / name).write_text("")
    with pytest.raises(SourceError) as caught:
        read(FileSource("deep/*.cvs", base=data), ids)
    assert str(caught.value) == (
        f"no file matches 'deep/*.cvs' in {data}\n"
        "  expected: at least one file\n"
        "  try: deep/x.csv, deep/y.csv"
    )
    with pytest.raises(
        SourceError, match=r"(?s)matches 'zz/\*\.q' in .*; in .* there are a\.csv, b\.csv"
    ):
        FileSource("zz/*.q", base=data).parts()
    with pytest.raises(SourceError, match="no file matches ''"):
        FileSource("", base=data).parts()


def test_no_match_in_no_directory(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        FileSource("*.csv", base=tmp_path / "nowhere").parts()
    assert caught.value.hint is None


def test_directories(data: Path, ids: Schema, read: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read(FileSource("deep/", base=data), ids)
    assert str(caught.value) == (
        "deep/ is a directory\n"
        "  expected: a file, or a pattern for the files in it\n"
        "  try: 'deep/*.csv'"
    )
    (data / "parts.csv").mkdir()
    with pytest.raises(SourceError, match=r"parts\.csv is a directory"):
        read(FileSource("*.csv", base=data), ids)


def pipe(place: Path) -> None:
    os.mkfifo(place)


def link_to_a_pipe(place: Path) -> None:
    os.mkfifo(place.with_name("pipe"))
    place.symlink_to("pipe")


def link_to_a_device(place: Path) -> None:
    place.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [pipe, link_to_a_pipe, link_to_a_device])
@pytest.mark.parametrize("pattern", ["b.csv", "*.csv"])
@pytest.mark.parametrize(
    "look", [FileSource.parts, lambda source: source.size_expected(10), FileSource.files]
)
def test_pipes_and_devices(
    put: Callable[[Path], None], pattern: str, look: Callable[[FileSource], Any], tmp_path: Path
) -> None:
    """Opening one would wait for a writer, and it need not have an end."""
    put(tmp_path / "b.csv")
    with pytest.raises(SourceError) as caught:
        look(FileSource(pattern, base=tmp_path))
    assert str(caught.value) == (
        "b.csv is not a regular file\n"
        "  expected: a file with an end, and no pipe or device\n"
        "  try: FROM SOCKET 'host:port' for rows that are still to come"
    )


@pytest.mark.parametrize("file_format", list(FileFormat))
def test_a_pipe_that_is_put_there_after_the_file_was_found(
    file_format: FileFormat, tmp_path: Path, ids: Schema
) -> None:
    os.mkfifo(tmp_path / "a")
    file = DataFile(tmp_path / "a", "a")
    with pytest.raises(SourceError, match="is not a regular file"):
        list(read_file(file, file_format.value, ids, RejectLog().of("s")))


def test_symlinks(data: Path, ids: Schema, read: Any) -> None:
    (data / "deep" / "link.csv").symlink_to(data / "a.csv")
    assert read(FileSource("deep/*.csv", base=data), ids)[0] == [(1,)]
    (data / "deep" / "link.csv").unlink()
    (data / "deep" / "gone.csv").symlink_to(data / "nothing")
    with pytest.raises(SourceError, match=r"deep/gone\.csv does not exist"):
        read(FileSource("deep/*.csv", base=data), ids)


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.parquet"])
def test_permission(
    tmp_path: Path, ids: Schema, read: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(b"PAR1")
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read everything

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(DataFile, "open", refuse)
        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SourceError, match=f"{name} may not be read: permission denied"):
        read(FileSource(name, base=tmp_path), ids)


def test_hidden_files_are_left_alone(data: Path) -> None:
    (data / ".hidden.csv").write_text("")
    assert FileSource("*.csv", base=data).parts() == ["a.csv", "b.csv"]


def test_reading_twice(data: Path, ids: Schema, read: Any) -> None:
    source = FileSource("*.csv", base=data)
    assert read(source, ids)[0] == read(source, ids)[0] == [(1,), (0,)]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_a_file_is_closed_when_it_has_been_read(tmp_path: Path, ids: Schema, name: str) -> None:
    content = b"id\n1\n" if "csv" in name else b'{"id": 1}\n'
    for number in range(20):
        path = tmp_path / f"{number:02}{name}"
        if name.endswith("parquet"):
            pa.parquet.write_table(pa.table({"id": [1]}), path)
        else:
            path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    source = FileSource(f"*{name}", base=tmp_path)
    for read in (
        lambda rejects: source.read(ids, rejects),
        lambda rejects: source.read_on(ids, rejects, {}, growing=False),
    ):
        chunks, opened = [], []
        for chunk in read(RejectLog().of("s")):
            chunks.append(chunk)  # as a slow reader does
            opened.append(sum(1 for _ in Path("/proc/self/fd").iterdir()))
        assert sum(chunk.num_rows for chunk in chunks) == 20
        assert max(opened) - min(opened) < 5


def test_a_walk_ends_when_its_reader_leaves(data: Path, ids: Schema) -> None:
    attention = Attention()
    attention.bell.close()
    rejects = RejectLog().of("s")
    assert list(FileSource("**/*.csv", base=data).listen(ids, rejects, attention)) == []
    assert list(FileSource("**/*.csv", base=data).read_on(ids, rejects, {}, True, attention)) == []


def test_files_that_are_still_to_come(tmp_path: Path, ids: Schema) -> None:
    rejects = RejectLog().of("s")

    def read(pattern: str, followed: bool = True) -> list[Any]:
        source = FileSource(pattern, base=tmp_path)
        return list(source.read_on(ids, rejects, {}, growing=True, followed=followed))

    assert read("*.csv") == []
    with pytest.raises(NoFilesError):
        read("*.csv", followed=False)
    for misspelled in ("nowhere/*.csv", "a.csv"):
        with pytest.raises(NoFilesError):
            read(misspelled)


def test_a_refused_pattern_names_nothing_outside(tmp_path: Path, ids: Schema, read: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secrets" / "deep").mkdir(parents=True)
    (tmp_path / "secrets" / "deep" / "salaries.csv").write_text("id\n1\n")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secrets")
    allowed = Allowed.of(["in"], tmp_path)
    told = set()
    for pattern in ("in/*/deep/*.csv", "in/*/deep/*.json", "in/*/nowhere/*.csv", "in/*"):
        source = FileSource(pattern, FileFormat.CSV, tmp_path, allowed)
        assert source.is_refused
        for look in (source.parts, source.files, lambda: source.few_parts(9)):  # noqa: B023
            with pytest.raises(SourceError) as caught:
                look()
            told.add(str(caught.value).replace(pattern, "…"))
    assert told == {"… is not allowed here\n  expected: what is allowed: in"}
    assert not FileSource(
        "in/**/*.csv", None, tmp_path, allowed
    ).is_refused  # it does not look there


@pytest.mark.parametrize("name", ["a\nb\x1b[2J.csv", "a\r.csv"])
def test_names_that_a_terminal_would_obey_are_spelled_out(
    tmp_path: Path, ids: Schema, read: Any, name: str
) -> None:
    (tmp_path / name).write_text("id\nx\n")
    rows, log = read(FileSource("*.csv", base=tmp_path), ids)
    assert (rows, [each.source for each in log]) == ([], [name])
    assert all(str(each).isprintable() for each in log)
    (tmp_path / name).write_text("ID,id \n1,2\n")
    for pattern in ("*.csv", "*.cvs", f"{name}x"):
        with pytest.raises(SourceError) as caught:
            read(FileSource(pattern, base=tmp_path), ids)
        assert all(line.isprintable() for line in str(caught.value).split("\n"))
        assert name not in str(caught.value)
