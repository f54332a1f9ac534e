"""Results that grow: batch by batch as the whole, and several of them in one place."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SinkError
from penstock.io.formats.parquet import ROW_GROUP
from penstock.io.sinks.output import Output, OutputFormat
from penstock.io.sinks.text import CsvWriter, JsonLinesWriter, TableWriter

TABLE = pa.table({"n": range(9), "s": ["a", None, "", "ü", "x,y", 'q"', "b", "c", "long enough"]})
WRITERS = [TableWriter, CsvWriter, JsonLinesWriter]


def written(writer_type: type, cuts: list[int]) -> str:
    out = io.StringIO()
    writer = writer_type(out)
    writer.begin(TABLE.schema)
    places = [0, *cuts, TABLE.num_rows]
    for begin, end in pairwise(places):
        for batch in TABLE.slice(begin, end - begin).to_batches():
            writer.write(batch)
    writer.end()
    return out.getvalue()


@pytest.mark.parametrize("writer_type", WRITERS)
@given(cuts=st.lists(st.integers(0, 9)).map(sorted))
@settings(deadline=None, max_examples=30)
def test_cuts_do_not_show(writer_type: type, cuts: list[int]) -> None:
    assert written(writer_type, cuts) == written(writer_type, [])


def test_a_table_goes_on_with_the_widths_of_its_first_screenful() -> None:
    out = io.StringIO()
    writer = TableWriter(out, screenful=2)
    writer.begin(pa.schema([("s", pa.string()), ("n", pa.int64())]))
    for text in ("ab", "c", "longer", "d"):
        writer.write(pa.record_batch({"s": [text], "n": [1]}))
    assert out.getvalue() == "s   n\n──  ─\nab  1\nc   1\nlonger  1\nd   1\n"
    writer.end()
    assert out.getvalue().endswith("(4 rows)\n")


def test_a_table_shows_what_there_is_when_it_is_flushed() -> None:
    out = io.StringIO()
    writer = TableWriter(out)
    writer.begin(pa.schema([("n", pa.int64())]))
    writer.flush()
    assert out.getvalue() == ""
    writer.write(pa.record_batch({"n": [7]}))
    assert out.getvalue() == ""
    writer.flush()
    assert out.getvalue() == "n\n─\n7\n"


def test_results_that_grow_together_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "result"
    with Output(OutputFormat.JSONL, path) as output:
        first, second, third = output.result(), output.result(), output.result()
        for result in (third, first, second, first):
            number = [first, second, third].index(result)
            result.begin(pa.schema([("n", pa.int64())]))
            result.write(pa.record_batch({"n": [number]}))
        for result in (third, first, second):
            result.end()
    assert path.read_text() == '{"n": 0}\n{"n": 0}\n{"n": 1}\n{"n": 2}\n'


def test_a_result_is_written_straight_away_if_nothing_is_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Output(OutputFormat.JSONL, None) as output:
        first = output.result()
        first.write(pa.record_batch({"n": [1]}))
        assert capsys.readouterr().out == '{"n": 1}\n'
        second = output.result()
        second.write(pa.record_batch({"n": [2]}))
        assert capsys.readouterr().out == ""
        second.end()
        assert capsys.readouterr().out == ""
        first.end()
        assert capsys.readouterr().out == '{"n": 2}\n'


@pytest.mark.parametrize("output_format", list(OutputFormat))
def test_a_stopped_output_is_kept_beside(output_format: OutputFormat, tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_text("old")
    with Output(output_format, path) as output:
        result = output.result()
        result.begin(TABLE.schema)
        result.write(TABLE.to_batches()[0])
        result.end()
        output.stop(keep=True)
        assert output.place == f"{path}.partial"
    assert path.read_text() == "old"
    partial = tmp_path / "result.partial"
    assert sorted(tmp_path.iterdir()) == [path, partial]
    if output_format is OutputFormat.PARQUET:
        assert pq.read_table(partial).equals(TABLE)


def test_a_stopped_output_without_rows_leaves_nothing(tmp_path: Path) -> None:
    with Output(OutputFormat.CSV, tmp_path / "result") as output:
        output.result().begin(TABLE.schema)
        output.stop(keep=False)
    assert list(tmp_path.iterdir()) == []


def test_small_batches_become_large_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "result.parquet"
    batch = pa.record_batch({"n": range(1000)})
    with Output(OutputFormat.PARQUET, path) as output:
        result = output.result()
        result.begin(batch.schema)
        for _ in range(100):
            result.write(batch)
        result.end()
    metadata = pq.read_metadata(path)
    assert metadata.num_rows == 100_000
    assert metadata.num_row_groups == 2
    assert metadata.row_group(0).num_rows >= ROW_GROUP


def test_a_format_of_one_result(tmp_path: Path) -> None:
    with Output(OutputFormat.CSV, tmp_path / "result") as output:
        output.result()
        with pytest.raises(SinkError, match="csv holds one result"):
            output.result()
