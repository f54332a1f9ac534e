"""JSON lines from a socket: cut anywhere, damaged, silent, or not there at all."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.access import parse_address
from tests.waiting import LONGEST, join

Talk = Callable[[socket.socket], None]


@contextmanager
def server(talk: Talk) -> Iterator[int]:
    """Somebody who listens on a free port, and says something to the first one who calls."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(LONGEST)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        join(thread)


def database(port: int, **options: Any) -> ps.Database:
    db = ps.connect(**options)
    db.sql(
        f"CREATE STREAM s (k STRING, t INT) FROM SOCKET '127.0.0.1:{port}' PROGRESS ON t ORDERED"
    )
    return db


def ask(db: ps.Database, sql: str = "SELECT k, t FROM s") -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def heard(*pieces: bytes) -> ps.Query:
    """What a query has read, after everything has been said and the other side has hung up."""

    def talk(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)

    with server(talk) as port:
        query = ask(database(port))
        query.collect()
        return query


LINES = b'{"k": "a", "t": 1}\n{"k": "\xc3\xbc", "t": 2}\n\n{"t": 3}\r\n{"k": "d", "t": 4}'
ROWS = [{"k": "a", "t": 1}, {"k": "ü", "t": 2}, {"k": None, "t": 3}, {"k": "d", "t": 4}]


@given(st.sets(st.integers(0, len(LINES))))
@settings(deadline=None, max_examples=20)
def test_lines_may_be_cut_anywhere(cuts: set[int]) -> None:
    """The last line does not end like one, and counts all the same."""
    places = [0, *sorted(cuts), len(LINES)]
    pieces = [LINES[a:b] for a, b in pairwise(places)]
    assert heard(*pieces).collect().to_pylist() == ROWS


def test_nothing_but_a_call() -> None:
    assert heard().collect().num_rows == 0
    assert heard(b"\n\n").collect().num_rows == 0


def test_bad_lines_are_kept_aside() -> None:
    query = heard(b'{"k": "a", "t": 1}\n{"k": "b", "t": "x"}\nnonsense\n{"k": "c", "t": 2}\n{"k')
    assert query.collect().column("k").to_pylist() == ["a", "c"]
    assert query.rejected.column("row").to_pylist() == [2, 3, 5]
    assert query.account.read == 5


def test_rows_come_while_the_line_is_open() -> None:
    """The other side says the next thing only after it has seen the answer to the last one."""
    answers: list[dict[str, Any]] = []
    seen = threading.Semaphore(0)
    waited = []

    def talk(connection: socket.socket) -> None:
        for t in range(5):
            connection.sendall(json.dumps({"k": "a", "t": t}).encode() + b"\n")
            waited.append(seen.acquire(timeout=LONGEST))

    def take(row: dict[str, Any]) -> None:
        answers.append(row)
        seen.release()

    with server(talk) as port:
        ask(database(port)).run(take, rows=True)
    assert [row["t"] for row in answers] == list(range(5))
    assert waited == [True] * 5


def test_idle_by_the_clock_of_the_database() -> None:
    """A silent line does not hold back the last window, though the other side never hangs up."""
    second = 1_000_000
    clock = ps.ManualClock(at=0)
    answered = threading.Event()
    said = b'{"ts": "1970-01-01T00:00:01Z"}\n'
    outcome = []

    def talk(connection: socket.socket) -> None:
        connection.sendall(said)
        while not answered.wait(timeout=0.01):
            clock.advance(second)
            if clock.at > 10_000 * second:
                break
        outcome.append(answered.is_set())

    with server(talk) as port:
        db = ps.connect(clock=clock)
        db.sql(
            f"CREATE STREAM s (ts TIMESTAMP) FROM SOCKET '127.0.0.1:{port}'"
            " PROGRESS ON ts DELAY 2 SECONDS IDLE AFTER 2 SECONDS"
        )
        query = ask(db, "SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA ts] FROM s")
        query.run(lambda batch: answered.set())
    assert outcome == [True]


def test_several_queries_call_once() -> None:
    """A second caller would find nobody there."""
    with server(lambda connection: connection.sendall(LINES)) as port:
        db = database(port)
        found: list[list[Any]] = [[], [], []]
        queries = [ask(db), ask(db, "SELECT t FROM s UNION ALL SELECT t FROM s"), ask(db)]
        db.run(queries, [each.append for each in found], rows=True)
    assert found[0] == found[2] == ROWS
    assert sorted(row["t"] for row in found[1]) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ps.SourceError, match=f"cannot connect to 127.0.0.1:{port}: Connection ref"):
        ask(database(port)).collect()


def test_whoever_leaves_is_not_kept_by_a_silent_line() -> None:
    left = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(b'{"k": "a", "t": 1}\n')
        assert connection.recv(1) == b""  # the other side hangs up
        left.set()

    with server(talk) as port:
        heard_something = threading.Event()
        running = ask(database(port)).start(lambda batch: heard_something.set())
        assert heard_something.wait(LONGEST)
        running.stop()
        assert left.wait(LONGEST)


def test_a_line_that_breaks() -> None:
    heard_something = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(LINES)
        assert heard_something.wait(timeout=LONGEST)
        connection.setsockopt(  # no goodbye
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )

    with server(talk) as port, pytest.raises(ps.SourceError, match="broke off: Connection reset"):
        ask(database(port)).run(lambda batch: heard_something.set())


def test_strict() -> None:
    with (
        server(lambda connection: connection.sendall(b"nonsense\n")) as port,
        pytest.raises(ps.SourceError, match="stream s: row 1"),
    ):
        ask(database(port, strict=True)).collect()


def test_explain() -> None:
    assert "source: SOCKET '127.0.0.1:9" in ask(database(9000)).explain()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9000", ("localhost", 9000)),
        (" 10.0.0.1:1 ", ("10.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("localhost", None),
        ("localhost:0", None),
        ("localhost:65536", None),
        (":9000", None),
        ("::1:9000", None),
        ("", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse_address(text) == address


def test_what_is_not_an_address() -> None:
    with pytest.raises(ps.BindError, match="'localhost' is not an address") as caught:
        ps.connect().sql("CREATE STREAM s (a INT) FROM SOCKET 'localhost'")
    assert caught.value.span is not None
