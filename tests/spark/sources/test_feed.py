"""The feed of a stream: portions that are missing, cut or edited are noticed, so are files and rows
that are not what they were, and names stay in their directory."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import CheckpointError, SourceError
from penstock.io.checksums import rows_checksum
from penstock.io.sources.files import FileSource
from penstock.io.sources.rejects import RejectLog
from penstock.model.types import INT, Field, Schema
from penstock.plan.streams import StreamDefinition
from penstock.runs.status import SourceStatus
from penstock.spark.run.job_results import RunTotals, Tally
from penstock.spark.run.streaming import closed_before
from penstock.spark.sources.feed import Feed, Portion, fill_files
from penstock.spark.sources.stream_inputs import Feeds, file_name

SCHEMA = Schema([Field("t", INT)])
STREAM = StreamDefinition("s", SCHEMA)


def begun(directory: Path) -> Feed:
    feed = Feed(directory / "feed")
    for number in range(3):
        feed.add(Portion(number, promise=number))
    return feed


@pytest.mark.parametrize("number", range(3))
def test_a_portion_that_is_missing(tmp_path: Path, number: int) -> None:
    path = begun(tmp_path).portions / f"{number:09}.json"
    path.unlink()
    with pytest.raises(CheckpointError, match=f"{number:09}.json is missing"):
        Feed(tmp_path / "feed")


def test_portions_that_are_cut_or_edited(tmp_path: Path) -> None:
    path = begun(tmp_path).portions / "000000001.json"
    text = path.read_text(encoding="utf-8")
    for changed in (text[:-9], text.replace('"promise": 1', '"promise": 2'), "", "no portion"):
        path.write_text(changed, encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"000000001\.json is not what was written there"):
            Feed(tmp_path / "feed")
    path.write_text('{"number": 1, "files": [], "ends": true}', encoding="utf-8")
    with pytest.raises(CheckpointError, match="written by an earlier version"):
        Feed(tmp_path / "feed")


def test_a_portion_more_than_was_counted(tmp_path: Path) -> None:
    """The process may end after the portion and before the count."""
    feed = begun(tmp_path)
    (feed.directory / "head").write_text("2")
    assert Feed(feed.directory).size == 3
    assert (feed.directory / "head").read_text() == "3"


def test_times_of_files_follow_from_their_numbers(tmp_path: Path) -> None:
    """They are what Spark orders by, and a copy has others."""
    feed = begun(tmp_path)
    for number, path in enumerate(sorted(feed.portions.iterdir())):
        os.utime(path, (100 - number, 100 - number))
    feed = Feed(feed.directory)
    feed.add(Portion(3, ends=True))
    times = [path.stat().st_mtime for path in sorted(feed.portions.iterdir())]
    assert times == sorted(set(times))


def test_files_that_change(tmp_path: Path) -> None:
    data = tmp_path / "a.csv"
    data.write_text("t\n1\n")
    source, feed = FileSource("*.csv", base=tmp_path), Feed(tmp_path / "feed")
    fill_files(feed, STREAM, source)
    fill_files(feed, STREAM, source)
    assert feed.size == 1
    data.write_text("t\n1\n2\n")
    with pytest.raises(SourceError, match=r"a\.csv has changed: it had 4 bytes"):
        fill_files(Feed(feed.directory), STREAM, source)
    rejects = RejectLog().of("s")
    with pytest.raises(SourceError, match=r"a\.csv has changed"):
        list(feed.written[0].read(SCHEMA, rejects, feed.directory))


def test_files_that_are_not_ready(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t\n1\n")
    feed = Feed(tmp_path / "feed")
    fill_files(feed, STREAM, FileSource("*.csv", base=tmp_path), ready=lambda file: file.size > 4)
    assert feed.size == 0


def test_checksums_are_those_of_values() -> None:
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "s": ["a", "", None],
            "b": [True, None, False],
            "d": [1.5, -0.0, None],
        }
    )
    cut = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    apart = pa.concat_tables([table.slice(2), table]).slice(1)
    assert rows_checksum(table) == rows_checksum(cut) == rows_checksum(apart)
    assert rows_checksum(table) != rows_checksum(table.set_column(1, "s", [["a", None, None]]))
    assert rows_checksum(table) != rows_checksum(table.slice(0, 2))
    assert rows_checksum(table, table) != rows_checksum(table)


def test_names_stay_in_their_directory(tmp_path: Path) -> None:
    names = ["../../escaped", "/etc/x", "..", ".", "", "a\0b", "S", "s", "é", "a" * 500, "a" * 501]
    escaped = [file_name(name) for name in names]
    assert len({name.lower() for name in escaped}) == len(names)
    for name in escaped:
        assert (tmp_path / name).resolve().parent == tmp_path.resolve()
        assert len(name) < 120


def test_files_that_were_taken_away(tmp_path: Path) -> None:
    """When they have been read, nobody minds."""
    data = tmp_path / "a.csv"
    data.write_text("t\n1\n")
    source, feed = FileSource("*.csv", base=tmp_path), Feed(tmp_path / "feed")
    fill_files(feed, STREAM, source)
    data.unlink()
    fill_files(feed, STREAM, source)
    assert feed.size == 1
    with pytest.raises(SourceError, match=r"a\.csv does not exist \(any more\)"):
        list(feed.written[0].read(SCHEMA, RejectLog().of("s"), feed.directory))


def test_streams_that_are_being_ended(tmp_path: Path) -> None:
    """A final run may be killed when only some of the streams have heard of it."""
    db = ps.connect("reference")
    *_, query = db.script(
        "CREATE STREAM a (t INT) FROM VALUES (1); CREATE STREAM b (t INT) FROM VALUES (2);"
        "SELECT count(*) AS n [RANGE 2 ROWS, SLIDE 2 ROWS]"
        " FROM (SELECT t FROM a UNION ALL SELECT t FROM b) AS u"
    )
    assert isinstance(query, ps.Query)
    feeds = Feeds.of([query.plan], tmp_path)
    assert closed_before(feeds, [RunTotals()], tmp_path, bounded=True) is None
    feeds.by_name["a"].end()
    said = closed_before(feeds, [RunTotals()], tmp_path, bounded=True)
    assert said is not None
    assert "is being ended" in said
    with pytest.raises(CheckpointError, match="is being ended"):
        closed_before(feeds, [RunTotals()], tmp_path, bounded=False)
    ended = Tally(sources=[SourceStatus("a", 0, 0, True, []), SourceStatus("b", 0, 0, True, [])])
    with pytest.raises(CheckpointError, match="nothing can go on"):
        closed_before(feeds, [RunTotals(1, ended, ended)], tmp_path, bounded=True)
