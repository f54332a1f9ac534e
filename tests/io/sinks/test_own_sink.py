"""Sinks that users write: which methods are called when, and rows exactly once by `commit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps

ROWS = [{"k": "a", "t": t} for t in (1, 12, 25, 2)]
COUNT = "SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k"


class Told:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin(self, schema: pa.Schema) -> None:
        self.calls.append("begin")

    def write(self, batch: pa.RecordBatch) -> None:
        assert batch.num_rows
        self.calls.append("write")

    def flush(self) -> None:
        self.calls.append("flush")

    def end(self) -> None:
        self.calls.append("end")


class Kept(Told):
    """Keeps the rows of every epoch, in the place of those that were kept under its number."""

    def __init__(self, kept: dict[int, list[int]], dies_at: int | None = None) -> None:
        super().__init__()
        self.kept = kept
        self.rows: list[int] = []
        self.dies_at = dies_at

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.column("window_end").to_pylist()

    def commit(self, epoch: int) -> None:
        for later in [each for each in self.kept if each >= epoch]:
            del self.kept[later]
        self.kept[epoch], self.rows = self.rows, []
        if epoch == self.dies_at:
            raise KeyboardInterrupt


def ask(rows: list[dict[str, Any]]) -> ps.Query:
    db = ps.connect()
    db.stream("s", rows, schema="k STRING, t INT", progress=ps.progress("t", delay=5))
    query = db.sql(COUNT)
    assert isinstance(query, ps.Query)
    return query


def test_the_order_of_calls() -> None:
    rows, late, rejected = Told(), Told(), Told()
    ask(ROWS).run(rows, late=late, rejected=rejected)
    assert rows.calls[0] == "begin"
    assert set(rows.calls[1:-1]) == {"write"}
    assert rows.calls[-1] == "end"
    assert late.calls == ["begin", "write", "end"]
    assert rejected.calls == ["begin", "end"]


def test_nothing_late_and_its_sink_does_not_begin() -> None:
    late = Told()
    ask(ROWS[:3]).run(Told(), late=late)
    assert late.calls == []


def test_a_run_that_fails_ends_nothing() -> None:
    class Failing(Told):
        def write(self, batch: pa.RecordBatch) -> None:
            raise OSError("the disk is full")

    failing = Failing()
    with pytest.raises(OSError, match="the disk is full"):
        ask(ROWS).run(failing)
    assert failing.calls == ["begin"]


def test_rows_are_there_once_after_an_end_between_commit_and_save(tmp_path: Path) -> None:
    kept: dict[int, list[int]] = {}
    with pytest.raises(KeyboardInterrupt):  # the rows are kept, and the state is not saved
        ask(ROWS[:3]).run(Kept(kept, dies_at=1), checkpoint=tmp_path)
    assert kept == {1: [10, 20]}
    again = [*ROWS[:3], {"k": "a", "t": 48}]
    ask(again).run(Kept(kept), checkpoint=tmp_path)
    ask(again).run(Kept(kept), checkpoint=tmp_path, final=True)
    assert [end for _, ends in sorted(kept.items()) for end in ends] == [10, 20, 30, 50]
