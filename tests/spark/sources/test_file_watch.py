"""Files that appear while a run goes on: whole ones are fed, what goes wrong is said."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

import penstock as ps
from penstock.spark.sources.stream_inputs import Feeds, FileWatch

CREATE = "CREATE STREAM s (t INT) FROM FILES '*.csv' PROGRESS ON t ORDERED; SELECT t FROM s"


@pytest.fixture
def feeds(tmp_path: Path) -> Feeds:
    (tmp_path / "a.csv").write_text("t\n1\n")
    *_, query = ps.connect("reference", base=tmp_path).script(CREATE)
    assert isinstance(query, ps.Query)
    feeds = Feeds.of([query.plan], tmp_path / "feed")
    feeds.fill(strict=False, portions=None, kept=True)
    return feeds


def test_a_file_that_is_being_written(feeds: Feeds, tmp_path: Path) -> None:
    feed, watch = feeds.by_name["s"], FileWatch(feeds, threading.Event())
    path = tmp_path / "b.csv"
    for content in ("t\n", "t\n2\n", "t\n2\n3\n"):
        path.write_text(content)
        watch.look()
    assert list(feed.files) == ["a.csv"]
    watch.look()
    assert {name: file.size for name, file in feed.files.items()} == {"a.csv": 4, "b.csv": 6}
    watch.look()
    assert feed.size == 2


def test_what_goes_wrong_is_said(
    feeds: Feeds, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = FileWatch(feeds, threading.Event())
    (tmp_path / "a.csv").write_text("t\n1\n2\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            watch.look()
        assert not caplog.records  # it may be gone for a moment
        for _ in range(10):
            watch.look()
    (said,) = caplog.records
    assert "a.csv has changed" in said.getMessage()


def test_a_last_line_that_is_not_complete(feeds: Feeds, tmp_path: Path) -> None:
    feed, watch = feeds.by_name["s"], FileWatch(feeds, threading.Event())
    path = tmp_path / "b.csv"
    path.write_text("t\n2\n3")
    for _ in range(3):
        watch.look()
    assert list(feed.files) == ["a.csv"]
    path.write_text("t\n2\n30\n")
    for _ in range(2):
        watch.look()
    assert feed.files["b.csv"].size == 7


@pytest.mark.usefixtures("spark")
def test_a_last_line_that_waits_for_a_later_run(tmp_path: Path) -> None:
    def run(final: bool = False) -> list[str]:
        *_, query = ps.connect("spark", base=tmp_path).script(CREATE)
        assert isinstance(query, ps.Query)
        query.run(tmp_path / "rows.jsonl", checkpoint=tmp_path / "kept", final=final)
        rows = tmp_path / "rows.jsonl"
        return rows.read_text().splitlines() if rows.exists() else []

    (tmp_path / "a.csv").write_text("t\n1\n3")
    assert run() == []
    (tmp_path / "a.csv").write_text("t\n1\n30\n")
    assert run() == ['{"t": 1}', '{"t": 30}']
    (tmp_path / "b.csv").write_text("t\n40")
    assert len(run()) == 2
    assert len(run(final=True)) == 3
