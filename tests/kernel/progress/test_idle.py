"""IDLE AFTER: who is silent holds nobody back, and comes back like a newcomer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.runs.answer import Account
from tests.local.live.scripted import SECOND, Scripted, Silence, speak
from tests.waiting import wait_for

NOON = 1_769_860_800  # 2026-01-31 12:00, in seconds
COUNT = "SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA ts] FROM s"


def at(second: int, link: str = "a") -> tuple[str, int]:
    return (link, (NOON + second) * SECOND)


class Watched:
    """A run of a query, with the windows that have been released at some moments."""

    def __init__(self, progress: str, sql: str = COUNT) -> None:
        self.clock = ps.ManualClock(at=NOON * SECOND)
        self.db = ps.connect(clock=self.clock)
        self.sql = sql
        self.rows: list[tuple[int, int]] = []
        self.moments: list[list[tuple[int, int]]] = []
        self.db.sql(
            "CREATE STREAM s (link STRING, ts TIMESTAMP EPOCH MICROSECONDS)"
            f" PROGRESS ON ts {progress}"
        )

    def look(self) -> None:
        self.moments.append(list(self.rows))

    def pass_(self, seconds: int) -> Callable[[], None]:
        """Time passes while others speak."""
        return lambda: self.clock.advance(seconds * SECOND)

    def take(self, batch: pa.RecordBatch) -> None:
        starts = batch.column("window_start").cast(pa.int64()).to_pylist()
        counts = batch.column("n").to_pylist()
        self.rows += [(s // SECOND - NOON, n) for s, n in zip(starts, counts, strict=True)]

    def run(self, *script: Silence | list[Any] | Callable[[], None]) -> ps.Query:
        speak(self.db, "s", Scripted(script, self.clock))
        query = self.db.sql(self.sql)
        assert isinstance(query, ps.Query)
        query.run(self.take)
        return query


def test_a_silent_source_moves_on_with_the_clock() -> None:
    watched = Watched("DELAY 2 SECONDS IDLE AFTER 5 SECONDS")
    watched.run(
        [at(1)],
        Silence(4),
        watched.look,  # not silent for long enough
        Silence(6),
        watched.look,  # 1 + 10 − 2 is below the end of the window
        Silence(1),
        watched.look,  # 1 + 11 − 2 is not
    )
    assert watched.moments == [[], [], [(0, 1)]]


def test_without_the_clause_everybody_waits() -> None:
    watched = Watched("DELAY 2 SECONDS")
    watched.run([at(1)], Silence(1_000), watched.look)
    assert watched.moments == [[]]
    assert watched.rows == [(0, 1)]  # at the end


def test_a_tuple_below_what_a_silence_has_promised_is_late() -> None:
    watched = Watched("DELAY 2 SECONDS IDLE AFTER 5 SECONDS")
    query = watched.run([at(1)], Silence(11), [at(9), at(12)])
    assert watched.rows == [(0, 1), (10, 1)]
    assert query.account == Account(read=3, late=1, rejected=0)


def test_a_silent_link_does_not_hold_back_the_others() -> None:
    watched = Watched("ORDERED PER link IDLE AFTER 5 SECONDS")
    watched.run(
        [at(1, "a"), at(2, "b")],
        [at(25, "a")],
        watched.look,  # b may still have something to say
        watched.pass_(3),
        [at(25, "a")],
        watched.pass_(3),
        [at(26, "a")],
        watched.look,
    )
    assert watched.moments == [[], [(0, 2)]]


def test_a_link_that_speaks_again_joins_at_the_bound_of_the_others() -> None:
    watched = Watched("ORDERED PER link IDLE AFTER 5 SECONDS")
    query = watched.run(
        [at(1, "a"), at(2, "b")],
        watched.pass_(5),
        [at(25, "a")],
        [at(9, "b"), at(31, "b")],  # the first one has been missed
        watched.look,
        [at(41, "a")],
        watched.look,  # b holds back again
    )
    assert watched.moments == [[(0, 2)], [(0, 2), (20, 1)]]
    assert watched.rows == [(0, 2), (20, 1), (30, 1), (40, 1)]
    assert query.account.late == 1


def test_a_link_keeps_the_promise_that_it_made_before_it_fell_silent() -> None:
    watched = Watched("ORDERED PER link IDLE AFTER 5 SECONDS")
    query = watched.run([at(1, "a"), at(25, "b")], watched.pass_(5), [at(2, "a")], [at(12, "b")])
    assert query.account.late == 1  # b had promised 25


@pytest.mark.parametrize("rule", ["ORDERED", "DELAY 0 SECONDS", "SLACK 3 ROWS"])
def test_every_rule_moves_on(rule: str) -> None:
    watched = Watched(f"{rule} IDLE AFTER 5 SECONDS")
    watched.run([at(1)], Silence(9), watched.look)
    assert watched.moments == [[(0, 1)]]


UNION = (
    "SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA ts]"
    " FROM (SELECT ts FROM s UNION ALL SELECT ts FROM t)"
)


def test_a_source_that_never_speaks() -> None:
    """By the clock alone: its first word cannot be from before."""
    watched = Watched("ORDERED IDLE AFTER 5 SECONDS", UNION)
    watched.db.stream(
        "t",
        [{"ts": "2026-01-31 11:00:00"}, {"ts": "2026-01-31 11:00:10"}],
        schema="ts TIMESTAMP",
        progress=ps.progress("ts", ordered=True),
    )
    released = threading.Event()

    def wait() -> None:  # in the thread of the source: the end of the stream would release it, too
        wait_for(lambda: watched.rows)
        watched.look()
        released.set()

    watched.run(*[Silence(1)] * 200, wait)
    assert released.is_set()
    assert watched.moments[-1][0] == (-3600, 1)


def test_files_are_never_silent(tmp_path: Any) -> None:
    """What is read to its end cannot make others wait, however long reading takes."""
    for name, second in (("a", 30), ("b", 1)):
        (tmp_path / f"{name}.csv").write_text(f"link,ts\n{name},2026-01-31 12:00:{second:02}\n")
    clock = ps.ManualClock(at=NOON * SECOND, step=60 * SECOND)
    db = ps.connect(clock=clock, base=tmp_path)
    db.sql(
        "CREATE STREAM s (link STRING, ts TIMESTAMP) FROM FILES '*.csv'"
        " PROGRESS ON ts ORDERED PER FILE IDLE AFTER 1 SECOND"
    )
    query = db.sql(COUNT)
    assert isinstance(query, ps.Query)
    assert query.collect().column("n").to_pylist() == [1, 1]
    assert query.account.late == 0
