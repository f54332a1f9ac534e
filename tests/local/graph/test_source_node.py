"""Sources whose tuples meet are read in step, the one with the lowest promise first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import penstock as ps
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Bell, Chunk, LiveSource, Source
from penstock.local.graph.source_node import Ended, Meeting, SourceNode, is_ahead, meetings
from penstock.local.scheduling.reading import AHEAD, Inbox
from penstock.model.clock import ManualClock
from penstock.model.types import Schema
from tests.waiting import join


@dataclass(frozen=True)
class Traced:
    """A source that writes down when each of its rows is asked for."""

    inner: Source
    name: str
    trace: list[str] = field(compare=False)

    def describe(self) -> str:
        return self.inner.describe()

    def parts(self) -> list[str]:
        return self.inner.parts()

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        for chunk in self.inner.read(schema, rejects):
            for row in range(chunk.batch.num_rows):
                self.trace.append(self.name)
                yield Chunk(chunk.batch.slice(row, 1), chunk.part)


def traced(**streams: list[int]) -> tuple[ps.Database, list[str]]:
    db = ps.connect(clock=ManualClock())
    trace: list[str] = []
    for name, times in streams.items():
        db.stream(name, [{"t": time} for time in times], progress=ps.progress("t", ordered=True))
        stream = db.catalog.streams[name]
        assert stream.source is not None
        db.catalog.streams[name] = replace(stream, source=Traced(stream.source, name, trace))
    return db, trace


def read_by(db: ps.Database, sql: str) -> None:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    query.run(lambda batch: None)


def test_the_one_that_is_behind_is_read() -> None:
    db, trace = traced(a=[1, 2, 50, 60], b=[10, 20, 30, 70])
    read_by(db, "SELECT t FROM a UNION ALL SELECT t FROM b")
    assert "".join(trace) == "abaabbba"


def test_rows_that_are_counted_come_one_source_after_the_other() -> None:
    db, trace = traced(a=[1, 2, 50], b=[10, 20, 30])
    read_by(db, "SELECT count(*) AS n [RANGE 2 ROWS, SLIDE 2 ROWS] FROM a UNION b")
    assert "".join(trace) == "aaabbb"


def test_sources_that_do_not_meet_come_one_after_the_other() -> None:
    db, trace = traced(a=[1, 2], b=[1, 2])
    queries = [db.sql(f"SELECT t FROM {name}") for name in "ab"]
    db.run(cast(Any, queries), [lambda batch: None] * 2)
    assert "".join(trace) == "aabb"


# --- who is ahead --------------------------------------------------------------------------------


class _Live(LiveSource):
    def describe(self) -> str:
        return "live"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return iter(())


@dataclass
class _Stream:
    source: object


@dataclass
class _Ingest:
    low: float
    ended: bool = False
    stream: Any = None
    form: Any = None


def scan(low: float, ended: bool = False, live: bool = False, caught_up: bool = False) -> Any:
    ingest = cast(Any, _Ingest(low, ended, _Stream(_Live() if live else object())))
    found = SourceNode("s", ingest, cast(Any, None))
    found.caught_up = caught_up
    return found


def test_only_sources_that_can_wait_are_held_back() -> None:
    assert is_ahead(scan(10), [scan(5)])
    assert not is_ahead(scan(5), [scan(10)])
    assert not is_ahead(scan(10), [scan(10)])
    assert not is_ahead(scan(10, live=True), [scan(5)])
    assert is_ahead(scan(10), [scan(5, live=True)])
    assert not is_ahead(scan(10), [scan(5, ended=True)])
    assert not is_ahead(scan(10), [scan(5, caught_up=True)])


def test_meetings_are_joined() -> None:
    a, b, c, d = (scan(0) for _ in range(4))
    found = meetings([a, b, c, d], [Meeting((a, b)), Meeting((b, d), in_turn=True)])
    assert [(each.scans, each.in_turn) for each in found] == [((a, b, d), True), ((c,), False)]


# --- deliveries ----------------------------------------------------------------------------------


def test_a_source_waits_when_too_much_of_it_is_there() -> None:
    inbox = Inbox(Bell())
    for _ in range(AHEAD):
        assert inbox.put(Ended())
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(inbox.put(Ended())))
    thread.start()
    assert inbox.take() == Ended()
    join(thread)
    assert answers == [True]
    thread = threading.Thread(target=lambda: answers.append(inbox.put(Ended())))
    thread.start()
    inbox.close()
    join(thread)
    assert answers == [True, False]


def test_whoever_was_rung_for_looks_at_everything() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)
    bell.close()
    assert bell.wait(None)
    assert bell.wait(None)  # now and later
