"""Outputs: a file appears whole or not at all, and Parquet gives back what it was given."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SinkError
from penstock.io.sinks.output import Output, OutputFormat
from penstock.model.types import Type
from penstock.model.values import to_arrow
from tests.model.strategies import columns, decimal_types, plain_types

TABLE = pa.table({"a": [1, 2]})
EXPECTED = {
    OutputFormat.TABLE: "a\n─\n1\n2\n(2 rows)\n",
    OutputFormat.JSONL: '{"a": 1}\n{"a": 2}\n',
    OutputFormat.CSV: "a\n1\n2\n",
}


class BrokenError(Exception):
    """Something that goes wrong while results are computed."""


def put(output_format: OutputFormat, path: Path | None, *tables: pa.Table) -> None:
    with Output(output_format, path) as output:
        for table in tables:
            output.write(table)


def put_and_break(output_format: OutputFormat, path: Path) -> None:
    with Output(output_format, path) as output:
        output.write(TABLE)
        raise BrokenError


@pytest.mark.parametrize("output_format", EXPECTED)
def test_to_standard_output(
    output_format: OutputFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    put(output_format, None, TABLE)
    captured = capsys.readouterr()
    assert captured.out == EXPECTED[output_format]
    assert captured.err == ""


@pytest.mark.parametrize("output_format", EXPECTED)
def test_to_a_file(output_format: OutputFormat, tmp_path: Path) -> None:
    path = tmp_path / "result"
    with Output(output_format, path) as output:
        output.write(TABLE)
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == EXPECTED[output_format]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("output_format", list(OutputFormat))
def test_a_failure_leaves_nothing_behind(output_format: OutputFormat, tmp_path: Path) -> None:
    with pytest.raises(BrokenError):
        put_and_break(output_format, tmp_path / "result")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output_format", list(OutputFormat))
def test_a_failure_leaves_the_old_file_alone(output_format: OutputFormat, tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_text("old")
    with pytest.raises(BrokenError):
        put_and_break(output_format, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_success_replaces_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_text("something longer than the result")
    put(OutputFormat.CSV, path, TABLE)
    assert path.read_text() == "a\n1\n2\n"


def test_an_output_without_results_is_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "result"
    put(OutputFormat.JSONL, path)
    assert path.read_bytes() == b""


@pytest.fixture
def mask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_others_may_read_it_as_if_it_had_just_been_opened(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "result"
    put(OutputFormat.CSV, path, TABLE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("output_format", [OutputFormat.CSV, OutputFormat.PARQUET])
def test_formats_of_one_result(output_format: OutputFormat, tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=f"{output_format.value} holds one result"):
        put(output_format, tmp_path / "result", TABLE, TABLE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output_format", [OutputFormat.TABLE, OutputFormat.JSONL])
def test_formats_of_several_results(output_format: OutputFormat, tmp_path: Path) -> None:
    path = tmp_path / "result"
    put(output_format, path, TABLE, pa.table({"b": ["x"]}))
    text = path.read_text(encoding="utf-8")
    assert text.startswith(EXPECTED[output_format])
    assert "x" in text.removeprefix(EXPECTED[output_format])


def test_parquet_is_not_for_the_terminal() -> None:
    with pytest.raises(SinkError, match="not for the terminal"):
        Output(OutputFormat.PARQUET, None)


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"cannot write .*result: No such file or directory"):
        put(OutputFormat.CSV, tmp_path / "nowhere" / "result", TABLE)


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(SinkError, match=r"cannot write .*place: Is a directory"):
        put(OutputFormat.CSV, place, TABLE)
    assert list(tmp_path.iterdir()) == [place]


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        put(OutputFormat.CSV, pipe, TABLE)
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert os.read(reader, 100) == b"a\n1\n2\n"
    finally:
        os.close(reader)


def test_a_full_device() -> None:
    with pytest.raises(SinkError, match="cannot write /dev/full: No space left on device"):
        put(OutputFormat.CSV, Path("/dev/full"), TABLE)


# --- Parquet -------------------------------------------------------------------------------------

typed = (plain_types | decimal_types).flatmap(lambda t: st.tuples(st.just(t), columns(t)))


@given(st.lists(typed, min_size=1, max_size=3))
@settings(deadline=None, max_examples=50)
def test_parquet_there_and_back_again(
    tmp_path_factory: pytest.TempPathFactory, given_columns: list[tuple[Type, list[Any]]]
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "result"
    rows = min(len(each) for _, each in given_columns)
    table = pa.table(
        {str(i): to_arrow(each[:rows], t) for i, (t, each) in enumerate(given_columns)}
    )
    put(OutputFormat.PARQUET, path, table)
    found = pq.read_table(path)
    assert found.schema == table.schema
    # by bytes, since NaN is not equal to NaN
    assert str(_plain(found)) == str(_plain(table))


def _plain(table: pa.Table) -> list[list[Any]]:
    """Times as integers: `datetime` ends at the year 9999."""
    return [
        (
            column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
            if pa.types.is_temporal(column.type)
            else column
        ).to_pylist()
        for column in table.columns
    ]
