"""The scheduler: wakes when something comes, waits without looking up, and leaves when told."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import penstock as ps
from penstock.io.formats.rows import read_rows
from penstock.io.sinks.sink import Callback
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Attention, Chunk, LiveSource, nothing
from penstock.local.scheduling.scheduler import LocalJob
from penstock.model.types import Schema
from penstock.model.values import RowForm
from penstock.runs.answer import Outlet
from tests.local.live.scripted import speak
from tests.planning import in_process
from tests.waiting import LONGEST, join, wait_for

IN_ORDER = "SELECT v, ts FROM a UNION ALL SELECT v, ts FROM b EMIT IN ORDER"


@dataclass(frozen=True)
class Spoken(LiveSource):
    """A source that says what a test puts into its queue: a list of values, what goes wrong,
    or None at the end."""

    said: queue.SimpleQueue[list[int] | Exception | None] = field(default_factory=queue.SimpleQueue)
    looks: list[float | None] = field(default_factory=list)

    def describe(self) -> str:
        return "TEST"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        with attention.bell.closing(lambda: self.said.put(None)):
            while True:
                self.looks.append(attention.patience())
                try:
                    values = self.said.get(timeout=self.looks[-1])
                except queue.Empty:
                    yield nothing(schema)
                    continue
                if values is None:
                    return
                if isinstance(values, Exception):
                    raise values
                rows: list[object] = [{"v": value} for value in values]
                yield read_rows(rows, schema, 0, rejects, RowForm(schema))


class Running:
    """A job over live streams, and what comes out of it."""

    def __init__(self, sql: str, *streams: str, **options: Any) -> None:
        db = ps.connect(**options)
        self.sources = {name: Spoken() for name in streams}
        for name, source in self.sources.items():
            progress = ps.progress("ts", timestamps="INTERNAL")
            db.stream(name, [], schema={"v": "INT"}, progress=progress)
            speak(db, name, source)
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        self.out: queue.SimpleQueue[int] = queue.SimpleQueue()
        outlet = Outlet(query.plan, Callback(lambda row: self.out.put(row["v"]), True))
        setting = query.setting
        self.job = LocalJob(
            [in_process(query.plan)],
            [outlet],
            setting.clock,
            scheduling=setting.scheduling,
        )

    def say(self, name: str, *values: int) -> None:
        self.sources[name].said.put(list(values))

    def end(self) -> None:
        for source in self.sources.values():
            source.said.put(None)


@pytest.mark.parametrize("streams", [("a",), ("a", "b")])
def test_what_comes_leaves_at_once_and_nobody_looks_up_meanwhile(streams: tuple[str, ...]) -> None:
    running = Running(
        "SELECT v FROM a" + " UNION ALL SELECT v FROM b" * (len(streams) > 1), *streams
    )
    running.job.start()
    for value in range(5):
        running.say("a", value)
        assert running.out.get(timeout=LONGEST) == value
    running.end()
    running.job.wait()
    assert set(running.sources["a"].looks) == {None}  # for ever, if need be


def test_rows_in_order_do_not_wait_for_a_silent_source() -> None:
    running = Running(IN_ORDER, "a", "b")
    running.job.start()
    for value in range(3):
        running.say("a", value)
        assert running.out.get(timeout=LONGEST) == value  # b has not said a word
    running.end()
    running.job.wait()


def test_without_enabling_timestamps_they_wait() -> None:
    running = Running(IN_ORDER, "a", "b", ets="none")
    running.job.start()
    running.say("a", 1)
    running.say("a", 2)
    wait_for(lambda: running.job.read == 2)
    assert running.out.empty()
    running.say("b", 3)
    assert [running.out.get(timeout=LONGEST) for _ in range(2)] == [1, 2]
    running.end()
    running.job.wait()
    (merge,) = [each for each in running.job.progress().operators if each.name == "Merge"]
    assert merge.flow.waiting > 0


@pytest.mark.parametrize("streams", [("a",), ("a", "b")])
def test_a_waiting_run_can_be_stopped(streams: tuple[str, ...]) -> None:
    running = Running(
        "SELECT v FROM a" + " UNION ALL SELECT v FROM b" * (len(streams) > 1), *streams
    )
    running.job.start()
    running.say("a", 1)
    assert running.out.get(timeout=LONGEST) == 1
    running.job.stop()
    running.job.wait()
    assert not running.job.active


def test_a_signal_handler_may_stop_it() -> None:
    running = Running("SELECT v FROM a UNION ALL SELECT v FROM b", "a", "b")
    before = signal.signal(signal.SIGUSR1, lambda *_: running.job.stop())
    try:
        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            running.say("a", 1)
            running.out.get(timeout=LONGEST)
            signal.pthread_kill(main, signal.SIGUSR1)

        thread = threading.Thread(target=interrupt)
        thread.start()
        running.job.drive()  # in the main thread, which waits
        join(thread)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert running.job.stopped


def test_what_goes_wrong_in_a_source_is_raised_where_the_run_is_driven() -> None:
    running = Running("SELECT v FROM a UNION ALL SELECT v FROM b", "a", "b")
    running.say("b", 1)
    running.sources["a"].said.put(ConnectionError("gone"))
    with pytest.raises(ConnectionError, match="gone"):
        running.job.drive()


def test_small_chunks_of_a_burst_are_handled_together() -> None:
    running = Running("SELECT v FROM a UNION ALL SELECT v FROM b", "a", "b")
    for value in range(10):
        running.say("a", value)
    running.end()
    running.job.drive()
    assert [running.out.get(timeout=LONGEST) for _ in range(10)] == list(range(10))
